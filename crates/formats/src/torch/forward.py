

def looked_up(node):
    """The indices that a node reads, each with the number of entries that it selects from."""
    kind = kind_of(node)
    if kind == "embedding":
        return [(node.args[1], node.args[0].meta["val"].shape[0])]
    if kind in ("gather", "index_select", "index_copy", "index_add", "scatter", "scatter_add"):
        shape = node.args[0].meta["val"].shape
        return [(node.args[2], shape[node.args[1]])] if shape else []
    if kind in ("index", "index_put"):
        shape = node.args[0].meta["val"].shape
        return [(source, size) for source, size in zip(node.args[1], shape) if source is not None]
    return []


def integers_below(graph):
    """The number that indices must be below, by the node that they come from."""
    found = {}
    for node in graph.nodes:
        for source, size in looked_up(node) if node.op == "call_function" else []:
            while source.op == "call_function" and source.all_input_nodes and (is_view(source) or is_identity(source)):
                source = source.all_input_nodes[0]
            found[source] = min(size, found.get(source, size))
    return found


def random_like(value, rows, device):
    """A random tensor: indices are below `rows`, and other whole numbers, which are masks and counts, are ones."""
    shape, dtype = tuple(value.shape), value.dtype
    if dtype.is_floating_point or dtype.is_complex:
        made = (torch.randn(shape, dtype=torch.float32, device=device) * 0.02).to(dtype)
    elif rows and dtype != torch.bool:
        made = torch.randint(0, rows, shape, dtype=dtype, device=device)
    else:
        made = torch.ones(shape, dtype=dtype, device=device)
    # The memory layout is that of `value`.
    order = sorted(range(len(shape)), key=lambda at: value.stride(at), reverse=True)
    back = sorted(range(len(shape)), key=lambda at: order[at])
    return made.permute(order).contiguous().permute(back) if len(shape) > 1 else made


def values_of(program, device):
    """A value for each placeholder: constants as they are, everything else random numbers of the declared shapes."""
    signature, found = program.graph_signature, []
    named = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    rows = integers_below(program.graph)
    torch.manual_seed(0)
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            found.append(value)
            continue
        elements(value, node.name)
        target = named.get(node.name)
        known = program.state_dict.get(target, program.constants.get(target)) if target else None
        if isinstance(known, torch.Tensor) and known.device.type != "meta":
            found.append(known.detach().to(device))
        else:
            made = random_like(value, rows.get(node), device)
            # Such a buffer may hold the variances of a normalisation, which are positive.
            found.append(made.abs() + 1.0 if target and made.dtype.is_floating_point else made)
    return found


class Measured(torch.fx.Interpreter):
    """Runs a program and times the nodes that are operators, each by itself."""

    def __init__(self, module, clock, nodes):
        super().__init__(module)
        self.clock, self.nodes, self.seconds = clock, nodes, {}

    def run_node(self, node):
        if node in self.nodes:
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            self.seconds[node] = self.clock.seconds(lambda: node.target(*args, **kwargs))
        return super().run_node(node)


def measured(program, nodes, device):
    """Seconds of each of `nodes` on a device, and seconds of the whole program."""
    for node in program.graph.nodes:
        # The program was exported with the devices on which it makes tensors.
        if node.op == "call_function" and node.kwargs.get("device") is not None:
            node.update_kwarg("device", torch.device(device))
    module = torch.fx.GraphModule(program.graph_module, program.graph)
    module.graph.set_codegen(torch.fx.graph.CodeGen())
    module.recompile()
    clock, values = Clock(device), values_of(program, device)
    interpreter = Measured(module, clock, nodes)
    try:
        with torch.no_grad():
            interpreter.run(*values)
            whole = Clock(device, budget=2.0, fewest=3, most=20).seconds(lambda: module(*values))
    except (RuntimeError, IndexError) as error:
        # Out of memory, no kernel for the device, or an input for which random numbers will not do.
        raise NotExportable(f"the program does not run on {device} with random inputs: {error}") from error
    return interpreter.seconds, whole


def measure(program, builder, device_class, device=None):
    """Sets the measured seconds of a builder's operators for a device class; "" names the class after the device.

    An operator that runs in the kernel of another operator is measured as a kernel of its own. The sum over all
    operators is printed beside the time of the whole program.
    """
    device = device or default_device()
    name = device_class or class_of(device)
    seconds, whole = measured(program, set(builder.place), device)
    for node, number in builder.place.items():
        builder.works[number].seconds = {name: seconds[node]}
    total = sum(seconds.values())
    print(
        f"measured {len(seconds)} operators on {device} as class {name}: {total * 1e3:.3f} ms in sum, "
        f"{whole * 1e3:.3f} ms for the whole forward pass",
        file=sys.stderr,
    )
    if not 0.5 < total / whole < 2.0:
        print(
            "the two differ: other programs may run on the device; on a busy processor, set OMP_NUM_THREADS=1",
            file=sys.stderr,
        )
