"""Questions of every kind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import stagewright as sw
from support import chain, cluster


def test_a_joint_plan_is_solved_checked_explained_and_compared(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    graph = tmp_path / "bert.json"
    sw.workload("bert", "base", layers=4, batch=1, training=True).save(graph)
    task = sw.Task(graph, "4xa100", parallel="tp,dp,pp,recompute", global_batch=8)
    assert task.kind == "joint plan"
    answer = task.solve(time_limit=20, threads=1)
    assert answer.status in ("optimal", "feasible")
    assert answer.value is not None and answer.bound is not None and answer.bound <= answer.value
    assert answer.to_dict()["schema"] == "stagewright.joint-plan/1"
    assert task.check(answer)["holds"]
    forged = answer.to_dict()
    forged["objective"]["value_s"] *= 0.5
    assert not task.check(forged)["holds"]
    assert "ms" in str(answer) or " s" in str(answer)
    answer.save_html(tmp_path / "plan.html")
    assert "<html" in (tmp_path / "plan.html").read_text(encoding="utf-8")
    table = task.compare(time_limit=20, threads=1).to_dataframe()
    assert isinstance(table, pandas.DataFrame)
    assert list(table["plan"]) == ["best", "megatron", "fsdp", "data-parallel"]
    recipes = task.compare(["torchtitan-8b", "bloom-176b"], time_limit=20, threads=1).to_dataframe().set_index("plan")
    assert recipes["data"]["torchtitan-8b"] == 4
    assert "multiples of 48 devices" in recipes["reason"]["bloom-176b"]
    cut = sw.Task(graph, "2xa100", parallel="pp=2", global_batch=8, schedule="interleaved", chunks=2, cut=[1, 1, 1, 1])
    assert cut.solve(time_limit=20, threads=1).to_dict()["execution"]["chunks"] == 2
    values = table["value_s"].dropna()
    assert values.iloc[0] == values.min()
    beside = task.compare(["fsdp"], plans={"mine": answer}, baseline="fsdp", time_limit=20, threads=1)
    assert r"\textbf{" in beside.to_latex() and "% cluster: " in beside.to_latex()
    beside = beside.to_dataframe()
    assert "a100" in beside.attrs["models"][0]["cluster"]
    assert list(beside["plan"]) == ["mine", "fsdp"]
    assert beside["value_s"][0] == pytest.approx(answer.value)
    assert beside["speedup"][1] == 1.0


def test_a_log_stands_beside_a_joint_plan_and_calibrates_its_runtime(tmp_path: Path) -> None:
    graph, log, runtime = (tmp_path / name for name in ("bert.json", "train.log", "own.toml"))
    sw.workload("bert", "base", layers=4, batch=1, training=True).save(graph)
    task = sw.Task(graph, "4xa100", parallel="tp=2,dp=2", global_batch=8, runtime="megatron")
    answer = task.solve(time_limit=20, threads=1)
    assert answer.value is not None
    milliseconds = 1500 * answer.value
    log.write_text(f" iteration 10/ 100 | elapsed time per iteration (ms): {milliseconds} |\n" * 6, encoding="utf-8")
    measured = task.explain(answer, measured=log)["measured"]
    assert measured["iteration"]["error"] == pytest.approx(1 / 1.5 - 1, abs=1e-3)
    assert "measured" not in task.explain(answer)
    runtime.write_text(task.calibrated(answer, log), encoding="utf-8")
    again = sw.Task(graph, "4xa100", parallel="tp=2,dp=2", global_batch=8, runtime=str(runtime))
    assert again.solve(time_limit=20, threads=1).value == pytest.approx(1.5 * answer.value, rel=0.01)
    with pytest.raises(sw.StagewrightError, match="I001"):
        task.calibrated(answer, tmp_path / "missing.log")
    log.write_text("nothing", encoding="utf-8")
    with pytest.raises(sw.StagewrightError, match="Q112"):
        task.explain(answer, measured=log)


#: A small file of a model with experts, and a machine for it.
GGUF = Path(__file__).parents[3] / "tests" / "fuzz" / "seeds" / "gguf" / "experts.gguf"
MACHINE = "1xrtx-3090+1xrtx-3060:12GiB+1xryzen-7950x:64GiB"


def test_a_local_plan_is_solved_checked_and_explained(tmp_path: Path) -> None:
    task = sw.Task(GGUF, MACHINE, local=True, prompt=200, output=50)
    assert task.kind == "local plan"
    answer = task.solve()
    assert answer.status == "optimal" and answer.value == answer.bound
    document = answer.to_dict()
    assert document["schema"] == "stagewright.local-plan/1" and "-np 1" in document["setting"]["flags"]
    report = task.check(answer)
    assert report["holds"] and report["bound"] == "verified"
    document["objective"]["value_s"] *= 0.5
    assert not task.check(document)["holds"]
    assert task.explain(answer)["what_ifs"]
    answer.save_html(tmp_path / "plan.html")
    assert "llama-server -dev" in (tmp_path / "plan.html").read_text(encoding="utf-8")
    with pytest.raises(sw.StagewrightError, match="U013"):
        sw.Task(GGUF, MACHINE, local=True, split="free")
    for limits in {"threads": 1}, {"seed": 1}:
        with pytest.raises(sw.StagewrightError, match="U013"):
            task.solve(**limits)


def test_local_plans_are_compared() -> None:
    pytest.importorskip("pandas")
    task = sw.Task(GGUF, MACHINE, local=True, prompt=200, output=50)
    answer = task.solve()
    table = task.compare().to_dataframe()
    assert set(table["name"]) == {"best", "llama.cpp", "fit", "n-cpu-moe", "memory", "bandwidth", "exo"}
    values = table.set_index("name")["value_s"]
    assert values["best"] == pytest.approx(answer.value) and (values.dropna() >= values["best"]).all()
    speedups = table.set_index("name")["speedup"]
    assert speedups["llama.cpp"] == 1 and speedups["best"] == pytest.approx(values["llama.cpp"] / values["best"])
    by_hand = answer.to_dict()
    by_hand["setting"]["flags"] = "-ngl 99 -ncmoe 1 -c 512 -np 1"
    beside = task.compare(["fit"], plans={"mine": answer, "by hand": by_hand}, baseline="by hand")
    assert "by hand" in beside.to_latex()
    rows = beside.to_dataframe().set_index("name")
    assert set(rows.index) == {"mine", "by hand", "fit"}
    assert rows["value_s"]["mine"] == pytest.approx(answer.value)
    assert rows["value_s"]["by hand"] > answer.value and rows["speedup"]["mine"] > 1
    with pytest.raises(sw.StagewrightError, match="U003"):
        task.compare(["fits"])
    with pytest.raises(sw.StagewrightError, match="U013"):
        task.compare(seeds=2)


def test_a_placement_is_solved_as_by_plan(tmp_path: Path) -> None:
    model, devices = tmp_path / "chain.json", tmp_path / "cluster.json"
    chain(6).save(model)
    devices.write_text(json.dumps(cluster(2)), encoding="utf-8")
    answer = sw.Task(model, devices).solve(threads=1)
    plan = sw.plan(sw.Problem(sw.load(model), str(devices)), threads=1)
    assert (answer.value, answer.status) == (plan.value, plan.status)
    assert sw.Task(model, devices).bounds()["strongest"]["value_s"] <= answer.value
    assert sw.Task(model, devices).check(answer)["cluster"]["source"] == "given"
    kept = sw.Task(model).check(answer)
    assert kept["holds"] and kept["cluster"]["source"] == "plan"
    with pytest.raises(sw.StagewrightError, match="U002"):
        sw.Task(model).solve(threads=1)
    table = sw.Task(model, devices).compare(["dp", "one-device"], plans={"mine": answer}, threads=1).to_dataframe()
    assert table.set_index("name")["value_s"]["mine"] == pytest.approx(answer.value)
    assert set(table["name"]) == {"dp", "one-device", "mine"}


def test_requirements_and_a_second_goal_choose_among_plans(tmp_path: Path) -> None:
    model, devices = tmp_path / "chain.json", tmp_path / "cluster.json"
    chain(6).save(model)
    devices.write_text(json.dumps(cluster(3)), encoding="utf-8")
    for arguments, stages in ({"stages": 2}, 2), ({"all_devices": True}, 3):
        task = sw.Task(model, devices, **arguments)
        answer = task.solve(threads=1)
        assert answer.status == "optimal" and len(answer.to_dict()["devices"]) == stages
        assert task.check(answer)["holds"]
    first = json.loads(model.read_text(encoding="utf-8"))["operators"][0]["name"]
    alone = sw.Task(model, devices, alone=first).solve(threads=1).to_dict()
    assert [first] in [device["ops"] for device in alone["devices"]]
    task = sw.Task(model, devices, within=1.0, then="devices")
    answer = task.solve(threads=1)
    second = answer.to_dict()["second_goal"]
    assert second["value"] == second["bound"] == len(answer.to_dict()["devices"])
    assert answer.value <= 2.0 * second["best_s"] * (1 + 1e-9)
    assert task.check(answer)["second_goal"] == "not-verified"
    with pytest.raises(sw.StagewrightError, match="U001"):
        sw.Task(model, devices, within=0.1)
    with pytest.raises(sw.StagewrightError, match="U013"):
        task.compare(["dp"], threads=1)


def test_a_strategy_problem_is_solved_and_checked() -> None:
    shared = os.environ.get("STAGEWRIGHT_SHARED")
    found = sorted(Path(shared).glob("data/iopddl/**/*.json*")) if shared else []
    if not found:
        pytest.skip("needs the shared strategy problems")
    task = sw.Task(min(found, key=lambda path: path.stat().st_size))
    assert task.kind == "strategy problem"
    answer = task.solve(time_limit=10, threads=1)
    assert answer.value is None or task.check(answer)["holds"]
    with pytest.raises(sw.StagewrightError, match="U008"):
        task.explain(answer)


def test_arguments_without_effect_are_refused(tmp_path: Path) -> None:
    model = tmp_path / "chain.json"
    chain(3).save(model)
    with pytest.raises(sw.StagewrightError, match="U013"):
        sw.Task(model, "2xa100", global_batch=8)
    with pytest.raises(sw.StagewrightError, match="U013"):
        sw.Task(model, "2xa100", parallel="dp", global_batch=8, split="free")
    with pytest.raises(sw.StagewrightError, match="U001"):
        sw.Task(model, "2xa100").solve(time_limit=-1)


#: A small configuration.
CONFIGURATION = Path(__file__).parents[3] / "data" / "configurations" / "llama-3.1-8b" / "config.json"


def test_a_serving_plan_is_solved_checked_and_explained() -> None:
    load = {"input": 1024, "output": 128, "concurrency": 16, "ttft": 1.0, "tpot": "50ms"}
    task = sw.Task(CONFIGURATION, "2xl40s", serving=load)
    assert task.kind == "serving plan"
    answer = task.solve(threads=1)
    document = answer.to_dict()
    assert answer.status == "optimal" and document["schema"] == "stagewright.serving-plan/1"
    assert answer.value == pytest.approx(answer.bound)
    assert task.check(answer)["holds"]
    assert task.explain(answer)["what_ifs"]
    document["value"] *= 1.5
    assert not task.check(document)["holds"]
    with pytest.raises(sw.StagewrightError, match="L024"):
        sw.Task(CONFIGURATION, "2xl40s", serving={**load, "rate": 2})
