"""Lists the workers that aiconfigurator considers, and what it chooses, for `benches/candidates.rs`.

    python benches/candidates/list.py FILE [DEVICES …]

aiconfigurator lists aggregated, prefill and decode workers within limits, forms one replica from them, and copies that ⌊N / size⌋
times on N devices. The file gets a case for each of two models and each number of devices: limits, the choice with its
requests a second, and all workers. Rates are those that the choice counts: multiplied by 0.9 for prefill and 0.92 for decode, after the
time to the first token of prefill was multiplied by 1.8. These factors are read from the program, not repeated here.
"""

import contextlib
import importlib.metadata
import json
import logging
import math
import os
import platform
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
logging.disable(logging.CRITICAL)

from aiconfigurator.cli.api import cli_default  # noqa: E402
from aiconfigurator.sdk import sweep  # noqa: E402

ENGINE = "trtllm"
DEVICES = [8, 12, 16, 20, 24, 28, 32, 40]
# Model, system, tokens of input and output, and limits on TTFT and TPOT in milliseconds.
QUESTIONS = [
    ("Qwen/Qwen3-32B-FP8", "h200_sxm", 4000, 500, 600, 15),
    ("nvidia/Llama-3.1-70B-Instruct-FP8", "h100_sxm", 4000, 1000, 1500, 25),
]


class Listed:
    """Workers that pass through the search of aiconfigurator while it runs."""

    def __init__(self):
        self.pools = None
        self.aggregated = []
        disaggregated, aggregated = sweep._find_best_disagg_under_constraint, sweep._sweep_one_parallel_agg

        def choose_pools(**arguments):
            self.pools = arguments
            return disaggregated(**arguments)

        def list_aggregated(**arguments):
            answer = aggregated(**arguments)
            self.aggregated.extend(answer[0].to_dict("records"))
            return answer

        sweep._find_best_disagg_under_constraint = choose_pools
        sweep._sweep_one_parallel_agg = list_aggregated

    def clear(self):
        self.pools, self.aggregated = None, []

    def workers(self, ttft, tpot):
        """Workers within the limits, each once."""
        found = [
            worker("aggregated", row, 1.0)
            for row in self.aggregated
            if row["ttft"] <= ttft and row["tpot"] <= tpot
        ]
        if self.pools is not None:
            ttft_factor = self.pools["autoscale_ttft_correction_factor"]
            found += [
                worker("prefill", row, self.pools["prefill_degradation"])
                for row in self.pools["prefill_summary_df"].to_dict("records")
                if row["ttft"] * ttft_factor < ttft
            ]
            found += [
                worker("decode", row, self.pools["decode_degradation"])
                for row in self.pools["decode_summary_df"].to_dict("records")
                if row["tpot"] < tpot
            ]
        return [dict(fields) for fields in sorted({tuple(fields.items()) for fields in found})]


def worker(role, row, factor):
    return {
        "role": role, "devices": int(row["num_total_gpus"]), "parallel": row["parallel"], "batch": int(row["bs"]),
        "requests_per_s": float(row["seq/s"]) * factor,
    }  # fmt: skip


def value(mode, row, devices, pools):
    """Requests a second of the copies of a choice, from the rates of its workers: its own sum is rounded to three digits."""
    if mode == "agg":
        rate = row["seq/s"]
    else:
        prefill = row["(p)workers"] * row["(p)seq/s/worker"] * pools["prefill_degradation"]
        decode = row["(d)workers"] * row["(d)seq/s/worker"] * pools["decode_degradation"]
        rate = min(prefill, decode)
    # The rates of workers have three digits too.
    assert math.isclose(rate, row["seq/s"], rel_tol=1e-3), (rate, row["seq/s"])
    return float(rate * (devices // int(row["num_total_gpus"])))


def case(listed, question, devices):
    model, system, input_tokens, output_tokens, ttft, tpot = question
    listed.clear()
    started = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr):
        answer = cli_default(
            model_path=model, system=system, total_gpus=devices, backend=ENGINE, isl=input_tokens, osl=output_tokens,
            ttft=ttft, tpot=tpot,
        )  # fmt: skip
    took = time.monotonic() - started
    chosen = {
        mode: value(mode, table.iloc[0], devices, listed.pools)
        for mode, table in answer.best_configs.items()
        if table is not None and len(table)
    }
    mode = max(chosen, key=chosen.get)
    return {
        "model": model, "system": system, "devices": devices, "input": input_tokens, "output": output_tokens,
        "ttft_ms": ttft, "tpot_ms": tpot, "mode": mode, "requests_per_s": chosen[mode], "seconds": took,
        "workers": listed.workers(ttft, tpot),
    }  # fmt: skip


def main():
    path, *numbers = sys.argv[1:]
    listed = Listed()
    cases = []
    for question in QUESTIONS:
        for devices in map(int, numbers or DEVICES):
            cases.append(case(listed, question, devices))
            shown = cases[-1]
            print(
                f"{shown['model']} on {devices}: {shown['requests_per_s']:.3f} requests/s ({shown['mode']}), "
                f"{len(shown['workers'])} workers, {shown['seconds']:.0f} s",
                flush=True,
            )
    names = ["aiconfigurator", "aiconfigurator-core"]
    document = {
        "peer": ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names) + f", {ENGINE}",
        "python": platform.python_version(),
        "cases": cases,
    }
    with open(path, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


main()
