"""Solvers side by side."""

from __future__ import annotations

import json
import numbers
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
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


class Comparison:
    """Solvers and plans side by side on one model or several.

    Created by :func:`compare` and :meth:`Task.compare`. ``first + second`` has the models of both.
    """

    def __init__(
        self,
        native: _native.Comparison,
        seeds: Sequence[int],
        rows: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        self._native, self._seeds, self._rows = native, list(seeds), rows

    def to_dataframe(self) -> pd.DataFrame:
        """A ``pandas.DataFrame``, with the provenance in its ``attrs``.

        The rows are those that the function documents which made the comparison. ``attrs`` has the ``version`` of
        Stagewright, the ``date`` in UTC, the ``seeds``, and for each model its ``cluster``, the ``options`` of the model
        (among them the ``costs``, files of measurements) and the ``sources`` of its costs, as far as they are known.
        """
        import pandas as pd

        if self._rows is not None:
            table = pd.DataFrame(list(self._rows), columns=COLUMNS)
        else:
            found = json.loads(self._native.json())
            models = [] if isinstance(found, list) else found["models"]
            rows = found if isinstance(found, list) else [row for model in models for row in model["rows"]]
            table = pd.DataFrame(rows)
            if len(models) > 1:
                names = [model["model"] for model in models for _ in model["rows"]]
                table.insert(0, "model", names)
        table.attrs = {
            "version": _native.__version__,
            "date": self._native.date(),
            "seeds": list(self._seeds),
            "models": json.loads(self._native.settings()),
        }
        return table

    def to_latex(self) -> str:
        """A table for a paper, as the program's ``compare --latex`` prints it: for ``booktabs``, with the mean over the
        seeds and its 95% interval (Student t), the best in bold, the bound, and comments that state the provenance."""
        return self._native.latex()

    def __add__(self, other: Comparison) -> Comparison:
        if not isinstance(other, Comparison) or (self._rows is None) != (other._rows is None):
            return NotImplemented
        rows = None if self._rows is None or other._rows is None else [*self._rows, *other._rows]
        seeds = [*self._seeds, *(seed for seed in other._seeds if seed not in self._seeds)]
        return Comparison(self._native.joined(other._native), seeds, rows)

    def _repr_html_(self) -> str:
        html: str = self.to_dataframe().to_html(index=False)
        return html

    def __str__(self) -> str:
        return self.to_dataframe().to_string(index=False)


#: Columns of the table of :func:`compare`.
COLUMNS = ["model", "solver", "seed", "status", "value", "bound", "gap", "seconds", "reason"]


#: Environment variable with the date, in seconds since 1970.
DATE = "SOURCE_DATE_EPOCH"

#: Last second of the year 9999, the last year that RFC 3339 can write.
LAST = 253_402_300_799


def now() -> str:
    """The date in UTC as RFC 3339 writes it, or the one of ``SOURCE_DATE_EPOCH``.

    Raises:
        StagewrightError: If ``SOURCE_DATE_EPOCH`` is not a number of seconds.
    """
    given = os.environ.get(DATE)
    if given is None:
        date = datetime.now(timezone.utc)
    elif re.fullmatch("[0-9]{1,20}", given) and int(given) <= LAST:
        date = datetime.fromtimestamp(int(given), timezone.utc)
    else:
        help = "correct the environment variable, or unset it for the present date"
        raise StagewrightError("U001", f"`{given}` is not a number of seconds since 1970", DATE, help)
    return date.strftime("%Y-%m-%dT%H:%M:%SZ")


def chosen_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds that a number stands for, or the given ones."""
    chosen = list(range(seeds) if isinstance(seeds, numbers.Integral) else seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise StagewrightError("U001", "no seed" if not chosen else "a seed twice", "seeds", "give a number above 0")
    return [int(seed) for seed in chosen]


def compare(
    problem: Problem | Mapping[str, Problem],
    solvers: Sequence[str | Solver | Plan] | Mapping[str, str | Solver | Plan],
    *,
    seeds: int | Sequence[int] = 1,
    time_limit: float | None = 60.0,
    threads: int | None = None,
) -> Comparison:
    """Compares solvers, custom functions, and plans on one problem or several.

    Args:
        problem: The problem, or a mapping that names several.
        solvers: Names of solvers, functions and plans, or a mapping that names them. A function takes the problem, and
            the seed as ``seed`` if it has such a parameter. It returns a placement, a placement and its priority, or a
            plan.
        seeds: Number of seeds, or the seeds themselves. A plan, and a named solver that no seed changes, have only one
            row. A function runs once for each seed even without the parameter, since it may draw random numbers of its
            own.
        time_limit: Seconds for each named solver. A function sets its own limit.
        threads: Threads for each named solver.

    Returns:
        The comparison. Its table has a row for each problem, solver and seed: ``model``, ``solver``, ``seed``,
        ``status``, ``value``, ``bound`` and ``gap`` (the bound is the best one that any solver proved), ``seconds`` and
        ``reason``. A placement that violates a constraint has
        the status ``infeasible placement`` and the violation as its reason. A function that raises, or returns no
        placement, has ``error``, and a solver that does not support the objective has ``unsupported``. None of these
        ends the comparison.

        Ctrl-C ends the comparison with the rows so far; the last of them has the reason ``interrupted``.

    Raises:
        StagewrightError: If a solver is unknown, two have the same name, or ``SOURCE_DATE_EPOCH`` is not a number of
            seconds.
    """
    named = dict(solvers) if isinstance(solvers, Mapping) else _named(solvers)
    problems = dict(problem) if isinstance(problem, Mapping) else {problem.model.name: problem}
    known = {"auto", *_native.solvers(None)}
    for solver in named.values():
        if isinstance(solver, str) and solver not in known:
            # Raises the error, which suggests the nearest names, before anything is solved.
            plan(next(iter(problems.values())), solver, time_limit=0.0)
    date, chosen = now(), chosen_seeds(seeds)
    rows: list[dict[str, Any]] = []
    models: list[dict[str, Any]] = []
    for model, of_model in problems.items():
        found = _rows(model, of_model, named, chosen, time_limit, threads)
        best = max([of_model.bound(), *(row["bound"] for row in found if not np.isnan(row["bound"]))])
        for row in found:
            value = row["value"]
            row.update(bound=best, gap=np.nan if np.isnan(value) else _native.gap(value, best))
        rows += found
        contenders = [_contender(name, solver, found) for name, solver in named.items()]
        models.append({"model": model, "bound": best, "contenders": [each for each in contenders if each]})
        if found and found[-1]["reason"] == INTERRUPTED:
            break
    given = json.dumps({"date": date, "seeds": chosen, "models": models})
    native = _native.Comparison(given, [each._native for each in problems.values()][: len(models)])
    return Comparison(native, chosen, rows)


def _rows(
    model: str,
    problem: Problem,
    named: Mapping[str, str | Solver | Plan],
    seeds: Sequence[int],
    time_limit: float | None,
    threads: int | None,
) -> list[dict[str, Any]]:
    """The rows of all solvers on a problem, until an interrupt comes."""
    rows: list[dict[str, Any]] = []
    for name, solver in named.items():
        is_single = isinstance(solver, str) and not _native.depends_on_seed(solver, problem._native)
        if isinstance(solver, Plan):
            of_solver = [0]
        else:
            of_solver = list(seeds[:1]) if is_single else list(seeds)
        for seed in of_solver:
            row = _row(problem, solver, seed, time_limit, threads)
            rows.append({"model": model, "solver": name, "seed": seed, **row})
            if row["reason"] == INTERRUPTED:
                return rows
            if row["status"] == "unsupported":
                break
    return rows


def _contender(name: str, solver: str | Solver | Plan, rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The runs of a solver for the summary; ``None`` if an interrupt came before the first."""
    own = [row for row in rows if row["solver"] == name]
    if not own:
        return None
    if own[0]["status"] == "unsupported":
        return {"name": name, "refusal": own[0]["reason"], "runs": []}
    runs = [
        {
            "seed": None if isinstance(solver, Plan) else row["seed"],
            "status": row["status"],
            "value": None if np.isnan(row["value"]) else float(row["value"]),
            "seconds": row["seconds"],
            "reason": row["reason"],
        }
        for row in own
    ]
    return {"name": name, "refusal": None, "runs": runs}


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
