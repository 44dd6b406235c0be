

def decomposed(program):
    """The program in the operators of core ATen, and attention."""
    table = torch.export.default_decompositions()
    table.pop(torch.ops.aten.scaled_dot_product_attention.default, None)
    return program.run_decompositions(table)


def layer_of(node, inside=""):
    """The path of the module that a node came from, relative to `inside`; `None` for `inside` itself or the root."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if path]
    path = paths[-1] if paths else ""
    # In a module that is called several times, the number of the call follows the path.
    path = path.split("@")[0]
    if path == inside:
        return None
    if inside and (path + ".").startswith(inside + "."):
        path = path[len(inside) + 1 :]
    return path or None


INSIDE = "model"


class Whole(torch.nn.Module):
    """Returns the tensors in the output of a model, whatever its class; with `loss`, the loss of the output."""

    def __init__(self, model, loss=None):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *args, **kwargs):
        given = self.model(*args, **kwargs)
        return inner_tensors(given) if self.loss is None else self.loss(given)


def inner_tensors(value):
    """The tensors in an output, which may be a ModelOutput, a cache in one, a list or a dictionary."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    elif hasattr(value, "__dict__"):
        value = list(vars(value).values())
    if not isinstance(value, (list, tuple)):
        return []
    return list({id(tensor): tensor for part in value for tensor in inner_tensors(part)}.values())


def program_of(model, inputs, loss=None):
    """The ExportedProgram of a model, with inputs in a tuple, or by name in a dictionary."""
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), {})
    return torch.export.export(Whole(model, loss), args, kwargs, strict=False)


def needed(graph):
    """The nodes that outputs depend on."""
    wanted = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in wanted:
            wanted.add(node)
            wanted.update(node.all_input_nodes)
    return wanted


def same_weight(program):
    """One name for each weight of a program, by placeholder: a tied weight has several names."""
    seen, found = {}, {}
    for node, target in program.graph_signature.inputs_to_parameters.items():
        tensor = program.state_dict.get(target)
        key = target
        if tensor is not None:
            storage = tensor.untyped_storage()
            key = (storage._cdata, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
        found[node] = seen.setdefault(key, target)
    return found


def is_cache(name):
    return "past_key_value" in name or "cache" in name


def roles(program, inside="", states=0):
    """The held data, by name of placeholder; the optimiser keeps `states` numbers for each number of a weight."""
    def known(target):
        return target.removeprefix(inside + ".") if inside else target

    signature, found, weights = program.graph_signature, {}, {}
    tied = same_weight(program)
    named = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        size = float(size_in_bytes(value, node.name))
        if node.name in tied:
            target = tied[node.name]
            optimizer = 4.0 * states * elements(value, node.name)
            weights.setdefault(target, Held(known(target), size, "weight", optimizer))
            found[node.name] = weights[target]
        elif node.name in named:
            found[node.name] = Held(known(named[node.name]), size, "constant")
        elif is_cache(node.name):
            found[node.name] = Held(node.name, size, "cache")
    return found


# Names of the input with the tokens, the likeliest first; for an encoder and a decoder, the encoder's input.
TOKENS = ["input_ids", "decoder_input_ids", "tokens", "token_ids", "idx"]


def batch_of(program):
    """Samples, and tokens per sample: of the input named after tokens, or else the first dimension of all inputs."""
    given = set(program.graph_signature.user_inputs)
    shapes = {}
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if node.name in given and isinstance(value, torch.Tensor):
            shapes[node.name] = (value.shape, value.dtype)
    for name in TOKENS:
        shape, dtype = shapes.get(name, ((), None))
        if len(shape) == 2 and dtype in (torch.int64, torch.int32) and min(shape) > 0:
            return {"samples": int(shape[0]), "tokens": int(shape[1])}
    firsts = {int(shape[0]) for shape, _ in shapes.values() if len(shape) > 0}
    return {"samples": firsts.pop()} if len(firsts) == 1 and 0 not in firsts else None


def document(program, name="", fuse=True, inside="", device_class=None, device=None):
    """The graph document of an ExportedProgram, as a dictionary; paths are relative to the module `inside`.

    With `device_class`, operators are measured; see `measure`.
    """
    program = decomposed(program)
    held, wanted = roles(program, inside), needed(program.graph)
    builder = Builder(fuse)
    for node in program.graph.nodes:
        if node not in wanted:
            continue
        if node.op == "placeholder":
            builder.source[node] = None
            if node.name in held:
                builder.hold(node, held[node.name])
        elif node.op == "output":
            for given in node.all_input_nodes:
                builder.give_out(given)
        elif node.op == "call_function":
            check_body(node)
            builder.add(node, layer_of(node, inside))
        else:
            raise NotExportable(f"{node.name} has a body: export without control flow")
    builder.adopt()
    if device_class is not None:
        measure(program, builder, device_class, device)
    return builder.document(name, batch_of(program))


def check_body(node):
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        raise NotExportable(f"{node.name} has a body: export without control flow")


def write_document(made, path):
    text = json.dumps(made, indent=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def write(program, path, name="", fuse=True, device_class=None, device=None):
    """Writes the document of an ExportedProgram to a file; with `device_class`, measured on the device."""
    write_document(document(program, name, fuse, "", device_class, device), path)


def write_model(model, inputs, path, name="", fuse=True, device_class=None, device=None):
    """Exports a model and writes its document; `inputs` is a tuple, or a dictionary by name."""
    write_document(document(program_of(model, inputs), name, fuse, INSIDE, device_class, device), path)
