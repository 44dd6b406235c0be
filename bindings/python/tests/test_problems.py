"""Problems: values, steps, violations, arrays."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stagewright as sw
from support import ARRAYS, NAMES, chain, cluster, random_model, random_placements

OBJECTIVES = [
    {"objective": "throughput", "split": "free"},
    {"objective": "throughput", "split": "contiguous"},
    {"objective": "throughput", "split": "convex", "communication": "overlap"},
    {"objective": "throughput", "split": "contiguous", "schedule": "1f1b", "microbatches": 4},
    {"objective": "latency"},
    {"objective": "makespan"},
    {"objective": "makespan", "execution": "contention-free"},
]


@pytest.mark.parametrize("rules", OBJECTIVES, ids=lambda rules: "-".join(map(str, rules.values())))
@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_plans(rules: dict, seed: int) -> None:
    model = random_model(10 + seed, seed, colocate=seed == 2)
    problem = sw.Problem(model, cluster(3, memory_bytes=2e6, host=True), memory_reserve=0, **rules)
    placements = random_placements(problem, 60, seed)
    placements[0] = 0
    # The placement is a pipeline, and fits in memory.
    placements[1] = np.arange(len(problem.operators)) * 3 // len(problem.operators)
    values = problem.evaluate(placements)
    assert values.shape == (60,) and values.dtype == np.float64
    for row, value in zip(placements, values):
        violations = problem.violations(row)
        assert np.isinf(value) == bool(violations)
        if violations:
            with pytest.raises(sw.StagewrightError) as raised:
                problem.place(row)
            assert raised.value.code == "Z003"
        else:
            assert problem.place(row).value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("objective", ["throughput", "makespan"])
def test_random_placements_are_of_both_kinds(objective: str) -> None:
    """The comparison above is meaningful only if some placements are feasible and some are not."""
    split = "free" if objective == "throughput" else None
    problem = sw.Problem(random_model(10, 0), cluster(3, 2e6, True), objective, split=split, memory_reserve=0)
    values = problem.evaluate(random_placements(problem, 60, 0))
    assert 0 < np.isinf(values).sum() < 60


def test_no_placement_is_below_the_bound() -> None:
    problem = sw.Problem(random_model(8, 5), cluster(2), "makespan")
    every = np.array(np.meshgrid(*[[0, 1]] * 8)).reshape(8, -1).T
    values = problem.evaluate(every)
    assert values.shape == (256,)
    assert 0 < problem.bound() <= values.min() * (1 + 1e-9)


def test_priorities_order_what_is_ready() -> None:
    rows = [
        {"name": name, "seconds": {"gpu": seconds}}
        for name, seconds in [("long", 2e-3), ("short", 1e-3), ("end", 5e-3)]
    ]
    tensors = [{"producer": "short", "consumers": ["end"], "bytes": 1.0}]
    problem = sw.Problem(sw.Graph(rows, tensors), cluster(2), "makespan")
    placement = np.array([[0, 0, 1]], dtype=np.uint16)
    first_long = problem.evaluate(placement, [[2.0, 1.0, 0.0]])[0]
    first_short = problem.evaluate(placement, [[1.0, 2.0, 0.0]])[0]
    assert first_long == pytest.approx(first_short + 2e-3)
    plan = problem.place(placement[0], [2.0, 1.0, 0.0])
    assert plan.value == pytest.approx(first_long)
    assert plan.priority is not None
    assert problem.evaluate(placement, plan.priority)[0] == first_long


def test_threads_and_batches_do_not_change_values() -> None:
    problem = sw.Problem(random_model(40, 1), cluster(4, 2e4), "makespan", memory_reserve=0)
    placements = random_placements(problem, 3000, 7)
    values = problem.evaluate(placements, threads=1)
    assert np.array_equal(values, problem.evaluate(placements, threads=2))
    assert np.array_equal(values, problem.evaluate(placements))
    parts = [problem.evaluate(part) for part in np.array_split(placements, 7)]
    assert np.array_equal(values, np.concatenate(parts))


def test_a_batch_larger_than_the_interval_between_signals() -> None:
    problem = sw.Problem(chain(3), cluster(2), split="free")
    placements = np.zeros((700_000, 3), dtype=np.uint16)
    placements[-1] = 1
    values = problem.evaluate(placements)
    assert len(values) == 700_000
    assert np.all(values == values[0])


def test_no_placements_have_no_values() -> None:
    problem = sw.Problem(chain(), cluster(2), "makespan")
    none = np.empty((0, 6), dtype=np.uint16)
    assert problem.evaluate(none).shape == (0,)
    assert problem.evaluate(none, np.empty((0, 6))).shape == (0,)
    steps = problem.simulate(none)
    assert steps.makespan.shape == (0,) and steps.peak_bytes.shape == (0, 2)


@pytest.mark.parametrize(
    "placements",
    [
        np.zeros(6, dtype=np.uint16),
        np.zeros((1, 5), dtype=np.uint16),
        np.zeros((0, 5), dtype=np.uint16),
        np.zeros((1, 1, 6), dtype=np.uint16),
        np.zeros((1, 6)),
        np.full((1, 6), 2, dtype=np.uint16),
        np.full((1, 6), -1),
        np.full((1, 6), 70_000),
        np.full((1, 6), np.nan),
        [["gpu0"] * 6],
        [[0] * 6, [0] * 5],
    ],
    ids="flat few few-of-none deep floats no-such-device negative large nan names ragged".split(),
)
def test_wrong_placements_are_refused(placements: np.ndarray) -> None:
    problem = sw.Problem(chain(), cluster(2), split="free")
    with pytest.raises(sw.StagewrightError) as raised:
        problem.evaluate(placements)
    assert (raised.value.code, raised.value.place) == (ARRAYS, "placements")
    with pytest.raises(sw.StagewrightError) as raised:
        problem.simulate(placements)
    assert raised.value.code == ARRAYS


@pytest.mark.parametrize(
    "priorities",
    [
        np.zeros((1, 5)),
        np.zeros((2, 6)),
        [[0.0, 1.0, 2.0, 3.0, 4.0, np.nan]],
        np.zeros((1, 1, 6)),
        [["0"] * 6],
        np.zeros((1, 6), dtype=complex),
        [[0.0] * 6, [0.0] * 5],
    ],
    ids=["few", "rows", "nan", "deep", "names", "complex", "ragged"],
)
def test_wrong_priorities_are_refused(priorities: np.ndarray) -> None:
    problem = sw.Problem(chain(), cluster(2), "makespan")
    placements = np.zeros((1, 6), dtype=np.uint16)
    for scored in (problem.evaluate, problem.simulate):
        with pytest.raises(sw.StagewrightError) as raised:
            scored(placements, priorities)
        assert (raised.value.code, raised.value.place) == (ARRAYS, "priorities")


@pytest.mark.parametrize("priority", [np.zeros((1, 6)), 0.0, ["0"] * 6], ids=["deep", "number", "names"])
def test_a_wrong_priority_is_refused(priority: Any) -> None:
    problem = sw.Problem(chain(), cluster(2), "makespan")
    for scored in (problem.violations, problem.place):
        with pytest.raises(sw.StagewrightError) as raised:
            scored(np.zeros(6, dtype=np.uint16), priority)
        assert (raised.value.code, raised.value.place) == (ARRAYS, "priority")


@pytest.mark.parametrize("threads", [0, -1, 1 << 70])
def test_wrong_numbers_of_threads_are_refused(threads: int) -> None:
    problem = sw.Problem(chain(), cluster(2), split="free")
    for scored in (problem.evaluate, problem.simulate):
        with pytest.raises(sw.StagewrightError) as raised:
            scored(np.zeros((1, 6), dtype=np.uint16), threads=threads)
        assert (raised.value.code, raised.value.place) == ("U001", "threads")


@pytest.mark.parametrize("seconds", [-1.0, np.inf, np.nan])
def test_a_plan_takes_a_finite_time(seconds: float) -> None:
    problem = sw.Problem(chain(), cluster(2), split="free")
    with pytest.raises(sw.StagewrightError) as raised:
        problem.place(np.zeros(6, dtype=np.uint16), seconds=seconds)
    assert (raised.value.code, raised.value.place) == ("U001", "seconds")


def test_arrays_in_any_layout_are_read() -> None:
    problem = sw.Problem(random_model(9, 3), cluster(3), "makespan")
    placements = random_placements(problem, 20, 3)
    values = problem.evaluate(placements)
    for other in [placements.tolist(), placements.astype(np.int64), np.asfortranarray(placements)]:
        assert np.array_equal(problem.evaluate(other), values)
    assert np.array_equal(problem.evaluate(placements[::2]), values[::2])


def test_a_placement_by_names() -> None:
    problem = sw.Problem(chain(), cluster(2), split="free")
    names = {name: f"gpu{at % 2}" for at, name in enumerate(problem.operators)}
    numbers = np.array([0, 1, 0, 1, 0, 1], dtype=np.uint16)
    assert problem.devices == ["gpu0", "gpu1"]
    assert np.array_equal(problem.placement(names), numbers)
    assert np.array_equal(problem.placement(list(names.values())), numbers)
    assert np.array_equal(problem.placement({name: at % 2 for at, name in enumerate(names)}), numbers)
    mixed = {name: device if at else at for at, (name, device) in enumerate(names.items())}
    assert np.array_equal(problem.placement(mixed), numbers)
    wrong = [{**names, "op0": "gpu7"}, {**names, "op9": "gpu0"}, dict(list(names.items())[:-1]), ["gpu0"] * 5 + ["gpu"]]
    for given in wrong:
        with pytest.raises(sw.StagewrightError) as raised:
            problem.placement(given)
        assert raised.value.code == NAMES
    for given in (numbers[:5], None, "gpu0", [None] * 6, ["gpu0", ["gpu1"]]):
        with pytest.raises(sw.StagewrightError) as raised:
            problem.place(given)  # type: ignore[arg-type]
        assert raised.value.code == ARRAYS


def test_a_step_has_a_timeline_and_a_peak() -> None:
    problem = sw.Problem(chain(), cluster(2, 1.0), "makespan", memory_reserve=0)
    placements = np.array([[0] * 6, [0] * 3 + [1] * 3], dtype=np.uint16)
    # A step does not enforce memory limits.
    assert np.isinf(problem.evaluate(placements)).all()
    steps = problem.simulate(placements, timeline=True)
    assert steps.makespan[0] == pytest.approx(6e-3)
    assert steps.makespan[1] == pytest.approx(6e-3 + 1e-5 + 1e-6)
    assert steps.peak_bytes.shape == (2, 2)
    assert steps.peak_bytes[0, 1] == 0 < steps.peak_bytes[0, 0]
    assert len(steps.timelines) == 2
    assert problem.simulate(placements).timelines == []


def test_a_small_device_keeps_its_memory_by_default() -> None:
    model, on_one = random_model(12, 4), np.zeros((1, 12), dtype=np.uint16)
    by_default = sw.Problem(model, cluster(2, 1e7))
    without = sw.Problem(model, cluster(2, 1e7), memory_reserve=0)
    assert np.isfinite(by_default.evaluate(on_one)).all()
    assert np.array_equal(by_default.evaluate(on_one), without.evaluate(on_one))
    assert np.isinf(sw.Problem(model, cluster(2, 1e7), memory_reserve=2**30).evaluate(on_one)).all()


def test_an_operator_without_a_cost_has_no_step() -> None:
    problem = sw.Problem(random_model(10, 0), cluster(1, host=True), "makespan")
    on_host = np.ones((1, 10), dtype=np.uint16)
    assert np.isinf(problem.simulate(on_host).makespan[0])
    assert np.isinf(problem.evaluate(on_host)[0])
    assert problem.violations(on_host[0])


def test_pins_restrict_devices() -> None:
    problem = sw.Problem(chain(), cluster(2), split="free", pins={"op0": "gpu1", "op5": ["gpu0"]})
    placement = np.zeros(6, dtype=np.uint16)
    assert np.isinf(problem.evaluate(placement[None])[0])
    placement[0] = 1
    assert np.isfinite(problem.evaluate(placement[None])[0])
    with pytest.raises(sw.StagewrightError):
        sw.Problem(chain(), cluster(2), pins={"op9": "gpu1"})


def test_invalid_problems_are_refused() -> None:
    model = chain()
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Problem(model)
    assert raised.value.code == "U002"
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Problem(model, cluster(2), "speed")  # type: ignore[arg-type]
    assert raised.value.code == "U001"
    with pytest.raises(sw.StagewrightError):
        sw.Problem(model, {"schema": "stagewright.cluster/1"})
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Problem(model, cluster(2), split="free", schedule="1f1b", microbatches=4)
    assert (raised.value.code, raised.value.place) == ("P003", "objective")


def test_a_split_without_effect_is_a_warning() -> None:
    for objective, why in [("latency", "whose rule is that of the calls"), ("makespan", "any operator may run")]:
        with pytest.warns(sw.StagewrightWarning, match=f"split has no effect on .*{objective}.* {why}"):
            problem = sw.Problem(chain(), cluster(2), objective, split="convex")  # type: ignore[arg-type]
        assert problem.objective["kind"] == objective
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.Problem(chain(), cluster(2), "makespan")
        sw.Problem(chain(), cluster(2), split="convex")


def test_arrays_without_memory_are_an_error_of_python() -> None:
    """The array of seconds for 1,000 operators on 65,536 devices takes 0.5 GiB, and only half of that is free."""
    code = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import stagewright as sw
from support import chain, cluster
problem = sw.Problem(chain(1000), cluster(65_536), split="free")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    problem.arrays()
except MemoryError as error:
    print("refused:", error)
"""
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=600)
    assert found.stdout == "refused: no memory for an array of 1000 times 65536 numbers\n", found.stderr


