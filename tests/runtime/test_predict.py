"""`predict` on observations of `AugmentObservation` agrees with `act`, also in batches."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from deadtime import ActionDelay, AugmentObservation
from deadtime.runtime import NetworkPolicy
from deadtime.wrappers.vector import VectorActionDelay, VectorAugmentObservation
from tests.runtime.kinds import DELAY, KINDS, recurrent, recurrent_manifest
from tests.runtime.test_box_actions import box_policy

BUILDERS = {kind: lambda kind=kind: _built(kind) for kind in KINDS if kind != "frames delayed"}
BUILDERS["box"] = lambda: box_policy("queue", DELAY)


def lively(arrays):
    """Return arrays of a policy whose actions vary: larger weights, no bias, a smaller model."""
    factors = {"bias": 0, "model": 0.7, "input": 1, "change": 1}
    found = {}
    for name, array in arrays.items():
        factor = next((factors[part] for part in factors if part in name), 3)
        found[name] = array * np.float32(factor) if array.dtype == np.float32 else array
    return found


def _built(kind):
    draw, build = KINDS[kind]
    return build(lively(draw(np.random.default_rng(0))))


class Probe(gym.Env):
    """An environment with the spaces of a policy and random observations."""

    def __init__(self, policy):
        self.action_space = (
            spaces.Discrete(policy.num_actions)
            if policy.num_actions
            else spaces.Box(-1, 2, policy.action_shape)
        )
        shape = policy.observation_shape
        if policy.num_states:
            self.observation_space = spaces.Discrete(policy.num_states)
        elif len(shape) == 3:
            self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        else:
            self.observation_space = spaces.Box(-1, 1, shape, np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("kind", BUILDERS)
def test_predict_agrees_with_act(kind, flat):
    policy, twin = BUILDERS[kind](), BUILDERS[kind]()
    env = AugmentObservation(ActionDelay(Probe(policy), policy.delay), flat=flat)
    bare = ActionDelay(Probe(policy), policy.delay)
    assert policy.delay > 1
    shown, info = env.reset(seed=3)
    seen, _ = bare.reset(seed=3)
    state = None
    chosen = []
    env.action_space.seed(0)
    for _ in range(60):
        action, state = policy.predict(shown, state)
        expected = twin.act(seen, info["pending_actions"])
        assert isinstance(action, np.ndarray)
        assert action.shape == policy.action_shape
        assert action.tobytes() == np.asarray(expected).tobytes()
        chosen.append(action.tolist())
        other = env.action_space.sample()
        shown, *_, info = env.step(other)
        seen, *_ = bare.step(other)
    assert len({str(action) for action in chosen}) > 1


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("kind", BUILDERS)
def test_batches_are_rows(kind, flat):
    policy, twin = BUILDERS[kind](), BUILDERS[kind]()
    envs = gym.vector.SyncVectorEnv([lambda: Probe(policy)] * 4)
    envs = VectorAugmentObservation(VectorActionDelay(envs, policy.delay), flat=flat)
    shown, _ = envs.reset(seed=0)
    states = None
    alone = [None] * 4
    for _ in range(3):
        actions, states = policy.predict(shown, states)
        assert actions.shape == (4, *policy.action_shape)
        assert actions.dtype == (np.float32 if policy.action_shape else np.int64)
        for i in range(4):
            row = shown[i] if flat else {name: part[i] for name, part in shown.items()}
            action, alone[i] = twin.predict(row, alone[i])
            assert action.tobytes() == actions[i].tobytes()
        shown, *_ = envs.step(actions)


def test_a_state_is_the_memory():
    arrays = lively(recurrent(np.random.default_rng(0)))
    policy, acting = (NetworkPolicy(recurrent_manifest(0), arrays) for _ in range(2))
    seen = np.random.default_rng(1).normal(size=(12, 4))
    fresh = []
    for obs in seen:
        acting.reset()
        fresh.append(acting.act(obs))
    acting.reset()
    remembered = [acting.act(obs) for obs in seen]
    assert remembered != fresh

    state = None
    found = []
    for obs in seen:
        action, state = policy.predict(obs, state)
        found.append(int(action))
    assert found == remembered
    cell, output = state
    assert cell.shape == output.shape == (5,)
    assert [int(policy.predict(obs)[0]) for obs in seen] == fresh
    assert [int(policy.predict(obs, state, episode_start=True)[0]) for obs in seen] == fresh
    assert [int(policy.predict(obs, state, np.ones(1, bool))[0]) for obs in seen] == fresh
    # `predict` did not change the memory of `act`
    assert [policy.act(obs) for obs in seen] == remembered


def test_episodes_of_a_batch_start_one_by_one():
    arrays = recurrent(np.random.default_rng(0))
    policy = NetworkPolicy(recurrent_manifest(0), arrays)
    rng = np.random.default_rng(2)
    before, now = rng.normal(size=(2, 3, 4))
    _, states = policy.predict(before)
    assert states.cell.shape == (3, 5)
    _, after = policy.predict(now, states, episode_start=np.array([False, True, False]))
    _, going = policy.predict(now, states)
    _, fresh = policy.predict(now)
    for part in (0, 1):
        np.testing.assert_array_equal(after[part][1], fresh[part][1])
        np.testing.assert_array_equal(after[part][[0, 2]], going[part][[0, 2]])
        assert (going[part] != fresh[part]).any(axis=1).all()


def test_a_policy_without_a_memory_returns_the_given_state():
    policy = BUILDERS["deep oblivious"]().at_delay(0)
    _, state = policy.predict(np.zeros(4), state="mine", episode_start=[True])
    assert state == "mine"


@pytest.mark.parametrize(
    "kind",
    ["deep delayed", "deep oblivious", "table delayed", "table oblivious", "frames oblivious"],
)
def test_without_a_delay_an_observation_is_enough(kind):
    policy, twin = (BUILDERS[kind]().at_delay(0) for _ in range(2))
    space = Probe(policy).observation_space
    seen = np.array([space.sample() for _ in range(6)])
    alone = [int(policy.predict(one)[0]) for one in seen]
    assert alone == [twin.act(one) for one in seen]
    assert policy.at_delay(0).predict(seen)[0].tolist() == alone


def test_a_policy_that_does_not_use_the_queue_needs_none():
    for kind in ("recurrent", "frames recurrent", "frames oblivious"):
        policy = BUILDERS[kind]()
        seen = Probe(policy).observation_space.sample()
        assert policy.predict(seen)[0] == policy.act(seen)


def test_predict_without_the_look_ahead_is_refused():
    policy = _built("frames delayed")
    shown = {"observation": np.zeros((4, 84, 84), np.uint8), "pending_actions": [0] * DELAY}
    with pytest.raises(
        ValueError, match="acts on the emulator's prediction .*; got no predicted_observation"
    ):
        policy.predict(shown)
    assert policy.at_delay(0).predict(shown["observation"])[0] in range(9)


def test_what_a_policy_does_not_use_is_refused():
    """Such as the age of the next action, which policies do not see."""
    policy = _built("frames oblivious")
    with pytest.raises(ValueError, match="acts on the observation and the pending actions alone"):
        policy.act(np.zeros((4, 84, 84), np.uint8), [0] * DELAY, 3)


HOT = np.eye(3)[[0, 1, 2]].ravel()
NOT_SHOWN = {
    "the observation alone": np.zeros(4),
    "a batch of observations": np.zeros((2, 4)),
    "too few numbers": np.zeros(4 + 8),
    "too many axes": np.zeros((1, 1, 4 + 9)),
    "whole numbers": np.append(np.zeros(4), HOT).astype(int),
    "no one-hot vectors": np.zeros(4 + 9),
    "two actions at once": np.append(np.zeros(4), np.ones(9)),
    "halves of actions": np.append(np.zeros(4), HOT + 0.5 * np.eye(9)[1]),
    "half of each action": np.append(np.zeros(4), HOT / 2),
    "nothing": None,
    "another Dict": {"observation": np.zeros(4)},
    "no rows": {"observation": np.zeros((0, 4)), "pending_actions": np.zeros((0, 3), int)},
    "fewer queues than observations": {
        "observation": np.zeros((2, 4)),
        "pending_actions": np.zeros((1, 3), int),
    },
    "batches of batches": {
        "observation": np.zeros((1, 1, 4)),
        "pending_actions": np.zeros((1, 1, 3), int),
    },
}


@pytest.mark.parametrize("what", NOT_SHOWN)
def test_observations_of_the_wrong_form(what):
    policy = BUILDERS["deep delayed"]()
    assert policy.predict(np.append(np.zeros(4), HOT))[0] == policy.act(np.zeros(4), [0, 1, 2])
    words = "(?s)takes observations of deadtime.AugmentObservation.*3 pending actions; got .*: wrap"
    with pytest.raises(ValueError, match=words):
        policy.predict(NOT_SHOWN[what])


def test_parts_that_do_not_fit_are_refused_as_act_does():
    policy = BUILDERS["deep delayed"]()
    with pytest.raises(ValueError, match="an observation is 4 finite numbers"):
        policy.predict({"observation": np.zeros(3), "pending_actions": [0, 0, 0]})
    with pytest.raises(ValueError, match="pending_actions are the last 3 actions"):
        policy.predict({"observation": np.zeros(4), "pending_actions": [0, 0, 3]})
    with pytest.raises(
        ValueError,
        match="a greedy policy, which is deterministic; got deterministic=False: pass True",
    ):
        policy.predict(np.zeros(4), deterministic=False)


def test_an_observation_and_a_queue_of_the_wrong_form():
    policy = BUILDERS["deep augmented"]()
    for wrong in ([0, 0, 0], [[0] * 4], ["a"] * 4, None, [np.nan] * 4):
        with pytest.raises(ValueError, match="an observation is 4 finite numbers"):
            policy.act(wrong, [0, 0, 0])
    for wrong in ([0, 0, 3], [0, 0, -1], [0] * 4, [0.5, 1.0, 0.0], "abc"):
        with pytest.raises(ValueError, match="pending_actions are the last 3 actions"):
            policy.act(np.zeros(4), wrong)


def test_states_of_the_wrong_form():
    policy = NetworkPolicy(
        replace(recurrent_manifest(), delay=0), recurrent(np.random.default_rng(0))
    )
    _, state = policy.predict(np.zeros(4))
    _, states = policy.predict(np.zeros((2, 4)))
    for seen, wrong in (
        (np.zeros(4), states),
        (np.zeros((2, 4)), state),
        (np.zeros(4), state[:1]),
        (np.zeros(4), 5),
    ):
        with pytest.raises(
            ValueError,
            match="(?s)state is the memory that predict returned, .*; got .*: pass that",
        ):
            policy.predict(seen, wrong)
    with pytest.raises(
        ValueError,
        match="episode_start has one value per observation; got 3 for 2: pass one for each",
    ):
        policy.predict(np.zeros((2, 4)), states, episode_start=[True] * 3)
