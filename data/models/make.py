"""Writes the models of this folder: structure without weights, from the configurations beside this file.

    pip install torch transformers torchvision diffusers onnx onnxscript onnxruntime
    python3 data/models/make.py            all of them
    python3 data/models/make.py gpt2 bert  some
    python3 data/models/make.py demo       ../demo/gpt2.onnx

Models are built on the device `meta`, so their weights are never there. Three routes are taken: PyTorch's ONNX exporters,
the one through torch.export (`dynamo`) and the one through TorchScript, and the exporter of this project (`native`).
The exceptions are TorchScript, which compares weights, and the models that onnxruntime quantises: their numbers are drawn
at random.

Weights in ONNX files are references into a file that is not there. The files are compressed by gzip. A row of
`models.toml` says of each what PyTorch counts: parameters, and FLOP by torch.utils.flop_counter. The bytes of quantised
parameters are those of the file.
"""

import gzip
import io
import json
import pathlib
import sys
import tempfile
import tomllib
import types

import onnx
import torch
from torch.utils.flop_counter import FlopCounterMode

import configurations

HERE = pathlib.Path(__file__).parent
DEMO = HERE.parent / "demo" / "gpt2.onnx"
EXPORTER = ["costs.py", "graph.py", "program.py", "timing.py", "forward.py", "training.py", "command.py"]

# Constants of at most this many bytes stay in an ONNX file: shapes, axes and scalars decide what its operators do.
KEPT_BYTES = 1024

# Name of a file: its configuration, its route.
MODELS = {
    "gpt2": (configurations.gpt2, "dynamo"),
    "gpt2-torchscript": (configurations.gpt2_masked, "torchscript"),
    "bert": (configurations.bert, "dynamo"),
    "llama-3.2-1b": (configurations.llama, "dynamo"),
    "qwen-2.5-0.5b": (configurations.qwen, "native"),
    "mixtral-2l": (configurations.mixtral, "native"),
    "t5": (configurations.t5, "native"),
    "whisper": (configurations.whisper, "native"),
    "vit": (configurations.vit, "dynamo"),
    "swin-t": (configurations.swin, "dynamo"),
    "resnet-50": (configurations.resnet, "dynamo"),
    "mobilenet-v2": (configurations.mobilenet, "dynamo"),
    "convnext-tiny": (configurations.convnext, "dynamo"),
    "unet": (configurations.unet, "dynamo"),
    "resnet-50-qdq": (configurations.resnet, "qdq"),
    "llama-4-bit": (configurations.four_bit, "four bits"),
    "llama-3.2-1b-decode": (configurations.llama_decode, "native"),
    "gpt2-step": (configurations.gpt2_step, "step"),
    "bert-step": (configurations.bert_step, "step"),
    "llama-3.2-1b-step": (configurations.llama_step, "step"),
}


def exporter():
    """What `stagewright exporter torch` prints, as a module."""
    folder = HERE.parent.parent / "crates" / "formats" / "src" / "torch"
    module = types.ModuleType("stagewright_exporter")
    exec("".join((folder / part).read_text() for part in EXPORTER), module.__dict__)
    return module


def built(configuration, device="meta"):
    with torch.device(device):
        model, inputs = configuration()
    return model, inputs


def faked(model, inputs, mode):
    """The model and its inputs with fake tensors of the processor, where attention is one operator."""
    made = {}

    def fake(value):
        if isinstance(value, (list, tuple)):
            return [fake(part) for part in value]
        if id(value) not in made:
            copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
            is_weight = isinstance(value, torch.nn.Parameter)
            made[id(value)] = (value, torch.nn.Parameter(copy, value.requires_grad) if is_weight else copy)
        return made[id(value)][1]

    with mode:
        for module in model.modules():
            for tensors in (module._parameters, module._buffers):
                for name, value in tensors.items():
                    if value is not None:
                        tensors[name] = fake(value)
        return model, {name: fake(value) for name, value in inputs.items()}


def counted_flop(configuration, training):
    """FLOP by PyTorch's counter, and the operators that it counts, on fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    model, inputs = faked(*built(configuration), mode)
    model.train(training)
    with mode, FlopCounterMode(display=False) as counter:
        if training:
            model(**inputs).loss.backward()
        else:
            with torch.no_grad():
                model(**inputs)
    counts = counter.get_flop_counts()["Global"]
    return sum(counts.values()), sorted(str(operator).removeprefix("aten.") for operator in counts)


def without_weights(model, name):
    """Turns constants above KEPT_BYTES into references to a file, one after the other."""
    model, at = onnx.ModelProto.FromString(model), 0
    for tensor in model.graph.initializer:
        size = tensor_bytes(tensor)
        if size <= KEPT_BYTES and (tensor.raw_data or len(tensor.dims) == 0 or has_numbers(tensor)):
            continue
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", f"{name}.bin"), ("offset", str(at)), ("length", str(size))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        at += size
    # Traces of where in PyTorch a node was written.
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if "stack_trace" not in entry.key and "fx_node" not in entry.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        node.ClearField("doc_string")
    return model.SerializeToString(deterministic=True)


def has_numbers(tensor):
    return bool(tensor.float_data or tensor.int32_data or tensor.int64_data or tensor.double_data)


def tensor_bytes(tensor):
    bits = {onnx.TensorProto.UINT4: 4, onnx.TensorProto.INT4: 4}.get(tensor.data_type)
    if bits is None:
        bits = 8 * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    count = 1
    for size in tensor.dims:
        count *= size
    return (count * bits + 7) // 8


class Called(torch.nn.Module):
    """A model that takes its inputs in order and gives its first output, which is what TorchScript traces."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values):
        given = self.model(**dict(zip(self.names, values)))
        return given if isinstance(given, torch.Tensor) else given[0]


