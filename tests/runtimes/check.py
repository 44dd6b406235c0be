"""Loads exports into the runtimes that they are for: `make test-runtimes`, which needs a network.

    python3 check.py STAGEWRIGHT

What is not installed is skipped and named at the end, with the targets that are only compared with their
documentation. `docs/runtimes.md` has what it printed last and with which versions.

ONNX Runtime says on standard error that it has no provider for the accelerator, which is so; that it reads the option
at all is checked with one that is not well-formed. Where an accelerator is needed (HETERO on two devices, a device_map
with numbers), maps are compared with the plan and the model, and what runs is the same on the host. Models of
transformers, torchvision and torchtitan are made from configurations, without weights where nothing runs.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

STAGEWRIGHT = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp(prefix="stagewright-")

# Names that would break a module written without care.
HOSTILE = 'layers/1/"];\nimport os # é\\'


def run(*arguments):
    return subprocess.run([STAGEWRIGHT, *arguments], check=True, capture_output=True, text=True).stdout


def path(name):
    return os.path.join(FOLDER, name)


def cluster(*kinds):
    """A file with a cluster: kinds by name, count, whether they are hosts, and memory."""
    entries = [
        {"name": name, "class": name, "count": count, "host": host, "memory_bytes": memory, "link": {"bandwidth": 1e9}}
        for name, count, host, memory in kinds
    ]
    classes = {name: {"peak_flops": 1e9, "memory_bandwidth": 1e9} for name, *_ in kinds}
    document = {"schema": "stagewright.cluster/1", "classes": classes, "kinds": entries}
    with open(path("cluster.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)
    return path("cluster.json")


def exported(model, where, target, *more):
    """The export of a plan of a model on a cluster, and the plan."""
    run("plan", model, "--cluster", where, "--out", path("plan.json"), *more)
    with open(path("plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    return run("export", path("plan.json"), "--to", target, "--model", model, "--cluster", where), plan


def module(text):
    """What a Python module defines."""
    defined = {}
    exec(compile(text, "export.py", "exec"), defined)
    return defined


def onnx_model():
    """Three products and their activations, of which the second is named to do harm."""
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
    # Memory for two of the three weights on the accelerator.
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
    # The runtime reads the option: one that is not well-formed is refused.
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


def check_openvino():
    import numpy
    import openvino

    _, x = onnx_model()
    core = openvino.Core()
    read = core.read_model(path("model.onnx"))
    openvino.save_model(read, path("model.xml"), compress_to_fp16=False)
    model = core.read_model(path("model.xml"))
    before = core.compile_model(model, "CPU")(x)[0]
    # On the one device that is everywhere, compiled; on two, only written into the model.
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
    """A model read from ONNX, whose last operations OpenVINO calls after the outputs."""
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
    # The hidden values are an output that has readers too.
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
    """A small stack with the names of its modules, as a graph document."""
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
    # Without accelerators, the same modules on the host.
    expected = model(x)
    dispatched = accelerate.dispatch_model(model, {key: "cpu" for key in device_map}, main_device="cpu")
    assert torch.equal(dispatched(x), expected)
    print(f"accelerate {accelerate.__version__}, torch {torch.__version__}: {json.dumps(device_map)}")


def check_pipelining():
    import torch
    from torch.distributed.pipelining import pipeline

    model, x = torch_model()
    program = torch.export.export(model, (x,))
    sys.path.insert(0, FOLDER)
    with open(path("stagewright_exporter.py"), "w", encoding="utf-8") as file:
        file.write(run("exporter", "torch"))
    import stagewright_exporter

    stagewright_exporter.write(program, path("program.json"))
    # Layer by layer: the operators of a layer are colocated.
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


def workload(*arguments):
    """The file of a built-in workload."""
    with open(path("workload.json"), "w", encoding="utf-8") as file:
        file.write(run("workload", *arguments))
    return path("workload.json")


# A cluster of four accelerators on which stages of all models below fit.
FOUR = ("acc", 4, False, 1e12)


def families():
    """Workloads with the published models of the same sizes, without weights."""
    import torch
    import transformers as hf

    layers = "4"
    yield ("llama", "--variant", "2-7b", "--layers", layers), lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(num_hidden_layers=4)
    )
    yield ("mixtral", "--variant", "8x7b", "--layers", layers), lambda: hf.MixtralForCausalLM(
        hf.MixtralConfig(num_hidden_layers=4)
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
    """Every module that is named exists, and every parameter and buffer has one device."""
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
            absent = [key for key in device_map if key not in modules]
            assert not absent, (arguments, granularity, absent)
            check_device_map(model, device_map)
            tensors = [name for name, _ in model.named_parameters(remove_duplicate=False)]
            tensors += [name for name, _ in model.named_buffers(remove_duplicate=False)]
            for name in tensors:
                keys = [key for key in device_map if key == "" or name == key or name.startswith(key + ".")]
                assert len(keys) == 1, (arguments, granularity, name, keys)
            used = len(set(device_map.values()))
            name = type(model).__name__
            print(
                f"transformers {transformers.__version__}: {name} by {granularity}, {len(device_map)} modules on "
                f"{used} devices, {len(tensors)} tensors with one device each"
            )


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
    where = cluster(("cpu", 1, True, 2000.0), ("acc", 2, False, 4000.0))
    text, plan = exported(path("stack.json"), where, "torchgpipe", "--whole-layers")
    defined = module(text)
    layers = torch.nn.Sequential(*(model.get_submodule(name) for name in defined["layers"]))
    divided = torchgpipe.GPipe(layers, balance=defined["balance"], devices=["cpu"] * len(plan["devices"]), chunks=2)
    assert torch.allclose(divided(x), model(x), atol=1e-6)
    print(f"torchgpipe {importlib.metadata.version('torchgpipe')}: {defined['balance']} of {defined['layers']}, same output")


def check_deepspeed():
    """The subclass divides where the plan does; ranks are asked one by one, without a process group."""
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


def check_torchtitan():
    """Every parameter of torchtitan's own Llama is in one stage; a name that it lacks would lose them silently."""
    import importlib.metadata

    import torch
    from torchtitan.distributed import pipeline_parallel
    from torchtitan.distributed.pipeline_parallel import _split_module

    stages_of = pipeline_parallel._generate_llm_fqn_per_model_part(1, 4)
    file = workload("llama", "--variant", "2-7b", "--layers", "4")
    options = ("--solver", "equal-time", "--split", "contiguous", "--whole-layers")
    text, plan = exported(file, cluster(("acc", 2, False, 1e12)), "torchtitan", *options)
    parts = module(text)["module_fqns_per_model_part"]
    assert sorted(sum(parts, [])) == sorted(sum(stages_of, [])), (parts, stages_of)

    class Model(torch.nn.Module):
        """The children of torchtitan's Decoder."""

        def __init__(self):
            super().__init__()
            self.tok_embeddings = torch.nn.Embedding(16, 8)
            self.layers = torch.nn.ModuleDict({str(at): torch.nn.Linear(8, 8) for at in range(4)})
            self.norm, self.lm_head = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16)

    from torchtitan.models.common import decoder

    with open(decoder.__file__, encoding="utf-8") as source:
        source = source.read()
    for child in ["tok_embeddings", "layers", "norm", "lm_head"]:
        assert f"self.{child} = " in source or f"self.{child}:" in source, child
    whole = {name for name, _ in Model().named_parameters()}
    divided = [name for names in parts for name, _ in _split_module(Model(), names).named_parameters()]
    assert sorted(divided) == sorted(whole), set(whole) - set(divided)
    version = importlib.metadata.version("torchtitan")
    print(f"torchtitan {version}: {parts} have every parameter once")


