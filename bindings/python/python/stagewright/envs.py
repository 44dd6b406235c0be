"""Device placement as environments of Gymnasium.

An environment places *groups* of operators: the colocation classes of the model, or coarser groups that you define. All
operators of a group share a device. There are two kinds of episodes:

- ``one-shot``: a single step, whose action is a device for every group, as in HDP and GDP. The reward is −√seconds.
- ``progressive``: an episode starts with a random placement and has one step per group, in topological order, whose
  action is the group's new device, as in Placeto. The reward is (before − after) / T, where before and after are the
  values of the placement in seconds, and T is ``serial_seconds``. The rewards of an episode therefore add up to
  (start − end) / T. In Placeto, rewards are seconds. T is constant, so that the reward for a device does not depend on
  how the episode started.

An infeasible placement counts as ``penalty`` seconds, so that every reward is finite.

Importing this module registers ``stagewright/Placement-v0``:

    import gymnasium
    import stagewright as sw
    import stagewright.envs

    problem = sw.Problem(sw.workload("gnmt", granularity="layer", batch=64), "4xv100", "makespan")
    env = gymnasium.make("stagewright/Placement-v0", problem=problem, mode="progressive")
    envs = gymnasium.make_vec("stagewright/Placement-v0", num_envs=64, problem=problem)

Mirhoseini et al., "A hierarchical model for device placement" (HDP), ICLR 2018. Zhou et al., "GDP: generalized device
placement for dataflow graphs", arXiv 1910.01578, 2019. Addanki et al., "Placeto: learning generalizable device
placement algorithms for distributed machine learning", NeurIPS 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from .errors import StagewrightError
from .problems import Problem, _array

Mode = Literal["one-shot", "progressive"]
Observation = dict[str, Any]

#: Infeasible placements count as this multiple of ``serial_seconds`` by default.
PENALTY = 10.0


class _Episodes:
    """Episodes of several placements that advance in lockstep. Both environments are thin layers over this class.

    Shapes use n for the number of placements, G for groups, D for devices and O for operators.
    """

    def __init__(
        self,
        problem: Problem,
        mode: Mode,
        groups: npt.ArrayLike | None,
        penalty: float | None,
        count: int,
        threads: int | None,
    ) -> None:
        if mode not in ("one-shot", "progressive"):
            raise StagewrightError("U001", f"mode is {mode!r}", "mode", "give one-shot or progressive")
        arrays = problem.arrays()
        if not len(arrays["colocation"]):
            raise StagewrightError("U001", "the model has no operators", "problem", "give a model with operators")
        self.problem, self.mode, self.count, self.threads = problem, mode, count, threads
        self.group_of = _group_of(arrays, groups)
        self.groups = int(self.group_of.max()) + 1
        self.devices = len(problem.devices)
        can_run = np.ones((self.groups, self.devices), dtype=bool)
        np.logical_and.at(can_run, self.group_of, np.isfinite(arrays["seconds"]))
        self.can_run: npt.NDArray[np.bool_] = can_run
        if not can_run.any(axis=1).all():
            nowhere = int(np.flatnonzero(~can_run.any(axis=1))[0])
            help = "divide the group, or change the pins of its operators"
            raise StagewrightError("U001", f"group {nowhere} can run on no device", "groups", help)
        # A group is ordered by its first member in topological order.
        position = np.empty(len(self.group_of), dtype=np.int64)
        position[arrays["topological"]] = np.arange(len(position))
        first = np.full(self.groups, len(position), dtype=np.int64)
        np.minimum.at(first, self.group_of, position)
        self.order: npt.NDArray[np.int64] = np.argsort(first)
        self.edge_index = _edges(arrays, self.group_of)
        self.features = _features(arrays, self.group_of, can_run, self.order)
        self.serial_seconds = _serial_seconds(arrays)
        # With a schedule, the value is the time of all microbatches.
        microbatches = problem.objective.get("microbatches") or 1
        self.penalty = PENALTY * self.serial_seconds * microbatches if penalty is None else float(penalty)
        if not np.isfinite(self.penalty) or self.penalty < 0.0:
            raise StagewrightError("U001", f"penalty is {penalty!r}", "penalty", "give a finite number of seconds")
        # Each row lists the devices for a group, those that can run it first.
        self._choices = np.argsort(~can_run, axis=1, kind="stable")
        self._choice_counts = can_run.sum(axis=1)

        self.placement: npt.NDArray[np.int64] = np.tile(self._choices[:, 0], (count, 1))
        self.value: npt.NDArray[np.float64] = np.full(count, np.inf)
        self.step = 0
        self.is_started = False
        self.best: npt.NDArray[np.uint16] | None = None
        self.best_value = float("inf")

        self.observation_space = spaces.Dict(
            {
                "features": spaces.Box(-1.0, 1.0, self.features.shape, np.float32),
                "placement": spaces.MultiDiscrete([self.devices] * self.groups),
            }
        )
        self.action_space: spaces.Space[Any] = self.observation_space["placement"]
        if mode == "progressive":
            self.observation_space["placed"] = spaces.MultiBinary(self.groups)
            self.observation_space["current"] = spaces.Discrete(self.groups)
            self.action_space = spaces.Discrete(self.devices)

    @property
    def length(self) -> int:
        """Number of steps of an episode."""
        return self.groups if self.mode == "progressive" else 1

    @property
    def is_over(self) -> bool:
        return self.step >= self.length

    def start(self, generators: Sequence[np.random.Generator], options: dict[str, Any] | None = None) -> None:
        """Starts an episode for every generator, from the placement in the options if they have one."""
        options = options or {}
        if unknown := options.keys() - {"placement"}:
            raise StagewrightError("U001", f"unknown options {sorted(unknown)}", "options", "give `placement`")
        if (given := options.get("placement")) is not None:
            devices = self.problem.placement(given)
            if len(devices) != len(self.group_of):
                cause = f"{len(devices)} devices, and the model has {len(self.group_of)} operators"
                raise StagewrightError("Z001", cause, "placement", "give one for each operator")
            start = np.empty(self.groups, dtype=np.int64)
            start[self.group_of] = devices
            if (start[self.group_of] != devices).any():
                at = int(np.flatnonzero(start[self.group_of] != devices)[0])
                cause = f"operator {at} is not on the device of its group"
                raise StagewrightError("Z001", cause, "placement", "give all operators of a group one device")
            if start.max() >= self.devices:
                cause = f"device {start.max()}, and the cluster has {self.devices}"
                raise StagewrightError("Z001", cause, "placement", "number devices from 0")
            self.placement = np.tile(start, (self.count, 1))
        elif self.mode == "progressive":
            drawn = np.stack([generator.random(self.groups) for generator in generators])
            choice = (drawn * self._choice_counts).astype(np.int64)
            self.placement = self._choices[np.arange(self.groups), choice]
        else:
            self.placement = np.tile(self._choices[:, 0], (self.count, 1))
        self.step, self.is_started = 0, True
        if self.mode == "progressive":
            self._evaluate()

    def act(self, actions: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Applies actions, ``int[n, G]`` if one-shot and otherwise ``int[n]``, and returns rewards, ``float64[n]``."""
        if not self.is_started or self.is_over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset()")
        devices = _array(actions, "action")
        shape = (self.count,) if self.mode == "progressive" else (self.count, self.groups)
        is_valid = devices.shape == shape and devices.dtype.kind in "iu"
        if not is_valid or devices.min() < 0 or devices.max() >= self.devices:
            cause = f"an action of shape {devices.shape} and type {devices.dtype}, or out of range"
            help = f"give integers of shape {shape} below {self.devices}"
            raise StagewrightError("Z001", cause, "action", help)
        before = self.seconds()
        self.placement = self.placement.copy()
        if self.mode == "progressive":
            self.placement[:, self.order[self.step]] = devices
        else:
            self.placement[:] = devices
        self.step += 1
        self._evaluate()
        if self.mode == "one-shot":
            return -np.sqrt(self.seconds())
        # A model that takes no time cannot get faster.
        unit = self.serial_seconds if self.serial_seconds > 0.0 else 1.0
        return (before - self.seconds()) / unit

    def seconds(self) -> npt.NDArray[np.float64]:
        """Values of the placements, with the penalty for infeasible ones, ``float64[n]``."""
        return np.where(np.isfinite(self.value), self.value, self.penalty)

    def _evaluate(self) -> None:
        placements = self.placement[:, self.group_of].astype(np.uint16)
        self.value = self.problem.evaluate(placements, threads=self.threads)
        least = int(np.argmin(self.value))
        if self.value[least] < self.best_value:
            self.best, self.best_value = placements[least].copy(), float(self.value[least])

    def observe(self, at: int | slice) -> Observation:
        """The observation of one placement or, with a leading dimension, of a range of placements."""
        # Copies, because the receiver of an observation may change it.
        observation: Observation = {"features": self.features.copy(), "placement": self.placement[at].copy()}
        if self.mode == "progressive":
            placed = np.zeros(self.groups, dtype=np.int8)
            placed[self.order[: self.step]] = 1
            observation["placed"] = placed
            observation["current"] = self.order[min(self.step, self.groups - 1)]
        if isinstance(at, slice):
            for name in ("features", "placed", "current"):
                if name in observation:
                    same = observation[name]
                    observation[name] = np.repeat(np.asarray(same)[None], self.count, axis=0)
        return observation

    @property
    def is_evaluated(self) -> bool:
        """Whether the current placements have values."""
        return self.mode == "progressive" or self.step > 0


