"""Loads exports into the runtimes for which they are made: `make test-runtimes`, which needs a network.

    python3 check.py STAGEWRIGHT [WORD …]

With words, such as `serving`, only the checks whose names contain one of them run. Runtimes that are not
installed are skipped and named at the end, with the targets that are only compared with their documentation.
`docs/runtimes.md` shows the latest output and the versions used for it.

ONNX Runtime reports on standard error, correctly, that it has no provider for the accelerator; a malformed option
checks that it reads the option at all. If an accelerator is needed (HETERO on two devices, a device_map with numbers),
maps are compared with the plan and the model, and the same modules run on the host. Models of transformers, torchvision
and torchtitan are made from configurations, without weights if nothing runs; those of `data/models` get random weights
if they run. For Megatron Core, vLLM and SGLang, only the functions that read the export are called, without a process
group.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile

STAGEWRIGHT = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp(prefix="stagewright-")
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data")
MODELS = os.path.join(DATA, "models")

# A name that would break a module if it were written without escaping.
HOSTILE = 'layers/1/"];\nimport os # é\\'


def run(*arguments):
    return subprocess.run([STAGEWRIGHT, *arguments], check=True, capture_output=True, text=True).stdout


def path(name):
    return os.path.join(FOLDER, name)


def cluster(*kinds):
    """A file with a cluster. Each kind is a name, a count, whether it is a host, and memory without a reserve."""
    link = {"bandwidth": 1e9}
    entries = [
        {"name": name, "class": name, "count": count, "host": host, "memory_bytes": memory, "reserve_bytes": 0.0, "link": link}
        for name, count, host, memory in kinds
    ]
    classes = {name: {"peak_flops": 1e9, "memory_bandwidth": 1e9} for name, *_ in kinds}
    document = {"schema": "stagewright.cluster/1", "classes": classes, "kinds": entries}
    with open(path("cluster.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)
    return path("cluster.json")


def exported(model, where, target, *more, batch=()):
    """Plans a model on a cluster. Returns the export of the plan, and the plan."""
    run("plan", model, "--cluster", where, "--out", path("plan.json"), *batch, *more)
    with open(path("plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    return run("export", path("plan.json"), "--to", target, "--model", model, "--cluster", where, *batch), plan


def module(text):
    """The names that the text of a Python module defines, with their values."""
    defined = {}
    exec(compile(text, "export.py", "exec"), defined)
    return defined


def onnx_model():
    """A model of three products with activations, the second of which has a hostile name."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = numpy.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for at, name in enumerate(["layers/0", HOSTILE, "layers/2"]):
        weight = rng.standard_normal((16, 16)).astype(numpy.float32)
        weights.append(numpy_helper.from_array(weight, f"w{at}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{at}"], [f"y{at}"], name=f"{name}/MatMul"))
        nodes.append(helper.make_node("Relu", [f"y{at}"], [f"z{at}"], name="" if at == 2 else f"{name}/Relu"))
        last = f"z{at}"
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16])
    graph = helper.make_graph(nodes, "chain", [value("x")], [value(last)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    onnx.checker.check_model(model)
    onnx.save(model, path("model.onnx"))
    return model, rng.standard_normal((1, 16)).astype(numpy.float32)


def check_onnxruntime():
    import numpy
    import onnxruntime

    model, x = onnx_model()
    # The accelerator has memory for two of the three weights.
    where = cluster(("acc", 1, False, 2500.0), ("cpu", 1, True, 1e9))
    text, plan = exported(path("model.onnx"), where, "onnxruntime")
    defined = module(text)
    before = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    annotated = defined["annotate"](model)
    found = {}
    for node in annotated.graph.node:
        (entry,) = node.metadata_props
        assert entry.key == "layer_ann"
        found[node.name or node.output[0]] = entry.value
    expected = {
        operator: {"acc": "stagewright_accelerator", "cpu": "stagewright_host"}[device["kind"]]
        for device in plan["devices"]
        for operator in device["ops"]
    }
    assert found == expected and len(set(found.values())) == 2, found
    options = defined["configure"](onnxruntime.SessionOptions())
    after = onnxruntime.InferenceSession(annotated.SerializeToString(), options, providers=["CPUExecutionProvider"])
    numpy.testing.assert_array_equal(before.run(None, {"x": x})[0], after.run(None, {"x": x})[0])
    # The runtime refuses a malformed option, which shows that it reads the option.
    wrong = onnxruntime.SessionOptions()
    wrong.add_session_config_entry("session.layer_assignment_settings", "cpu =a)")
    try:
        onnxruntime.InferenceSession(annotated.SerializeToString(), wrong, providers=["CPUExecutionProvider"])
        raise AssertionError("the option is not read")
    except AssertionError:
        raise
    except Exception as error:
        assert "layering config" in str(error), error
    print(f"onnxruntime {onnxruntime.__version__}: {len(found)} nodes annotated, {defined['SETTINGS']}, same output")


# Exported models that are run, each with its file, options and inputs.
IMAGES = ((8, 3, 224, 224), "float32")
DEMO = ("gpt2.onnx", os.path.join(DATA, "demo", "gpt2.onnx"), ("--batch", "1"), {"input_ids": ((1, 1024), "int64")})
RESNET = ("resnet-50.onnx", os.path.join(MODELS, "resnet-50.onnx.gz"), (), {"x": IMAGES})
VIT = ("vit.onnx", os.path.join(MODELS, "vit.onnx.gz"), (), {"pixel_values": IMAGES})


def with_weights(name, source, real=True):
    """A model file of the repository, with weights added: random numbers, or holes, which read as zeros."""
    import numpy
    import onnx

    folder = path("real")
    os.makedirs(folder, exist_ok=True)
    opened = gzip.open if source.endswith(".gz") else open
    with opened(source, "rb") as file:
        content = file.read()
    model = onnx.ModelProto.FromString(content)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)
    rng = numpy.random.default_rng(0)
    for tensor in model.graph.initializer:
        at = {entry.key: entry.value for entry in tensor.external_data}
        if not at:
            continue
        place = os.path.join(folder, at["location"])
        start, size = int(at["offset"]), int(at["length"])
        with open(place, "r+b" if os.path.exists(place) else "wb") as file:
            if not real:
                file.truncate(max(start + size, os.path.getsize(place)))
                continue
            file.seek(start)
            if tensor.data_type == onnx.TensorProto.FLOAT and "var" not in tensor.name:
                file.write((rng.standard_normal(size // 4, dtype=numpy.float32) * 0.02).tobytes())
            elif tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL):
                kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
                file.write(numpy.ones(size // kind.itemsize, dtype=kind).tobytes())
            else:
                # Integers are indices, for which zeros are valid.
                file.write(bytes(size))
    return os.path.join(folder, name)


def given(inputs):
    import numpy

    rng = numpy.random.default_rng(1)
    drawn = {"int64": lambda shape: rng.integers(0, 50000, shape), "float32": lambda shape: rng.standard_normal(shape)}
    return {name: drawn[kind](shape).astype(kind) for name, (shape, kind) in inputs.items()}


def check_onnxruntime_models():
    """Whole models: every planned node is annotated, and the outputs do not change."""
    import numpy
    import onnx
    import onnxruntime

    for name, source, batch, inputs in [DEMO, RESNET]:
        file = with_weights(name, source)
        # The accelerator has memory for only a part of either model.
        where = cluster(("acc", 1, False, 3e8), ("cpu", 1, True, 1e12))
        text, plan = exported(file, where, "onnxruntime", batch=batch)
        defined = module(text)
        before = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, given(inputs))
        annotated = defined["annotate"](onnx.load(file, load_external_data=False))
        onnx.save(annotated, file)
        options = defined["configure"](onnxruntime.SessionOptions())
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        for one, other in zip(before, session.run(None, given(inputs))):
            assert numpy.isfinite(one).all()
            numpy.testing.assert_array_equal(one, other)
        counts = {device["name"]: len(device["ops"]) for device in plan["devices"]}
        assert len(counts) == 2, counts
        print(f"onnxruntime {onnxruntime.__version__}: {name} annotated, {counts}, same output")


def check_openvino_models():
    """Whole models, read from ONNX and from OpenVINO's own file: operations have devices, and outputs do not change."""
    import numpy
    import openvino

    core, cpu = openvino.Core(), cluster(("cpu", 1, True, 1e12))
    version = openvino.__version__.split("-")[0]
    for name, source, batch, inputs in [DEMO, RESNET, VIT]:
        file = with_weights(name, source)
        fixed = [tuple(shape) for shape, _ in inputs.values()]
        model, values = openvino.convert_model(file, input=fixed), list(given(inputs).values())
        expected = core.compile_model(model, "CPU")(values)[0]
        openvino.save_model(model, path("real.xml"), compress_to_fp16=False)
        for planned, more in [(file, batch), (path("real.xml"), ())]:
            text, _ = exported(planned, cpu, "openvino", batch=more)
            defined = module(text)
            compiled = core.compile_model(defined["apply"](core.read_model(planned)), defined["DEVICE"])
            value = compiled(values)[0]
            assert numpy.isfinite(value).all()
            numpy.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-4)
            kind = os.path.splitext(planned)[1]
            print(f"openvino {version}: {name} from {kind}, {len(defined['AFFINITY'])} operations placed, same output")
    for compressed in sorted(os.listdir(MODELS)):
        if not compressed.endswith(".onnx.gz"):
            continue
        file = with_weights(compressed.removesuffix(".gz"), os.path.join(MODELS, compressed), real=False)
        try:
            model = core.read_model(file)
        except RuntimeError as error:
            print(f"openvino {version} does not read {compressed}: {str(error).splitlines()[-1]}")
            continue
        where = cluster(("acc", 1, False, 1e11), ("cpu", 1, True, 1e12))
        text, plan = exported(file, where, "openvino", "--solver", "equal-time")
        applied = module(text)["apply"](model)
        assert all("affinity" in op.get_rt_info() for op in applied.get_ops()), compressed
        placed = sum(len(device["ops"]) for device in plan["devices"])
        print(f"openvino {version}: {compressed}, {placed} operations placed, all of {len(applied.get_ops())} have a device")


def check_openvino():
    import numpy
    import openvino

    _, x = onnx_model()
    core = openvino.Core()
    read = core.read_model(path("model.onnx"))
    openvino.save_model(read, path("model.xml"), compress_to_fp16=False)
    model = core.read_model(path("model.xml"))
    before = core.compile_model(model, "CPU")(x)[0]
    # On the processor, which every machine has, the model is compiled; with two devices, it is only annotated.
    text, _ = exported(path("model.xml"), cluster(("cpu", 1, True, 1e9)), "openvino")
    defined = module(text)
    compiled = core.compile_model(defined["apply"](core.read_model(path("model.xml"))), defined["DEVICE"])
    numpy.testing.assert_array_equal(before, compiled(x)[0])
    where = cluster(("acc", 1, False, 2500.0), ("cpu", 1, True, 1e9))
    text, plan = exported(path("model.xml"), where, "openvino")
    defined = module(text)
    model = defined["apply"](core.read_model(path("model.xml")))
    found = {op.get_friendly_name(): op.get_rt_info()["affinity"] for op in model.get_ops()}
    found = {name: str(getattr(affinity, "value", affinity)) for name, affinity in found.items()}
    for device in plan["devices"]:
        for operator in device["ops"]:
            assert found[operator] == {"acc": "GPU.0", "cpu": "CPU"}[device["kind"]], (operator, found)
    placed = sum(len(device["ops"]) for device in plan["devices"])
    version = openvino.__version__.split("-")[0]
    print(f"openvino {version}: {defined['DEVICE']}, {placed} operations placed, {len(found)} of the model have a device")


def check_openvino_outputs():
    """A model read from ONNX, whose last operations OpenVINO names after the outputs."""
    import numpy
    import onnx
    import openvino
    from onnx import TensorProto, helper, numpy_helper

    rng = numpy.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((16, 16)).astype(numpy.float32), f"w{at}") for at in range(3)]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="/body/MatMul"),
        helper.make_node("Relu", ["a"], ["hidden"], name="/body/Relu"),
        helper.make_node("Gemm", ["hidden", "w1"], ["b"], name="/mid/Gemm"),
        helper.make_node("Gemm", ["b", "w2"], ["logits"], name="/fc/Gemm"),
    ]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16])
    # The hidden values are an output, but also have readers.
    graph = helper.make_graph(nodes, "named", [value("x")], [value("logits"), value("hidden")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    onnx.save(model, path("named.onnx"))
    core = openvino.Core()
    x = rng.standard_normal((1, 16)).astype(numpy.float32)
    before = core.compile_model(core.read_model(path("named.onnx")), "CPU")(x)
    text, _ = exported(path("named.onnx"), cluster(("cpu", 1, True, 1e9)), "openvino")
    defined = module(text)
    applied = defined["apply"](core.read_model(path("named.onnx")))
    friendly = {op.get_friendly_name() for op in applied.get_ops()}
    renamed = sorted(name for name in defined["AFFINITY"] if name not in friendly)
    assert "/fc/Gemm" in renamed, (renamed, friendly)
    after = core.compile_model(applied, defined["DEVICE"])(x)
    for at in range(2):
        numpy.testing.assert_array_equal(before[at], after[at])
    print(f"openvino {openvino.__version__.split('-')[0]}: {renamed} found under the names of their outputs")


def torch_model():
    """A small stack as a graph document, with the names of its modules."""
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

        def forward(self, x):
            return x + self.down(torch.relu(self.up(x)))

    class Stack(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Linear(8, 8)
            self.layers = torch.nn.ModuleList([Block() for _ in range(4)])
            self.head = torch.nn.Linear(8, 2)

        def forward(self, x):
            x = self.embed(x)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    torch.manual_seed(0)
    return Stack().eval(), torch.randn(4, 8)


def stack_document(model):
    """The linear modules of the stack as a graph document, one operator each."""
    import torch

    operators = [
        {"name": name, "layer": name, "flop": 1e6, "bytes_moved": 1.0, "parameter_bytes": 4.0 * sum(map(torch.numel, part.parameters()))}
        for name, part in model.named_modules()
        if isinstance(part, torch.nn.Linear)
    ]
    tensors = [
        {"producer": before["name"], "consumers": [after["name"]], "bytes": 128.0}
        for before, after in zip(operators, operators[1:])
    ]
    with open(path("stack.json"), "w", encoding="utf-8") as file:
        json.dump({"schema": "stagewright.graph/1", "operators": operators, "tensors": tensors}, file)


def check_accelerate():
    import accelerate
    import torch
    from accelerate.utils.modeling import check_device_map

    model, x = torch_model()
    stack_document(model)
    where = cluster(("acc", 3, False, 4000.0))
    text, plan = exported(path("stack.json"), where, "accelerate")
    device_map = json.loads(text)
    check_device_map(model, device_map)
    number = {device["name"]: at for at, device in enumerate(sorted(plan["devices"], key=lambda d: d["name"]))}
    for device in plan["devices"]:
        for operator in device["ops"]:
            keys = [key for key in device_map if operator == key or operator.startswith(key + ".")]
            assert [device_map[key] for key in keys] == [number[device["name"]]], (operator, device_map)
    try:
        check_device_map(model, dict(list(device_map.items())[1:]))
        raise AssertionError("a map that lacks a module passes")
    except ValueError:
        pass
    # There are no accelerators, so all modules of the map run on the host.
    expected = model(x)
    dispatched = accelerate.dispatch_model(model, {key: "cpu" for key in device_map}, main_device="cpu")
    assert torch.equal(dispatched(x), expected)
    print(f"accelerate {accelerate.__version__}, torch {torch.__version__}: {json.dumps(device_map)}")


def check_accelerate_tables():
    """Tensors held directly by a divided module, or by the model, are in the map under their own names."""
    import accelerate
    import torch
    from accelerate.utils.modeling import check_device_map

    class Body(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.ones(8))
            self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(4)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x * self.table)
            return x

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(8))
            self.body = Body()

        def forward(self, x):
            return self.body(x) * self.scale

    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(4, 8)
    names = [f"body.layers.{at}" for at in range(4)]
    operators = [{"name": name, "layer": name, "flop": 1e6, "parameter_bytes": 288.0} for name in names]
    tensors = [{"producer": a, "consumers": [b], "bytes": 128.0} for a, b in zip(names, names[1:])]
    parameters = [
        {"name": "body.table", "bytes": 32.0, "readers": names},
        {"name": "scale", "bytes": 32.0, "readers": names[-1:]},
    ]
    document = {"schema": "stagewright.graph/2", "operators": operators, "tensors": tensors, "parameters": parameters}
    with open(path("tables.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)
    where = cluster(("acc", 2, False, 1e9))
    text, _ = exported(path("tables.json"), where, "accelerate", "--solver", "equal-time")
    device_map = json.loads(text)
    check_device_map(model, device_map)
    assert "body.table" in device_map and "scale" in device_map, device_map
    expected = model(x)
    dispatched = accelerate.dispatch_model(model, {key: "cpu" for key in device_map}, main_device="cpu")
    assert torch.equal(dispatched(x), expected)
    print(f"accelerate {accelerate.__version__}: {json.dumps(device_map)} has every tensor")


def write_program(model, inputs):
    """The graph document that our exporter for PyTorch makes of a model."""
    sys.path.insert(0, FOLDER)
    with open(path("stagewright_exporter.py"), "w", encoding="utf-8") as file:
        file.write(run("exporter", "torch"))
    import stagewright_exporter

    stagewright_exporter.write_model(model, inputs, path("program.json"))
    return path("program.json")


def check_measured():
    """Measured seconds of a program: every operator has a time, and the sum is close to the time of the whole."""
    import re

    import torch

    torch.manual_seed(0)
    width = 512
    model = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)).eval()
    torch.export.save(torch.export.export(model, (torch.randn(256, width),)), path("measured.pt2"))
    with open(path("stagewright_exporter.py"), "w", encoding="utf-8") as file:
        file.write(run("exporter", "torch"))
    command = [sys.executable, path("stagewright_exporter.py"), path("measured.pt2"), "--out", path("measured.json")]
    command += ["--measure", "host", "--device", "cpu"]
    # Uses one thread, because threads that wait for each other slow down if other processes run.
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=alone)
    with open(path("measured.json"), encoding="utf-8") as file:
        operators = json.load(file)["operators"]
    seconds = [operator["seconds"]["host"] for operator in operators]
    line = next(line for line in done.stderr.splitlines() if line.startswith("measured "))
    total, whole = (float(number) / 1e3 for number in re.findall(r"([0-9.]+) ms", line))
    assert abs(sum(seconds) - total) < 1e-6 + 1e-3 * total, (seconds, total)
    assert 0.1 < total / whole < 10.0, line
    # Measured times replace prices: the plan on one device takes their sum.
    plan = json.loads(run("plan", path("measured.json"), "--cluster", cluster(("host", 1, True, 1e12)), "--json"))
    assert abs(plan["objective"]["value_s"] - sum(seconds)) < 1e-9 + 1e-6 * sum(seconds), plan["objective"]
    print(f"torch {torch.__version__}: {line}")


