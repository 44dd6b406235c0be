"""Plans, solving and checking."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _native
from .models import _plain

if TYPE_CHECKING:
    from .models import Model
    from .problems import Problem


class Export(str):
    """The text of an export.

    Attributes:
        notes: How to use the export, and what it leaves to the runtime.
    """

    notes: list[str]

    def __new__(cls, text: str, notes: list[str]) -> Export:
        export = super().__new__(cls, text)
        export.notes = notes
        return export

    def __getnewargs__(self) -> tuple[str, list[str]]:  # type: ignore[override]
        return str(self), self.notes


class Plan:
    """A placement with its value and a lower bound, or the reason why there is no placement.

    Created by :func:`plan`, ``Problem.place`` and ``Problem.read_plan``.
    """

    def __init__(self, problem: Problem, native: _native.Plan) -> None:
        self._problem, self._native = problem, native

    @property
    def problem(self) -> Problem:
        """The problem that the plan solves."""
        return self._problem

    @property
    def status(self) -> str:
        """``optimal``, ``feasible``, ``infeasible`` (proved) or ``unknown``."""
        return self._native.status

    @property
    def value(self) -> float | None:
        """Value of the objective in seconds; ``None`` without a placement."""
        return self._native.value

    @property
    def bound(self) -> float | None:
        """Lower bound on the value of every placement, in seconds."""
        return self._native.bound

    @property
    def bound_source(self) -> str:
        """Source of the bound."""
        return self._native.bound_source

    @property
    def gap(self) -> float | None:
        """Relative gap: (value − bound) / value."""
        return self._native.gap

    @property
    def solver(self) -> str:
        """The solver, with the rule that chose it."""
        return self._native.solver

    @property
    def seconds(self) -> float:
        """Duration of the solve in seconds."""
        return self._native.seconds

    @property
    def stop(self) -> str | None:
        """Why the search ended before proving optimality: ``time``, ``memory``, ``gap`` or ``interrupted``."""
        return self._native.stop

    @property
    def reason(self) -> str | None:
        """Reason why there is no plan."""
        return self._native.reason

    @property
    def device_of(self) -> npt.NDArray[np.uint16] | None:
        """The device number of every operator, ``uint16[operators]``; ``None`` without a placement."""
        return self._native.device_of

    @property
    def priority(self) -> npt.NDArray[np.float64] | None:
        """A number for every operator, higher for those that run first, in the form that ``Problem.evaluate`` accepts;
        ``None`` if the plan has no priority."""
        order = self._native.order
        if order is None:
            return None
        priority = np.empty(len(order))
        priority[order] = np.arange(len(order), 0, -1)
        return priority

    @property
    def stages(self) -> list[str]:
        """The names of the devices in pipeline order; empty if there is no order."""
        return self._native.stages

    @property
    def devices(self) -> list[dict[str, Any]]:
        """The devices in use with their loads, memory and operators, as in the plan document."""
        devices: list[dict[str, Any]] = self.to_dict()["devices"]
        return devices

    @property
    def convergence(self) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """Improvements of the value and of the bound during the solve, each as pairs of seconds and figure."""
        return self._native.convergence

    def to_dict(self) -> dict[str, Any]:
        """The plan as a document of ``stagewright.plan/1``."""
        document: dict[str, Any] = json.loads(self._native.to_json())
        return document

    def check(self, model: Model | None = None) -> Check:
        """Checks the plan with code that is independent of the solvers, on the cluster and with the options that the plan
        document keeps. :func:`check` checks it on another cluster.

        Args:
            model: The model; by default that of the plan's problem.
        """
        from .problems import Problem

        model = self._problem.model if model is None else model
        return check(Problem.of_plan(model, self.to_dict()), self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan document, which every command of the program reads."""
        self._native.save(os.fspath(path))

    def to_html(self) -> str:
        """The report: an HTML page with figures, graph, devices and timelines, which needs no network."""
        return self._native.to_html()

    def export(self, to: str) -> Export:
        """The plan in the notation of a runtime, with notes on its use. :func:`export_targets` lists the runtimes.

        Raises:
            StagewrightError: If the runtime cannot express the plan, or is unknown.
        """
        text, notes = self._native.export(to)
        return Export(text, notes)

    def _repr_html_(self) -> str:
        """The report in a notebook, in a frame that separates its styles and scripts from those of the notebook."""
        page = base64.b64encode(self.to_html().encode()).decode()
        return (
            f'<iframe title="Stagewright report" src="data:text/html;base64,{page}" '
            'style="width:100%;height:640px;border:1px solid #ccc"></iframe>'
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._problem, self._native.to_json())

    def __str__(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return repr(self._native)


def _restored(problem: Problem, text: str) -> Plan:
    """A copy of a plan from another process."""
    return Plan(problem, problem._native.plan_of_text(text, problem.model._native))


@dataclass(frozen=True)
class Check:
    """The verdict of the independent checker on a plan.

    Attributes:
        holds: Whether the plan is feasible and no claim is refuted.
        value: The recomputed value in seconds.
        bound: ``verified``, ``refuted``, ``not-verified`` or ``no-claim``.
        bound_by: The evidence that proves or refutes the bound.
        violations: Every violated constraint and refuted claim: its kind, and a description.
    """

    holds: bool
    value: float | None
    bound: str
    bound_by: str | None
    violations: list[tuple[str, str]]

    def __bool__(self) -> bool:
        return self.holds


def plan(
    problem: Problem,
    solver: str = "auto",
    *,
    time_limit: float | None = 60.0,
    memory_limit: int | None = 8 << 30,
    gap: float = 0.0,
    seed: int = 0,
    threads: int | None = None,
    start: Plan | npt.ArrayLike | None = None,
) -> Plan:
    """Solves a problem. At a limit, or after Ctrl-C, the result is the best plan with the best bound so far.

    Args:
        problem: The problem.
        solver: A name of :func:`solvers`, or ``auto``, which uses an exact solver if there is one.
        time_limit: Seconds; ``None`` for no limit. With several hundred thousand operators, the solve may exceed the
            limit by a few tenths of a second.
        memory_limit: Bytes that the solver's tables may take; ``None`` for no limit.
        gap: Relative gap at which to stop.
        seed: Seed of every random choice.
        threads: Number of threads; by default one per processor.
        start: A placement to start from, for solvers that use one. Or a plan, which may be for a sibling of the model:
            the same architecture with another length, depth or batch, on the same devices. Operator names determine
            how the plan is transferred.

    Raises:
        StagewrightError: If the solver is unknown or does not support the objective. The absence of a plan is a
            status, not an error.
    """
    arguments = {
        "solver": solver,
        "time_limit": time_limit,
        "memory_limit": memory_limit,
        "gap": gap,
        "seed": seed,
        "threads": threads,
    }
    devices, given = None, None
    if isinstance(start, Plan):
        given = start._native
    elif start is not None:
        devices = problem.placement(start)
    return Plan(problem, _native.plan(problem._native, json.dumps(arguments, default=_plain), devices, given))


def check(problem: Problem, plan: Plan) -> Check:
    """Checks a plan with code that is independent of the solvers: constraints, value, and the claimed bound."""
    found = json.loads(_native.check(problem._native, plan._native))
    return Check(
        holds=found["holds"],
        value=found["value_s"],
        bound=found["bound"]["verdict"],
        bound_by=found["bound"]["by"],
        violations=[(violation["kind"], violation["message"]) for violation in found["violations"]],
    )


def solvers(problem: Problem | None = None) -> list[str]:
    """The names of the solvers that support the objective of a problem, or of all solvers."""
    return _native.solvers(None if problem is None else problem._native)