class _Placements:
    """Properties that both environments share: their groups and their best placement."""

    _episodes: _Episodes

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self._episodes.problem

    @property
    def mode(self) -> Mode:
        """``one-shot`` or ``progressive``."""
        return self._episodes.mode

    @property
    def group_of(self) -> npt.NDArray[np.int64]:
        """The group of every operator, ``int64[O]``."""
        return self._episodes.group_of

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """The groups in topological order, which is the order of the steps of a progressive episode, ``int64[G]``."""
        return self._episodes.order

    @property
    def edge_index(self) -> npt.NDArray[np.int64]:
        """Pairs of groups with a tensor from the first to the second, each pair once, ``int64[2, E]``."""
        return self._episodes.edge_index

    @property
    def can_run(self) -> npt.NDArray[np.bool_]:
        """Whether a group can run on a device, ``bool[G, D]``."""
        return self._episodes.can_run

    @property
    def serial_seconds(self) -> float:
        """Sum of the seconds of all operators on their slowest devices and of all tensors over the slowest link."""
        return self._episodes.serial_seconds

    @property
    def penalty(self) -> float:
        """Seconds that are counted for an infeasible placement."""
        return self._episodes.penalty

    @property
    def best(self) -> npt.NDArray[np.uint16] | None:
        """The best feasible placement so far over all episodes, ``uint16[O]``; ``None`` if there is none."""
        return self._episodes.best

    @property
    def best_value(self) -> float:
        """The value of the best placement in seconds; infinity if there is none."""
        return self._episodes.best_value