def check_pipelining():
    import torch
    from torch.distributed.pipelining import pipeline

    model, x = torch_model()
    write_program(model, (x,))
    # Keeps layers whole: the operators of a layer are colocated.
    with open(path("program.json"), encoding="utf-8") as file:
        document = json.load(file)
    for operator in document["operators"]:
        operator["colocation"] = ".".join(operator["layer"].split(".")[:2])
    with open(path("program.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)
    text, plan = exported(path("program.json"), cluster(("acc", 3, False, 1e9)), "torch-pipelining")
    spec = module(text)["split_spec"]
    expected = model(x)
    pipe = pipeline(model, (x,), split_spec=spec)
    assert pipe.num_stages == len(plan["devices"]), (pipe.num_stages, text)
    parameters = [sum(p.numel() for p in pipe.get_stage_module(at).parameters()) for at in range(pipe.num_stages)]
    own = {operator["name"]: operator.get("parameter_bytes", 0.0) for operator in document["operators"]}
    planned = [sum(own[name] for name in device["ops"]) / 4 for device in plan["devices"]]
    assert parameters == planned, (parameters, planned)
    values = x
    for at in range(pipe.num_stages):
        values = pipe.get_stage_module(at)(values)
    assert torch.allclose(values, expected)
    print(f"torch.distributed.pipelining {torch.__version__}: {sorted(spec)} make stages of {parameters} parameters")


def check_derived_tensors():
    """Structures derived from configurations have the tensors and windows of the models that transformers makes."""
    from structures import check_structures

    check_structures(run)


def check_derived_work():
    """Graphs and plans from configurations have the work, caches and modules of the models that transformers makes."""
    from work import check_work

    check_work(run)


def check_pipelining_models():
    """Small models of transformers and torchvision, with all their modules, are cut and run."""
    import torch
    import torchvision
    import transformers as hf
    from torch.distributed.pipelining import pipeline

    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}
    tokens = torch.arange(64).reshape(2, 32)

    class First(torch.nn.Module):
        """Returns the first output, because stages pass on only tensors."""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, given):
            made = self.model(given)
            return made if isinstance(made, torch.Tensor) else made[0]

    cases = [
        (hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=128, use_cache=False, **small)), tokens),
        (hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=128, n_embd=64, n_layer=4, n_head=4, use_cache=False)), tokens),
        (hf.BertForMaskedLM(hf.BertConfig(vocab_size=128, **small)), tokens),
        (hf.ViTForImageClassification(hf.ViTConfig(image_size=32, patch_size=8, **small)), torch.randn(2, 3, 32, 32)),
        (torchvision.models.resnet18(), torch.randn(2, 3, 64, 64)),
    ]
    for model, x in cases:
        torch.manual_seed(0)
        first = First(model).eval()
        file = write_program(first, (x,))
        options = ("--whole-layers", "--solver", "equal-time")
        text, plan = exported(file, cluster(("acc", 3, False, 1e12)), "torch-pipelining", *options)
        spec = module(text)["split_spec"]
        expected = first(x)
        pipe = pipeline(first, (x,), split_spec=spec)
        assert pipe.num_stages == len(plan["devices"]) == len(spec) + 1, (pipe.num_stages, text)
        (made,) = pipe(x)
        assert torch.allclose(made, expected, atol=1e-5)
        print(f"torch.distributed.pipelining {torch.__version__}: {type(model).__name__} cut at {sorted(spec)}, same output")


