"""Spaces that agents take by a rule: equal runs with the wrappers that one would write by hand."""

import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import deadtime
from deadtime.envs import adapted
from deadtime.runs.specs import make_spec
from tests.commands import full

SMALL = {"steps": 120, "hidden": (4,), "batch_size": 4, "evaluation_episodes": 2}
SEEN = {
    "dict": spaces.Dict(
        {
            "b": spaces.Box(-1, 1, (2, 2)),
            "a": spaces.Discrete(3, start=1),
            "c": spaces.Box(0, 9, ()),
        }
    ),
    "tuple": spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])]),
    "discrete": spaces.Discrete(4),
    "matrix": spaces.Box(-1, 1, (2, 3), np.float64),
}
ACTIONS = {
    "counts": spaces.MultiDiscrete([2, 3], start=[0, 5]),
    "matrix": spaces.MultiDiscrete([[2], [3]]),
    "bits": spaces.MultiBinary(2),
    "late": spaces.Discrete(3, start=-1),
    "box": spaces.Box(-1, 1, (2,)),
}


class Spaces(gym.Env):
    """Random observations of a space; the pay depends on the action."""

    def __init__(self, seen="discrete", actions="counts"):
        self.observation_space = SEEN[seen]
        self.action_space = ACTIONS[actions]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.observation_space.seed(int(self.np_random.integers(10**6)))
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.time += 1
        seen = self.observation_space.sample()
        return seen, float(np.sum(action)), False, self.time == 7, {}


class ByHand(gym.ActionWrapper):
    """A table of actions by number."""

    def __init__(self, env, table):
        super().__init__(env)
        self.table = table
        self.action_space = spaces.Discrete(len(table))

    def action(self, action):
        return self.table[action]


TABLES = {
    "counts": [np.array(pair) for pair in ((0, 5), (0, 6), (0, 7), (1, 5), (1, 6), (1, 7))],
    "matrix": [np.array([[a], [b]]) for a in range(2) for b in range(3)],
    "bits": [np.array(pair, np.int8) for pair in ((0, 0), (0, 1), (1, 0), (1, 1))],
    "late": [-1, 0, 1],
}


@pytest.fixture(autouse=True)
def _registered():
    before = {*gym.registry}
    yield
    for one in {*gym.registry} - before:
        del gym.registry[one]


@pytest.mark.parametrize("seen", SEEN)
def test_observations_are_flattened_as_gymnasium_does(seen):
    env, plain = adapted(Spaces(seen, "late")), Spaces(seen, "late")
    shown, own = env.reset(seed=3)[0], plain.reset(seed=3)[0]
    np.testing.assert_array_equal(shown, spaces.flatten(SEEN[seen], own))
    environment = deadtime.envs.make(Spaces, seen=seen)
    assert shown.shape == environment.observation_space().shape


def test_a_dict_follows_the_order_of_its_keys():
    one = {"a": 2, "b": np.array([[1, 2], [3, 4]]) / 4, "c": np.array(9.0)}
    flat = spaces.flatten(SEEN["dict"], one)
    assert flat.tolist() == [0, 1, 0, 0.25, 0.5, 0.75, 1, 9]


@pytest.mark.parametrize("actions", TABLES)
def test_actions_are_numbered_and_the_last_part_changes_fastest(actions):
    env = adapted(Spaces(actions=actions))
    table = TABLES[actions]
    assert env.action_space == spaces.Discrete(len(table))
    for number, action in enumerate(table):
        found = env.action(number)
        np.testing.assert_array_equal(found, action)
        assert env.unwrapped.action_space.contains(found)


def test_environments_that_need_nothing_are_left_alone():
    for name in ("CartPole-v1", "Pendulum-v1"):
        env = gym.make(name)
        assert adapted(env) is env


def test_large_observations_are_refused(monkeypatch):
    monkeypatch.setitem(SEEN, "large", spaces.Discrete(1001))
    with pytest.raises(ValueError, match="flattened to at most 1,000 numbers"):
        make_spec(Spaces, "oblivious", 0, {"seen": "large"})


def check_equal_runs(one, other):
    np.testing.assert_array_equal(one.curve.returns, other.curve.returns)
    np.testing.assert_array_equal(one.scores, other.scores)
    assert one.record.policies.keys() == other.record.policies.keys()
    for name, array in one.record.policies.items():
        np.testing.assert_array_equal(array, other.record.policies[name])


@pytest.mark.slow
def test_a_run_equals_the_run_with_the_wrappers_made_by_hand():
    """A Dict and a MultiDiscrete at once, against FlattenObservation and a table of actions."""
    table = TABLES["counts"]
    one = deadtime.train(Spaces, "augmented", 2, seen="dict", **SMALL)
    other = deadtime.train(
        lambda: ByHand(gym.wrappers.FlattenObservation(Spaces("dict")), table),
        "augmented",
        2,
        **SMALL,
    )
    check_equal_runs(one, other)
    env = Spaces("dict")
    found = deadtime.evaluate(one.policy(), env, 2, episodes=2)
    wanted = deadtime.evaluate(one.policy(), Spaces, episodes=2, seen="dict")
    assert found.tolist() == wanted.tolist()
    with pytest.raises(ValueError, match=r"or wrap the environment in deadtime.envs.adapted"):
        deadtime.evaluate(one.policy(), env)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["FrozenLake", full("Taxi")])
def test_numbered_states_are_one_hot(kind):
    """Equal to the run on states that a wrapper of ours makes one-hot."""
    name = next(one for one in gym.registry if re.fullmatch(rf"{kind}-v\d", one))

    def by_hand():
        env = gym.make(name)
        count = int(env.observation_space.n)
        box = spaces.Box(0, 1, (count,))
        return gym.wrappers.TransformObservation(env, lambda s: np.eye(count)[s], box)

    settings = SMALL | {"evaluation_episodes": 1}
    runs = [deadtime.train(env, "delayed", 1, **settings) for env in (name, by_hand)]
    check_equal_runs(*runs)