class PlacementEnv(_Placements, gymnasium.Env[Observation, Any]):
    """Placement of one problem.

    Args:
        problem: The problem, with any objective.
        mode: ``one-shot`` or ``progressive``, as the module describes them.
        groups: The group of every operator, ``int[O]``; by default its colocation class.
        penalty: Seconds that are counted for an infeasible placement; by default ten times ``serial_seconds``, for each
            microbatch of a schedule. HDP's program uses 100 s for models that take about 1 s.

    Observations, with G groups and D devices:

    - ``features`` ``float32[G, D + 4]``: seconds on every device, or −1 where the group cannot run; bytes in memory;
      bytes sent and received; position in the topological order. Each is a share of the largest value of its kind.
    - ``placement`` ``int64[G]``: the current placement. A one-shot episode starts with the first device that can run
      each group, and a progressive one with a random device among those that can.
    - ``placed`` ``int8[G]`` (progressive): whether a group has been placed in this episode.
    - ``current`` ``int64`` (progressive): the group that the next action places.

    ``info`` has ``value``, the seconds of the current placement or infinity, and ``is_feasible``; at the start of a
    one-shot episode, it has neither. ``reset(options={"placement": …})`` starts with a placement of the operators, in
    any form that ``Problem.placement`` reads.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it for instances

    def __init__(
        self,
        problem: Problem,
        mode: Mode = "one-shot",
        *,
        groups: npt.ArrayLike | None = None,
        penalty: float | None = None,
        render_mode: None = None,
    ) -> None:
        self.render_mode = render_mode
        self._episodes = _Episodes(problem, mode, groups, penalty, 1, None)
        self.observation_space = self._episodes.observation_space
        self.action_space = self._episodes.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed)
        self._episodes.start([self.np_random], options)
        return self._episodes.observe(0), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Places all groups, or the current one.

        Raises:
            StagewrightError: If the action is not in the action space.
            gymnasium.error.ResetNeeded: If the episode is over.
        """
        reward = float(self._episodes.act(_array(action, "action")[None])[0])
        return self._episodes.observe(0), reward, self._episodes.is_over, False, self._info()

    def _info(self) -> dict[str, Any]:
        if not self._episodes.is_evaluated:
            return {}
        value = float(self._episodes.value[0])
        return {"value": value, "is_feasible": bool(np.isfinite(value))}


