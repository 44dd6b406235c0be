"""Plans: claims, files, checks, reports, exports."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
import stagewright as sw
from support import chain, cluster, random_model


@pytest.fixture(scope="module")
def problem() -> sw.Problem:
    return sw.Problem(random_model(14, 11), cluster(3, 3e6), memory_reserve=0)


@pytest.fixture(scope="module")
def plan(problem: sw.Problem) -> sw.Plan:
    return sw.plan(problem, time_limit=20, threads=1)


def test_an_exact_plan_is_proved(problem: sw.Problem, plan: sw.Plan) -> None:
    assert plan.status == "optimal" and plan.gap == 0.0 and plan.stop is None and plan.reason is None
    assert plan.value is not None and plan.bound is not None and plan.device_of is not None
    assert plan.bound <= plan.value and problem.bound() <= plan.value * (1 + 1e-9)
    assert plan.device_of.dtype == np.uint16 and plan.device_of.shape == (14,)
    assert problem.evaluate(plan.device_of[None])[0] == pytest.approx(plan.value, rel=1e-12)
    assert set(plan.stages) == {problem.devices[device] for device in plan.device_of}
    assert plan.solver.startswith("dp") and plan.problem is problem
    assert sum(len(device["ops"]) for device in plan.devices) == 14


def test_a_plan_of_a_placement_has_a_gap() -> None:
    problem = sw.Problem(chain(), cluster(2), split="free")
    plan = problem.place([0, 0, 0, 0, 0, 1], solver="mine", seconds=1.5)
    assert (plan.status, plan.solver, plan.seconds) == ("feasible", "mine", 1.5)
    assert plan.value is not None and plan.bound is not None
    assert plan.gap == pytest.approx((plan.value - plan.bound) / plan.value)
    assert plan.gap > 0.1
    assert sw.check(problem, plan)


def test_a_plan_is_read_again(problem: sw.Problem, plan: sw.Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan.save(path)
    assert json.loads(path.read_text()) == plan.to_dict()
    read = problem.read_plan(path)
    assert read.to_dict() == plan.to_dict()
    assert np.array_equal(read.device_of, plan.device_of)
    assert sw.check(problem, read)


def test_a_makespan_plan_keeps_its_priority(tmp_path: Path) -> None:
    problem = sw.Problem(random_model(20, 3), cluster(3), "makespan")
    plan = sw.plan(problem, "heft", time_limit=5)
    assert plan.device_of is not None and plan.priority is not None
    assert problem.evaluate(plan.device_of[None], plan.priority)[0] == pytest.approx(plan.value, rel=1e-12)
    path = tmp_path / "plan.json"
    plan.save(path)
    read = problem.read_plan(path)
    assert np.array_equal(read.priority, plan.priority)
    assert problem.place(read.device_of, read.priority).value == pytest.approx(plan.value, rel=1e-12)


def test_a_device_for_every_operator_is_a_plan(problem: sw.Problem, plan: sw.Plan, tmp_path: Path) -> None:
    assert plan.device_of is not None
    path = tmp_path / "devices.json"
    path.write_text(json.dumps({name: problem.devices[at] for name, at in zip(problem.operators, plan.device_of)}))
    assert problem.read_plan(path).value == pytest.approx(plan.value, rel=1e-12)


def test_a_plan_that_holds(problem: sw.Problem, plan: sw.Plan) -> None:
    found = sw.check(problem, plan)
    assert found and found.holds and found.violations == []
    assert found.value == pytest.approx(plan.value)
    assert found.bound in ("verified", "not-verified")


def tampered(problem: sw.Problem, plan: sw.Plan, path: Path, change: object) -> sw.Check:
    document = plan.to_dict()
    change(document)  # type: ignore[operator]
    path.write_text(json.dumps(document))
    return sw.check(problem, problem.read_plan(path))


def test_tampered_plans_are_refused(problem: sw.Problem, plan: sw.Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"

    def better(document: dict) -> None:
        document["objective"]["value_s"] *= 0.5
        document["bound"]["value_s"] *= 0.5

    def bound(document: dict) -> None:
        # The bound is twice the value, and therefore above the optimum.
        document["bound"]["value_s"] *= 2.0

    def moved(document: dict) -> None:
        first, second = document["devices"][:2]
        second["ops"].append(first["ops"].pop())

    assert tampered(problem, plan, path, lambda document: None)
    for change in (better, bound, moved):
        found = tampered(problem, plan, path, change)
        assert not found, change.__name__
        assert found.violations and all(len(entry) == 2 for entry in found.violations)


def test_a_plan_of_another_problem_does_not_hold() -> None:
    loose = sw.Problem(chain(), cluster(2), split="free")
    tight = sw.Problem(chain(), cluster(2), split="free", pins={"op0": "gpu1"})
    plan = loose.place([0, 0, 0, 1, 1, 1])
    assert sw.check(loose, plan)
    assert not sw.check(tight, plan)


def test_infeasible_is_a_status() -> None:
    model = sw.Graph([{"name": "a", "seconds": {"gpu": 1.0}, "parameter_bytes": 100.0}])
    plan = sw.plan(sw.Problem(model, cluster(2, 10.0), memory_reserve=0), time_limit=5)
    assert plan.status == "infeasible" and plan.reason
    assert plan.value is None and plan.device_of is None and plan.priority is None and plan.gap is None
    assert "infeasible" in repr(plan)


def test_the_report_is_a_page_of_its_own(plan: sw.Plan) -> None:
    page = plan.to_html()
    assert page.lstrip().lower().startswith("<!doctype html>") and "op13" in page
    for source in ('src="http', 'href="http', "@import"):
        assert source not in page
    assert plan._repr_html_().startswith("<iframe")


def test_exports(plan: sw.Plan) -> None:
    targets = [name for name, _, _ in sw.export_targets()]
    assert "accelerate" in targets
    written = 0
    for target in targets:
        try:
            text = plan.export(target)
        except sw.StagewrightError as error:
            assert error.code.startswith("E"), target
        else:
            written += 1
            assert text, target
    assert written > 0
    with pytest.raises(sw.StagewrightError) as raised:
        plan.export("accelerator")
    assert raised.value.code.startswith("E")


def test_an_export_has_notes() -> None:
    problem = sw.Problem(sw.workload("bert", layers=2, batch=1), "2xa100")
    export = sw.plan(problem, "dpl", time_limit=5).export("torch-pipelining")
    assert "split_spec" in export and str(export) == export
    assert any("2 stages" in note for note in export.notes)


def test_convergence_reaches_the_answer(problem: sw.Problem, plan: sw.Plan) -> None:
    values, bounds = plan.convergence
    assert values[-1][1] == plan.value
    reached = [value for _, value in values]
    assert reached == sorted(reached, reverse=True)
    assert all(0 <= seconds <= plan.seconds + 1 for seconds, _ in [*values, *bounds])


def test_a_start_is_never_made_worse() -> None:
    problem = sw.Problem(random_model(30, 8), cluster(3), "makespan")
    good = sw.plan(problem, "annealing", time_limit=1, seed=1, threads=1)
    assert good.value is not None and good.device_of is not None
    for start in (good, good.device_of):
        again = sw.plan(problem, "annealing", time_limit=0.2, seed=2, threads=1, start=start)
        assert again.value is not None
        limit = good.value if start is good else problem.evaluate(good.device_of[None])[0]
        assert again.value <= limit * (1 + 1e-9)


def test_the_same_seed_gives_the_same_plan() -> None:
    problem = sw.Problem(random_model(12, 6), cluster(2), "makespan")
    plans = [sw.plan(problem, "heft", seed=3, threads=threads) for threads in (1, 2)]
    assert np.array_equal(plans[0].device_of, plans[1].device_of)


def test_text_shows_status_and_figures(plan: sw.Plan) -> None:
    assert "optimal" in str(plan) and "gpu0" in str(plan)
    assert repr(plan).startswith("<stagewright.Plan optimal")
    assert plan.value is not None and math.isfinite(plan.value)


def test_a_plan_is_checked_on_the_cluster_that_it_keeps(tmp_path: Path) -> None:
    model = chain()
    problem = sw.Problem(model, cluster(2), split="free")
    plan = problem.place([0, 0, 0, 0, 0, 1])
    assert plan.to_dict()["cluster"] == problem.cluster
    assert plan.check() and plan.check(model) == sw.check(problem, plan)
    path = tmp_path / "plan.json"
    plan.save(path)
    again = sw.Problem.of_plan(model, path)
    assert (again.cluster, again.objective) == (problem.cluster, problem.objective)
    assert again.read_plan(path).check(model).value == plan.value
    packed = tmp_path / "plan.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    of_packed = sw.Problem.of_plan(model, packed)
    assert of_packed.cluster == problem.cluster and of_packed.read_plan(packed).value == plan.value
    # A file that is no plan is an error that says so.
    for content, code in [("{", "F002"), ("{}", "S006")]:
        path.write_text(content, encoding="utf-8")
        with pytest.raises(sw.StagewrightError, match=code):
            sw.Problem.of_plan(model, path)
    with pytest.raises(sw.StagewrightError, match="I001"):
        sw.Problem.of_plan(model, tmp_path / "missing.json")
    # The claims of a plan are about its own cluster, and one that is given wins.
    document = plan.to_dict()
    document["cluster"]["kinds"][0]["count"] = 1
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(sw.StagewrightError, match="L001"):
        sw.Problem.of_plan(model, path).read_plan(path)
    assert sw.check(problem, problem.read_plan(path))
    # Plans of earlier releases keep no cluster.
    del document["cluster"]
    with pytest.raises(sw.StagewrightError, match="U002"):
        sw.Problem.of_plan(model, document)
