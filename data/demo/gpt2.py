"""Writes `gpt2.onnx`: GPT-2 small (Radford et al. 2019) as PyTorch's ONNX exporter names it, without its weights.

    pip install onnx
    python3 data/demo/gpt2.py data/demo/gpt2.onnx

12 layers of width 768 with 12 heads, 1,024 tokens, a vocabulary of 50,257; the batch is left open. The weights are
declared as lying in a file that is not there: their shapes are all that a placement needs.
"""

import sys

import numpy
import onnx
from onnx import TensorProto, helper

LAYERS, WIDTH, HEADS, TOKENS, WORDS = 12, 768, 12, 1024, 50257

nodes, weights = [], []


def weight(name, *shape):
    tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    place = tensor.external_data.add()
    place.key, place.value = "location", "gpt2.bin"
    weights.append(tensor)
    return name


def integers(name, values):
    weights.append(onnx.numpy_helper.from_array(numpy.array(values, dtype=numpy.int64), name))
    return name


def node(kind, scope, *inputs, outputs=1, **attributes):
    name = f"/{scope}/{kind}"
    count = sum(other.name == name or other.name.startswith(name + "_") for other in nodes)
    name = f"{name}_{count}" if count else name
    made = [f"{name}_output_{at}" for at in range(outputs)]
    nodes.append(helper.make_node(kind, list(inputs), made, name=name, **attributes))
    return made[0] if outputs == 1 else made


def linear(scope, values, inputs, outputs):
    module = scope.replace("/", ".")
    product = node("MatMul", scope, values, weight(f"{module}.weight", inputs, outputs))
    return node("Add", scope, product, weight(f"{module}.bias", outputs))


def normalise(scope, values):
    module = scope.replace("/", ".")
    return node(
        "LayerNormalization", scope, values, weight(f"{module}.weight", WIDTH), weight(f"{module}.bias", WIDTH), axis=-1
    )


def heads(scope, values, order):
    apart = node("Reshape", scope, values, "heads")
    return node("Transpose", scope, apart, perm=order)


def attention(scope, values):
    joint = linear(f"{scope}/c_attn", values, WIDTH, 3 * WIDTH)
    query, key, value = node("Split", scope, joint, "thirds", outputs=3, axis=2)
    scores = node("MatMul", scope, heads(scope, query, [0, 2, 1, 3]), heads(scope, key, [0, 2, 3, 1]))
    scaled = node("Div", scope, scores, "root")
    mask = weight(f"{scope.replace('/', '.')}.bias", 1, 1, TOKENS, TOKENS)
    shares = node("Softmax", scope, node("Add", scope, scaled, mask), axis=-1)
    mixed = node("MatMul", scope, shares, heads(scope, value, [0, 2, 1, 3]))
    together = node("Reshape", scope, node("Transpose", scope, mixed, perm=[0, 2, 1, 3]), "width")
    return linear(f"{scope}/c_proj", together, WIDTH, WIDTH)


def perceptron(scope, values):
    wide = node("Gelu", f"{scope}/act", linear(f"{scope}/c_fc", values, WIDTH, 4 * WIDTH))
    return linear(f"{scope}/c_proj", wide, 4 * WIDTH, WIDTH)


integers("heads", [0, 0, HEADS, WIDTH // HEADS])
integers("width", [0, 0, WIDTH])
integers("thirds", [WIDTH] * 3)
weights.append(onnx.numpy_helper.from_array(numpy.array((WIDTH / HEADS) ** 0.5, dtype=numpy.float32), "root"))
weight("transformer.wte.weight", WORDS, WIDTH)
values = node("Gather", "transformer/wte", "transformer.wte.weight", "input_ids")
values = node("Add", "transformer/wpe", values, weight("transformer.wpe.weight", TOKENS, WIDTH))
for layer in range(LAYERS):
    scope = f"transformer/h.{layer}"
    values = node("Add", scope, values, attention(f"{scope}/attn", normalise(f"{scope}/ln_1", values)))
    values = node("Add", scope, values, perceptron(f"{scope}/mlp", normalise(f"{scope}/ln_2", values)))
values = normalise("transformer/ln_f", values)
logits = node("MatMul", "lm_head", values, weight("lm_head.weight", WIDTH, WORDS))

nodes[-1].output[0] = "logits"
graph = helper.make_graph(
    nodes,
    "gpt2",
    [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", TOKENS])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", TOKENS, WORDS])],
    weights,
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], producer_name="stagewright")
onnx.save(model, sys.argv[1])