def test_arrays_have_documented_shapes() -> None:
    problem = sw.Problem(random_model(12, 4, colocate=True), cluster(2, 1e6, True), memory_reserve=0)
    arrays = problem.arrays()
    operators, devices = 12, 3
    tensors, edges = len(arrays["tensor_bytes"]), arrays["edge_index"].shape[1]
    shapes = {
        "seconds": ((operators, devices), np.float64),
        "flop": ((operators,), np.float64),
        "parameter_bytes": ((operators,), np.float64),
        "optimizer_bytes": ((operators,), np.float64),
        "activation_bytes": ((operators,), np.float64),
        "workspace_bytes": ((operators,), np.float64),
        "pass": ((operators,), np.uint8),
        "colocation": ((operators,), np.int64),
        "topological": ((operators,), np.int64),
        "edge_index": ((2, edges), np.int64),
        "edge_tensor": ((edges,), np.int64),
        "tensor_bytes": ((tensors,), np.float64),
        "tensor_producer": ((tensors,), np.int64),
        "tensor_seconds": ((tensors, devices), np.float64),
        "memory_bytes": ((devices,), np.float64),
        "device_kind": ((devices,), np.int64),
        "is_host": ((devices,), np.bool_),
    }
    assert {name: (array.shape, array.dtype) for name, array in arrays.items()} == {
        name: (shape, np.dtype(kind)) for name, (shape, kind) in shapes.items()
    }
    document = problem.model.to_dict()
    assert arrays["seconds"][0, 0] == document["operators"][0]["seconds"]["gpu"]
    assert np.isinf(arrays["seconds"][4, 2])
    assert arrays["memory_bytes"].tolist() == [1e6, 1e6, np.inf]
    assert arrays["is_host"].tolist() == [False, False, True]
    assert np.isnan(arrays["flop"]).all()
    assert arrays["colocation"][0] == arrays["colocation"][1] != arrays["colocation"][2]
    pairs = {(tensor["producer"], reader) for tensor in document["tensors"] for reader in tensor["consumers"]}
    names = problem.operators
    assert {(names[source], names[target]) for source, target in arrays["edge_index"].T} == pairs
    position = np.argsort(arrays["topological"])
    assert np.all(position[arrays["edge_index"][0]] < position[arrays["edge_index"][1]])


