#!/usr/bin/env python3
"""Tests, measures and trains the policy on a machine with an NVIDIA GPU, without Rust and without a network.

    python3 run.py [--out FOLDER] [--seconds N]

The steps run in this order, each with a time limit of its own: the machine, the tests on the GPU, the bandwidth of the
segment sum, passes of the network, training steps, and the training of the shipped network for the rest of the time.
`results.json` is written to FOLDER (`results` by default) after every step, as are the output of each step and
`checkpoint.safetensors`. If run again with the same folder, the script skips complete steps, resumes training, and
repeats the others.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

#: Libraries of the CUDA toolkit that the programs load.
LIBRARIES = ["libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcurand.so.10", "libnvrtc.so.13"]

#: Folders that are searched for these libraries: an installed toolkit, and NVIDIA's packages for Python.
FOLDERS = [
    "/usr/local/cuda*/lib64",
    "/usr/lib/x86_64-linux-gnu",
    *(f"{folder}/nvidia/**/lib" for folder in sys.path if folder.endswith("-packages")),
]

#: Numbers of operators for which a pass of the network is measured.
PASSES = [1_000, 10_000, 50_000, 500_000]

#: Number of edges whose segment sum is measured, with 64 numbers per edge.
EDGES = 1_000_000

#: The programs of the bundle.
PROGRAMS = ["stagewright", "tests", "rows", "network"]

#: Seconds that a program gets after an interrupt to write its results so far.
GRACE = 60.0


class Failed(Exception):
    """A step that failed, with the reason and the output of its program."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.output = output