def workload(*arguments):
    """Generates a built-in workload, and returns its file."""
    with open(path("workload.json"), "w", encoding="utf-8") as file:
        file.write(run("workload", *arguments))
    return path("workload.json")


# A cluster of four accelerators with enough memory for the stages of all models below.
FOUR = ("acc", 4, False, 1e12)


def families():
    """Yields workloads, each with the published model of the same size, without weights."""
    import torch
    import transformers as hf

    layers = "4"
    yield ("llama", "--variant", "2-7b", "--layers", layers), lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(num_hidden_layers=4)
    )
    yield ("mixtral", "--variant", "8x7b", "--layers", layers), lambda: hf.MixtralForCausalLM(
        hf.MixtralConfig(num_hidden_layers=4)
    )
    # Three of the four layers are dense in v3, and one in v2-lite.
    yield ("deepseek", "--variant", "v3", "--layers", layers), lambda: hf.DeepseekV3ForCausalLM(
        hf.DeepseekV3Config(num_hidden_layers=4)
    )
    lite = {"q_lora_rank": None, "first_k_dense_replace": 1, "num_experts_per_tok": 6}
    yield ("deepseek", "--variant", "v2-lite", "--layers", layers), lambda: hf.DeepseekV2ForCausalLM(
        hf.DeepseekV2Config(num_hidden_layers=4, **lite)
    )
    yield ("gpt", "--variant", "2-small", "--layers", layers), lambda: hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=4))
    yield ("bert", "--variant", "base", "--layers", layers), lambda: hf.BertModel(hf.BertConfig(num_hidden_layers=4))
    yield ("bert", "--variant", "base-pretraining", "--layers", layers), lambda: hf.BertForPreTraining(
        hf.BertConfig(num_hidden_layers=4)
    )
    yield ("vit", "--layers", layers), lambda: hf.ViTForImageClassification(hf.ViTConfig(num_hidden_layers=4))
    try:
        import torchvision
    except ImportError:
        print("torchvision is not installed: resnet is skipped")
        return
    yield ("resnet", "--variant", "50"), torchvision.models.resnet50


