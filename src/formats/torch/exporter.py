"""Writes a PyTorch model as a stagewright.graph/1 document.

From a saved program (torch.export.save):

    stagewright exporter torch > stagewright_exporter.py
    python3 stagewright_exporter.py model.pt2 --out model.json

or from Python, where the model is:

    import torch, stagewright_exporter
    program = torch.export.export(model.eval(), (example_input,))
    stagewright_exporter.write(program, "model.json", name="my model")

An operator of the document is an operator of the program after run_decompositions(), with the module it came from
as its layer. Operators carry FLOP (a multiply-add counts two) and the bytes they move, and the cluster's roofline
prices them. FLOP of products, convolutions and attention are those of torch.utils.flop_counter; of elementwise
operators, one for each element of the output.

What depends on parameters and buffers alone is folded away. A parameter belongs to the operator that reads it; one
of more than 64 KiB with several readers is counted once, and its readers are colocated. Buffers and constants count
as workspace. A view moves no bytes. Nothing but PyTorch is needed.
"""

import argparse
import json
import operator
import sys

import torch
from torch.utils.flop_counter import flop_registry

COPIED_BYTES = 65536

# Move or make data without computing on it.
WITHOUT_FLOP = {
    "arange", "cat", "clone", "constant_pad_nd", "copy", "embedding", "empty", "fill", "flip", "full", "full_like",
    "gather", "index", "index_put", "index_select", "masked_fill", "repeat", "roll", "scalar_tensor", "scatter",
    "select_scatter", "slice_scatter", "stack", "_to_copy", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "zeros", "zeros_like",
}  # fmt: skip

# FLOP for each element of the output, where it is more than one.
FLOP_PER_ELEMENT = {
    "_log_softmax": 5, "_native_batch_norm_legit": 8, "_native_batch_norm_legit_no_training": 2, "_softmax": 5,
    "elu": 4, "erf": 4, "gelu": 4, "hardsigmoid": 4, "hardswish": 4, "leaky_relu": 2, "native_group_norm": 8,
    "native_layer_norm": 8, "sigmoid": 4, "silu": 4, "softplus": 4, "tanh": 4,
    "upsample_bicubic2d": 40, "upsample_bilinear2d": 8,
}  # fmt: skip

# FLOP for each element of the input.
REDUCTIONS = {
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "amax", "amin", "any", "argmax", "argmin",
    "cumsum", "max", "mean", "min", "prod", "sort", "sum", "topk", "var", "var_mean",
}  # fmt: skip


# Read of their first input only what they give out.
LOOK_UPS = {"embedding", "gather", "index", "index_select"}


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
            raise NotExportable(f"{where} has the open dimension {size}: export without dynamic shapes")
        count *= size
    return count


def size_in_bytes(tensor, where):
    return elements(tensor, where) * tensor.element_size()


def kind_of(node):
    """`convolution` of `aten.convolution.default`."""
    return str(getattr(node.target, "overloadpacket", node.target)).rsplit(".", 1)[-1]


def is_view(node):
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.returns:
        return False
    alias = schema.returns[0].alias_info
    return alias is not None and not alias.is_write


