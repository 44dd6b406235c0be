"""Solvers side by side."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from .errors import StagewrightError
from .plans import Plan, check, plan
from .problems import Problem

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

#: The code of a solver that does not support the objective.
UNSUPPORTED = "U004"

#: Reason of a row whose solve was cut short by an interrupt, which also ends the comparison.
INTERRUPTED = "interrupted"

#: A custom solver: a function that takes a problem and a seed, and returns a placement, a pair of placement and
#: priority, or a plan.
Solver = Callable[..., "npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike] | Plan"]


def compare(
    problem: Problem,
    solvers: Sequence[str | Solver | Plan] | Mapping[str, str | Solver | Plan],
    *,
    seeds: int | Sequence[int] = 1,
    time_limit: float | None = 60.0,
    threads: int | None = None,
) -> pd.DataFrame:
    """Compares solvers, custom functions, and plans on one problem.

    Args:
        problem: The problem.
        solvers: Names of solvers, functions and plans, or a mapping that names them. A function takes the problem, and
            the seed as ``seed`` if it has such a parameter. It returns a placement, a placement and its priority, or a
            plan.
        seeds: Number of seeds, or the seeds themselves. A plan has only one row.
        time_limit: Seconds for each named solver. A function sets its own limit.
        threads: Threads for each named solver.

    Returns:
        A row for each solver and seed: ``solver``, ``seed``, ``status``, ``value``, ``bound`` and ``gap`` (the bound is
        the best one that any solver proved), ``seconds`` and ``reason``. A placement that violates a constraint has
        the status ``infeasible placement`` and the violation as its reason. A function that raises, or returns no
        placement, has ``error``, and a solver that does not support the objective has ``unsupported``. None of these
        ends the comparison.

        Ctrl-C ends the comparison with the rows so far; the last of them has the reason ``interrupted``.

    Raises:
        StagewrightError: If a solver is unknown, or two have the same name.
    """
    import pandas as pd

    named = dict(solvers) if isinstance(solvers, Mapping) else _named(solvers)
    known = {"auto", *_native.solvers(None)}
    for solver in named.values():
        if isinstance(solver, str) and solver not in known:
            # Raises the error, which suggests the nearest names, before anything is solved.
            plan(problem, solver, time_limit=0.0)
    chosen = range(seeds) if isinstance(seeds, numbers.Integral) else seeds
    runs = [
        (name, solver, seed) for name, solver in named.items() for seed in ([0] if isinstance(solver, Plan) else chosen)
    ]
    rows: list[dict[str, Any]] = []
    for name, solver, seed in runs:
        rows.append({"solver": name, "seed": seed, **_row(problem, solver, seed, time_limit, threads)})
        if rows[-1]["reason"] == INTERRUPTED:
            break
    columns = ["solver", "seed", "status", "value", "bound", "gap", "seconds", "reason"]
    table = pd.DataFrame(rows, columns=columns)
    best = max([problem.bound(), *table["bound"].dropna()])
    table["bound"] = best
    table["gap"] = [np.nan if np.isnan(value) else _native.gap(value, best) for value in table["value"]]
    return table


def _named(solvers: Sequence[str | Solver | Plan]) -> dict[str, str | Solver | Plan]:
    named: dict[str, str | Solver | Plan] = {}
    for solver in solvers:
        if isinstance(solver, str):
            name = solver
        elif isinstance(solver, Plan):
            name = solver.solver
        else:
            name = getattr(solver, "__name__", type(solver).__name__)
        if name in named:
            cause = f"two solvers are called {name!r}"
            raise StagewrightError("U001", cause, "solvers", "give a mapping that names them")
        named[name] = solver
    return named


def _row(
    problem: Problem, solver: str | Solver | Plan, seed: int, time_limit: float | None, threads: int | None
) -> dict[str, Any]:
    started = time.perf_counter()
    if isinstance(solver, str):
        try:
            found = plan(problem, solver, time_limit=time_limit, seed=seed, threads=threads)
        except StagewrightError as error:
            if error.code != UNSUPPORTED:
                raise
            return _row_of("unsupported", np.nan, 0.0, error.cause)
        row = _of_plan(found, found.seconds)
        return {**row, "reason": INTERRUPTED} if found.stop == INTERRUPTED else row
    if isinstance(solver, Plan):
        return _given(problem, solver, solver.seconds)
    seconds = None
    try:
        answer = solver(problem, seed=seed) if _takes_seed(solver) else solver(problem)
        seconds = time.perf_counter() - started
        return _answered(problem, answer, seconds)
    except Exception as error:
        # An exception of a custom solver becomes its row.
        seconds = time.perf_counter() - started if seconds is None else seconds
        return _row_of("error", np.nan, seconds, f"{type(error).__name__}: {error}")


def _answered(problem: Problem, answer: Any, seconds: float) -> dict[str, Any]:
    """The row for the answer of a custom function."""
    if isinstance(answer, Plan):
        return _given(problem, answer, seconds)
    placement, priority = answer if isinstance(answer, tuple) else (answer, None)
    devices = problem.placement(placement)
    priorities = None if priority is None else np.atleast_2d(priority)
    value = float(problem.evaluate(devices[None, :], priorities)[0])
    if np.isinf(value):
        violations = problem.violations(devices, priority)
        return _row_of("infeasible placement", np.nan, seconds, violations[0] if violations else "no value")
    return _row_of("feasible", value, seconds, None)


def _row_of(status: str, value: float, seconds: float, reason: str | None) -> dict[str, Any]:
    return {"status": status, "value": value, "bound": np.nan, "seconds": seconds, "reason": reason}


def _of_plan(found: Plan, seconds: float) -> dict[str, Any]:
    row = _row_of(found.status, np.nan if found.value is None else found.value, seconds, found.reason)
    return {**row, "bound": np.nan if found.bound is None else found.bound}


def _given(problem: Problem, given: Plan, seconds: float) -> dict[str, Any]:
    """The row for a given plan: its value is computed again, and its bound counts if the checker proves it again."""
    claimed = {**given.to_dict()["objective"], "value_s": None}
    if claimed != problem.objective and given.device_of is not None:
        # The plan's claims are about another objective. Its placement counts, and its priority if both are for a step.
        is_step = claimed["kind"] == problem.objective["kind"] == "makespan"
        return _answered(problem, (given.device_of, given.priority if is_step else None), seconds)
    checked = check(problem, given)
    if checked.violations or checked.value is None:
        reason = checked.violations[0][1] if checked.violations else given.reason
        return _row_of("infeasible placement", np.nan, seconds, reason)
    row = _row_of("feasible", checked.value, seconds, None)
    return {**row, "bound": given.bound if checked.bound == "verified" else np.nan}


def _takes_seed(solver: Solver) -> bool:
    import inspect

    try:
        parameters = inspect.signature(solver).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(parameter.name == "seed" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
