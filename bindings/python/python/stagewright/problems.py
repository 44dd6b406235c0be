"""Problems: values of placements, simulated steps, and arrays."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _native
from .errors import StagewrightError, StagewrightWarning, visible
from .models import Model, _plain
from .plans import Plan

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Steps:
    """Simulated steps, one for each placement.

    Attributes:
        makespan: Seconds of each step, ``float64[n]``; infinity if an operator cannot run on its device.
        peak_bytes: Peak memory, ``float64[n, devices]``.
        timelines: The timeline of each step, as ``stagewright simulate --json`` writes it; empty unless requested.
    """

    makespan: npt.NDArray[np.float64]
    peak_bytes: npt.NDArray[np.float64]
    timelines: list[dict[str, Any]]


class Problem:
    """A model, a cluster and an objective.

    Args:
        model: The model.
        cluster: A name such as ``8xa100``, a file, or a document; by default the model's own.
        objective: ``throughput``, ``latency`` or ``makespan``.
        split: ``contiguous``, ``convex`` or ``free``, for throughput; other objectives ignore it with a warning.
        communication: ``serial``, ``overlap`` or ``duplex``, for throughput.
        training: ``combined`` or ``separate`` scoring of the passes, for throughput.
        schedule: ``gpipe``, ``1f1b``, ``zero-bubble`` or ``none``: the value is then the time of an iteration.
        microbatches: Number of microbatches of the schedule.
        max_replicas: Maximum number of devices that a stage may be replicated on.
        calls: Maximum number of calls per accelerator, for latency.
        execution: ``ports`` or ``contention-free``, for makespan.
        pins: A device, kind or class, or a list of them, by operator.
        costs: Files of measurements. Networks price what was not measured, or, with ``closed`` among the files,
            closed forms.
        memory_reserve: Bytes that a plan leaves free on each device; by default the reserve of the device's kind.

    Raises:
        StagewrightError: If the arguments are not a valid problem.
    """

    def __init__(
        self,
        model: Model,
        cluster: PathLike | Mapping[str, Any] | None = None,
        objective: Literal["throughput", "latency", "makespan"] = "throughput",
        *,
        split: Literal["contiguous", "convex", "free"] | None = None,
        communication: Literal["serial", "overlap", "duplex"] | None = None,
        training: Literal["combined", "separate"] | None = None,
        schedule: Literal["none", "gpipe", "1f1b", "zero-bubble"] | None = None,
        microbatches: int | None = None,
        max_replicas: int | None = None,
        calls: int | None = None,
        execution: Literal["ports", "contention-free"] | None = None,
        pins: Mapping[str, str | Sequence[str]] | None = None,
        costs: PathLike | Sequence[PathLike] = (),
        memory_reserve: int | None = None,
    ) -> None:
        rules = {
            "kind": objective,
            "split": split,
            "communication": communication,
            "training": training,
            "schedule": schedule,
            "microbatches": microbatches,
            "max_replicas": max_replicas,
            "calls": calls,
            "execution": execution,
        }
        is_document = isinstance(cluster, Mapping)
        files = [costs] if isinstance(costs, (str, os.PathLike)) else list(costs)
        arguments = {
            "cluster": json.dumps(cluster, default=_plain) if is_document else None,
            "cluster_name": None if is_document or cluster is None else os.fspath(cluster),  # type: ignore[arg-type]
            "objective": {name: value for name, value in rules.items() if value is not None},
            "pins": None if pins is None else json.dumps(dict(pins)),
            "costs": [os.fspath(file) for file in files],
            "memory_reserve": memory_reserve,
        }
        self._begin(model, json.dumps(arguments, default=_plain))

    @classmethod
    def of_plan(cls, model: Model, plan: PathLike | Mapping[str, Any]) -> Problem:
        """The problem that a plan answers: its cluster, objective, pins, measurements and memory reserve.

        ``read_plan`` of that problem reads the plan itself.

        Args:
            model: The model of the plan.
            plan: A plan document, or its file, which may be compressed with gzip.

        Raises:
            StagewrightError: If the file cannot be read or is no plan document, or if the plan keeps no cluster, as plans
                of earlier releases, and the model contains none.
        """
        if isinstance(plan, Mapping):
            document = dict(plan)
        else:
            document = json.loads(_native.read_plan(os.fspath(plan)))
        rules = {name: value for name, value in document["objective"].items() if name != "value_s"}
        if rules["kind"] != "throughput":
            rules.pop("split", None)
        kept = document.get("model", {})
        arguments = {
            "cluster": json.dumps(document["cluster"]) if "cluster" in document else None,
            "cluster_name": None,
            "objective": rules,
            "pins": json.dumps(document["pins"]) if "pins" in document else None,
            "costs": kept.get("costs", []),
            "is_stated": True,
            "memory_reserve": kept.get("memory_reserve"),
        }
        problem = cls.__new__(cls)
        problem._begin(model, json.dumps(arguments, default=_plain))
        return problem

    def _begin(self, model: Model, arguments: str) -> None:
        self._model, self._arguments = model, arguments
        self._native = _native.Problem(model._native, arguments)
        for note in self._native.notes:
            warnings.warn(visible(note), StagewrightWarning, stacklevel=3)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._model, self._arguments)

    @property
    def model(self) -> Model:
        """The model."""
        return self._model

    @property
    def operators(self) -> list[str]:
        """The names of the operators, in the order of placements."""
        return self._native.operators

    @property
    def devices(self) -> list[str]:
        """The names of the devices, in the order of their numbers in placements."""
        return self._native.devices

    @property
    def objective(self) -> dict[str, Any]:
        """The objective and its rules."""
        document: dict[str, Any] = json.loads(self._native.objective)
        return document

    @property
    def cluster(self) -> dict[str, Any]:
        """The cluster as a document."""
        document: dict[str, Any] = json.loads(self._native.cluster)
        return document

    def bound(self) -> float:
        """The strongest of all applicable lower bounds on the value of every placement, in seconds."""
        return self._native.bound()[0]

    def evaluate(
        self,
        placements: npt.ArrayLike,
        priorities: npt.ArrayLike | None = None,
        *,
        threads: int | None = None,
    ) -> npt.NDArray[np.float64]:
        """Values of placements under the objective, in parallel.

        Under a contiguous split, the devices of a placement form a pipeline in an order that the tensors admit, if
        there is one. Under latency, an accelerator runs its operators in one call. Plans with replicas or with several
        calls per accelerator cannot be given as arrays.

        Args:
            placements: A device number for every operator, ``uint16[n, operators]``; other integers are converted.
            priorities: For makespan, a number for every operator, ``float64[n, operators]``: of two operators that are
                ready on a device, the one with the higher number runs first. By default, the one that became ready
                first does. Contention-free execution runs everything that is ready, and ignores priorities.
            threads: Number of threads; by default one per processor.

        Returns:
            Seconds, ``float64[n]``; infinity for placements that violate a constraint, which :meth:`violations` names.

        Raises:
            StagewrightError: If an array has the wrong shape or type, a device is unknown, or ``threads`` is out of
                range.
        """
        return self._native.evaluate(_rows(placements), _priorities(priorities), _threads(threads))

    def simulate(
        self,
        placements: npt.ArrayLike,
        priorities: npt.ArrayLike | None = None,
        *,
        timeline: bool = False,
        threads: int | None = None,
    ) -> Steps:
        """Simulates one step of each placement under dataflow execution, whatever the objective.

        Memory limits are not enforced: compare ``peak_bytes`` with ``arrays()["memory_bytes"]``.

        Args:
            placements: As for :meth:`evaluate`.
            priorities: As for :meth:`evaluate`. By default, operators of a throughput problem run in the order of
                work, for which its plans have sufficient memory, and those of other problems as they become ready.
            timeline: Whether to return timelines as well, which takes far longer than the steps alone.
            threads: As for :meth:`evaluate`.

        Raises:
            StagewrightError: As for :meth:`evaluate`.
        """
        rows, numbers = _rows(placements), _priorities(priorities)
        makespan, peak_bytes = self._native.simulate(rows, numbers, _threads(threads))
        timelines = []
        if timeline:
            for at, row in enumerate(rows):
                priority = None if numbers is None else numbers[at]
                timelines.append(json.loads(self._native.timeline(row, priority)))
        return Steps(makespan, peak_bytes, timelines)

    def violations(self, placement: npt.ArrayLike, priority: npt.ArrayLike | None = None) -> list[str]:
        """The constraints that a placement violates, in words; empty if it is feasible."""
        return self._native.violations(self.placement(placement), _priority(priority))

    def placement(self, devices: npt.ArrayLike | Mapping[str, str | int] | Sequence[str]) -> npt.NDArray[np.uint16]:
        """Converts numbers or names of devices, or a mapping by operator, to a placement as an array.

        Raises:
            StagewrightError: If an operator is missing or unknown, a device is unknown, or the array has the wrong
                shape or type.
        """
        if isinstance(devices, Mapping):
            missing = [name for name in self.operators if name not in devices]
            if missing:
                raise StagewrightError("Z002", f"{len(missing)} operators have no device, the first is `{missing[0]}`")
            if len(devices) > len(self.operators):
                unknown = min(set(devices) - set(self.operators))
                raise StagewrightError("Z002", f"the model has no operator `{unknown}`")
            devices = [devices[name] for name in self.operators]
        given: Any = devices
        array = _array(given, "placement")
        if array.dtype.kind in "UO" and array.ndim == 1:
            numbers = {name: number for number, name in enumerate(self.devices)}
            try:
                # Uses the argument rather than the array, in which mixed numbers and names have become text.
                numbered = [numbers[device] if isinstance(device, str) else device for device in given]
            except KeyError as error:
                help = f"the devices are {', '.join(self.devices[:8])}"
                raise StagewrightError("Z002", f"the cluster has no device {error}", None, help) from None
            array = _array(numbered, "placement")
        return _unsigned(array, "placement", 1)

    def place(
        self,
        placement: npt.ArrayLike | Mapping[str, str | int],
        priority: npt.ArrayLike | None = None,
        *,
        solver: str = "given",
        seconds: float = 0.0,
    ) -> Plan:
        """A plan from a given placement, with its value and the strongest lower bound.

        Args:
            placement: As for :meth:`placement`.
            priority: One row of priorities as for :meth:`evaluate`.
            solver: Name of the solver to record in the plan.
            seconds: Time taken to find the placement, to record in the plan.

        Raises:
            StagewrightError: If the placement violates a constraint, or an argument is invalid.
        """
        return Plan(self, self._native.place(self.placement(placement), _priority(priority), solver, seconds))

    def read_plan(self, path: PathLike) -> Plan:
        """Reads a plan for this problem: a plan document, a split of the NeurIPS 2020 package, or a device for every
        operator as JSON. The file may be compressed with gzip."""
        return Plan(self, self._native.read_plan(os.fspath(path), self._model._native))

    def arrays(self, form: Literal["numpy", "torch_geometric", "networkx"] = "numpy") -> dict[str, Any]:
        """The problem as arrays, which spare a custom policy from parsing documents.

        Args:
            form: ``numpy`` returns the arrays below. ``torch_geometric`` returns the arguments of
                ``torch_geometric.data.Data`` as NumPy arrays: ``x`` (features of operators), ``edge_index``,
                ``edge_attr`` and ``num_nodes``. ``networkx`` returns node-link data, which
                ``networkx.node_link_graph(data, edges="edges")`` of networkx 3.4 or later reads.

        Returns:
            For ``numpy``, with O operators, T tensors, E pairs of producer and consumer, and D devices:

            - ``seconds`` ``float64[O, D]``: time of an operator on a device; infinity if it cannot run there.
            - ``flop``, ``parameter_bytes``, ``optimizer_bytes``, ``activation_bytes``, ``workspace_bytes``
              ``float64[O]``; ``flop`` is NaN if unknown.
            - ``pass`` ``uint8[O]``: 0 forward, 1 backward, 2 update.
            - ``colocation`` ``int64[O]``: operators with the same number must share a device.
            - ``topological`` ``int64[O]``: the operators in topological order.
            - ``edge_index`` ``int64[2, E]``: producer and consumer. ``edge_tensor`` ``int64[E]``: the tensor of each.
            - ``tensor_bytes`` ``float64[T]``, ``tensor_producer`` ``int64[T]``.
            - ``tensor_seconds`` ``float64[T, D]``: time of a tensor over the link of a device.
            - ``memory_bytes`` ``float64[D]``: infinity if unlimited. ``device_kind`` ``int64[D]``, ``is_host``
              ``bool[D]``.

        Raises:
            MemoryError: If the arrays with a number for each device do not fit in memory.
            StagewrightError: If the form is unknown.
        """
        arrays: dict[str, Any] = self._native.arrays()
        if form == "numpy":
            return arrays
        if form not in ("torch_geometric", "networkx"):
            help = "give numpy, torch_geometric or networkx"
            raise StagewrightError("U001", f"unknown form {form!r}", "form", help)
        of_edges = arrays["tensor_bytes"][arrays["edge_tensor"]]
        seconds = np.where(np.isfinite(arrays["seconds"]), arrays["seconds"], -1.0)
        columns = ["flop", "parameter_bytes", "optimizer_bytes", "activation_bytes", "workspace_bytes"]
        figures = np.stack([np.nan_to_num(arrays[column]) for column in columns] + [arrays["pass"]], axis=1)
        if form == "torch_geometric":
            return {
                "x": np.concatenate([figures, seconds], axis=1).astype(np.float32),
                "edge_index": arrays["edge_index"],
                "edge_attr": of_edges[:, None].astype(np.float32),
                "num_nodes": len(figures),
            }
        names = self.operators
        nodes = [
            {"id": name, **dict(zip([*columns, "pass"], row)), "seconds": times}
            for name, row, times in zip(names, figures.tolist(), arrays["seconds"].tolist())
        ]
        edges = [
            {"source": names[source], "target": names[target], "bytes": size}
            for source, target, size in zip(*arrays["edge_index"].tolist(), of_edges.tolist())
        ]
        return {"directed": True, "multigraph": True, "graph": {}, "nodes": nodes, "edges": edges}

    def __copy__(self) -> Problem:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Problem:
        # Gymnasium copies the arguments of environments, but a problem is immutable.
        return self

    def __repr__(self) -> str:
        return repr(self._native)


def _restored(model: Model, arguments: str) -> Problem:
    """A copy of a problem from another process."""
    problem = Problem.__new__(Problem)
    problem._begin(model, arguments)
    return problem


def _array(given: Any, place: str) -> npt.NDArray[Any]:
    """Converts an argument to an array."""
    try:
        return np.asarray(given)
    except ValueError as error:
        raise StagewrightError("Z001", str(error), place, "give rows of the same length") from None


def _check_dimensions(array: npt.NDArray[Any], place: str, dimensions: int) -> None:
    if array.ndim != dimensions:
        shape = "(placements, operators)" if dimensions == 2 else "(operators,)"
        cause = f"the shape is {array.shape}, expected {shape}"
        raise StagewrightError("Z001", cause, place, "give an entry for each operator, in the order of the model")


def _unsigned(array: npt.NDArray[Any], place: str, dimensions: int) -> npt.NDArray[np.uint16]:
    _check_dimensions(array, place, dimensions)
    if array.dtype != np.uint16:
        if array.dtype.kind not in "iub" or (array.size and (array.min() < 0 or array.max() > 0xFFFF)):
            cause = f"the numbers of devices are of type {array.dtype}, or out of range"
            raise StagewrightError("Z001", cause, place, "give integers from 0, below the number of devices")
        array = array.astype(np.uint16)
    return np.require(array, np.uint16, ["C", "A"])


def _floats(array: npt.NDArray[Any], place: str, dimensions: int) -> npt.NDArray[np.float64]:
    _check_dimensions(array, place, dimensions)
    if array.dtype.kind not in "iubf":
        raise StagewrightError("Z001", f"the priorities are of type {array.dtype}", place, "give real numbers")
    return np.require(array, np.float64, ["C", "A"])


def _rows(placements: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    return _unsigned(_array(placements, "placements"), "placements", 2)


def _priorities(given: npt.ArrayLike | None) -> npt.NDArray[np.float64] | None:
    return None if given is None else _floats(np.atleast_2d(_array(given, "priorities")), "priorities", 2)


def _priority(given: npt.ArrayLike | None) -> npt.NDArray[np.float64] | None:
    return None if given is None else _floats(_array(given, "priority"), "priority", 1)


def _threads(count: int | None) -> int | None:
    # A thread pool cannot have more threads than this.
    if count is not None and not 1 <= count <= 0xFFFF:
        raise StagewrightError("U001", f"{count} threads", "threads", "give at least 1 and at most 65535")
    return count
