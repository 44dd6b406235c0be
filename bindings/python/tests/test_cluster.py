"""Sweeps on a Ray cluster of several simulated nodes on this machine."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
from ray.cluster_utils import Cluster

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("STAGEWRIGHT_PROGRAM") or shutil.which("stagewright") or ""

pytestmark = pytest.mark.skipif(
    not PROGRAM, reason="STAGEWRIGHT_PROGRAM is not set, and stagewright is not on the path"
)

#: Columns of the table that do not depend on time.
COLUMNS = [
    "input",
    "cluster",
    "objective",
    "solver",
    "seed",
    "status",
    "value_s",
    "bound_s",
    "gap",
    "operators",
    "runs",
]


def environment() -> dict[str, str]:
    """Return the environment in which the program finds the driver."""
    return {**os.environ, "STAGEWRIGHT_PYTHON": sys.executable}


def bench(*arguments: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    """Run ``bench`` to its end."""
    return subprocess.run(
        [program, "bench", *arguments], env=environment(), capture_output=True, text=True, timeout=600, check=False
    )


def rows(table: Path) -> list[dict[str, str]]:
    """Read the columns of a table that do not depend on time."""
    with table.open(newline="") as file:
        return [{name: row[name] for name in COLUMNS} for row in csv.DictReader(file)]


def finished(journal: Path) -> list[str]:
    """Return the keys of a journal's rows, except for a line that is still being written."""
    if not journal.exists():
        return []
    whole = [line for line in journal.read_text().splitlines(keepends=True)[1:] if line.endswith("}\n")]
    return [json.dumps(json.loads(line)["case"]) for line in whole]


def processes(suite: Path) -> list[int]:
    """Return the processes of this suite, on all simulated nodes."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(suite).encode() in words:
            found.append(int(process.name))
    return found


def eventually(condition: Any, seconds: float = 600.0) -> bool:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Write a suite of 200 cheap cases."""
    demo = ROOT / "data/demo"
    solvers = ["dp", "dpl", "one-device", "equal-layers"]
    file = tmp_path / "suite.toml"
    file.write_text(
        f"name = 'sweep'\ninputs = ['{demo}/model.json']\nclusters = ['{demo}/cluster.toml']\n"
        f"solvers = {solvers}\nseeds = {list(range(50))}\n"
    )
    return file


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Start a cluster with a head that runs no tasks and three nodes."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.workers = [cluster.add_node(num_cpus=1) for _ in range(3)]
    yield cluster
    cluster.shutdown()


def test_a_sweep_survives_the_deaths_of_a_node_and_of_its_driver(suite: Path, cluster: Cluster, tmp_path: Path) -> None:
    journal, table, local = tmp_path / "journal", tmp_path / "table.csv", tmp_path / "local.csv"
    arguments = [str(suite), "--ray", cluster.address, "--journal", str(journal)]
    program = subprocess.Popen(
        [PROGRAM, "bench", *arguments], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert eventually(lambda: len(finished(journal)) >= 20), "the sweep does not begin"
    cluster.remove_node(cluster.workers.pop(), allow_graceful=False)
    at_death = len(finished(journal))
    assert eventually(lambda: len(finished(journal)) >= at_death + 20), "the sweep does not go on without the node"
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert eventually(lambda: not processes(suite)), "processes stay behind on the nodes"
    kept = finished(journal)
    assert len(kept) < 200, "the driver ended too late for this test"
    result = bench("-v", *arguments, "--out-csv", str(table))
    assert result.returncode == 0, result.stderr
    assert result.stderr.count(" of 200: ") == 200 - len(kept), "finished cases run again"
    keys = finished(journal)
    assert len(keys) == len(set(keys)) == 200
    assert bench(str(suite), "--jobs", "2", "--out-csv", str(local)).returncode == 0
    assert rows(table) == rows(local)
    assert {row["status"] for row in rows(table)} <= {"optimal", "feasible"}
    assert eventually(lambda: not processes(suite)), "processes stay behind after the sweep"


def test_an_interrupt_ends_everything_and_the_table_is_partial(suite: Path, cluster: Cluster, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    program = subprocess.Popen(
        [PROGRAM, "bench", str(suite), "--ray", cluster.address, "--journal", str(journal)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert eventually(lambda: len(finished(journal)) >= 10)
    program.send_signal(signal.SIGINT)
    output, story = program.communicate(timeout=600)
    assert program.returncode == 4, story
    assert "Interrupted: " in output
    assert eventually(lambda: not processes(suite))


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("exit 3", "it failed 3 times: the program ended with code 3"),
        ("read line; echo nonsense; exec sleep 9", "it failed 3 times: the program answered something unexpected: nonsense"),
        ('read line; echo \'{"error": "no such case"}\'', "no such case"),
    ],
)
def test_a_failing_program_is_an_error_of_its_task(cluster: Cluster, tmp_path: Path, script: str, cause: str) -> None:
    program = tmp_path / "program"
    tried = tmp_path / "tried"
    program.write_text(f"#!/bin/sh\necho >> {tried}\n{script}\n")
    program.chmod(0o755)
    head = {"schema": "stagewright.tasks/1", "program": str(program), "arguments": [], "folder": str(tmp_path)}
    task = {"id": 7, "label": "task", "cpus": 1, "memory": None, "request": {}}
    driver = subprocess.run(
        [sys.executable, "-m", "stagewright.driver", cluster.address],
        input="".join(json.dumps(line) + "\n" for line in (head, task)),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    answers = [json.loads(line) for line in driver.stdout.splitlines()]
    assert answers == [{"id": 7, "error": cause}], driver.stderr
    assert len(tried.read_text().splitlines()) == (3 if "3 times" in cause else 1)


def test_a_node_with_another_suite_is_refused_by_name(suite: Path, cluster: Cluster) -> None:
    head = {
        "schema": "stagewright.tasks/1",
        "program": PROGRAM,
        "arguments": ["bench", str(suite), "--worker"],
        "folder": str(suite.parent),
    }
    task = {"id": 0, "label": "task", "cpus": 1, "memory": None, "request": {"case": 0, "key": ["other"]}}
    driver = subprocess.run(
        [sys.executable, "-m", "stagewright.driver", cluster.address],
        input="".join(json.dumps(line) + "\n" for line in (head, task)),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    answer = json.loads(driver.stdout.splitlines()[-1])
    assert "error[B007]: the node has another build of the program" in answer["error"], driver.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere"])
def test_a_cluster_that_is_not_there_is_an_error(suite: Path, address: str) -> None:
    result = bench(str(suite), "--ray", address)
    assert result.returncode == 2
    assert result.stderr.startswith("error[A003]: "), result.stderr
