"""Models and clusters: reading, building, errors."""

from __future__ import annotations

import gzip
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stagewright as sw
from support import chain, cluster


def test_a_saved_model_is_read_again(tmp_path: Path) -> None:
    model = chain()
    path = tmp_path / "chain.json"
    model.save(path)
    read = sw.load(path)
    assert read.to_dict() == model.to_dict()
    assert (read.name, read.format, len(read)) == ("chain", "native", 6)
    assert read.operators == [f"op{at}" for at in range(6)]
    packed = tmp_path / "chain.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert sw.load(str(packed)).to_dict() == model.to_dict()


LANGUAGE = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 100,
}


def test_a_language_model_is_read_from_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LANGUAGE))
    figures = sw.show(tmp_path, context=10, cache="fp8", sizes={"layers": 2})
    # Keys and values of two heads of 16 numbers, in two layers and one byte each.
    assert (figures["layers"], figures["cache_bytes"]) == (2, 10 * 2 * 2 * 2 * 16)
    model = sw.load(tmp_path, phase="decode", batch=3, context=7, sizes={"layers": 2})
    assert model.format == "language" and "model.layers.1.self_attn.q_proj" in model.operators
    caches = [entry["bytes"] for entry in model.to_dict()["parameters"] if not entry.get("trained", False)]
    assert caches == [3 * 8 * 2 * 2 * 16 * 2] * 2
    plan = sw.plan(sw.Problem(model, "2xl4"), threads=1)
    assert plan.status == "optimal" and plan.check(model).holds
    task = sw.Task(tmp_path / "config.json", "2xl4", options={"phase": "decode", "set": {"layers": 2}})
    assert task.kind == "placement" and task.solve().status == "optimal"
    for arguments, code, place in [
        ({"phase": "decode", "sequence": 4}, "U001", "sequence"),
        ({"sizes": {"experts": 8}}, "M018", None),
        ({"architecture": "lama"}, "M014", None),
        ({"cache": "half"}, "U001", "cache"),
    ]:
        with pytest.raises(sw.StagewrightError) as raised:
            sw.load(tmp_path, **arguments)
        assert raised.value.code == code and place in (None, raised.value.place)


def test_a_model_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    before = real.stat().st_ino
    chain().save(link)
    # A new file has replaced the old one, and the link is still a link.
    assert link.is_symlink() and real.stat().st_ino != before
    assert sw.load(real).to_dict() == chain().to_dict()
    with pytest.raises(sw.StagewrightError) as raised:
        chain().save(tmp_path / "missing" / "model.json")
    assert raised.value.code == "I002"


def test_columns_equal_dictionaries() -> None:
    tensors = [{"producer": "a", "consumers": ["b"], "bytes": 8.0}]
    rows = [{"name": "a", "flop": 1e9, "bytes_moved": 1e6}, {"name": "b", "flop": 2e9, "bytes_moved": 2e6}]
    columns = {"name": ["a", "b"], "flop": np.array([1e9, 2e9]), "bytes_moved": np.array([1e6, 2e6])}
    assert sw.Graph(columns, tensors).to_dict() == sw.Graph(rows, tensors).to_dict()


def test_numbers_that_are_not_known_are_left_out_of_columns() -> None:
    columns = {"name": ["a", "b"], "flop": np.array([1e9, np.nan]), "bytes_moved": [1e6, 2e6]}
    with pytest.warns(sw.StagewrightWarning, match="operators without FLOP"):
        operators = sw.Graph(columns).to_dict()["operators"]
    assert operators[0]["flop"] == 1e9
    assert operators[1].get("flop") is None


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(sw.StagewrightError, match="different lengths"):
        sw.Graph({"name": ["a", "b"], "flop": [1.0]})
    with pytest.raises(sw.StagewrightError, match="`name` is missing"):
        sw.Graph({"flop": [1.0]})


def test_a_document_is_a_graph() -> None:
    document = chain().to_dict()
    assert sw.Graph(document).to_dict() == document


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("tensors", [{"producer": "op0", "consumers": ["op2"], "bytes": 8.0}]),
        ("name", "other"),
        ("parameters", [{"name": "w", "bytes": 64.0, "readers": ["op0", "op1"]}]),
    ],
)
def test_nothing_is_given_beside_a_whole_document(argument: str, value: Any) -> None:
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Graph(chain().to_dict(), **{argument: value})
    assert (raised.value.code, raised.value.place) == ("U001", argument)


