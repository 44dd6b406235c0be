"""TensorBoard shows each measurement in the tables of a training run exactly once, even if the run was resumed."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess

import pytest

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

PROGRAM = os.environ.get("STAGEWRIGHT_PROGRAM") or shutil.which("stagewright")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no stagewright on the search path")

RECIPE = """
families = ["layered"]
operators = [20, 40]
devices = [2, 3]
objectives = ["makespan"]
"""

POLICY = f"""
schema = "stagewright.training/1"
stage = "imitation"
seed = 3
steps = 12
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
count = 4
simulations = 60
[data.recipe]
seed = 1
{RECIPE}
[held_out]
count = 2
simulations = 60
[held_out.recipe]
seed = 2
{RECIPE}
"""

SYSTEM = f"""
schema = "stagewright.system-training/1"
system = "gdp"
seed = 3
episodes = 6
measure_every = 2
[settings]
devices = 3
width = 16
layers = 1
[data]
count = 4
[data.recipe]
seed = 1
{RECIPE}
[held_out]
count = 2
[held_out.recipe]
seed = 2
{RECIPE}
"""


def train(folder: pathlib.Path, text: str) -> pathlib.Path:
    """Start or resume a run."""
    assert PROGRAM is not None
    configuration, run = folder / "training.toml", folder / "run"
    configuration.write_text(text)
    subprocess.run([PROGRAM, "train", configuration, "--out", run, "--threads", "1"], check=True, timeout=600)
    return run


def shown(run: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and numbers by column, as TensorBoard reads them."""
    events = event_accumulator.EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    found = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
    for scalars in found.values():
        times = [scalar.wall_time for scalar in scalars]
        assert times == sorted(times)
        assert times[0] > 1.6e9
    return {tag: [(scalar.step, scalar.value) for scalar in scalars] for tag, scalars in found.items()}


def measured(run: pathlib.Path, position: str) -> dict[str, list[tuple[int, float]]]:
    """Steps and numbers by column, as the table states them."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    columns = [column for column in rows[0] if column != position]
    return {column: [(row[position], row[column]) for row in rows if row[column] is not None] for column in columns}


def assert_agree(run: pathlib.Path, position: str, steps: list[int]) -> None:
    """Assert that events and table have the same numbers, up to single precision."""
    table, events = measured(run, position), shown(run)
    assert table.keys() == events.keys()
    for column, rows in table.items():
        assert [step for step, _ in events[column]] == [step for step, _ in rows] == steps, column
        assert [value for _, value in events[column]] == pytest.approx([value for _, value in rows], rel=1e-6)


@pytest.mark.parametrize(
    ("text", "position", "steps"),
    [(POLICY, "step", [2, 4, 6, 8, 10, 12]), (SYSTEM, "episode", [2, 4, 6])],
    ids=["policy", "system"],
)
def test_events_are_the_measurements(tmp_path: pathlib.Path, text: str, position: str, steps: list[int]) -> None:
    run = train(tmp_path, text)
    assert_agree(run, position, steps)


def test_a_run_killed_before_its_state_was_saved_shows_no_step_twice(tmp_path: pathlib.Path) -> None:
    run = train(tmp_path, POLICY)
    before = measured(run, "step")["held_out"]
    [events] = run.glob("events.out.tfevents.*")
    # The files look as after a kill: tables and events are ahead of the (missing) state, and an event is incomplete.
    (run / "state.safetensors").unlink()
    events.write_bytes(events.read_bytes()[:-5])
    train(tmp_path, POLICY)
    assert_agree(run, "step", [2, 4, 6, 8, 10, 12])
    assert measured(run, "step")["held_out"] == before
    assert list(run.glob("events.out.tfevents.*")) == [events]