class Bundle:
    """A run of the bundle."""

    def __init__(self, out: Path, seconds: float) -> None:
        self.out = out
        self.end = time.monotonic() + seconds
        self.file = out / "results.json"
        self.results: dict[str, Any] = {"schema": "stagewright.gpu/1", "steps": {}}
        programs = {name: digest(HERE / name) for name in PROGRAMS}
        self.results["programs_sha256"] = programs
        with contextlib.suppress(FileNotFoundError, ValueError, LookupError, TypeError):
            earlier = json.loads(self.file.read_text())
            if earlier["schema"] == self.results["schema"] and isinstance(earlier["steps"], dict):
                if earlier.get("programs_sha256") == programs:
                    self.results = earlier
                else:
                    # Neither figures nor training by other programs count for this bundle.
                    for folder in ("criterion", "training"):
                        shutil.rmtree(out / folder, ignore_errors=True)
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(self.libraries())}

    def libraries(self) -> list[str]:
        """The folders of the toolkit's libraries, followed by those that are already on the loader's path."""
        folders = [folder for pattern in FOLDERS for folder in sorted(glob.glob(pattern, recursive=True), reverse=True)]
        found = {}
        for library in LIBRARIES:
            for folder in folders:
                if os.path.exists(f"{folder}/{library}"):
                    found.setdefault(folder, None)
                    break
        given = os.environ.get("LD_LIBRARY_PATH", "")
        return [*found, *filter(None, given.split(":"))]

    def run(
        self, step: str, command: list[str], limit: float, *, may_be_late: bool = False, **environment: str
    ) -> str:
        """Runs a program of the bundle, interrupts it at its limit or that of the whole run, and returns its output."""
        limit = min(limit, self.end - time.monotonic())
        if limit <= 0:
            raise Failed("no time is left")
        path = self.out / f"{step}.log"
        with path.open("ab") as log:
            begin = log.tell()
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command, cwd=HERE, env={**self.environment, **environment}, stdout=log, stderr=subprocess.STDOUT
            )
            is_late = False
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                is_late, code = True, interrupt(process)
            except BaseException:
                interrupt(process)
                raise
        with path.open("rb") as log:
            log.seek(begin)
            output = log.read().decode(errors="replace")
        if is_late and not may_be_late:
            raise Failed(f"not done in {limit:.0f} s", output)
        if code != 0 and not is_late:
            raise Failed(f"exit code {code}; see {path}", output)
        return output

    def step(self, name: str, work: Any) -> None:
        """Performs a step unless it is complete, and writes the results."""
        if self.results["steps"].get(name, {}).get("is_complete"):
            print(f"{name}: done before")
            return
        begun = time.monotonic()
        try:
            found = work()
        except (Failed, OSError, ValueError, LookupError) as error:
            found = {"is_complete": False, "reason": str(error) or type(error).__name__}
        found = {"is_complete": True, **found, "wall_s": round(time.monotonic() - begun, 1)}
        self.results["steps"][name] = found
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.results, indent=1) + "\n")
        part.replace(self.file)
        print(f"{name}: {json.dumps(found)}", flush=True)

    def machine(self) -> dict[str, Any]:
        """Describes the GPU, the processor and the libraries."""
        fields = ["name", "driver_version", "memory.total", "compute_cap", "clocks.max.memory"]
        query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
        try:
            gpu = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        except (OSError, subprocess.SubprocessError) as error:
            gpu = [f"none: {error}"]
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
        return {
            "gpu": gpu,
            "processor": processor,
            "cores": len(os.sched_getaffinity(0)),
            "libraries": self.libraries(),
        }

    def tests(self) -> dict[str, Any]:
        """Runs the tests of the policy that need a GPU."""
        output = self.run("tests", ["./tests", "a_gpu", "--nocapture"], 180)
        skipped = re.findall(r"^skipped: (.*)$", output, re.MULTILINE)
        counted = re.search(r"test result: ok\. (\d+) passed", output)
        passed = int(counted[1]) if counted else 0
        return {"is_complete": passed > 0 and not skipped, "passed": passed, "skipped": sorted(set(skipped))}

    def bandwidth(self) -> dict[str, Any]:
        """Bytes per second of the segment sum and of the kernels compared with it, and their share of a copy's."""
        home = self.out / "criterion"
        names = ["segments", "gather", "messages", "pool", "index_add", "copy"]
        pattern = f"gpu/({'|'.join(names)})/{EDGES}$"
        self.run("bandwidth", ["./rows", "--bench", "--noplot", pattern], 180, CRITERION_HOME=str(home))
        rates = {}
        for name in names:
            folder = home / "gpu" / name / str(EDGES) / "new"
            if not folder.is_dir():
                return {"is_complete": False, "reason": f"{name} was not measured: no GPU answers"}
            nanoseconds = json.loads((folder / "estimates.json").read_text())["mean"]["point_estimate"]
            rates[name] = json.loads((folder / "benchmark.json").read_text())["throughput"]["Bytes"] / nanoseconds
        shares = {name: round(rate / rates["copy"], 3) for name, rate in rates.items()}
        return {"edges": EDGES, "gigabytes_per_s": rates, "share_of_copy": shares}

    def passes(self) -> dict[str, Any]:
        """Seconds of a pass of the network, by number of operators."""
        return self.figures("passes", [(["./network", "passes", str(size)], 90) for size in PASSES])

    def steps(self) -> dict[str, Any]:
        """Seconds of a training step on 16 and on 64 graphs, with two cores."""
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
        return self.figures("steps", [(["taskset", "-c", cores, "./network", "steps", "10"], 90)], RAYON_NUM_THREADS="2")

    def figures(self, step: str, commands: list[tuple[list[str], float]], **environment: str) -> dict[str, Any]:
        """Runs commands of the network's bench, and returns the figures that they print."""
        figures, reasons = [], []
        for command, limit in commands:
            try:
                output = self.run(step, command, limit, **environment)
            except Failed as error:
                # Figures measured before the failure count.
                output = error.output
                reasons.append(f"{' '.join(command)}: {error}")
            for line in output.splitlines():
                # The last line may be cut off.
                with contextlib.suppress(ValueError):
                    figures += [json.loads(line)] if line.startswith("{") else []
        if not any(figure["device"] == "gpu" for figure in figures):
            reasons.append("no GPU answers")
        return {"is_complete": not reasons, "figures": figures, **({"reason": "; ".join(reasons)} if reasons else {})}

    def training(self) -> dict[str, Any]:
        """Retrains the shipped network until training is done or the time is over."""
        folder = self.out / "training"
        command = ["./stagewright", "train", "imitation.toml", "--out", str(folder)]
        begun = time.monotonic()
        limit = self.end - begun - GRACE
        lines = self.run("training", command, limit, may_be_late=True).strip().splitlines()
        is_done = time.monotonic() - begun < limit
        best = folder / "best.safetensors"
        if best.exists():
            shutil.copyfile(best, self.out / "checkpoint.safetensors")
        rows = []
        with contextlib.suppress(FileNotFoundError), (folder / "metrics.csv").open() as file:
            rows = list(csv.DictReader(file))
        return {"is_complete": is_done, "end": lines[-1] if lines else "", "metrics": rows}


def interrupt(process: subprocess.Popen[bytes]) -> int:
    """Ends a program as Ctrl-C would, and returns its exit code."""
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    """Runs the steps. The exit code is 0 if all of them are complete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    parser.add_argument("--seconds", type=float, default=3600.0, help="time for all steps together")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    bundle = Bundle(out, arguments.seconds)
    for name in ("machine", "tests", "bandwidth", "passes", "steps", "training"):
        bundle.step(name, getattr(bundle, name))
    return 0 if all(step["is_complete"] for step in bundle.results["steps"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