def check_transformers():
    """Every module named in an export exists, and every parameter and buffer has one device."""
    import torch
    import transformers
    from accelerate.utils.modeling import check_device_map

    for granularity in ["operator", "layer"]:
        for arguments, make in families():
            with torch.device("meta"):
                model = make()
            file = workload(*arguments, "--granularity", granularity)
            text, plan = exported(file, cluster(FOUR), "accelerate", "--solver", "equal-time", "--split", "contiguous")
            device_map = json.loads(text)
            modules = dict(model.named_modules())
            tensors = [name for name, _ in model.named_parameters(remove_duplicate=False)]
            tensors += [name for name, _ in model.named_buffers(remove_duplicate=False)]
            absent = [key for key in device_map if key not in modules and key not in tensors]
            assert not absent, (arguments, granularity, absent)
            check_device_map(model, device_map)
            for name in tensors:
                keys = [key for key in device_map if key == "" or name == key or name.startswith(key + ".")]
                assert len(keys) == 1, (arguments, granularity, name, keys)
            used = len(set(device_map.values()))
            name = type(model).__name__
            print(
                f"transformers {transformers.__version__}: {name} by {granularity}, {len(device_map)} modules on "
                f"{used} devices, {len(tensors)} tensors with one device each"
            )


def data_models():
    """Yields the exports in data/models, each with the model that it was made from, without weights."""
    import torch

    sys.path.insert(0, MODELS)
    import configurations
    import make

    _, demo, batch, _ = DEMO
    yield "demo", demo, make.built(configurations.gpt2)[0], batch
    for name, (configuration, route) in make.MODELS.items():
        model, inputs = make.built(configuration)
        # These routes trace a wrapper of the model.
        if route in ("torchscript", "qdq", "four bits"):
            model = make.Called(model, list(inputs))
        (file,) = (file for file in os.listdir(MODELS) if file in (f"{name}.onnx.gz", f"{name}.json.gz"))
        yield name, os.path.join(MODELS, file), model, ()