def test_arrays_in_other_forms() -> None:
    problem = sw.Problem(random_model(12, 4), cluster(2, host=True))
    arrays = problem.arrays()
    data = problem.arrays("torch_geometric")
    assert data["num_nodes"] == 12 and data["x"].shape == (12, 6 + 3)
    assert data["x"].dtype == np.float32 and np.isfinite(data["x"]).all()
    assert np.array_equal(data["edge_index"], arrays["edge_index"])
    assert data["edge_attr"].shape == (arrays["edge_index"].shape[1], 1)
    links = problem.arrays("networkx")
    assert [node["id"] for node in links["nodes"]] == problem.operators
    assert len(links["edges"]) == arrays["edge_index"].shape[1]
    with pytest.raises(sw.StagewrightError, match="unknown form"):
        problem.arrays("dgl")  # type: ignore[arg-type]


def test_networkx_reads_its_form() -> None:
    networkx = pytest.importorskip("networkx")
    problem = sw.Problem(random_model(12, 4), cluster(2))
    graph = networkx.node_link_graph(problem.arrays("networkx"), edges="edges")
    assert list(graph) == problem.operators and networkx.is_directed_acyclic_graph(graph)


@pytest.mark.parametrize("name", ["pipedream.txt", "full.json", "cost_graph.pbtxt"])
def test_a_copy_in_another_process_is_the_same_problem(name: str) -> None:
    path = Path(__file__).parents[3] / "tests" / "fuzz" / "seeds" / "graph" / name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sw.load(path, batch=8, **({"time_unit": "us"} if name.endswith("pbtxt") else {}))
        problem = sw.Problem(model, "2xv100", split="free")
        copy = pickle.loads(pickle.dumps(problem))
    assert copy.operators == problem.operators and copy.objective == problem.objective
    placements = random_placements(problem, 30, 5)
    assert np.array_equal(copy.evaluate(placements), problem.evaluate(placements))
    first, second = sw.plan(problem, time_limit=5), sw.plan(copy, time_limit=5)
    assert (first.status, first.value) == (second.status, second.value)
    assert first.to_dict().get("throughput") == second.to_dict().get("throughput")
    again = pickle.loads(pickle.dumps(first))
    assert again.value == first.value and np.array_equal(again.device_of, first.device_of)