def test_shared_parameters_are_kept() -> None:
    parameters = [{"name": "w", "bytes": 64.0, "readers": ["a", "b"]}]
    model = sw.Graph([{"name": "a", "flop": 1.0}, {"name": "b", "flop": 1.0}], parameters=parameters)
    assert model.to_dict()["parameters"][0]["readers"] == ["a", "b"]


def test_a_cycle_is_refused_with_a_code() -> None:
    rows = [{"name": "a", "seconds": {"gpu": 1.0}}, {"name": "b", "seconds": {"gpu": 1.0}}]
    tensors = [
        {"producer": "a", "consumers": ["b"], "bytes": 1.0},
        {"producer": "b", "consumers": ["a"], "bytes": 1.0},
    ]
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Graph(rows, tensors)
    assert raised.value.code.startswith("G")
    assert "cycle" in raised.value.cause


@pytest.mark.parametrize(
    ("operators", "tensors", "names"),
    [
        ([{"name": "a", "flop": -1.0}], [], "a"),
        ([{"name": "a", "flop": 1.0}, {"name": "a", "flop": 1.0}], [], "a"),
        ([{"name": "a", "flop": 1.0}], [{"producer": "a", "consumers": ["x"], "bytes": 1.0}], "x"),
        ([{"name": "a", "flop": 1.0, "flops": 1.0}], [], "flops"),
    ],
)
def test_an_error_names_the_operator(operators: list[dict], tensors: list[dict], names: str) -> None:
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Graph(operators, tensors, name="wrong")
    error = raised.value
    assert error.code and error.place is not None and error.help is not None
    assert names in str(error)
    assert str(error).startswith(f"[{error.code}] ")
    assert f"--> {error.place}" in str(error)
    assert "help: " in str(error)


def test_an_error_survives_pickling() -> None:
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Graph([{"name": "a", "flop": -1.0}])
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is sw.StagewrightError
    assert (again.code, again.cause, again.place, again.help) == (
        raised.value.code,
        raised.value.cause,
        raised.value.place,
        raised.value.help,
    )
    assert str(again) == str(raised.value)


def test_a_name_moves_no_cursor() -> None:
    error = sw.StagewrightError("Z002", "a\x1b[2J\nb", "c\u202e", "d\te\nf\x7f")
    assert str(error) == "[Z002] a\\u{1b}[2J\\nb\n  --> c\\u{202e}\n  help: d\\te\n    f\\u{7f}"
    assert (error.cause, error.place) == ("a\x1b[2J\nb", "c\u202e")
    # The path contains a byte that is not UTF-8.
    assert str(sw.StagewrightError("Z002", "a\udcff")) == "[Z002] a\\udcff"
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Graph([{"name": "a\x1b[2J", "flop": -1.0}])
    assert "\x1b" not in str(raised.value)
    with pytest.warns(sw.StagewrightWarning) as warned:
        sw.Graph([{"name": "a", "bytes_moved": 1e6}], name="b\x1b[2J")
    assert str(warned[0].message).startswith("b\\u{1b}[2J: operators without FLOP")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path, code in [(tmp_path / "missing.onnx", "I001"), (tmp_path, "F006")]:
        with pytest.raises(sw.StagewrightError) as raised:
            sw.load(path)
        assert raised.value.code == code


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hole.json"
    with path.open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(sw.StagewrightError) as raised:
        sw.load(path)
    assert raised.value.code == "I006"
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Problem(chain(), path)
    assert raised.value.code == "I006"


def test_a_dimension_that_the_model_lacks_is_refused() -> None:
    path = Path(__file__).parents[3] / "data" / "malformed" / "graph" / "onnx_batch_open.onnx"
    with pytest.raises(sw.StagewrightError) as raised:
        sw.load(path, dims={"batches": 2})
    assert raised.value.code == "M010" and "`batches`" in str(raised.value)