# In Whisper, the positions of the encoder are a parameter that no module reads.
REFUSED = {("whisper", "accelerate"): "E013"}

# Models in which constants are folded: norms into convolutions, and the angles of a rotary embedding. Graphs lack them.
FOLDED = {"resnet-50-qdq", "llama-4-bit"}


def constants(file, batch):
    """Names of the parameters and constants in a model file; folded ones do not correspond to tensors of the module."""
    run("convert", file, path("native.json"), *batch)
    with open(path("native.json"), encoding="utf-8") as opened:
        return {parameter["name"] for parameter in json.load(opened).get("parameters", [])}


def check_data_models():
    """Exports of data/models name existing modules; for accelerate, every parameter and buffer has one device."""
    from accelerate.utils.modeling import check_device_map

    for name, file, model, batch in data_models():
        modules = dict(model.named_modules())
        for target in ["accelerate", "torch-pipelining"]:
            try:
                text, plan = exported(file, "4xa100", target, "--whole-layers", batch=batch)
            except subprocess.CalledProcessError as error:
                assert f"error[{REFUSED.get((name, target))}]" in error.stderr, (name, error.stderr)
                print(f"{target} refuses {name}: {error.stderr.splitlines()[0]}")
                continue
            assert (name, target) not in REFUSED
            named = json.loads(text) if target == "accelerate" else module(text)["split_spec"]
            tensors = set(model.state_dict(keep_vars=True)) | {name for name, _ in model.named_buffers()}
            absent = [key for key in named if key not in modules and key not in tensors | constants(file, batch)]
            assert not absent, (name, target, absent)
            if target == "accelerate" and name not in FOLDED:
                check_device_map(model, named)
                tensors = [name for name, _ in model.named_parameters(remove_duplicate=False)]
                tensors += [name for name, _ in model.named_buffers(remove_duplicate=False)]
                for tensor in tensors:
                    keys = [key for key in named if key == "" or tensor == key or tensor.startswith(key + ".")]
                    assert len(keys) == 1, (name, tensor, keys)
            if target == "torch-pipelining":
                assert len(named) + 1 == len(plan["devices"]), (name, named)
            print(f"{target}: {name} on {len(plan['devices'])} devices, {len(named)} modules named")


