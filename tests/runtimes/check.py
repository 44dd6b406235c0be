"""Loads exports into the runtimes that they are for: `make test-runtimes`, which needs a network.

    python3 check.py STAGEWRIGHT

What is not installed is skipped. On a machine with no accelerator, this printed:

    onnxruntime 1.31.1: 6 nodes annotated, accelerator(=stagewright_accelerator); cpu(=stagewright_host), same output
    openvino 2026.4.1: HETERO:GPU.0,CPU, 6 operations placed, 11 of the model have a device
    accelerate 1.15.0, torch 2.4.1+cu121: {"embed": 0, "layers.0": 0, "layers.1": 1, "layers.2.up": 1,
        "layers.2.down": 2, "layers.3": 2, "head": 2}
    torch.distributed.pipelining 2.4.1+cu121: ['layers.1', 'layers.3'] make stages of [624, 1104, 570] parameters

ONNX Runtime says on standard error that it has no provider for the accelerator, which is so; that it reads the option
at all is checked with one that is not well-formed. Where an accelerator is needed (HETERO on two devices, a device_map
with numbers), maps are compared with the plan and the model, and what runs is the same on the host.
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


def check_accelerate():
    import accelerate
    import torch
    from accelerate.utils.modeling import check_device_map

    model, x = torch_model()
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


CHECKS = {
    "onnxruntime": check_onnxruntime,
    "openvino": check_openvino,
    "accelerate": check_accelerate,
    "torch.distributed.pipelining": check_pipelining,
}


def main():
    for runtime, check in CHECKS.items():
        try:
            __import__(runtime)
        except ImportError:
            print(f"{runtime} is not installed: skipped")
            continue
        check()
    shutil.rmtree(FOLDER)


main()