# What is looked at for each runtime, and the targets that it is for.
CHECKS = [
    ("onnxruntime", check_onnxruntime, ["onnxruntime"]),
    ("openvino", check_openvino, ["openvino"]),
    ("openvino", check_openvino_outputs, ["openvino"]),
    ("accelerate", check_accelerate, ["accelerate"]),
    ("transformers", check_transformers, ["accelerate"]),
    ("transformers", check_sequences, []),
    ("torch.distributed.pipelining", check_pipelining, ["torch-pipelining"]),
    ("torchgpipe", check_torchgpipe, ["torchgpipe"]),
    ("deepspeed", check_deepspeed, ["deepspeed"]),
    ("torchtitan", check_torchtitan, ["torchtitan"]),
]

# Drawings are read by no runtime.
DRAWINGS = {"dot", "mermaid"}


def main():
    loaded = set()
    for runtime, check, targets in CHECKS:
        try:
            __import__(runtime)
        except ImportError as error:
            print(f"{runtime} is not installed: skipped ({error})")
            continue
        check()
        loaded.update(targets)
    listed = [line.split()[0] for line in run("export", "--list").splitlines() if line[:1].strip()]
    documented = [target for target in listed if target not in loaded and target not in DRAWINGS]
    print(f"loaded: {', '.join(target for target in listed if target in loaded)}")
    print(f"compared with their documentation alone: {', '.join(documented)}")
    shutil.rmtree(FOLDER)


main()
