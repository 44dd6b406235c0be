"""Writes a PyTorch model, or a training step of one, as a stagewright.graph/2 document.

From a saved program (torch.export.save):

    stagewright exporter torch > stagewright_exporter.py
    python3 stagewright_exporter.py model.pt2 --out model.json

or from Python, where the model is:

    import torch, stagewright_exporter
    program = torch.export.export(model.eval(), (example_input,))
    stagewright_exporter.write(program, "model.json", name="my model")
    stagewright_exporter.write_training_step(model.train(), (example_input,), "step.json", loss=my_loss)

No weights are read, so a model on the device `meta` will do, and nothing but PyTorch is needed.

# What is written

An operator of the document is an operator of the program after run_decompositions(), with attention kept whole. It is
named after the module that it came from, which is its layer: `transformer.h.0.mlp.c_fc/addmm`. An operator of the root
module belongs to the layer of the module whose output it reads.

Views, asserts and identities (getitem, alias, detach, reshape without a copy) are not operators: the readers of a view
read the tensor behind it. Operators carry FLOP (a multiply-add counts two), the bytes that they move and the precision
of their numbers, and the cluster's roofline prices them. The FLOP of products, convolutions and attention are those of
torch.utils.flop_counter; elementwise operators take one or a few for each element of the output.

Matrix products, single and batched, and attention also name the kernel that they call and its dimensions, by which
measured costs are looked up (`--costs`). Attention with a mask tensor does not count as causal, whatever it holds.

# Parameters

A weight with one reader counts in the reader's `parameter_bytes`. A weight with several readers, such as a tied
embedding, is an entry of `parameters`, which every device with a reader holds. Buffers, and tensors computed from
buffers alone (masks, rotary tables, positions), are entries that are not trained; a single number is left out. Tensors
computed from weights alone are held beside the weights. Inputs named `past_key_values` or `cache` are entries, one for
each layer.

# Fusion

With `fuse`, which is the default, an elementwise operator runs in the kernel of the last computed operator among those
that it reads, as compilers arrange it, if that operator makes one tensor, which has no other reader and as many
elements as the result. A sum or mean runs in the kernel of the elementwise operator before it, and an operator that
divides rows by such a sum runs in the same kernel, as in a normalisation. An operator that joins a kernel launches
nothing, the tensor that it reads from the kernel has no bytes, and both operators share a device. `fuse=False` prices
every operator as a kernel.

# Measured seconds

`--measure`, or `device_class` in Python, runs the program on random numbers of the declared shapes, times every
operator by itself and writes the median as its `seconds` for a device class, which is named CLASS or after the device:

    python3 stagewright_exporter.py model.pt2 --measure h100 --out model.json

Weights may be on the device `meta` here as well. On a GPU the seconds of an operator are those of its kernels, or of
launching them if that takes longer. A fused operator is measured as a kernel of its own, so its seconds are those of a
run without a compiler. Standard error shows the sum over all operators and the time of the whole program.

# Training steps

`write_training_step` differentiates the program. Backward operators share the device of the forward operator that they
differentiate. Every weight has an operator of pass `update` for each of its readers, on the reader's device.
`optimizer_bytes` are the states of the optimiser in single precision; the gradient is the tensor that the update reads,
which is held from its production until the update. Each reader of a tied weight has an update of its own: their
synchronisation is not in the graph, since devices that share a trained parameter pay for it anyway.
"""

import argparse
import json
import operator
import statistics
import sys
import time

import torch
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

# Operators that move or make data without computing on it.
WITHOUT_FLOP = {
    "arange", "cat", "clone", "constant_pad_nd", "copy", "embedding", "empty", "fill", "flip", "full", "full_like",
    "gather", "index", "index_put", "index_select", "masked_fill", "new_empty", "new_full", "new_zeros", "ones_like", "repeat", "roll", "scalar_tensor", "scatter",
    "select_backward", "select_scatter", "slice_backward", "slice_scatter", "stack", "_to_copy", "unfold_copy",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "zeros", "zeros_like",
}  # fmt: skip

# FLOP for each element of the output, for operators that take more than one.
FLOP_PER_ELEMENT = {
    "_log_softmax": 5, "_native_batch_norm_legit": 8, "_native_batch_norm_legit_no_training": 2, "_softmax": 5,
    "elu": 4, "erf": 4, "gelu": 4, "hardsigmoid": 4, "hardswish": 4, "leaky_relu": 2, "native_group_norm": 8,
    "_fused_rms_norm": 6, "_log_softmax_backward_data": 4, "_softmax_backward_data": 4, "gelu_backward": 8,
    "native_group_norm_backward": 12, "native_layer_norm": 8, "native_layer_norm_backward": 12, "sigmoid": 4,
    "sigmoid_backward": 3, "silu": 4, "silu_backward": 6, "softplus": 4, "tanh": 4, "tanh_backward": 3,
    "upsample_bicubic2d": 40, "upsample_bilinear2d": 8,
}  # fmt: skip

# Operators that take one FLOP for each element of the input.
REDUCTIONS = {
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "amax", "amin", "any", "argmax", "argmin",
    "cumsum", "max", "mean", "min", "prod", "sort", "sum", "topk", "var", "var_mean",
}  # fmt: skip


# Operators that read only as much of their first input as they output.
LOOK_UPS = {"embedding", "gather", "index", "index_select"}