def test_an_instance_is_written_by_the_program() -> None:
    with pytest.raises(sw.StagewrightError) as raised:
        sw.load("instance:random-22-makespan")
    assert raised.value.code == "I001" and raised.value.help is not None
    assert "`stagewright instances show random-22-makespan --model --out FILE`" in raised.value.help


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a model")
    with pytest.raises(sw.StagewrightError) as raised:
        sw.load(path)
    assert str(path) in str(raised.value)


def test_an_option_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chain.json"
    chain().save(path)
    with pytest.raises(sw.StagewrightError) as raised:
        sw.load(path, time_unit="ms")
    assert "time_unit" in str(raised.value)
    with pytest.raises(sw.StagewrightError) as raised:
        sw.load(path, tied="both")  # type: ignore[arg-type]
    assert (raised.value.code, raised.value.place) == ("U001", "tied")


def test_places_are_arguments_and_no_options(tmp_path: Path) -> None:
    profile = Path(__file__).parents[3] / "tests" / "fuzz" / "seeds" / "graph" / "pipedream.txt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sw.load(profile)
    with pytest.raises(sw.StagewrightError) as raised:
        sw.Problem(model, "1xv100+1xa100")
    assert (raised.value.code, raised.value.place) == ("U011", "profile_class")
    for arguments, place in [(("bert", "bass"), "variant"), (("berta",), "family")]:
        with pytest.raises(sw.StagewrightError) as raised:
            sw.workload(*arguments)
        assert raised.value.place == place
    with pytest.raises(sw.StagewrightError) as raised:
        sw.workload("bert", batch=0)
    assert raised.value.place == "batch"
    model = sw.Graph([{"name": "a", "flop": 1e9, "bytes_moved": 1e6, "precision": "fp8"}])
    with pytest.warns(sw.StagewrightWarning, match="; precision casts a model to another"):
        sw.Problem(model, "1xv100")
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"schema": "stagewright.costs/1"}))
    with pytest.warns(sw.StagewrightWarning, match="no measurement of costs"):
        sw.Problem(chain(), cluster(2), costs=costs)


def test_workloads_have_sizes_and_passes() -> None:
    families = dict(sw.families())
    assert "base" in families["bert"]
    small = sw.workload("bert", "base", layers=1, batch=1)
    large = sw.workload("bert", "base", layers=3, batch=1)
    assert len(small) < len(large)
    step = sw.workload("bert", "base", layers=1, batch=1, training=True, optimizer="sgd")
    passes = {operator.get("pass", "forward") for operator in step.to_dict()["operators"]}
    assert {"forward", "backward"} <= passes
    coarse = sw.workload("gnmt", granularity="layer", batch=8)
    assert len(coarse) < len(sw.workload("gnmt", batch=8))


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(sw.StagewrightError) as raised:
        sw.workload("berta")
    assert raised.value.code.startswith("W")
    with pytest.raises(sw.StagewrightError) as raised:
        sw.workload("bert", precision="fp31")  # type: ignore[arg-type]
    assert (raised.value.code, raised.value.place) == ("U001", "precision")


def test_clusters_by_name_shorthand_and_file(tmp_path: Path) -> None:
    assert sw.cluster("dgx-a100")["kinds"][0]["count"] == 8
    assert sum(kind["count"] for kind in sw.cluster("4xt4+1xepyc-7742")["kinds"]) == 5
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster(2)))
    assert sw.cluster(path)["kinds"][0]["count"] == 2
    with pytest.raises(sw.StagewrightError) as raised:
        sw.cluster("8xa1000")
    assert raised.value.place == "cluster"


def test_a_torch_model_needs_no_weights() -> None:
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        inputs = (torch.zeros(8, 16),)
    model = sw.from_torch(module, inputs, name="small")
    flop = sum(operator.get("flop") or 0.0 for operator in model.to_dict()["operators"])
    assert flop >= 2 * 8 * (16 * 32 + 32 * 4)
    with pytest.raises(TypeError, match="example inputs"):
        sw.from_torch(module)
    step = sw.from_torch_training(module, inputs, loss=lambda given: given.sum(), optimizer="sgd")
    passes = {operator.get("pass", "forward") for operator in step.to_dict()["operators"]}
    assert {"forward", "backward"} <= passes
