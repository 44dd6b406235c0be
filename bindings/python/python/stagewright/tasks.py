"""Questions of every kind: placements, joint plans, local plans, serving plans and strategy problems."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from .comparison import Comparison, chosen_seeds, now
from .models import _plain


_TEXTS = ("rate", "ttft", "tpot", "memory_share", "move_price")
"""Options of serving plans that the program reads as texts with units."""


def _with_unit(name: str, value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return repr(value) if name in _TEXTS and is_number else value


class Task:
    """A question about a model file.

    For a file of strategies (IOPDDL), it is a strategy problem. With ``parallel``, it asks for a joint plan: stages
    with degrees of parallelism. With ``local``, it asks for the settings of llama.cpp under which a GGUF file is
    fastest on one machine. With ``serving``, it asks for replicas of a language model that engines serve. Otherwise, it
    asks for a device for every operator.

    Args:
        model: The file, in any format that the program reads.
        cluster: A name such as ``dgx-a100`` or ``64xh100``, or a file; not for strategy problems. By default the model's
            own; :meth:`check`, :meth:`explain` and :meth:`compare` use that of the plan if there is none.
        parallel: Kinds of parallelism that a joint plan may use, with or without degrees:
            ``tp=8,cp,dp,pp,recompute,offload``.
        global_batch: Samples of a batch over all copies (joint plans).
        microbatch: Samples of a microbatch; by default any (joint plans).
        chunks: Stages per device under the schedules ``interleaved`` and ``dualpipe-v``; by default any (joint plans).
        cut: Layers of the stack on every stage, in the order of the stages; by default any (joint plans).
        runtime: Runtime that trains the model: ``megatron``, ``torchtitan``, ``fsdp``, ``deepspeed``, ``nanotron``,
            ``scaling``, ``eager``, ``ideal``, or a file; by default ``megatron`` (joint plans).
        recompute_workspace: ``max`` or ``sum``: memory of the recomputed layers in a Piper file (joint plans).
        local: Whether to plan a GGUF file for llama.cpp on one machine.
        goal: ``decode``, ``prefill`` or ``request`` (local plans).
        prompt: Tokens of the prompt (local plans).
        output: Tokens that answer it (local plans).
        micro_batch: Tokens of a micro-batch; by default the fastest (local plans).
        serving: Options of a serving plan by their names in the program, such as
            ``{"input": 4096, "output": 512, "concurrency": 64, "ttft": "2s", "tpot": "50ms"}``; also ``engine``,
            ``rate``, ``goal``, ``classes``, ``modes``, ``prices``, ``shared_prefix``, ``chunk``, ``memory_share``,
            ``max_batch``, ``max_stages``, ``speculation``, ``calibration``, and for a new plan after one that runs ``start``,
            its file, and ``move_price``. Times without a unit are seconds.
        schedule: A pipeline schedule; for a joint plan also a list of schedules from which to choose.
        objective: ``throughput``, ``latency`` or ``makespan`` (placements).
        split: ``contiguous``, ``convex`` or ``free`` (placements).
        communication: ``serial``, ``overlap`` or ``duplex`` (placements).
        training: ``combined`` or ``separate`` passes of a training step (placements).
        calls: Maximum number of calls per accelerator, for latency (placements).
        execution: ``ports`` or ``contention-free``, for the makespan (placements).
        microbatches: Number of microbatches of the schedule (placements).
        max_replicas: Maximum number of devices that a stage may be replicated on (placements).
        stages: Exact number of stages: devices that hold operators, the replicas of a stage counted once (placements).
        max_hops: Maximum number of nodes that a token may pass (layer flows).
        all_devices: Whether every device must have work; hosts only in a cluster of hosts (placements).
        alone: Names of operators, or patterns with ``*`` and ``?``; the operators of each share a stage that holds
            nothing else (placements).
        within: With ``then``: choose among the plans whose value exceeds the best by at most this share (placements).
        then: What the chosen plan minimises: ``memory``, ``devices`` or ``communication`` (placements).
        pins: Devices, kinds or classes by operator (placements).
        costs: A file of measurements that price the model, or several. What was not measured is priced by networks in
            placements, or, with ``closed`` among the files, by closed forms. For local plans, outputs of
            ``llama-bench``; not for strategy problems.
        solver: A name of :func:`solvers`, or ``auto`` (placements).
        options: How to read the model, by the names in ``model`` of a plan document, such as ``batch`` or
            ``whole_layers``.

    Raises:
        StagewrightError: If a file is not valid, or an argument has no effect on the question.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        cluster: str | os.PathLike[str] | None = None,
        *,
        parallel: str | None = None,
        global_batch: int | None = None,
        microbatch: int | None = None,
        chunks: int | None = None,
        cut: Sequence[int] | None = None,
        runtime: str | None = None,
        recompute_workspace: str | None = None,
        local: bool = False,
        goal: str | None = None,
        prompt: int | None = None,
        output: int | None = None,
        micro_batch: int | None = None,
        serving: Mapping[str, Any] | None = None,
        schedule: str | Sequence[str] = (),
        objective: str | None = None,
        split: str | None = None,
        communication: str | None = None,
        training: str | None = None,
        calls: int | None = None,
        execution: str | None = None,
        microbatches: int | None = None,
        max_replicas: int | None = None,
        stages: int | None = None,
        max_hops: int | None = None,
        all_devices: bool = False,
        alone: str | Sequence[str] = (),
        within: float | None = None,
        then: str | None = None,
        pins: Mapping[str, str | Sequence[str]] | None = None,
        costs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        solver: str = "auto",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        given = {
            "parallel": parallel,
            "global_batch": global_batch,
            "microbatch": microbatch,
            "chunks": chunks,
            "cut": None if cut is None else list(cut),
            "runtime": runtime,
            "recompute_workspace": recompute_workspace,
            "local": local or None,
            "goal": goal,
            "prompt": prompt,
            "output": output,
            "micro_batch": micro_batch,
            "schedule": ([schedule] if isinstance(schedule, str) else list(schedule)) or None,
            "objective": objective,
            "split": split,
            "communication": communication,
            "training": training,
            "calls": calls,
            "execution": execution,
            "microbatches": microbatches,
            "max_replicas": max_replicas,
            "stages": stages,
            "max_hops": max_hops,
            "all_devices": all_devices or None,
            "alone": ([alone] if isinstance(alone, str) else list(alone)) or None,
            "within": within,
            "then": then,
        }
        if serving is not None:
            given["serve"] = True
            given.update({name: _with_unit(name, value) for name, value in serving.items()})
        arguments = {
            "model": os.fspath(model),
            "cluster": None if cluster is None else os.fspath(cluster),
            "pins": None if pins is None else json.dumps(dict(pins), default=_plain),
            "costs": [os.fspath(path) for path in ([costs] if isinstance(costs, (str, os.PathLike)) else costs)],
            "given": {name: value for name, value in given.items() if value is not None},
            "solver": solver,
            "options": dict(options or {}),
        }
        self._native = _native.Task(json.dumps(arguments, default=_plain))

    @property
    def kind(self) -> str:
        """``placement``, ``joint plan``, ``local plan``, ``serving plan``, ``strategy problem`` or ``layer flow``."""
        return self._native.kind

    @property
    def notes(self) -> list[str]:
        """Remarks on the model and its prices."""
        return self._native.notes

    def solve(
        self,
        *,
        time_limit: float | None = 60.0,
        gap: float = 0.0,
        seed: int = 0,
        threads: int | None = None,
    ) -> Answer:
        """Finds a plan and a lower bound. At a limit, or after Ctrl-C, returns the best answer so far.

        Args:
            time_limit: Seconds; ``None`` for no limit.
            gap: Relative gap at which to stop.
            seed: Seed of every random choice (not local plans).
            threads: Number of threads; by default one per processor (not local plans).
        """
        return Answer(self._native.solve(_limits(time_limit, gap, seed, threads)))

    def bounds(self, *, time_limit: float | None = 60.0, threads: int | None = None) -> dict[str, Any]:
        """Computes lower bounds without a plan, as the program's ``bound --json`` prints them."""
        found: dict[str, Any] = json.loads(self._native.bounds(_limits(time_limit, 0.0, 0, threads)))
        return found

    def check(self, plan: Answer | Mapping[str, Any]) -> dict[str, Any]:
        """Checks a plan with code that is independent of the solvers, as the program's ``check --json`` does."""
        report: dict[str, Any] = json.loads(self._native.check(_text(plan)))
        return report

    def explain(
        self,
        plan: Answer | Mapping[str, Any],
        *,
        measured: str | os.PathLike[str] | None = None,
        time_limit: float | None = 60.0,
        threads: int | None = None,
    ) -> dict[str, Any]:
        """Explains the value of a plan, and what would change it, as the program's ``explain --json`` does.

        Args:
            measured: a log of training for a joint plan, or the results of a benchmark for a serving plan, to show
                beside the prediction.
        """
        limits = _limits(time_limit, 0.0, 0, threads)
        found: dict[str, Any] = json.loads(self._native.explain(_text(plan), measured, limits))
        return found

    def calibrated(self, plan: Answer | Mapping[str, Any], measured: str | os.PathLike[str]) -> str:
        """Fits the constants of a plan to measurements. Returns the text of the file that the program's
        ``explain --calibrate`` writes: a runtime for joint plans, factors for serving plans."""
        return self._native.calibrated(_text(plan), measured)

    def compare(
        self,
        solvers: Sequence[str] = (),
        *,
        plans: Mapping[str, Answer | Mapping[str, Any]] | None = None,
        baseline: str | None = None,
        seeds: int | Sequence[int] = 1,
        time_limit: float | None = 60.0,
        threads: int | None = None,
    ) -> Comparison:
        """Compares solvers or expert rules, and plans of your own.

        Args:
            solvers: For a placement, solvers and groups of them, each with an optional split (``bnp@free``); by default
                ``auto`` and the baselines. For a joint plan, ``best`` and the expert rules ``megatron``, ``fsdp`` and
                ``data-parallel``, and published recipes such as ``bloom-176b``; for a local plan, ``best``,
                ``llama.cpp``, ``fit`` and others; by default all of them but the recipes. ``["none"]`` compares plans
                alone.
            plans: Plans by name, which the independent checker evaluates.
            baseline: The row that speed-ups are relative to.
            seeds: Number of seeds, or the seeds themselves, of each solver that depends on one (not local plans).
                Values are means.
            time_limit: Seconds for each solve; ``None`` for no limit.
            threads: Number of threads; by default one per processor (not local plans).

        Returns:
            The comparison. Its table has a row for each contender, as the program's ``compare --json`` prints it.
        """
        given = [(name, _text(plan)) for name, plan in (plans or {}).items()]
        limits = _limits(time_limit, 0.0, 0, threads)
        chosen = chosen_seeds(seeds)
        found = self._native.compare(limits, list(solvers), given, baseline, chosen, now())
        return Comparison(found, chosen)

    def __repr__(self) -> str:
        return f"<stagewright.Task: {self.kind}>"