def check_sequences():
    """The lists of torchgpipe, DeepSpeed and PipeDream name modules of the model, in the order of the stages."""
    import torch

    for arguments, make in families():
        if arguments[0] not in ("llama", "vit", "resnet") and arguments[:3] != ("bert", "--variant", "base"):
            continue
        with torch.device("meta"):
            model = make()
        modules = dict(model.named_modules())
        file = workload(*arguments)
        options = ("--solver", "equal-time", "--split", "contiguous", "--whole-layers")
        try:
            text, plan = exported(file, cluster(FOUR), "torchgpipe", *options)
        except subprocess.CalledProcessError as error:
            print(f"torchgpipe refuses {arguments[0]}: {error.stderr.splitlines()[0]}")
            continue
        defined = module(text)
        assert len(defined["balance"]) == len(plan["devices"])
        assert sum(defined["balance"]) == len(defined["layers"]), defined
        absent = [layer for layer in defined["layers"] if layer not in modules]
        assert not absent, absent
        covered = {name for name, _ in model.named_parameters()}
        covered = {name for name in covered if not any(name.startswith(layer + ".") for layer in defined["layers"])}
        assert not covered, covered
        print(f"torchgpipe: {arguments[0]} in {defined['balance']}, every parameter in one of the layers")


def check_torchgpipe():
    import importlib.metadata

    import torch
    import torchgpipe

    model, x = torch_model()
    stack_document(model)
    where = cluster(("cpu", 1, True, 3000.0), ("acc", 2, False, 5000.0))
    text, plan = exported(path("stack.json"), where, "torchgpipe", "--whole-layers")
    defined = module(text)
    layers = torch.nn.Sequential(*(model.get_submodule(name) for name in defined["layers"]))
    divided = torchgpipe.GPipe(layers, balance=defined["balance"], devices=["cpu"] * len(plan["devices"]), chunks=2)
    assert torch.allclose(divided(x), model(x), atol=1e-6)
    print(f"torchgpipe {importlib.metadata.version('torchgpipe')}: {defined['balance']} of {defined['layers']}, same output")


