"""Trains a small placement policy with REINFORCE, and compares it with exact and heuristic solvers.

The policy places the groups of a model in topological order. A network with one hidden layer scores every device for
the current group, and the device is sampled from a softmax of the scores. The features are those that a list scheduler
would consider: when the group could end on the device, how much work the device has, and which transfers are saved
because inputs are already there. All devices and groups share the network, so it has about a hundred parameters and
learns in seconds. The gradient is that of REINFORCE (Williams, Machine Learning 1992) with the mean reward of a batch
as the baseline and an entropy bonus; the reward is −√seconds, as in HDP and GDP.

    python train_policy.py --seconds 30
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import stagewright as sw
from stagewright.envs import PlacementVectorEnv

Array = npt.NDArray[np.float64]

#: Placements per update.
BATCH = 32
HIDDEN = 16
LEARNING_RATE = 0.02
#: Weight of the entropy at the start; it falls to zero at the end of the training.
ENTROPY = 0.02


@dataclass
class Groups:
    """The groups of a problem in the form that the policy reads, with G groups and D devices.

    Attributes:
        order: The groups by decreasing upward rank, which is a topological order, ``int64[G]``.
        can_run: Whether a group can run on a device, ``bool[G, D]``.
        seconds: Seconds of a group on a device as a share of the mean load of a device, ``float64[G, D]``.
        rank: Upward rank: the length of the longest path from a group to the end, including transfers, as a share of
            the largest rank, ``float64[G]``.
        inputs: For each group, the groups that it reads from, and the time of each transfer in the unit of ``seconds``.
    """

    order: npt.NDArray[np.int64]
    can_run: npt.NDArray[np.bool_]
    seconds: Array
    rank: Array
    inputs: list[tuple[npt.NDArray[np.int64], Array]]

    @classmethod
    def of(cls, problem: sw.Problem, envs: PlacementVectorEnv) -> Groups:
        arrays, group_of = problem.arrays(), envs.group_of
        groups, devices = envs.can_run.shape
        seconds = np.zeros((groups, devices))
        np.add.at(seconds, group_of, np.where(np.isfinite(arrays["seconds"]), arrays["seconds"], 0.0))
        mean_load = seconds.max(axis=1).sum() / devices
        seconds /= mean_load
        transfer = arrays["tensor_seconds"].max(axis=1) / mean_load
        position = np.argsort(envs.order)
        source, target = group_of[arrays["edge_index"]]
        # A tensor is sent to a group with several readers only once. Gradients of colocated operators point backwards.
        forward = position[source] < position[target]
        edges = np.unique(np.stack([source, target, arrays["edge_tensor"]])[:, forward], axis=1)
        rank = seconds.max(axis=1)
        for group in envs.order[::-1]:
            out = edges[0] == group
            rank[group] += (transfer[edges[2, out]] + rank[edges[1, out]]).max(initial=0.0)
        order = np.lexsort((position, -rank))
        inputs = [(edges[0, into], transfer[edges[2, into]]) for into in (edges[1] == at for at in range(groups))]
        return cls(order, envs.can_run, seconds, rank / rank.max(), inputs)


class Policy:
    """The network: features → HIDDEN, tanh → score."""

    FEATURES = 7

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.parameters = [
            random.normal(0.0, 0.3, (self.FEATURES, HIDDEN)),
            np.zeros(HIDDEN),
            random.normal(0.0, 0.3, HIDDEN),
        ]
        self.moments = [(np.zeros_like(array), np.zeros_like(array)) for array in self.parameters]
        self.updates = 0

    def scores(self, features: Array) -> tuple[Array, Array]:
        """Scores ``float64[…]`` and the hidden layer ``float64[…, HIDDEN]`` of features ``float64[…, FEATURES]``."""
        into, bias, out = self.parameters
        hidden = np.tanh(features @ into + bias)
        return hidden @ out, hidden

    def sample(self, groups: Groups, count: int) -> tuple[npt.NDArray[np.int64], Array, Array]:
        """Samples placements.

        Returns:
            Devices ``int64[count, G]``; the features ``float64[G, count, D, FEATURES]`` and probabilities
            ``float64[G, count, D]`` of every step.
        """
        size, devices = groups.can_run.shape
        placement = np.zeros((count, size), dtype=np.int64)
        ends = np.zeros((count, size))
        free, load = np.zeros((count, devices)), np.zeros((count, devices))
        last = np.zeros((count, devices))
        all_features = np.zeros((size, count, devices, self.FEATURES))
        all_shares = np.zeros((size, count, devices))
        rows, every = np.arange(count), np.arange(devices)
        for step, group in enumerate(groups.order):
            sources, transfers = groups.inputs[group]
            is_here = placement[:, sources, None] == every
            arrivals = ends[:, sources, None] + np.where(is_here, 0.0, transfers[:, None])
            arrival = arrivals.max(axis=1, initial=0.0)
            received = (np.where(is_here, 0.0, transfers[:, None])).sum(axis=1)
            end = np.maximum(arrival, free) + groups.seconds[group]
            features = all_features[step]
            features[..., 0] = np.minimum(end - end.min(axis=1, keepdims=True), 4.0)
            features[..., 1] = load - load.min(axis=1, keepdims=True)
            features[..., 2] = received
            features[..., 3] = last
            features[..., 4] = np.minimum(free - arrival, 4.0)
            features[..., 5] = groups.seconds[group]
            features[..., 6] = groups.rank[group]
            score = np.where(groups.can_run[group], self.scores(features)[0], -np.inf)
            shares = np.exp(score - score.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            drawn = (shares.cumsum(axis=1) < self.random.random((count, 1))).sum(axis=1)
            device = np.minimum(drawn, devices - 1)
            all_shares[step] = shares
            placement[:, group] = device
            ends[:, group] = free[rows, device] = end[rows, device]
            load[rows, device] += groups.seconds[group, device] + received[rows, device]
            last[:] = 0.0
            last[rows, device] = 1.0
        return placement, all_features, all_shares

    def learn(
        self, chosen: npt.NDArray[np.bool_], features: Array, shares: Array, gains: Array, entropy: float
    ) -> None:
        """Ascends gains · log-probability + entropy, from ``chosen`` ``bool[G, count, D]`` and ``gains``
        ``float64[count]``."""
        logs = np.log(np.maximum(shares, 1e-12))
        expected = (shares * logs).sum(axis=2, keepdims=True)
        by_score = gains[:, None] * (chosen - shares) - entropy * shares * (logs - expected)
        by_score /= len(gains)
        out = self.parameters[2]
        _, hidden = self.scores(features)
        before = by_score[..., None] * out * (1.0 - hidden**2)
        gradients = [
            features.reshape(-1, self.FEATURES).T @ before.reshape(-1, HIDDEN),
            before.sum(axis=(0, 1, 2)),
            by_score.reshape(-1) @ hidden.reshape(-1, HIDDEN),
        ]
        # Adam (Kingma and Ba, ICLR 2015).
        self.updates += 1
        for array, gradient, (first, second) in zip(self.parameters, gradients, self.moments):
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            step = first / (1.0 - 0.9**self.updates)
            scale = np.sqrt(second / (1.0 - 0.999**self.updates))
            array += LEARNING_RATE * step / (scale + 1e-8)


def train(problem: sw.Problem, seconds: float, seed: int) -> npt.NDArray[np.uint16]:
    """Trains a policy on a problem, and returns the best placement that it sampled."""
    envs = PlacementVectorEnv(problem, BATCH)
    envs.reset(seed=seed)
    groups, policy = Groups.of(problem, envs), Policy(np.random.default_rng(seed))
    started = time.perf_counter()
    while (spent := (time.perf_counter() - started) / seconds) < 1.0:
        placement, features, shares = policy.sample(groups, BATCH)
        rewards = envs.step(placement)[1]
        gains = (rewards - rewards.mean()) / (rewards.std() + 1e-9)
        in_order = placement.T[groups.order]
        chosen = in_order[..., None] == np.arange(shares.shape[2])
        policy.learn(chosen, features, shares, gains, ENTROPY * (1.0 - spent))
    if envs.best is None:
        raise RuntimeError("no feasible placement was found")
    return envs.best


def main() -> None:
    """Prints a table for the period of a pipeline, and one for a single step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=25.0, help="training time of each policy")
    parser.add_argument("--time-limit", type=float, default=10.0, help="limit of each solver in seconds")
    arguments = parser.parse_args()

    def policy(problem: sw.Problem, seed: int) -> npt.NDArray[np.uint16]:
        return train(problem, arguments.seconds, seed)

    model = sw.workload("inception-v3", batch=32)
    cluster = "4xv100"
    options = {"time_limit": arguments.time_limit}

    # The splits of dp are contiguous. Its plan is a contender for objectives that allow other placements as well.
    split = sw.plan(sw.Problem(model, cluster), "dp", **options)
    throughput = sw.Problem(model, cluster, split="free")
    makespan = sw.Problem(model, cluster, "makespan")
    print(f"{len(model)} operators of {model.name} on {cluster}")
    print("\nperiod of a full pipeline, free splits, in seconds")
    print(sw.compare(throughput, {"dp": split, "local": "local", "policy": policy}, **options))
    print("\none step, in seconds")
    contenders = {"dp": split, "heft": "heft", "annealing": "annealing", "policy": policy}
    print(sw.compare(makespan, contenders, **options))


if __name__ == "__main__":
    main()
