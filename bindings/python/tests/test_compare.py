"""Solvers side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stagewright as sw
from support import cluster, random_model

pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def problem() -> sw.Problem:
    return sw.Problem(random_model(12, 21), cluster(3, 2e6), "makespan", memory_reserve=0)


def round_robin(problem: sw.Problem) -> np.ndarray:
    return np.arange(len(problem.operators)) % len(problem.devices)


def drawn(problem: sw.Problem, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, len(problem.devices), len(problem.operators))


def test_a_row_for_every_solver_and_seed(problem: sw.Problem) -> None:
    table = sw.compare(problem, ["heft", round_robin, drawn], seeds=3, time_limit=5, threads=1).to_dataframe()
    assert table.columns.tolist() == ["model", "solver", "seed", "status", "value", "bound", "gap", "seconds", "reason"]
    # No seed changes the plan of heft, while a function may be random without one.
    assert table["solver"].tolist() == ["heft"] + ["round_robin"] * 3 + ["drawn"] * 3
    assert table["seed"].tolist() == [0, *([0, 1, 2] * 2)]
    placed = table[table["solver"] == "round_robin"]
    assert placed["value"].nunique() == 1
    for row in table[table["solver"] == "drawn"].itertuples():
        value = problem.evaluate(drawn(problem, row.seed)[None])[0]
        assert (row.status == "feasible") == np.isfinite(value)
        assert np.isnan(row.value) if np.isinf(value) else row.value == value
    feasible = table.dropna(subset=["value"])
    assert (feasible["gap"] >= 0).all() and (feasible["gap"] < 1).all()
    assert table["bound"].nunique() == 1 and (feasible["bound"] <= feasible["value"] * (1 + 1e-9)).all()
    assert table["bound"][0] >= problem.bound()


def test_seeds_may_be_listed(problem: sw.Problem) -> None:
    table = sw.compare(problem, [drawn], seeds=[7, 3]).to_dataframe()
    assert table["seed"].tolist() == [7, 3]


def test_seeds_reach_variable_keywords_and_partial_functions(problem: sw.Problem) -> None:
    seen: list[Any] = []

    def keywords(problem: sw.Problem, **options: Any) -> np.ndarray:
        seen.append(options)
        return round_robin(problem)

    sw.compare(problem, [keywords], seeds=2)
    assert seen == [{"seed": 0}, {"seed": 1}]


def test_an_error_is_a_row(problem: sw.Problem) -> None:
    def broken(problem: sw.Problem) -> np.ndarray:
        raise RuntimeError("no idea")

    table = sw.compare(problem, [broken, "heft"]).to_dataframe()
    assert table["status"].tolist()[0] == "error"
    assert table["reason"][0] == "RuntimeError: no idea"
    assert np.isnan(table["value"][0]) and np.isfinite(table["value"][1])


def test_an_infeasible_placement_is_a_row_with_a_reason() -> None:
    problem = sw.Problem(random_model(12, 21), cluster(3, 1e5), "makespan", memory_reserve=0)

    def crowded(problem: sw.Problem) -> np.ndarray:
        return np.zeros(len(problem.operators), dtype=int)

    table = sw.compare(problem, [crowded]).to_dataframe()
    assert table["status"][0] == "infeasible placement"
    assert table["reason"][0] == problem.violations([0] * 12)[0]


def test_priorities_names_and_plans_are_answers(problem: sw.Problem) -> None:
    good = sw.plan(problem, "heft", time_limit=5)

    def with_priority(problem: sw.Problem) -> tuple[np.ndarray | None, np.ndarray | None]:
        return good.device_of, good.priority

    def names(problem: sw.Problem) -> list[str]:
        assert good.device_of is not None
        return [problem.devices[at] for at in good.device_of]

    def plan(problem: sw.Problem) -> sw.Plan:
        return good

    table = sw.compare(problem, {"given": good, "priority": with_priority, "names": names, "plan": plan}).to_dataframe()
    values = dict(zip(table["solver"], table["value"]))
    assert values["given"] == pytest.approx(good.value) == values["plan"] == values["priority"]
    assert values["names"] == problem.evaluate(np.asarray(good.device_of)[None])[0]


def test_a_plan_has_one_row(problem: sw.Problem) -> None:
    plan = sw.plan(problem, "heft", time_limit=5)
    table = sw.compare(problem, {"plan": plan, "brkga": "brkga"}, seeds=2, time_limit=1, threads=1).to_dataframe()
    assert table["solver"].tolist() == ["plan", "brkga", "brkga"]
    assert table["value"][0] == pytest.approx(plan.value)


def without_times(table: str) -> list[list[str]]:
    lines = [line.removesuffix(r" \\").split(" & ") for line in table.splitlines()]
    header = next(cells for cells in lines if "time" in cells)
    return [[cell for at, cell in enumerate(cells) if len(cells) == 1 or at != header.index("time")] for cells in lines]


def test_a_table_of_a_paper_is_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    problems = {
        f"model_{number}": sw.Problem(random_model(12, number), cluster(3), split="free", memory_reserve=0)
        for number in range(5)
    }
    solvers = {"one-device": "one-device", "dpl": "dpl", "heft": "heft", "drawn": drawn}
    first, second = (sw.compare(problems, solvers, seeds=3, time_limit=None, threads=1) for _ in range(2))
    latex = first.to_latex()
    assert without_times(latex) == without_times(second.to_latex())
    for part in ["1970-01-01T00:00:00Z", "% seeds: 0, 1, 2: ", r"model\_0 & ", r"\textbf{", r" $\pm$ ", r"\toprule"]:
        assert part in latex, part
    assert latex.count("& unsupported &") == 10
    assert "% model_0, heft: " in latex
    table = first.to_dataframe()
    assert table.attrs["version"] == sw.__version__ and table.attrs["seeds"] == [0, 1, 2]
    assert table.attrs["date"] == "1970-01-01T00:00:00Z"
    assert [model["model"] for model in table.attrs["models"]] == list(problems)
    assert all("3 × " in model["cluster"] for model in table.attrs["models"])
    of_drawn = table[(table["solver"] == "drawn") & (table["model"] == "model_0")]["value"]
    assert len(of_drawn) == 3 and table[table["solver"] == "one-device"]["seed"].tolist() == [0] * 5


def test_comparisons_are_added(problem: sw.Problem) -> None:
    one, other = sw.compare({"a": problem}, ["heft"]), sw.compare({"b": problem}, ["cpop"])
    both = one + other
    assert both.to_dataframe()["model"].tolist() == ["a", "b"]
    assert both.to_latex().count(r"\midrule") == 2


@pytest.mark.parametrize("date", ["today", "", "-1", "1.5", "1_000", "253402300800"])
def test_a_date_that_is_no_number_of_seconds_is_refused_before_anything_is_solved(
    problem: sw.Problem, monkeypatch: pytest.MonkeyPatch, date: str
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", date)
    called: list[int] = []
    with pytest.raises(sw.StagewrightError, match="is not a number of seconds since 1970") as error:
        sw.compare(problem, {"custom": lambda problem: called.append(0)})
    assert (error.value.code, error.value.place, called) == ("U001", "SOURCE_DATE_EPOCH", [])


@pytest.mark.parametrize("seeds", [0, [], [1, 1]])
def test_seeds_that_are_none_or_equal_are_refused(problem: sw.Problem, seeds: Any) -> None:
    with pytest.raises(sw.StagewrightError, match="U001"):
        sw.compare(problem, ["heft"], seeds=seeds)


def test_a_plan_of_another_objective_has_the_value_of_this_one(tmp_path: Path) -> None:
    model = random_model(12, 21)
    step = sw.Problem(model, cluster(3), "makespan")
    period = sw.Problem(model, cluster(3))
    for own, other, solver in [(period, step, "dp"), (step, period, "one-device")]:
        plan = sw.plan(own, solver, time_limit=5, threads=1)
        assert plan.device_of is not None
        plan.save(tmp_path / "plan.json")
        expected = other.evaluate(plan.device_of[None])[0]
        table = sw.compare(other, {"plan": plan, "file": other.read_plan(tmp_path / "plan.json")}).to_dataframe()
        assert table["status"].tolist() == ["feasible"] * 2
        assert table["value"].tolist() == [expected] * 2
    # On one device, a step and a stage have the same value; for the split of dp, they differ.
    assert sw.plan(period, "dp").value != pytest.approx(sw.compare(step, [sw.plan(period, "dp")]).to_dataframe()["value"][0])


def test_a_solver_of_another_objective_is_a_row(problem: sw.Problem) -> None:
    table = sw.compare(problem, ["dp", "heft", round_robin], time_limit=1).to_dataframe()
    assert table["status"].tolist()[:2] == ["unsupported", "optimal"]
    assert table["reason"][0] == "solver `dp` does not support objectives other than throughput"
    with pytest.raises(sw.StagewrightError) as raised:
        sw.compare(problem, ["dpp"])
    assert raised.value.code == "U003"


def test_a_name_twice_is_refused(problem: sw.Problem) -> None:
    with pytest.raises(sw.StagewrightError, match="two solvers are called 'heft'"):
        sw.compare(problem, ["heft", "heft"])
    table = sw.compare(problem, {"first": "heft", "second": "heft"}, time_limit=1).to_dataframe()
    assert table["solver"].tolist() == ["first", "second"]


def test_an_answer_that_is_no_placement_is_an_error_row(problem: sw.Problem) -> None:
    def short(problem: sw.Problem) -> np.ndarray:
        return np.zeros(3, dtype=int)

    def nothing(problem: sw.Problem) -> None:
        return None

    table = sw.compare(problem, [short, nothing, "heft"], time_limit=1).to_dataframe()
    assert table["status"].tolist()[:2] == ["error", "error"]
    assert table["reason"].notna().tolist()[:2] == [True, True]


def test_an_unknown_name_is_refused_before_anything_is_solved(problem: sw.Problem) -> None:
    called = []
    with pytest.raises(sw.StagewrightError) as raised:
        sw.compare(problem, [lambda problem: called.append(problem), "oracle"])
    assert raised.value.code == "U003" and called == []
