

# By optimiser, FLOP and numbers of state for each number of a weight.
OPTIMIZERS = {"sgd": (2, 0), "momentum": (4, 1), "adam": (12, 2), "adamw": (14, 2)}


def joint_attention():
    """Defines attention and its gradient as two operators, as in fused kernels, once in a process."""
    if hasattr(torch.ops.stagewright_exporter, ATTENTION):
        return
    signature = "(Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal)"
    library = torch.library.Library("stagewright_exporter", "DEF")
    library.define(f"{ATTENTION}{signature} -> (Tensor, Tensor)")
    library.define(
        f"{ATTENTION_BACKWARD}(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor out, "
        "Tensor logsumexp) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    joint_attention.library = library  # the operators exist as long as the library object
    forward = f"stagewright_exporter::{ATTENTION}"
    backward = f"stagewright_exporter::{ATTENTION_BACKWARD}"

    @torch.library.register_fake(forward)
    def attend(query, key, value, mask, is_causal):
        # Tokens come before heads in memory, so that joining the heads is a view.
        *batch, heads, tokens, _ = query.shape
        out = query.new_empty([*batch, tokens, heads, value.shape[-1]]).transpose(-2, -3)
        return out, query.new_empty(query.shape[:-1], dtype=torch.float32)

    @torch.library.register_fake(backward)
    def attend_backward(grad, query, key, value, mask, out, logsumexp):
        of_mask = query.new_empty(0) if mask is None else torch.empty_like(mask)
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), of_mask

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:4], *output)

    def differentiate(ctx, grad, _):
        made = getattr(torch.ops.stagewright_exporter, ATTENTION_BACKWARD)(grad, *ctx.saved_tensors)
        return *made[:3], made[3] if ctx.needs_input_grad[3] else None, None

    torch.library.register_autograd(forward, differentiate, setup_context=keep)


class Step(torch.fx.Interpreter):
    """Runs a program and notes which of its nodes every traced node comes from, gradients included.

    Nodes that are traced while a node of the program runs are noted as coming from that node. So are those traced while
    autograd differentiates it. A sum of the gradients of several readers of a tensor comes from no node.
    """

    def __init__(self, module):
        super().__init__(module, garbage_collect_values=False)
        self.known, self.now, self.backward, self.notes = set(), None, False, {}

    def note(self, node):
        """Notes that everything traced since the last call comes from `now`, which then becomes `node`."""
        tracer = torch.fx.experimental.proxy_tensor.get_proxy_mode().tracer
        for made in reversed(tracer.graph.nodes):
            if made in self.notes:
                break
            self.notes[made] = (self.now, self.backward)
        self.now = node

    def run_node(self, node):
        self.note(node)
        result = super().run_node(node)
        for tensor in tensors(result):
            self.mark(tensor.grad_fn, node)
        self.note(None)
        return result

    def mark(self, function, node):
        """Notes the node whenever autograd runs one of the functions that the node added to its graph."""
        left = [function]
        while left:
            function = left.pop()
            if function is None or function in self.known or "AccumulateGrad" in type(function).__name__:
                continue
            self.known.add(function)
            function.register_prehook(lambda _, node=node: self.note(node))
            function.register_hook(lambda *_: self.note(None))
            left += [before for before, _ in function.next_functions]

    def call_function(self, target, args, kwargs):
        if target is torch.ops.aten.scaled_dot_product_attention.default:
            given = {**dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args)), **kwargs}
            mask, causal = given.get("attn_mask"), given.get("is_causal", False)
            return getattr(torch.ops.stagewright_exporter, ATTENTION)(*args[:3], mask, causal)[0]
        return super().call_function(target, args, kwargs)


def trace_step(program):
    """Traces both passes as one graph, whose outputs are the loss and the gradient of each weight, in order.

    Returns the graph, the placeholders of the program in the order of the graph's own, the placeholders of weights that
    have a gradient, and for each node of the graph the node of the program that it comes from and whether it belongs to
    the backward pass.
    """
    joint_attention()
    module = program.graph_module
    placeholders = list(program.graph.find_nodes(op="placeholder"))
    weights = program.graph_signature.inputs_to_parameters
    trained = [
        at
        for at, node in enumerate(placeholders)
        if node.name in weights and node.meta["val"].dtype.is_floating_point and asks_gradient(program, weights[node.name])
    ]
    step = Step(module)
    output = next(iter(program.graph.find_nodes(op="output")))
    mutated = len(program.graph_signature.buffers_to_mutate)
    loss_node = output.args[0][mutated]
    if loss_node.meta["val"].numel() != 1:
        raise NotExportable("the loss is not a scalar: give `loss`, a function of the outputs of the model")

    def joint(*values):
        values = list(values)
        for at in trained:
            values[at] = values[at].detach().requires_grad_(True)
        with torch.enable_grad():
            step.known.clear()
            loss = step.run(*values, enable_io_processing=False)[mutated]
            step.backward = True
            given = torch.autograd.grad(loss, [values[at] for at in trained], allow_unused=True)
            step.note(None)
        return [loss, *given]

    values = [node.meta.get("val") for node in placeholders]
    mode = next(value.fake_mode for value in values if isinstance(value, torch.Tensor))
    with mode:
        traced = torch.fx.experimental.proxy_tensor.make_fx(joint)(*values)
    return traced.graph, placeholders, [placeholders[at] for at in trained], step.notes


