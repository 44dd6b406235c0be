"""Measures how long it takes to evaluate placements, in the package and by a loop over the program.

    python evaluate.py

Prints a Markdown table: 10,000 placements of 200 operators on one thread, and 1,000 placements of 50,000 operators on
two threads, for the throughput of free splits and for the makespan. The mean and the spread are over five runs. The
loop runs `stagewright check` or `stagewright simulate` on twenty placements, and its time is extrapolated to all.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import stagewright as sw

CLUSTER = "4xv100"
RUNS = 5
#: Placements that the loop over the program evaluates.
LOOPED = 20


def layered(operators: int, seed: int) -> sw.Model:
    """A random graph in layers of eight operators, each of which reads from two operators of the layer before."""
    random = np.random.default_rng(seed)
    names = [f"op{at}" for at in range(operators)]
    columns = {
        "name": names,
        "flop": random.uniform(1e9, 1e11, operators),
        "bytes_moved": random.uniform(1e6, 1e8, operators),
        "parameter_bytes": random.uniform(0.0, 1e5, operators),
    }
    consumers: list[list[str]] = [[] for _ in range(operators)]
    for at in range(8, operators):
        before = at // 8 * 8 - 8
        for source in random.choice(8, size=2, replace=False):
            consumers[before + source].append(names[at])
    tensors = [
        {"producer": name, "consumers": readers, "bytes": float(random.integers(1e4, 1e6))}
        for name, readers in zip(names, consumers)
        if readers
    ]
    return sw.Graph(columns, tensors, name=f"layers of {operators} operators")


def looped(problem: sw.Problem, placements: np.ndarray, folder: Path) -> float:
    """Seconds that the program takes for one placement."""
    model = folder / "model.json"
    problem.model.save(model)
    is_step = problem.objective["kind"] == "makespan"
    plans = []
    for at, row in enumerate(placements[:LOOPED]):
        plan = folder / f"plan{at}.json"
        problem.place(row).save(plan)
        plans.append(plan)
    command = [sw.program(), "simulate" if is_step else "check"]
    started = time.perf_counter()
    for plan in plans:
        subprocess.run([*command, model, plan, "--cluster", CLUSTER], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) / len(plans)


def machine() -> str:
    """Describes the processors and the version of Python."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if models:
            name = models[0].split(":", 1)[1].strip()
    return f"{name}, {os.cpu_count()} processors, Python {platform.python_version()}, stagewright {sw.__version__}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each measurement")
    arguments = parser.parse_args()
    print(f"{machine()}; load average at the start {os.getloadavg()[0]:.2f}\n")
    print("| operators | objective | placements | threads | seconds | spread | by the program, seconds | ratio |")
    print("| ---: | --- | ---: | ---: | ---: | --- | ---: | ---: |")
    for operators, count, threads in [(200, 10_000, 1), (50_000, 1_000, 2)]:
        model = layered(operators, seed=1)
        for objective in ("throughput", "makespan"):
            split = "free" if objective == "throughput" else None
            problem = sw.Problem(model, CLUSTER, objective, split=split)
            random = np.random.default_rng(2)
            placements = random.integers(0, len(problem.devices), (count, operators), dtype=np.uint16)
            seconds = []
            for _ in range(arguments.runs):
                started = time.perf_counter()
                values = problem.evaluate(placements, threads=threads)
                seconds.append(time.perf_counter() - started)
            if not np.isfinite(values).all():
                sys.exit("some placements are infeasible, and take less time")
            with tempfile.TemporaryDirectory() as folder:
                by_program = looped(problem, placements, Path(folder)) * count
            mean = statistics.mean(seconds)
            print(
                f"| {operators:,} | {objective} | {count:,} | {threads} | {mean:.3f} "
                f"| {min(seconds):.3f} to {max(seconds):.3f} | {by_program:,.0f} | {by_program / mean:,.0f} |",
                flush=True,
            )
    print(f"\nThe time by the program is that of {LOOPED} placements, multiplied up to all of them.")


if __name__ == "__main__":
    main()
