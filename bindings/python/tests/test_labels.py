"""The nodes of a Ray cluster make the same labels for a training run as a single machine."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("ray")
from ray.cluster_utils import Cluster

PROGRAM = os.environ.get("STAGEWRIGHT_PROGRAM") or shutil.which("stagewright")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no stagewright on the search path")

CONFIGURATION = """
schema = "stagewright.training/1"
stage = "imitation"
seed = 3
steps = 4
batch = 2
measure_every = 2
patience = 100
[network]
width = 8
layers = 1
heads = 2
segment = 16
summaries = 2
[data]
count = 24
simulations = 200
[data.recipe]
seed = 1
operators = [20, 60]
devices = [2, 4]
objectives = ["makespan", "throughput"]
[held_out]
count = 4
simulations = 200
[held_out.recipe]
seed = 2
operators = [20, 60]
devices = [2, 4]
objectives = ["makespan"]
"""

#: Files that must not depend on where the labels were made.
FILES = ["labels.jsonl", "held-out.jsonl", "best.safetensors"]


def start(folder: pathlib.Path, run: str, address: str | None) -> subprocess.Popen[bytes]:
    """Start a run, with labels made on a cluster if an address is given."""
    assert PROGRAM is not None
    configuration = folder / "training.toml"
    configuration.write_text(CONFIGURATION)
    command = [PROGRAM, "train", str(configuration), "--out", str(folder / run), "--threads", "1"]
    environment = {**os.environ, "STAGEWRIGHT_PYTHON": sys.executable}
    # Uses the driver of the installed package, or else the one in this repository.
    if importlib.util.find_spec("stagewright") is None:
        environment["PYTHONPATH"] = str(pathlib.Path(__file__).parents[1] / "python")
    return subprocess.Popen([*command, *(["--ray", address] if address else [])], env=environment)


def made(folder: pathlib.Path, run: str) -> list[bytes]:
    """The files of a run."""
    return [(folder / run / name).read_bytes() for name in FILES]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster whose head runs no tasks."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield cluster
    cluster.shutdown()


def test_labels_are_the_same_with_any_number_of_nodes(tmp_path: pathlib.Path, cluster: Cluster) -> None:
    assert start(tmp_path, "here", None).wait(timeout=600) == 0
    wanted = made(tmp_path, "here")
    for nodes in (1, 2, 4):
        while len(cluster.list_all_nodes()) <= nodes:
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        assert start(tmp_path, f"nodes-{nodes}", cluster.address).wait(timeout=600) == 0
        assert made(tmp_path, f"nodes-{nodes}") == wanted, nodes


def test_a_node_that_dies_loses_no_label(tmp_path: pathlib.Path, cluster: Cluster) -> None:
    assert start(tmp_path, "here", None).wait(timeout=600) == 0
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    run = start(tmp_path, "there", cluster.address)
    labels = tmp_path / "there" / "labels.jsonl"
    while run.poll() is None and (not labels.exists() or labels.read_bytes().count(b"\n") < 4):
        time.sleep(0.02)
    cluster.remove_node(nodes[0], allow_graceful=False)
    assert run.wait(timeout=600) == 0
    assert made(tmp_path, "there") == made(tmp_path, "here")
