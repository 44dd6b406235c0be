

class Held:
    """Data that operators read in place: a weight, a constant or a cache."""

    def __init__(self, name, size, role, optimizer=0.0):
        self.name, self.size, self.role, self.optimizer = name, size, role, optimizer
        self.readers = []  # numbers of the operators that read the data


class Work:
    """An operator of a document under construction."""

    def __init__(self, node, kind, layer, turn):
        self.node, self.kind, self.layer, self.turn = node, kind, layer, turn
        self.outputs = [] if node is None else tensors(node.meta.get("val"))
        self.reads = []  # ((operator, output), bytes), one for each view of the output
        self.flop, self.held_bytes, self.written = 0.0, 0.0, {}
        self.precision, self.launches, self.leader = None, 1, None
        self.kernels = []
        self.parameter_bytes = self.optimizer_bytes = 0.0
        self.home = None  # number of the operator whose device this one shares
        self.seconds = {}  # measured, by device class
        self.name = ""


class Builder:
    """Makes a document from the nodes of a graph.

    `roles` has a `Held` for each node whose value is held. If weights are trained, a node that is computed from weights
    alone is an operator; otherwise its value is held as well.
    """

    def __init__(self, fuse, trained=False):
        self.fuse, self.trained = fuse, trained
        self.works, self.place = [], {}  # operators, and their numbers by node
        self.source = {}  # by node: a (number of operator, output), a list of Held, or None for an input
        self.readers = {}  # (operator, output) -> numbers of operators
        self.held = []
        self.results = []  # (operator, output) of the outputs of the model

    def hold(self, node, held):
        if held not in self.held:
            self.held.append(held)
        self.source[node] = [held]

    def add(self, node, layer, turn="forward"):
        """Adds a node that calls a function; the nodes that it reads must have been added."""
        kind = kind_of(node)
        if kind in ASSERTIONS or "val" not in node.meta:
            return
        inputs = [source for source in node.all_input_nodes if tensors(source.meta.get("val"))]
        if node.target is operator.getitem:
            base = self.source[node.args[0]]
            self.source[node] = (base[0], node.args[1]) if self.is_made(base, node.args[0]) else base
            return
        if inputs and (is_view(node) or is_identity(node)):
            # In a concatenation, all inputs but one may be empty.
            full = [source for source in inputs if any(tensor.numel() for tensor in tensors(source.meta["val"]))]
            self.source[node] = self.source[(full or inputs)[0]]
            return
        if not tensors(node.meta["val"]):
            return
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if not random and all(isinstance(self.source[source], list) for source in inputs):
            roots = {held: None for source in inputs for held in self.source[source]}
            weights = [held for held in roots if held.role == "weight"]
            if not (weights and self.trained):
                size = sum(size_in_bytes(tensor, node.name) for tensor in tensors(node.meta["val"]))
                made = Held(f"{layer}.{node.name}" if layer else node.name, float(size), "constant")
                self.held.append(made)
                self.source[node] = [*weights, made]
                return
        self.append(node, kind, layer, turn, inputs)

    def is_made(self, base, node):
        """Whether `node` is the operator that `base` is an output of, and not a view of that output."""
        return isinstance(base, tuple) and self.works[base[0]].node is node

    def append(self, node, kind, layer, turn, inputs):
        number = len(self.works)
        work = Work(node, kind, layer, turn)
        work.flop = float(flop_of(node, work.outputs))
        work.precision = precision_of(node, work.outputs)
        taken = sum(size_in_bytes(tensor, node.name) for tensor in work.outputs[:1])
        for at, source in enumerate(inputs):
            size = sum(size_in_bytes(tensor, source.name) for tensor in tensors(source.meta["val"]))
            if at == 0 and kind in LOOK_UPS:
                size = taken
            found = self.source[source]
            if isinstance(found, list):
                for held in found:
                    if number not in held.readers:
                        held.readers.append(number)
                work.held_bytes += min(size, max((held.size for held in found), default=size))
            elif found is None:
                work.held_bytes += size
            else:
                whole = size_in_bytes(self.works[found[0]].outputs[found[1]], source.name)
                work.reads.append((found, float(min(size, whole))))
                readers = self.readers.setdefault(found, [])
                if number not in readers:
                    readers.append(number)
        work.kernels = kernels_of(node)
        self.works.append(work)
        self.place[node] = number
        self.source[node] = (number, 0)

    def give_out(self, node):
        found = self.source.get(node)
        if isinstance(found, tuple) and found not in self.results:
            self.results.append(found)

    def adopt(self):
        """Gives operators of the root module the layer of an operator they read, or else of one that reads them."""
        for work in self.works:
            if not work.layer:
                work.layer = next((self.works[found[0]].layer for found, _ in work.reads if self.works[found[0]].layer), None)
        for work in reversed(self.works):
            for found, _ in work.reads:
                self.works[found[0]].layer = self.works[found[0]].layer or work.layer

    def fuse_chains(self):
        used = {}
        for number, output in [*self.readers, *self.results]:
            used.setdefault(number, set()).add(output)
        for number, work in enumerate(self.works):
            if not self.fuse or work.node is None or not work.reads:
                continue
            summed = work.kind in REDUCTIONS
            if not summed and not is_elementwise(work.node):
                continue
            found = max(read for read, _ in work.reads)
            before = self.works[found[0]]
            sole = used[found[0]] == {found[1]} and self.readers[found] == [number] and found not in self.results
            leader = found[0] if before.leader is None else before.leader
            size = elements(work.outputs[0], "")
            if summed:
                alike = before.node is not None and is_elementwise(before.node)
            else:
                # A sum over rows may be followed by an operator that divides the rows by the sum.
                alike = size in (elements(before.outputs[found[1]], ""), elements(self.works[leader].outputs[0], ""))
            # A gradient stays with the operator that it differentiates.
            near = work.home is None or self.group(work.home) == self.group(found[0])
            if sole and alike and near and before.turn == work.turn:
                work.leader = leader
                work.launches = 0
                work.reads = [(read, 0.0 if read == found else size) for read, size in work.reads]
                before.written[found[1]] = 0.0

    def name_all(self):
        taken = {}
        for work in self.works:
            if not work.name:
                turn = "" if work.turn == "forward" else f"{work.turn}/"
                base = f"{work.layer}/{turn}{work.kind}" if work.layer else turn + work.kind
                taken[base] = taken.get(base, -1) + 1
                work.name = base if not taken[base] else f"{base}_{taken[base]}"

    def give_parameters(self):
        """Adds weights whose readers share a device to the first reader; returns entries for all other held data."""
        entries, caches = [], {}
        for held in self.held:
            if not held.readers or (held.role == "constant" and held.size <= 8):
                continue
            names = [self.works[number].name for number in held.readers]
            homes = {self.group(number) for number in held.readers}
            if held.role == "weight" and (len(names) == 1 or (self.trained and len(homes) == 1)):
                first = self.works[held.readers[0]]
                first.parameter_bytes += held.size
                first.optimizer_bytes += held.optimizer
                continue
            entry = {"name": held.name, "bytes": held.size, "readers": names}
            if held.role == "weight":
                entry["trained"] = True
            if held.optimizer:
                entry["optimizer_bytes"] = held.optimizer
            key = self.works[held.readers[0]].layer if held.role == "cache" else tuple(names)
            if held.role != "weight" and (held.role, key) in caches:
                known = caches[(held.role, key)]
                known["bytes"] += held.size
                known["readers"] = list(dict.fromkeys([*known["readers"], *names]))
                continue
            caches[(held.role, key)] = entry
            entries.append(entry)
        return entries

    def group(self, number):
        """The number of the operator that leads the group of operators that must share a device with this one."""
        work = self.works[number]
        for step in (work.leader, work.home):
            if step is not None and step != number:
                return self.group(step)
        return number

    def document(self, name, batch):
        self.fuse_chains()
        self.name_all()
        parameters = self.give_parameters()
        groups = {}
        for number in range(len(self.works)):
            groups.setdefault(self.group(number), []).append(number)
        operators, sent = [], []
        for number, work in enumerate(self.works):
            entry = {"name": work.name, "kind": work.kind}
            if work.turn != "forward":
                entry["pass"] = work.turn
            if len(groups[self.group(number)]) > 1:
                entry["colocation"] = self.works[self.group(number)].name
            if work.layer:
                entry["layer"] = work.layer
            entry["flop"] = work.flop
            entry["bytes_moved"] = work.held_bytes + sum(size for _, size in work.reads)
            if work.precision:
                entry["precision"] = work.precision
            if work.kernels:
                entry["kernels"] = work.kernels
            if work.seconds:
                entry["seconds"] = work.seconds
            if work.launches != 1:
                entry["launches"] = float(work.launches)
            for field in ("parameter_bytes", "optimizer_bytes"):
                if getattr(work, field):
                    entry[field] = getattr(work, field)
            for output, tensor in enumerate(work.outputs):
                key = (number, output)
                if key not in self.readers and key not in self.results:
                    continue
                size = work.written.get(output, float(size_in_bytes(tensor, work.name)))
                entry["bytes_moved"] += size
                called = [self.works[reader].name for reader in self.readers.get(key, [])]
                if called:
                    sent.append({"producer": work.name, "consumers": called, "bytes": size})
                if key in self.results:
                    sent.append({"producer": work.name, "consumers": [], "bytes": size})
            operators.append(entry)
        document = {"schema": "stagewright.graph/2", "name": name, "operators": operators, "tensors": sent}
        if parameters:
            document["parameters"] = parameters
        if batch:
            document["batch"] = batch
        return document