def tied_document():
    """A training graph of a chain whose first and last layers share a weight."""
    names = ["0", "1", "2", "3"]
    names += [f"{name}.grad" for name in reversed(names)]
    operators = [
        {"name": name, "layer": name.removesuffix(".grad"), "flop": 1e6, "colocation": name.removesuffix(".grad")} for name in names
    ]
    for operator in operators[4:]:
        operator["pass"] = "backward"
    tensors = [{"producer": a, "consumers": [b], "bytes": 128.0} for a, b in zip(names, names[1:])]
    tied = {"name": "0.weight", "bytes": 288.0, "readers": ["0", "3", "3.grad", "0.grad"], "trained": True}
    document = {"schema": "stagewright.graph/2", "operators": operators, "tensors": tensors, "parameters": [tied]}
    with open(path("tied.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)
    return path("tied.json")


def refusal(model, where, target, *more):
    """Returns the error of an export that must be refused."""
    try:
        exported(model, where, target, *more)
    except subprocess.CalledProcessError as error:
        return error.stderr
    raise AssertionError(f"{target} takes {model}")


def check_torchgpipe_tied():
    """GPipe refuses a weight shared by layers on two devices, and so does the export."""
    import torch
    import torchgpipe

    error = refusal(tied_document(), cluster(("acc", 2, False, 1e9)), "torchgpipe", "--solver", "equal-time")
    assert error.startswith("error[E031]"), error
    layers = [torch.nn.Linear(8, 8) for _ in range(4)]
    layers[3].weight = layers[0].weight
    try:
        torchgpipe.GPipe(torch.nn.Sequential(*layers), balance=[2, 2], devices=["cpu", "cpu"], chunks=2)
    except ValueError as refused:
        print(f"torchgpipe refuses a tied weight: {refused}")
        return
    raise AssertionError("GPipe takes a tied weight")


def check_pipelining_tied():
    """PyTorch builds stages with copies of a tied weight, whose gradients must be summed, as a note says."""
    import torch
    from torch.distributed.pipelining import SplitPoint, pipeline

    where = cluster(("acc", 2, False, 1e9))
    tied = tied_document()
    run("plan", tied, "--cluster", where, "--solver", "equal-time", "--out", path("plan.json"))
    done = subprocess.run(
        [STAGEWRIGHT, "export", path("plan.json"), "--to", "torch-pipelining", "--model", tied],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "`0.weight` is on acc0 and acc1: the plan synchronises its gradient" in done.stderr, done.stderr
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
    model[3].weight = model[0].weight
    pipe = pipeline(model, (torch.randn(4, 8),), split_spec={"2": SplitPoint.BEGINNING})
    names = [{name for name, _ in pipe.get_stage_module(at).named_parameters()} for at in range(2)]
    assert all(any(name.endswith("0.weight") or name.endswith("3.weight") for name in own) for own in names), names
    print(f"torch.distributed.pipelining {torch.__version__}: a tied weight is in stages of {names}, and named in a note")


def check_torchgpipe_models():
    """Torchvision's VGG as an nn.Sequential."""
    import torch
    import torchgpipe
    import torchvision

    torch.manual_seed(0)
    vgg = torchvision.models.vgg11()
    model = torch.nn.Sequential(*vgg.features, vgg.avgpool, torch.nn.Flatten(), *vgg.classifier).eval()
    x = torch.randn(2, 3, 224, 224)
    file = write_program(model, (x,))
    options = ("--whole-layers", "--solver", "equal-time")
    text, plan = exported(file, cluster(("acc", 3, False, 1e12)), "torchgpipe", *options)
    defined = module(text)
    # Flatten and Dropout are not operators, but the list contains them too.
    assert defined["layers"] == [name for name, _ in model.named_children()], defined["layers"]
    divided = torchgpipe.GPipe(model, balance=defined["balance"], devices=["cpu"] * len(plan["devices"]), chunks=2)
    assert torch.allclose(divided(x), model(x), atol=1e-5)
    print(f"torchgpipe: vgg11 in {defined['balance']}, same output")


def counted(target):
    """Plans 30 layers of Llama 2 on four accelerators. Returns the export, and the number of layers on each device."""
    file = workload("llama", "--variant", "2-7b", "--layers", "30", "--granularity", "layer")
    text, plan = exported(file, cluster(FOUR), target, "--solver", "equal-time", "--split", "contiguous", "--whole-layers")
    layers = [len({op.split(".")[2] for op in device["ops"] if op.startswith("decoder.")}) for device in plan["devices"]]
    return text.strip(), layers


def check_megatron():
    """Megatron Core interprets the layout, and its older options, as the layers of the plan, rank by rank."""
    import argparse
    import importlib.metadata
    import shlex

    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    from megatron.core.transformer.transformer_block import get_num_layers_to_build
    from megatron.core.transformer.transformer_config import TransformerConfig

    for target in ["megatron", "megatron-layers"]:
        text, layers = counted(target)
        parser = argparse.ArgumentParser()
        parser.add_argument("--num-layers", type=int)
        parser.add_argument("--pipeline-model-parallel-size", type=int)
        parser.add_argument("--pipeline-model-parallel-layout")
        parser.add_argument("--decoder-first-pipeline-num-layers", type=int)
        parser.add_argument("--decoder-last-pipeline-num-layers", type=int)
        parser.add_argument("--untie-embeddings-and-output-weights", action="store_true")
        given = parser.parse_args(shlex.split(text))
        config = TransformerConfig(
            num_layers=given.num_layers, hidden_size=64, num_attention_heads=4, pipeline_dtype="bf16",
            pipeline_model_parallel_size=given.pipeline_model_parallel_size,
            pipeline_model_parallel_layout=given.pipeline_model_parallel_layout,
            num_layers_in_first_pipeline_stage=given.decoder_first_pipeline_num_layers,
            num_layers_in_last_pipeline_stage=given.decoder_last_pipeline_num_layers,
        )  # fmt: skip
        if target == "megatron":
            layout = PipelineParallelLayerLayout(given.pipeline_model_parallel_layout, len(layers))
            layout.validate_layer_layout(given.num_layers, None)
            built = [layout.get_num_layers_to_build(pp_rank=rank) for rank in range(len(layers))]
        else:
            built = [get_num_layers_to_build(config, pp_rank=rank) for rank in range(len(layers))]
        assert built == layers, (text, built, layers)
        print(f"megatron-core {importlib.metadata.version('megatron-core')}: {text} builds {built}")


def check_vllm():
    check_partition("vllm", "vllm.distributed.utils")


def check_sglang():
    check_partition("sglang", "sglang.srt.distributed.utils")


def served(engine, target, replicas=None):
    """Exports the serving plan for an engine, or its first replicas."""
    import serving

    plan = serving.plan(engine)
    plan["replicas"] = plan["replicas"][:replicas]
    with open(path("serving.json"), "w", encoding="utf-8") as file:
        json.dump(plan, file)
    return run("export", path("serving.json"), "--to", target)


def check_served(engine):
    """The parsers of an engine and its router read the script of a serving plan, and YAML the manifests."""
    import serving

    try:
        {"vllm": serving.check_vllm, "sglang": serving.check_sglang}[engine](served(engine, engine))
        serving.check_manifests(served(engine, "dynamo", 3), 2 * ["DynamoGraphDeployment"])
        serving.check_manifests(served(engine, "llm-d", 3), 3 * ["Deployment"])
    except ImportError as error:
        print(f"{engine}: its parser needs more packages: skipped ({error})")


def check_vllm_serving():
    check_served("vllm")


def check_sglang_serving():
    check_served("sglang")


def check_partition(runtime, within):
    """The function of vLLM or SGLang that reads the variable assigns the layers of the plan to every rank."""
    import importlib
    import importlib.metadata

    text, layers = counted(runtime)
    name, _, value = text.partition("=")
    os.environ[name] = value
    indices = importlib.import_module(within).get_pp_indices
    found = [indices(sum(layers), rank, len(layers)) for rank in range(len(layers))]
    assert [end - start for start, end in found] == layers and found[0][0] == 0, (text, found)
    assert all(before[1] == after[0] for before, after in zip(found, found[1:])), found
    print(f"{runtime} {importlib.metadata.version(runtime)}: {text} gives {found}")


def check_dot():
    """Graphviz draws the demo: a node for every operator and every device."""
    _, demo, batch, _ = DEMO
    text, plan = exported(demo, "4xa100", "dot", batch=batch)
    drawn = subprocess.run(["dot", "-Tsvg"], input=text, check=True, capture_output=True, text=True)
    assert not drawn.stderr, drawn.stderr
    nodes = sum(len(device["ops"]) for device in plan["devices"]) + len(plan["devices"])
    assert drawn.stdout.count('class="node') == nodes, (drawn.stdout.count('class="node'), nodes)
    version = subprocess.run(["dot", "-V"], capture_output=True, text=True).stderr.strip()
    print(f"{version}: {nodes} nodes drawn")


def check_deepspeed():
    """The subclass divides the model where the plan does; checked rank by rank, without a process group."""
    import deepspeed
    import torch
    from deepspeed.runtime.pipe.topology import PipeDataParallelTopology

    file = workload("bert", "--variant", "base", "--layers", "6")
    options = ("--solver", "equal-time", "--split", "contiguous", "--whole-layers")
    text, plan = exported(file, cluster(FOUR), "deepspeed", *options)
    defined = module(text)
    parts, planned = defined["PARTS"], defined["PlannedPipelineModule"]
    stages = len(plan["devices"])
    assert len(parts) == stages + 1 and parts[-1] == len(defined["LAYERS"])
    found = []
    for rank in range(stages):
        pipe = planned.__new__(planned)
        torch.nn.Module.__init__(pipe)
        pipe._topo = PipeDataParallelTopology(num_pp=stages, num_dp=1)
        pipe._layer_specs = [torch.nn.Identity() for _ in defined["LAYERS"]]
        pipe.global_rank, pipe.num_stages = rank, stages
        pipe._partition_layers()
        found.append((pipe._local_start, pipe._local_stop))
    assert found == list(zip(parts, parts[1:])), (found, parts)
    print(f"deepspeed {deepspeed.__version__}: PipelineModule divides {len(defined['LAYERS'])} layers at {parts}")


def check_deepspeed_tied():
    """The subclass accepts a weight tied across two stages only as TiedLayerSpecs with the same key."""
    import deepspeed
    import torch
    from deepspeed.pipe import LayerSpec, TiedLayerSpec
    from deepspeed.runtime.pipe.topology import PipeDataParallelTopology

    where = cluster(("acc", 2, False, 1e9))
    text, _ = exported(tied_document(), where, "deepspeed", "--solver", "equal-time")
    defined = module(text)
    assert defined["TIED"] == {"0.weight": [["0"], ["3"]]}, text
    planned = defined["PlannedPipelineModule"]

    def divided(first, last):
        pipe = planned.__new__(planned)
        torch.nn.Module.__init__(pipe)
        pipe._topo = PipeDataParallelTopology(num_pp=2, num_dp=1)
        pipe._layer_specs = [first, torch.nn.Identity(), torch.nn.Identity(), last]
        pipe.global_rank, pipe.num_stages = 0, 2
        pipe._partition_layers()

    tied = [TiedLayerSpec(key, torch.nn.Linear, 8, 8) for key in ("embed", "embed", "other")]
    divided(tied[0], tied[1])
    for first, last in [(tied[0], tied[2]), (tied[0], LayerSpec(torch.nn.Linear, 8, 8)), (torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))]:
        try:
            divided(first, last)
        except ValueError as error:
            assert "0.weight" in str(error), error
            continue
        raise AssertionError("layers that are not tied are taken")
    print(f"deepspeed {deepspeed.__version__}: {defined['TIED']} is taken as TiedLayerSpecs of one key alone")


def check_torchtitan():
    """Every parameter of torchtitan's own Llama is in one stage; unknown module names would drop some silently."""
    import importlib.metadata

    import torch
    from torchtitan.distributed import pipeline_parallel
    from torchtitan.distributed.pipeline_parallel import _split_module
    from torchtitan.models.llama3 import llama3_configs

    stages_of = pipeline_parallel._generate_llm_fqn_per_model_part(1, 4)
    file = workload("llama", "--variant", "2-7b", "--layers", "4")
    options = ("--solver", "equal-time", "--split", "contiguous", "--whole-layers")
    text, plan = exported(file, cluster(("acc", 2, False, 1e12)), "torchtitan", *options)
    parts = module(text)["module_fqns_per_model_part"]
    assert sorted(sum(parts, [])) == sorted(sum(stages_of, [])), (parts, stages_of)

    for attention in ["flex", "sdpa"]:
        try:
            config = llama3_configs["debugmodel"](attn_backend=attention)
            break
        except ValueError as error:
            print(f"torchtitan: {error}")
    with torch.device("meta"):
        model = config.build()
    stages = len(model.layers)
    file = workload("llama", "--variant", "2-7b", "--layers", str(stages))
    text, plan = exported(file, cluster(("acc", 2, False, 1e12)), "torchtitan", *options)
    parts = module(text)["module_fqns_per_model_part"]
    whole = {name for name, _ in model.named_parameters()}
    divided = [name for names in parts for name, _ in _split_module(model, names).named_parameters()]
    assert sorted(divided) == sorted(whole), set(whole) - set(divided)
    version = importlib.metadata.version("torchtitan")
    print(f"torchtitan {version}: {parts} have all {len(whole)} parameters of {type(model).__name__} once")


# The checks, each with its runtime and the targets that it covers.
CHECKS = [
    ("onnxruntime", check_onnxruntime, ["onnxruntime"]),
    ("onnxruntime", check_onnxruntime_models, ["onnxruntime"]),
    ("openvino", check_openvino, ["openvino"]),
    ("openvino", check_openvino_outputs, ["openvino"]),
    ("openvino", check_openvino_models, ["openvino"]),
    ("accelerate", check_accelerate, ["accelerate"]),
    ("accelerate", check_accelerate_tables, ["accelerate"]),
    ("transformers", check_transformers, ["accelerate"]),
    ("transformers", check_sequences, []),
    ("transformers", check_derived_tensors, []),
    ("transformers", check_derived_work, []),
    ("diffusers", check_data_models, ["accelerate", "torch-pipelining"]),
    ("torch.export", check_measured, []),
    ("torch.distributed.pipelining", check_pipelining, ["torch-pipelining"]),
    ("transformers", check_pipelining_models, ["torch-pipelining"]),
    ("torch.distributed.pipelining", check_pipelining_tied, ["torch-pipelining"]),
    ("torchgpipe", check_torchgpipe, ["torchgpipe"]),
    ("torchgpipe", check_torchgpipe_models, ["torchgpipe"]),
    ("torchgpipe", check_torchgpipe_tied, ["torchgpipe"]),
    ("deepspeed", check_deepspeed, ["deepspeed"]),
    ("deepspeed", check_deepspeed_tied, ["deepspeed"]),
    ("torchtitan", check_torchtitan, ["torchtitan"]),
    ("megatron", check_megatron, ["megatron", "megatron-layers"]),
    ("vllm", check_vllm, ["vllm"]),
    ("sglang", check_sglang, ["sglang"]),
    ("vllm", check_vllm_serving, []),
    ("sglang", check_sglang_serving, []),
]



def main():
    loaded = set()
    words = sys.argv[2:]
    for runtime, check, targets in CHECKS:
        if words and not any(word in check.__name__ for word in words):
            continue
        try:
            __import__(runtime)
        except ImportError as error:
            print(f"{runtime} is not installed: skipped ({error})")
            continue
        check()
        loaded.update(targets)
    if words:
        shutil.rmtree(FOLDER)
        return
    if shutil.which("dot"):
        check_dot()
        loaded.add("dot")
    listed = [line.split()[0] for line in run("export", "--list").splitlines() if line[:1].strip()]
    documented = [target for target in listed if target not in loaded]
    print(f"loaded: {', '.join(target for target in listed if target in loaded)}")
    print(f"compared with their documentation alone: {', '.join(documented)}")
    shutil.rmtree(FOLDER)


main()