def _values(problem: sw.Problem, placements: np.ndarray, found: Any) -> None:
    found.send((problem.evaluate(placements).tolist(), problem.simulate(placements).makespan.tolist()))


def test_a_forked_process_has_threads_of_its_own() -> None:
    problem = sw.Problem(random_model(12, 3), cluster(3), "makespan")
    placements = random_placements(problem, 50, 1)
    expected = (problem.evaluate(placements).tolist(), problem.simulate(placements).makespan.tolist())
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    with warnings.catch_warnings():
        # Newer versions of Python warn about forking a process with threads, which is what this tests.
        warnings.simplefilter("ignore")
        process = context.Process(target=_values, args=(problem, placements, there))
        process.start()
    assert here.poll(60), "the process hangs"
    assert here.recv() == expected
    process.join()


def test_an_array_that_changes_meanwhile_is_an_error_at_most() -> None:
    problem = sw.Problem(random_model(100, 4), cluster(3), "makespan")
    placements = random_placements(problem, 60_000, 2)
    writer = threading.Timer(0.02, lambda: placements.__setitem__(slice(-20_000, None), 60_000))
    writer.start()
    try:
        assert len(problem.evaluate(placements, threads=1)) == len(placements)
    except sw.StagewrightError as error:
        assert error.code == ARRAYS
    writer.join()