def layer_of(node):
    """The path of the innermost module, none at the top."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if path]
    return paths[-1] if paths else None


def flop_of(node, outputs):
    packet = getattr(node.target, "overloadpacket", None)
    made = elements(outputs[0], node.name) if outputs else 0
    kind = kind_of(node)
    if packet in flop_registry:
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])
        flop = flop_registry[packet](*args, **kwargs, out_val=node.meta["val"])
        with_bias = kind in ("addmm", "baddbmm") or (kind == "convolution" and node.args[2] is not None)
        return int(flop) + (made if with_bias else 0)
    if is_view(node) or kind in WITHOUT_FLOP:
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


def bytes_moved(node, inputs, outputs):
    """Bytes read and written: none for a view, and of what is looked up only what is taken."""
    if is_view(node):
        return 0
    looked_up = kind_of(node) in LOOK_UPS
    read = [tensor for source in inputs[looked_up:] for tensor in tensors(source.meta["val"])]
    written = sum(size_in_bytes(tensor, node.name) for tensor in outputs)
    return sum(size_in_bytes(tensor, node.name) for tensor in read) + (1 + looked_up) * written


def document(program, name=""):
    """The graph document of an ExportedProgram, as a dictionary."""
    program = program.run_decompositions()
    signature = program.graph_signature
    parameters = set(signature.inputs_to_parameters)
    constants = parameters | set(signature.inputs_to_buffers) | set(signature.inputs_to_lifted_tensor_constants)

    operators, made = [], {}  # `made` maps a node and the number of an output to what reads it
    alias = {}  # getitem nodes to the node and the output they name
    folded = {}  # constant nodes to the nodes whose bytes they are
    uses = {}  # constant nodes to the places of the operators that read them

    for node in program.graph.nodes:
        if node.op == "placeholder":
            if node.name in constants:
                folded[node] = [node]
            continue
        if node.op == "output":
            continue
        if node.op == "get_attr" or not node.op.startswith("call_"):
            raise NotExportable(f"{node.name} has a body of its own: export without control flow")
        if node.target is operator.getitem:
            source = node.args[0]
            if source in folded:
                folded[node] = folded[source]
            else:
                alias[node] = (source, node.args[1])
            continue
        inputs = [source for source in node.all_input_nodes if tensors(source.meta.get("val"))]
        if all(source in folded for source in inputs):
            roots = [root for source in inputs for root in folded[source]]
            folded[node] = list(dict.fromkeys(roots)) or [node]
            continue

        place = len(operators)
        outputs = tensors(node.meta.get("val"))
        entry = {"name": node.name, "kind": kind_of(node)}
        if layer_of(node):
            entry["layer"] = layer_of(node)
        entry["flop"] = float(flop_of(node, outputs))
        entry["bytes_moved"] = float(bytes_moved(node, inputs, outputs))
        operators.append(entry)
        for output in range(len(outputs)):
            made[(node, output)] = []
        for source in inputs:
            if source in folded:
                for root in folded[source]:
                    uses.setdefault(root, []).append(place)
                continue
            key = alias.get(source, (source, 0))
            if key in made and node.name not in made[key]:
                made[key].append(node.name)

    place_constants(operators, uses, parameters)
    sent = []
    for (node, output), readers in made.items():
        if readers:
            size = float(size_in_bytes(tensors(node.meta["val"])[output], node.name))
            sent.append({"producer": node.name, "consumers": readers, "bytes": size})
    return {"schema": "stagewright.graph/1", "name": name, "operators": operators, "tensors": sent}


def place_constants(operators, uses, parameters):
    """Gives constants to their readers, and colocates those that share a large parameter."""
    group = list(range(len(operators)))

    def find(place):
        while group[place] != place:
            place = group[place]
        return place

    shared = []
    for root, places in uses.items():
        places = sorted(set(places))
        size = float(sum(size_in_bytes(tensor, root.name) for tensor in tensors(root.meta["val"])))
        if root.name not in parameters:
            for place in places:
                operators[place]["workspace_bytes"] = operators[place].get("workspace_bytes", 0.0) + size
            continue
        if size > COPIED_BYTES and len(places) > 1:
            shared.append((places[0], root.name))
            for place in places[1:]:
                group[find(place)] = find(places[0])
            places = places[:1]
        for place in places:
            operators[place]["parameter_bytes"] = operators[place].get("parameter_bytes", 0.0) + size
    names = {}
    for place, name in shared:
        names.setdefault(find(place), name)
    for place, entry in enumerate(operators):
        if find(place) in names:
            entry["colocation"] = names[find(place)]


def write(program, path, name=""):
    """Writes the document of an ExportedProgram to a file."""
    text = json.dumps(document(program, name), indent=2)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def main():
    parser = argparse.ArgumentParser(description="Writes a saved torch.export program as stagewright.graph/1 JSON.")
    parser.add_argument("program", help="a file written by torch.export.save")
    parser.add_argument("--out", help="where to write; standard output if left out")
    parser.add_argument("--name", default="", help="what to call the model")
    arguments = parser.parse_args()
    program = torch.export.load(arguments.program)
    try:
        if arguments.out:
            write(program, arguments.out, arguments.name)
        else:
            json.dump(document(program, arguments.name), sys.stdout, indent=2)
            print()
    except NotExportable as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