# Operators that return what they read, and operators that return nothing.
IDENTITIES = {"_unsafe_view", "alias", "detach", "detach_", "lift_fresh_copy", "lift_fresh"}
ASSERTIONS = {"_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range_for_size"}

# Operators that join the kernel of the operator before them although not tagged as pointwise: they scale or copy.
COPIES = {"clone", "_to_copy", "native_dropout", "_native_batch_norm_legit_no_training"}

PRECISIONS = {
    torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "int8",
    torch.uint8: "int8", torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8",
}  # fmt: skip

# Names of attention and its gradient: as operators defined here, and as kinds in the document.
ATTENTION, ATTENTION_BACKWARD = "scaled_dot_product_attention", "scaled_dot_product_attention_backward"


class NotExportable(Exception):
    """The program cannot be priced operator by operator."""


def tensors(value):
    """The tensors in the value of a node."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors(part)]
    return []


def elements(tensor, where):
    count = 1
    for size in tensor.shape:
        if not isinstance(size, int):
            raise NotExportable(f"{where} has the symbolic dimension {size}: export without dynamic shapes")
        count *= size
    return count


def size_in_bytes(tensor, where):
    return elements(tensor, where) * tensor.element_size()


def kind_of(node):
    """The kind of a node, such as `convolution` of `aten.convolution.default`."""
    return str(getattr(node.target, "overloadpacket", node.target)).rsplit(".", 1)[-1]


def is_view(node):
    """Whether the output of a node is a view of the memory that it reads."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.returns:
        return False
    alias = schema.returns[0].alias_info
    return alias is not None and not alias.is_write


def is_identity(node):
    """Whether a node outputs what it reads."""
    kind = kind_of(node)
    if kind == "cat":
        return sum(elements(source.meta["val"], node.name) > 0 for source in node.args[0]) == 1
    if kind == "_to_copy":
        source, made = node.all_input_nodes[0].meta["val"], node.meta["val"]
        return source.dtype == made.dtype and source.stride() == made.stride()
    return kind in IDENTITIES


def is_elementwise(node):
    """Whether every element of the result depends on one element of each input."""
    return torch.Tag.pointwise in getattr(node.target, "tags", ()) or kind_of(node) in COPIES


def shapes(nodes):
    return [tuple(node.meta["val"].shape) for node in nodes]


def flop_of(node, outputs):
    packet = getattr(node.target, "overloadpacket", None)
    made = sum(elements(tensor, node.name) for tensor in outputs[:1])
    kind = kind_of(node)
    if kind == ATTENTION:
        return int(sdpa_flop_count(*shapes(node.args[:3])))
    if kind == ATTENTION_BACKWARD:
        return int(sdpa_backward_flop_count(*shapes(node.args[:4])))
    if kind == "_grouped_mm":
        second = shapes(node.args[1:2])[0]
        return 2 * elements(node.args[0].meta["val"], node.name) * second[-1]
    if packet in flop_registry:
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])
        flop = flop_registry[packet](*args, **kwargs, out_val=node.meta["val"])
        with_bias = kind in ("addmm", "baddbmm") or (kind == "convolution" and node.args[2] is not None)
        return int(flop) + (made if with_bias else 0)
    if kind in WITHOUT_FLOP:
        return 0
    if kind in ("max_pool2d_with_indices", "avg_pool2d", "avg_pool1d", "avg_pool3d", "max_pool3d_with_indices"):
        window = node.args[1]
        window = [window] if isinstance(window, int) else list(window)
        if len(window) == 1 and "2d" in kind:
            window *= 2
        for size in window:
            made *= size
        return made
    if kind in REDUCTIONS:
        return sum(elements(tensor, node.name) for tensor in tensors(node.all_input_nodes[0].meta["val"]))
    return FLOP_PER_ELEMENT.get(kind, 1) * made


def kernels_of(node):
    """The kernel that a node calls, with the dimensions by which measurements are listed."""
    kind = kind_of(node)
    if kind in ("mm", "bmm", "addmm", "baddbmm"):
        (*batch, m, k), second = shapes(node.args[1:3] if kind in ("addmm", "baddbmm") else node.args[:2])
        called = {"product": {"batch": batch[0] if batch else 1, "m": m, "n": second[-1], "k": k}}
    elif kind == ATTENTION and len(shapes(node.args[:1])[0]) == 4:
        (batch, heads, queries, width), (_, kv_heads, keys, _), value = shapes(node.args[:3])
        if value[-1] != width:
            return []
        called = {
            "attention": {
                "batch": batch, "queries": queries, "keys": keys, "heads": heads, "kv_heads": kv_heads, "head_dim": width,
            }
        }  # fmt: skip
    else:
        return []
    dimensions = next(iter(called.values()))
    if min(dimensions.values()) < 1:
        return []
    if kind == ATTENTION and is_causal(node):
        dimensions["causal"] = True
    return [called]


def is_causal(node):
    """Whether attention is causal by its flag, not by a mask tensor."""
    names = [argument.name for argument in node.target._schema.arguments]
    return bool({**dict(zip(names, node.args)), **node.kwargs}.get("is_causal", False))


def precision_of(node, outputs):
    """The precision that a node computes with: that of the first floating-point tensor that it reads, or else makes."""
    read = [tensor for source in node.all_input_nodes for tensor in tensors(source.meta.get("val"))]
    for tensor in [*read, *outputs]:
        if tensor.dtype.is_floating_point:
            return PRECISIONS.get(tensor.dtype)
    return None