class Answer:
    """The plan that answers a :class:`Task`, with a lower bound, or the reason why there is no plan.

    Values and bounds are seconds; for a strategy problem costs, and for a layer flow or a serving plan what its goal
    counts.
    """

    def __init__(self, native: _native.TaskAnswer) -> None:
        self._native = native

    @property
    def status(self) -> str:
        """``optimal``, ``feasible``, ``infeasible`` (proved) or ``unknown``."""
        return self._native.status

    @property
    def value(self) -> float | None:
        """The value; ``None`` without a plan."""
        return self._native.value

    @property
    def bound(self) -> float | None:
        """Lower bound on the value of every plan."""
        return self._native.bound

    @property
    def gap(self) -> float | None:
        """Relative gap: (value − bound) / value."""
        return self._native.gap

    @property
    def notes(self) -> list[str]:
        """Remarks made during the solve."""
        return self._native.notes

    def to_dict(self) -> dict[str, Any]:
        """The plan document, whose ``schema`` states its kind."""
        document: dict[str, Any] = json.loads(self._native.to_json())
        return document

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan document, which every command of the program reads."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._native.to_json())

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the HTML report of the plan; not available for strategy problems."""
        self._native.save_html(os.fspath(path))

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return f"<stagewright.Answer: {self.status}, value {self.value}, bound {self.bound}>"


def _limits(time_limit: float | None, gap: float, seed: int, threads: int | None) -> str:
    arguments = {"time_limit": time_limit, "gap": gap, "seed": seed, "threads": threads}
    return json.dumps(arguments, default=_plain)


def _text(plan: Answer | Mapping[str, Any]) -> str:
    return plan._native.to_json() if isinstance(plan, Answer) else json.dumps(dict(plan), default=_plain)