class PlacementVectorEnv(_Placements, gymnasium.vector.VectorEnv[Observation, Any, npt.NDArray[Any]]):
    """Many placements of one problem, evaluated by one call of ``Problem.evaluate``.

    It behaves like a ``gymnasium.vector.SyncVectorEnv`` of ``PlacementEnv`` with the autoreset mode ``SAME_STEP``: all
    episodes have the same length, and the step that ends them also starts the next ones and returns the last
    observation and information in ``final_obs`` and ``final_info``.

    Args:
        problem: The problem, with any objective.
        num_envs: Number of placements.
        mode: As for :class:`PlacementEnv`.
        groups: As for :class:`PlacementEnv`.
        penalty: As for :class:`PlacementEnv`.
        threads: Threads of the evaluation; by default one per processor.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - as above

    def __init__(
        self,
        problem: Problem,
        num_envs: int = 1,
        mode: Mode = "one-shot",
        *,
        groups: npt.ArrayLike | None = None,
        penalty: float | None = None,
        threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        if num_envs < 1:
            raise StagewrightError("U001", f"num_envs is {num_envs}", "num_envs", "give at least 1")
        self.num_envs, self.render_mode = num_envs, render_mode
        self._episodes = _Episodes(problem, mode, groups, penalty, num_envs, threads)
        self._generators = [seeding.np_random()[0] for _ in range(num_envs)]
        self.single_observation_space = self._episodes.observation_space
        self.single_action_space = self._episodes.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode for every placement. A single seed s stands for the seeds s, s + 1, and so on."""
        if seed is not None:
            seeds = [seed + at for at in range(self.num_envs)] if isinstance(seed, int) else seed
            if len(seeds) != self.num_envs:
                cause = f"{len(seeds)} seeds for {self.num_envs} placements"
                raise StagewrightError("U001", cause, "seed", "give one for each placement")
            for at, own in enumerate(seeds):
                if own is not None:
                    self._generators[at] = seeding.np_random(own)[0]
        self._episodes.start(self._generators, options)
        return self._episodes.observe(slice(None)), self._info()

    def step(
        self, actions: Any
    ) -> tuple[Observation, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Places all groups of every placement, or the current one; starts the next episodes after the last step.

        Raises:
            StagewrightError: If the actions are not in the action space.
            gymnasium.error.ResetNeeded: If there was no reset.
        """
        episodes = self._episodes
        rewards = episodes.act(actions)
        is_over, infos = episodes.is_over, self._info()
        if is_over:
            last: npt.NDArray[np.object_] = np.empty(self.num_envs, dtype=object)
            last[:] = [episodes.observe(at) for at in range(self.num_envs)]
            final = {"final_obs": last, "final_info": infos}
            episodes.start(self._generators)
            infos = {**self._info(), **_with_masks(final, self.num_envs)}
        terminated = np.full(self.num_envs, is_over)
        truncated = np.zeros(self.num_envs, dtype=bool)
        return episodes.observe(slice(None)), rewards, terminated, truncated, infos

    def _info(self) -> dict[str, Any]:
        if not self._episodes.is_evaluated:
            return {}
        value = self._episodes.value.copy()
        return _with_masks({"value": value, "is_feasible": np.isfinite(value)}, self.num_envs)


def _with_masks(infos: dict[str, Any], count: int) -> dict[str, Any]:
    """Information on all environments, each array with the mask that Gymnasium adds."""
    return {**infos, **{f"_{name}": np.ones(count, dtype=bool) for name in infos}}


def _group_of(arrays: dict[str, Any], groups: npt.ArrayLike | None) -> npt.NDArray[np.int64]:
    """The group of every operator, numbered from 0."""
    colocation = arrays["colocation"]
    given = colocation if groups is None else _array(groups, "groups")
    if given.shape != colocation.shape or given.dtype.kind not in "iu":
        cause = f"the groups are of shape {given.shape} and type {given.dtype}"
        raise StagewrightError("Z001", cause, "groups", f"give an integer for each of {len(colocation)} operators")
    pairs = np.unique(np.stack([colocation, given.astype(np.int64)]), axis=1)
    if len(np.unique(colocation)) != pairs.shape[1]:
        at = int(np.flatnonzero(np.diff(pairs[0]) == 0)[0])
        operator = int(np.flatnonzero(colocation == pairs[0, at])[0])
        cause = f"operators that must share a device are in different groups, such as operator {operator}"
        raise StagewrightError("Z001", cause, "groups", "`Problem.arrays()['colocation']` has the same number for them")
    return np.unique(given, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _edges(arrays: dict[str, Any], group_of: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    between = group_of[arrays["edge_index"]]
    return np.unique(between[:, between[0] != between[1]], axis=1)


def _features(
    arrays: dict[str, Any],
    group_of: npt.NDArray[np.int64],
    can_run: npt.NDArray[np.bool_],
    order: npt.NDArray[np.int64],
) -> npt.NDArray[np.float32]:
    groups = len(order)
    seconds = np.zeros(can_run.shape)
    np.add.at(seconds, group_of, np.where(np.isfinite(arrays["seconds"]), arrays["seconds"], 0.0))
    held = arrays["parameter_bytes"] + arrays["optimizer_bytes"] + arrays["activation_bytes"]
    # A group receives a tensor only once, however many of its operators read it, and sends each tensor once.
    source, target = group_of[arrays["edge_index"]]
    leaves = source != target
    tensors = arrays["edge_tensor"][leaves]
    sent = np.unique(np.stack([source[leaves], tensors]), axis=1)
    received = np.unique(np.stack([target[leaves], tensors]), axis=1)
    position = np.empty(groups)
    position[order] = np.arange(groups)
    columns = [
        np.bincount(group_of, held, groups),
        np.bincount(sent[0], arrays["tensor_bytes"][sent[1]], groups),
        np.bincount(received[0], arrays["tensor_bytes"][received[1]], groups),
        position,
    ]
    shares = np.stack([_share(column) for column in columns], axis=1)
    features = np.concatenate([np.where(can_run, _share(seconds), -1.0), shares], axis=1).astype(np.float32)
    return features


def _share(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    most = column.max(initial=0.0)
    return column / most if most > 0.0 else column


def _serial_seconds(arrays: dict[str, Any]) -> float:
    seconds = np.where(np.isfinite(arrays["seconds"]), arrays["seconds"], 0.0)
    transfers = arrays["tensor_seconds"].max(axis=1, initial=0.0)
    return float(seconds.max(axis=1, initial=0.0).sum() + transfers.sum())


if "stagewright/Placement-v0" not in gymnasium.registry:
    gymnasium.register(
        id="stagewright/Placement-v0",
        entry_point="stagewright.envs:PlacementEnv",
        vector_entry_point="stagewright.envs:PlacementVectorEnv",
    )