def asks_gradient(program, target):
    tensor = program.state_dict.get(target)
    return tensor is None or tensor.requires_grad


class StepBuilder(Builder):
    """Builds a training step: adds updates, and finds the forward operator of each backward operator."""

    def __init__(self, fuse, optimizer):
        super().__init__(fuse, trained=True)
        self.optimizer = optimizer
        self.forward_of = {}  # nodes of the program -> forward operators
        self.views = {}  # nodes of the program without an operator -> the operator whose tensor they view

    def take(self, node, origin, backward, layer):
        """Adds a node of the trace that comes from `origin`, a node of the program."""
        before = len(self.works)
        self.add(node, layer, "backward" if backward else "forward")
        if len(self.works) > before:
            if not backward:
                self.forward_of[origin] = before
            else:
                self.works[before].home = self.forward_of.get(origin, self.views.get(origin))
        elif not backward and origin not in self.forward_of:
            found = self.source.get(node)
            if isinstance(found, tuple):
                self.views[origin] = found[0]

    def settle(self):
        """Places backward operators without a forward operator with their readers, or else with what they read."""
        for number in reversed(range(len(self.works))):
            work = self.works[number]
            if work.turn != "backward" or work.home is not None:
                continue
            readers = [reader for output in range(len(work.outputs)) for reader in self.readers.get((number, output), [])]
            homes = [self.works[reader].home for reader in readers if self.works[reader].turn == "backward"]
            work.home = next((home for home in homes if home is not None), None)
        for work in self.works:
            if work.turn == "backward" and work.home is None:
                read = [self.works[found[0]] for found, _ in work.reads]
                work.home = next((other.home for other in read if other.home is not None), None)
        for work in self.works:
            if work.turn == "backward" and work.home is not None:
                work.layer = self.works[work.home].layer or work.layer

    def update(self, weight, held, gradient):
        """Adds the update of a weight, on the device that computes its gradient."""
        found = self.source[gradient]
        if not isinstance(found, tuple):
            return
        number, count = len(self.works), elements(weight.meta["val"], weight.name)
        work = Work(None, self.optimizer, self.works[found[0]].layer, "update")
        per_weight, states = OPTIMIZERS[self.optimizer]
        work.flop = float(per_weight * count)
        work.precision = "fp32"
        # The weight and the states are read and written, the gradient read.
        work.held_bytes = 2.0 * held.size + 2.0 * 4.0 * states * count
        work.reads = [(found, float(size_in_bytes(weight.meta["val"], weight.name)))]
        work.home = found[0]
        self.readers.setdefault(found, []).append(number)
        self.works.append(work)


def split_sums(outputs, notes, weights):
    """The gradients of each weight, one for each reader: the sums that autograd makes of them are split."""
    found = []
    for weight, output in zip(weights, outputs):
        left, apart = [output], []
        while left:
            node = left.pop()
            if node is None:
                continue
            origin, backward = notes.get(node, (None, False))
            if backward and origin is None and kind_of(node) == "add" and len(node.all_input_nodes) == 2:
                left += node.all_input_nodes
            else:
                apart.append(node)
        found.append((weight, apart))
    return found


def training_document(program, name="", optimizer="adamw", fuse=True, inside=""):
    """The document of a training step of an ExportedProgram that returns its loss."""
    if optimizer not in OPTIMIZERS:
        raise NotExportable(f"the optimizer {optimizer} is not one of {', '.join(OPTIMIZERS)}")
    program = decomposed(program)
    held = roles(program, inside, OPTIMIZERS[optimizer][1])
    graph, placeholders, weights, notes = trace_step(program)
    names = list(graph.find_nodes(op="placeholder"))
    of_name = {node: held.get(original.name) for node, original in zip(names, placeholders)}
    given = next(iter(graph.find_nodes(op="output"))).args[0]
    gradients = split_sums(given[1:], notes, weights)

    wanted, left = set(), [given[0], *[node for _, nodes in gradients for node in nodes]]
    while left:
        node = left.pop()
        if node not in wanted:
            wanted.add(node)
            left += node.all_input_nodes

    builder = StepBuilder(fuse, optimizer)
    for node in graph.nodes:
        if node.op == "placeholder":
            builder.source[node] = None
            if of_name[node] is not None:
                builder.hold(node, of_name[node])
        elif node in wanted:
            check_body(node)
            origin, backward = notes.get(node, (None, False))
            builder.take(node, origin, backward, layer_of(origin, inside) if origin is not None else None)
    builder.give_out(given[0])
    builder.adopt()
    builder.settle()
    for weight, nodes in gradients:
        for node in nodes:
            builder.update(weight, held[weight.name], node)
    return builder.document(name, batch_of(program))


def write_training_step(model, inputs, path, loss=None, optimizer="adamw", name="", fuse=True):
    """Writes one training step of a model: forward, backward and the optimiser.

    `inputs` is a tuple, or a dictionary by name. `loss` is a function from the output of the model to a single number;
    without it, the output must have a field `loss`, as that of a transformers model has if the inputs include labels.
    `optimizer` is sgd, momentum, adam or adamw.
    """
    program = program_of(model, inputs, loss or (lambda given: given.loss))
    write_document(training_document(program, name, optimizer, fuse, INSIDE), path)