def dynamo(name, configuration):
    import onnx_ir

    model, inputs = built(configuration)
    program = torch.onnx.export(model.eval(), kwargs=inputs, dynamo=True, optimize=False, verbose=False)
    at = 0
    for value in program.model.graph.initializers.values():
        tensor = value.const_value
        if tensor.nbytes > KEPT_BYTES or getattr(tensor, "raw", None) is not None and tensor.raw.device.type == "meta":
            value.const_value = onnx_ir.ExternalTensor(
                f"{name}.bin", at, tensor.nbytes, tensor.dtype, shape=tensor.shape, name=value.name, base_dir=""
            )
            at += tensor.nbytes
    return without_weights(onnx_ir.to_proto(program.model).SerializeToString(), name)


def traced(configuration, folds=True):
    """By the exporter that traces. It compares weights, so it needs numbers; of the same numbers it makes one weight."""
    model, inputs = built(configuration, "cpu")
    for weight in model.parameters():
        torch.nn.init.normal_(weight.data, std=0.02)
    file = io.BytesIO()
    torch.onnx.export(
        Called(model.eval(), list(inputs)), tuple(inputs.values()), file, dynamo=False, do_constant_folding=folds,
        input_names=list(inputs),
    )  # fmt: skip
    return file.getvalue()


def torchscript(name, configuration):
    """Constants are not folded, or a tied embedding would be two: the table, and the table turned over."""
    return without_weights(traced(configuration, folds=False), name)


def qdq(name, configuration):
    """Quantised to 8 bits by onnxruntime, with Q and DQ around every product; ranges are those of one image."""
    import numpy
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class One(CalibrationDataReader):
        def __init__(self):
            self.images = iter([{"x": numpy.ones((8, 3, 224, 224), dtype=numpy.float32)}])

        def get_next(self):
            return next(self.images, None)

    with tempfile.TemporaryDirectory() as folder:
        whole, made = f"{folder}/whole.onnx", f"{folder}/made.onnx"
        pathlib.Path(whole).write_bytes(traced(configuration))
        quantize_static(whole, made, One(), quant_format=QuantFormat.QDQ)
        return without_weights(pathlib.Path(made).read_bytes(), name)


def four_bits(name, configuration):
    """Products quantised to 4 bits in blocks of 32 by onnxruntime."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    whole = onnx.ModelProto.FromString(traced(configuration))
    quantizer = MatMulNBitsQuantizer(whole, bits=4, block_size=32)
    quantizer.process()
    return without_weights(quantizer.model.model.SerializeToString(), name)


def native(name, configuration, training=False):
    model, inputs = built(configuration)
    module = exporter()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        if training:
            module.write_training_step(model.train(), inputs, file.name, name=name)
        else:
            module.write_model(model.eval(), inputs, file.name, name=name)
        return json.dumps(json.loads(pathlib.Path(file.name).read_bytes()), separators=(",", ":")).encode()


def stored_bytes(content):
    """What quantised weights take: PyTorch has only counted them before."""
    tensors = onnx.ModelProto.FromString(content).graph.initializer
    whole = (onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
    return sum(tensor_bytes(tensor) for tensor in tensors if max(tensor.dims, default=1) > 1 and tensor.data_type not in whole)


def make(name):
    configuration, route = MODELS[name]
    training = route == "step"
    routes = {"dynamo": dynamo, "torchscript": torchscript, "qdq": qdq, "four bits": four_bits, "native": native}
    content = native(name, configuration, True) if training else routes[route](name, configuration)
    model, _ = built(configuration)
    flop, operators = counted_flop(configuration, training)
    file = f"{name}.{'json' if route in ('native', 'step') else 'onnx'}.gz"
    (HERE / file).write_bytes(gzip.compress(content, 9, mtime=0))
    weights = list({id(weight): weight for weight in model.parameters()}.values())
    print(name, route, (HERE / file).stat().st_size, flush=True)
    quantised = route in ("qdq", "four bits")
    return {
        "file": file,
        "route": route,
        "training": training,
        "parameters": sum(weight.numel() for weight in weights),
        "parameter_bytes": stored_bytes(content)
        if quantised
        else sum(weight.numel() * weight.element_size() for weight in weights),
        "flop": flop,
        "counted": operators,
    }


def demo():
    """GPT-2 as PyTorch exports it when nothing is asked but an open batch. It folds constants, so it needs numbers."""
    model, inputs = built(configurations.gpt2, "cpu")
    batch = {"input_ids": {0: torch.export.Dim("batch")}}
    program = torch.onnx.export(model.eval(), kwargs=inputs, dynamo=True, dynamic_shapes=batch, verbose=False)
    DEMO.write_bytes(without_weights(program.model_proto.SerializeToString(), "gpt2"))
    print("demo", DEMO.stat().st_size)


def main(names):
    if names == ["demo"]:
        return demo()
    table = HERE / "models.toml"
    rows = {row["file"]: row for row in tomllib.loads(table.read_text())["model"]} if table.exists() else {}
    for name in names or MODELS:
        row = make(name)
        rows[row["file"]] = row
        order = {name: at for at, name in enumerate(MODELS)}
        text = "# Written by make.py: what PyTorch counts of each model. FLOP are those of the operators `counted`.\n"
        for row in sorted(rows.values(), key=lambda row: order[row["file"].split(".json")[0].split(".onnx")[0]]):
            text += "\n[[model]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items())
        table.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
