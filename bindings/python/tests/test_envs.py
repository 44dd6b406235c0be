"""Environments of Gymnasium."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stagewright as sw
from support import ARRAYS, chain, cluster, random_model

gymnasium = pytest.importorskip("gymnasium", minversion="1.1")

from gymnasium.utils.env_checker import check_env, data_equivalence  # noqa: E402
from stagewright.envs import PlacementEnv, PlacementVectorEnv  # noqa: E402

MODES = ["one-shot", "progressive"]


def small(objective: Any = "makespan", memory: float | None = None) -> sw.Problem:
    model = random_model(10, 4, colocate=True)
    return sw.Problem(model, cluster(3, memory, host=True), objective, memory_reserve=0)


@pytest.mark.filterwarnings("ignore:.*alternative render modes:UserWarning")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("memory", [None, 4e3])
def test_gymnasium_accepts_the_environment(mode: Any, memory: float | None) -> None:
    check_env(PlacementEnv(small(memory=memory), mode))


@pytest.mark.parametrize("mode", MODES)
def test_the_environment_is_registered(mode: str) -> None:
    problem = small()
    for name in ("stagewright/Placement-v0", "stagewright.envs:stagewright/Placement-v0"):
        env = gymnasium.make(name, problem=problem, mode=mode)
        assert isinstance(env.unwrapped, PlacementEnv) and env.unwrapped.problem is problem
        check_env(env.unwrapped)
    envs = gymnasium.make_vec("stagewright/Placement-v0", num_envs=3, problem=problem, mode=mode)
    assert isinstance(envs.unwrapped, PlacementVectorEnv) and envs.num_envs == 3


def test_a_one_shot_episode_has_the_reward_of_the_papers() -> None:
    problem = small()
    env = PlacementEnv(problem)
    observation, info = env.reset(seed=1)
    assert info == {} and env.group_of.shape == (10,)
    assert set(observation) == {"features", "placement"}
    env.action_space.seed(2)
    feasible = 0
    for _ in range(30):
        env.reset()
        action = env.action_space.sample()
        observation, reward, terminated, truncated, info = env.step(action)
        assert terminated and not truncated
        value = problem.evaluate(action[env.group_of][None])[0]
        assert info["value"] == value and info["is_feasible"] == np.isfinite(value)
        assert np.array_equal(observation["placement"], action)
        assert reward == -np.sqrt(value if np.isfinite(value) else env.penalty)
        feasible += info["is_feasible"]
    # Some devices cannot run some operators.
    assert 0 < feasible < 30
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(action)


def test_rewards_of_a_progressive_episode_add_up() -> None:
    problem = small()
    env = PlacementEnv(problem, "progressive")
    groups = len(env.order)
    assert groups == len(np.unique(problem.arrays()["colocation"])) < 10
    observation, info = env.reset(seed=3)
    start = info["value"]
    # Random devices are drawn only from those that can run a group.
    assert np.isfinite(start)
    env.action_space.seed(4)
    rewards, terminated, step = [], False, 0
    while not terminated:
        current = observation["current"]
        assert current == env.order[step] and observation["placed"].sum() == step
        before, action = observation["placement"], env.action_space.sample()
        observation, reward, terminated, _, info = env.step(action)
        assert observation["placement"][current] == action
        assert np.array_equal(np.delete(observation["placement"], current), np.delete(before, current))
        assert observation["placed"][current] == 1
        rewards.append(reward)
        step += 1
    assert step == groups
    end = info["value"] if info["is_feasible"] else env.penalty
    assert sum(rewards) == pytest.approx((start - end) / env.serial_seconds)


def test_groups_are_in_topological_order() -> None:
    env = PlacementEnv(sw.Problem(random_model(20, 9), cluster(2), "makespan"), "progressive")
    position = np.argsort(env.order)
    assert np.all(position[env.edge_index[0]] < position[env.edge_index[1]])
    assert env.edge_index.shape == np.unique(env.edge_index, axis=1).shape


def test_infeasible_placements_have_finite_rewards() -> None:
    """Memory is so small that no device fits all operators."""
    env = PlacementEnv(small(memory=3e3))
    env.reset(seed=0)
    _, reward, _, _, info = env.step(np.zeros(len(env.order), dtype=np.int64))
    assert info == {"value": np.inf, "is_feasible": False}
    assert reward == -np.sqrt(env.penalty) and env.penalty == pytest.approx(10 * env.serial_seconds)
    assert env.best is None and env.best_value == np.inf


def test_the_penalty_is_more_than_any_value() -> None:
    for objective in ("makespan", "throughput", "latency"):
        problem = sw.Problem(random_model(10, 4), cluster(2), objective)
        env = PlacementEnv(problem)
        placements = np.random.default_rng(0).integers(0, 2, (200, 10))
        values = problem.evaluate(placements)
        assert np.isfinite(values).any()
        assert values[np.isfinite(values)].max() < env.penalty


def test_a_penalty_of_ones_own() -> None:
    env = PlacementEnv(small(memory=3e3), penalty=4.0)
    env.reset()
    assert env.step(np.zeros(len(env.order), dtype=np.int64))[1] == -2.0
    for penalty in (-1.0, np.inf, np.nan):
        with pytest.raises(sw.StagewrightError, match="penalty"):
            PlacementEnv(small(), penalty=penalty)


def test_the_best_placement_is_kept() -> None:
    problem = small()
    env = PlacementEnv(problem, "progressive")
    env.action_space.seed(0)
    values = []
    for episode in range(5):
        _, info = env.reset(seed=episode)
        values.append(info["value"])
        for _ in env.order:
            values.append(env.step(env.action_space.sample())[4]["value"])
    assert env.best is not None and env.best_value == min(values)
    assert problem.evaluate(env.best[None])[0] == env.best_value
    assert problem.place(env.best).value == pytest.approx(env.best_value)


def test_a_start_may_be_given() -> None:
    problem = sw.Problem(chain(), cluster(2), "makespan")
    env = PlacementEnv(problem, "progressive")
    observation, info = env.reset(options={"placement": ["gpu1"] * 6})
    assert observation["placement"].tolist() == [1] * 6
    assert info["value"] == problem.evaluate(np.ones((1, 6), dtype=np.uint16))[0]
    split = PlacementEnv(problem, "progressive", groups=[0, 0, 0, 1, 1, 1])
    assert split.reset(options={"placement": [0, 0, 0, 1, 1, 1]})[0]["placement"].tolist() == [0, 1]
    for wrong in ([0, 0, 1, 1, 1, 1], [0] * 5, [2] * 6):
        with pytest.raises(sw.StagewrightError) as raised:
            split.reset(options={"placement": wrong})
        assert (raised.value.code, raised.value.place) == (ARRAYS, "placement")
    for other in (env, PlacementVectorEnv(problem, 2)):
        with pytest.raises(sw.StagewrightError, match="unknown options"):
            other.reset(options={"placements": [0] * 6})


def test_groups_of_ones_own() -> None:
    problem = sw.Problem(chain(), cluster(2), "makespan")
    env = PlacementEnv(problem, groups=[5, 5, 5, 9, 9, 9])
    assert env.group_of.tolist() == [0, 0, 0, 1, 1, 1] and env.edge_index.tolist() == [[0], [1]]
    env.reset()
    assert env.step(np.array([0, 1]))[4]["value"] == problem.evaluate([[0, 0, 0, 1, 1, 1]])[0]
    for groups in ([0] * 5, [0.0] * 6, [[0] * 6], [0, [1]]):
        with pytest.raises(sw.StagewrightError) as raised:
            PlacementEnv(problem, groups=groups)
        assert (raised.value.code, raised.value.place) == (ARRAYS, "groups")
    # Operators 0 and 1 are colocated.
    with pytest.raises(sw.StagewrightError) as raised:
        PlacementEnv(small(), groups=np.arange(10))
    assert raised.value.code == ARRAYS and "operator 0" in raised.value.cause


def test_a_group_without_a_device_is_refused() -> None:
    problem = sw.Problem(chain(), cluster(2), "makespan", pins={"op0": "gpu0", "op1": "gpu1"})
    with pytest.raises(sw.StagewrightError, match="group 0 can run on no device"):
        PlacementEnv(problem, groups=[0, 0, 1, 1, 1, 1])
    env = PlacementEnv(problem)
    assert env.can_run[:3].tolist() == [[True, False], [False, True], [True, True]]


def test_a_model_without_operators_has_no_environment() -> None:
    problem = sw.Problem(sw.Graph([]), cluster(2), "makespan")
    for made in (PlacementEnv, PlacementVectorEnv):
        with pytest.raises(sw.StagewrightError) as raised:
            made(problem)
        assert (raised.value.code, raised.value.place) == ("U001", "problem")


def test_features_are_shares() -> None:
    env = PlacementEnv(small())
    observation, _ = env.reset(seed=0)
    features = observation["features"]
    assert features.shape == (len(env.order), 4 + 4) and features.dtype == np.float32
    assert np.array_equal(features[:, :4] < 0, ~env.can_run)
    assert features.max(axis=0)[4:].tolist() == [1.0] * 4
    assert features[:, :4].max() == 1.0
    # Changing a received observation must not affect the environment.
    features[:] = -1.0
    assert env.reset()[0]["features"].max() == 1.0


def test_actions_outside_the_space_are_refused() -> None:
    env = PlacementEnv(small())
    env.reset()
    groups = len(env.order)
    wrong = (np.full(groups, 4), np.full(groups, -1), np.zeros(groups - 1, dtype=int), np.zeros(groups), [0, [1]])
    for action in wrong:
        with pytest.raises(sw.StagewrightError) as raised:
            env.step(action)
        assert (raised.value.code, raised.value.place) == (ARRAYS, "action")
    with pytest.raises(sw.StagewrightError, match="mode"):
        PlacementEnv(small(), "two-shot")  # type: ignore[arg-type]


def test_a_step_before_a_reset_is_refused() -> None:
    for mode, action in (("one-shot", np.zeros(6, dtype=int)), ("progressive", 0)):
        env = PlacementEnv(sw.Problem(chain(), cluster(2)), mode)  # type: ignore[arg-type]
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(action)


@pytest.mark.parametrize("mode", MODES)
def test_many_environments_equal_single_ones(mode: Any) -> None:
    problem, count = small(memory=5e3), 4
    ours = PlacementVectorEnv(problem, count, mode)
    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda: PlacementEnv(problem, mode) for _ in range(count)],
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
    )
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    assert data_equivalence(*map(plain, (ours.reset(seed=7), theirs.reset(seed=7))))
    ours.action_space.seed(1)
    for _ in range(3 * ours._episodes.length + 2):
        actions = ours.action_space.sample()
        mine, other = ours.step(actions), theirs.step(actions)
        assert mine[0] in ours.observation_space
        assert data_equivalence(plain(mine), plain(other))


def plain(value: Any) -> Any:
    """Converts arrays of objects to lists, which `data_equivalence` can compare."""
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value)}
    if isinstance(value, tuple):
        return tuple(plain(entry) for entry in value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return tuple(plain(entry) for entry in value)
    return np.asarray(value)


def test_seeds_of_many_environments() -> None:
    envs = PlacementVectorEnv(small(), 3, "progressive")
    first = envs.reset(seed=5)[0]["placement"]
    assert np.array_equal(envs.reset(seed=[5, 6, 7])[0]["placement"], first)
    assert not np.array_equal(envs.reset()[0]["placement"], first)
    assert not np.array_equal(first[0], first[1])
    with pytest.raises(sw.StagewrightError, match="2 seeds for 3"):
        envs.reset(seed=[1, 2])
    with pytest.raises(sw.StagewrightError, match="num_envs"):
        PlacementVectorEnv(small(), 0)


def test_one_call_evaluates_all_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sw.Problem(chain(), cluster(2), "makespan")
    envs = PlacementVectorEnv(problem, 16)
    sizes: list[int] = []
    evaluate = sw.Problem.evaluate

    def counted(self: sw.Problem, placements: Any, *others: Any, **named: Any) -> Any:
        sizes.append(len(placements))
        return evaluate(self, placements, *others, **named)

    monkeypatch.setattr(sw.Problem, "evaluate", counted)
    envs.reset(seed=0)
    for _ in range(3):
        envs.step(envs.action_space.sample())
    assert sizes == [16] * 3
