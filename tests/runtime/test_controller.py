"""The controller decides as the training environment does, whatever else the stream contains."""

import threading
import tracemalloc

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime import ActionDelay, AugmentObservation, ObservationDelay
from deadtime.delays import Uniform
from deadtime.runtime import Controller, Manifest, NetworkPolicy, TablePolicy
from tests.runtime import kinds

LOW, HIGH = (-1.0, 0.1), (1.0, 2.0)


class Noise(gym.Env):
    """Random observations, which do not depend on the actions."""

    def __init__(self, policy, steps=40):
        if policy.num_states:
            self.observation_space = spaces.Discrete(policy.num_states)
        else:
            self.observation_space = spaces.Box(-5, 5, policy.observation_shape)
        box = spaces.Box(np.float32(LOW), np.float32(HIGH))
        self.action_space = box if policy.action_shape else spaces.Discrete(policy.num_actions)
        self._steps = steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.action_space.seed(seed)
        self._left = self._steps
        return self.observation_space.sample(), {}

    def step(self, action):
        self._left -= 1
        return self.observation_space.sample(), 0.0, False, self._left == 0, {}


def safe(policy):
    return (0.0, 1.0) if policy.action_shape else 0


def played(policy, delay, controller):
    """Return pairs of actions: that of `act` in the environment, and that of the controller."""
    env = ActionDelay(Noise(policy), delay)
    pairs = []
    for seed in range(2):
        obs, info = env.reset(seed=seed)
        policy.reset()
        controller.reset(info["pending_actions"])
        ended = False
        while not ended:
            age = info["action_age"]
            ages = {"ages": age} if policy.sees_ages else {}
            chosen = policy.act(obs, info["pending_actions"], **ages)
            pairs.append((chosen, np.array(controller.step(obs, action_age=age))))
            obs, _, _, ended, info = env.step(chosen)
    return pairs


def lively(name):
    """A policy of a kind that does not always choose the same action."""
    draw, build = kinds.KINDS[name]
    for seed in range(99):
        arrays = draw(np.random.default_rng(seed))
        for part in arrays:
            if part.startswith("model/"):
                arrays[part] *= np.float32(0.3)  # keeps predictions as small as observations
        policy = build(arrays)
        pairs = played(policy, kinds.DELAY, Controller(policy.at_delay(kinds.DELAY), 0))
        if len({chosen for chosen, _ in pairs}) > 1:
            return policy.at_delay(kinds.DELAY)
    raise AssertionError(name)


def policies():
    """A policy of each kind that needs no emulator, by name."""
    found = {name: lively(name) for name in kinds.KINDS if "frames" not in name}
    rng = np.random.default_rng(0)
    box = {"observation_shape": (4,), "low": LOW, "high": HIGH, "head": "bounded"}
    for sees, capacity in (("state", 0), ("queue", 3)):
        manifest = Manifest("sac", sees, 3, capacity=capacity, **box)
        arrays = kinds.dense(rng, "layer", (4 + 2 * capacity, 8, 4))
        found[f"box {sees}"] = NetworkPolicy(manifest, arrays)
    return found


POLICIES = policies()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("delay", [kinds.DELAY, Uniform(1, kinds.DELAY)])
def test_decisions_are_those_of_the_training_environment(name, delay):
    policy = POLICIES[name]
    policy = policy.at_delay(delay)
    twin = policy.at_delay(policy.channel)  # ties of tables come from a generator of its own
    pairs = played(policy, delay, Controller(twin, safe(policy)))
    assert len(pairs) == 80
    for expected, found in pairs:
        np.testing.assert_array_equal(found, expected)
    if policy.num_actions:
        assert len({int(found) for _, found in pairs}) > 1


def delayed(delay=3, seed=0):
    """A policy that predicts, with its arrays scaled so that predictions stay small."""
    arrays = kinds.deep(np.random.default_rng(seed), 4, "change")
    return NetworkPolicy(kinds.deep_manifest(delay=delay, model="change"), arrays)


def observations(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 4))


def test_a_late_observation_is_predicted_from_all_actions_since():
    """An observation that is w steps older than usual is followed by w more actions."""
    policy = delayed()
    controller = Controller(policy, 0, observation_age=1)
    seen = observations(30)
    chosen = [0] * 20
    rng = np.random.default_rng(1)
    newest = -1
    for t, obs in enumerate(seen):
        came = rng.random() < 0.5 or t == 0
        newest = t if came else newest
        action = controller.step(obs if came else None, t - 1 if came else None)
        extra = t - newest
        queue = chosen[len(chosen) - 3 - extra :]
        assert action == policy.at_delay(3 + extra).act(seen[newest], queue)
        chosen.append(action)
    counted = controller.statistics
    assert counted.late == counted.missing == 30 - counted.fresh > 5
    assert counted.dropped + counted.fresh == newest + 1
    assert sum(counted.ages) == 30
    assert counted.ages[0] == 0
    assert counted.ages[1] == counted.fresh


@pytest.mark.parametrize("late", [2, Uniform(0, 3)])
def test_observations_are_late_as_in_the_wrappers(late):
    """Observation and action delay: the wrappers' queue says which actions are to be predicted.

    The newest stamp is what the stream shows: the wrappers may show an observation twice.
    """
    policy = delayed()
    env = AugmentObservation(ObservationDelay(ActionDelay(Noise(policy), 3), late))
    shown, info = env.reset(seed=0)
    controller = Controller(policy, 0)
    controller.reset(info["pending_actions"])
    ages = set()
    for t in range(40):
        age = int(info["observation_age"])
        ages.add(age)
        queue = shown["pending_actions"][-3 - age :]
        chosen = policy.at_delay(3 + age).act(shown["observation"], queue)
        assert controller.step(shown["observation"], t - age) == chosen
        shown, _, _, _, info = env.step(chosen)
    assert {0, 2} <= ages
    assert controller.statistics.reordered == 0


def test_an_observation_that_came_early_is_predicted_from_fewer_actions():
    policy = delayed()
    controller = Controller(policy, 0, observation_age=2)
    controller.reset([1, 2, 0])
    (obs,) = observations(1)
    assert controller.step(obs, 0.0) == policy.at_delay(1).act(obs, [0])


def test_repeated_and_reordered_observations_change_nothing():
    policy = delayed()
    quiet = Controller(policy, 0)
    noisy = Controller(policy, 0)
    seen = observations(20)
    for t, obs in enumerate(seen):
        if t > 2:
            noisy.receive(seen[t - 2], t - 2)
        if t:
            noisy.receive(seen[t - 1] + 9, t - 1)
        assert noisy.step(obs, t) == quiet.step(obs, t)
    counted = noisy.statistics
    assert (counted.repeated, counted.reordered, counted.fresh) == (19, 17, 20)
    assert counted.dropped == counted.missing == counted.late == 0


def test_of_observations_without_stamps_the_last_one_counts():
    """Nothing says that they are the same message, so the one that arrived last is the newest."""
    policy = delayed()
    first, second, third = observations(3)
    received, stepped = Controller(policy, 0), Controller(policy, 0)
    received.receive(first)
    received.receive(second)
    stepped.receive(first)
    assert received.step() == stepped.step(second) == policy.act(second, [0, 0, 0])
    assert policy.act(first, [0, 0, 0]) != policy.act(second, [0, 0, 0])
    np.testing.assert_array_equal(received._inbox.observation, np.float32(second))
    received.receive(third, 0)  # its stamp says that it is no newer
    assert received.statistics.repeated == 1


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e300])
def test_nan_gives_the_safe_action_and_is_counted(wrong):
    policy = delayed()
    controller = Controller(policy, 2)
    actions = []
    for t, obs in enumerate(observations(12)):
        broken = t % 4 == 3
        actions.append(controller.step(np.where([0, 0, broken, 0], wrong, obs), t))
    assert actions[3::4] == [2, 2, 2]
    assert {*actions} != {2}
    assert controller.statistics.nan == 3
    (obs,) = observations(1)
    assert controller.step(obs, 12) == policy.act(obs, actions[-3:])  # the safe one is in the queue


@pytest.mark.parametrize(("on_timeout", "expected"), [("safe", 2), ("hold", None)])
def test_timeouts(on_timeout, expected):
    controller = Controller(delayed(), 2, timeout=3, on_timeout=on_timeout)
    assert controller.step() == 2  # no observation yet
    controller.reset([0, 0, 0])
    actions = [controller.step(observations(1)[0], 0)] + [controller.step() for _ in range(8)]
    assert controller.statistics.timeouts == 5
    assert actions[4:] == [actions[3] if expected is None else expected] * 5
    assert controller.statistics.missing == 9


@pytest.mark.parametrize("timeout", [0, 1, 2, 3])
@pytest.mark.parametrize("usual", [0, 1])
def test_an_age_of_half_a_step_more_than_the_timeout_is_too_old(usual, timeout):
    controller = Controller(delayed(), 2, timeout=timeout, observation_age=usual)
    assert controller.step(observations(1)[0], -(usual + timeout + 0.5)) == 2
    assert controller.statistics.timeouts == 1
    controller.step(observations(1)[0], 1 - (usual + timeout + 0.49))
    assert controller.statistics.timeouts == 1


def test_a_policy_that_fails_gives_the_safe_action():
    box = {"observation_shape": (4,), "low": LOW, "high": HIGH, "head": "bounded"}
    arrays = {"layer/0/weight": np.full((2, 4), np.nan), "layer/0/bias": np.zeros(2)}
    broken = Controller(NetworkPolicy(Manifest("sac", **box), arrays), (0.5, 1.5))
    np.testing.assert_array_equal(broken.step(np.zeros(4)), np.float32([0.5, 1.5]))
    arrays = kinds.deep(np.random.default_rng(0), 4)
    arrays["q/2/bias"] = np.full(3, np.nan, np.float32)
    values = Controller(NetworkPolicy(kinds.deep_manifest("oblivious", "state"), arrays), 1)
    assert values.step(np.zeros(4)) == 1
    assert broken.statistics.failures == values.statistics.failures == 1


def test_steps_that_the_loop_missed_hold_the_last_action():
    now = [0.0]
    policy = delayed()
    controller = Controller(policy, 0, period=0.02, clock=lambda: now[0])
    controller.reset([0, 1, 2])
    first, second = observations(2)
    action = controller.step(first, 0.0)
    now[0] = 0.0605  # two steps without a decision, and a little late
    assert controller.step(second, 0.0605) == policy.act(second, [action] * 3)
    counted = controller.statistics
    assert counted.skipped == 2
    assert counted.jitter_max == pytest.approx(0.0405)


JUNK = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.floats(),
    st.lists(st.floats(), max_size=5),
    st.lists(st.floats(-5, 5), min_size=4, max_size=4),
    st.sampled_from([object(), {}, [[1, 2], [3]], np.zeros(4, complex), np.array([None] * 4)]),
)
STAMPS = st.one_of(
    st.none(),
    st.floats(),
    st.floats(-0.1, 0.6),
    st.integers(),
    st.text(max_size=2),
    st.sampled_from([[1], -1.7e308]),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(JUNK, STAMPS, st.booleans()), max_size=25), st.sampled_from([*POLICIES]))
def test_nothing_in_a_stream_raises(stream, name):
    policy = POLICIES[name]
    how = {"period": 0.02, "timeout": 4, "observation_age": 1}
    controller = Controller(policy, safe(policy), **how)
    for observation, stamp, steps in stream:
        if steps:
            action = controller.step(observation, stamp)
            assert Noise(policy).action_space.contains(action)
        else:
            controller.receive(observation, stamp)
    counted = controller.statistics
    assert counted.steps == sum(steps for _, _, steps in stream)
    assert sum(counted.ages) <= counted.steps


def test_clocks_that_go_back_do_no_harm():
    times = iter([0.0, 5.0, 1.0, 1e9, 1e9 + 0.01])
    controller = Controller(delayed(), 0, period=0.02, clock=lambda: next(times))
    for obs in observations(5):
        assert controller.step(obs) in range(3)


def test_threads_share_a_controller():
    """Threads bring the same observations while one decides: each is taken once."""
    controller = Controller(POLICIES["deep oblivious"], 0, timeout=10**4)
    seen = observations(2000)

    def bring():
        for t, obs in enumerate(seen):
            controller.receive(obs, t / 1e6)

    bringing = [threading.Thread(target=bring) for _ in range(3)]
    for thread in bringing:
        thread.start()
    decided = [controller.step() for _ in range(2000)]
    for thread in bringing:
        thread.join()
    counted = controller.statistics
    assert counted.fresh == 2000
    assert counted.fresh + counted.repeated + counted.reordered == 6000
    assert len(decided) == counted.steps == 2000


SIZE = 700
"""The smallest number of single-precision numbers in an array of the policies below."""
SEEN = 3000
"""The numbers of an observation: an array of their truth values is as large as one of `SIZE`."""


def large(kind):
    """A policy whose arrays are all so large that each one shows in a trace."""
    rng = np.random.default_rng(0)
    if kind == "box":
        box = {"low": (-1.0,) * SIZE, "high": (1.0,) * SIZE, "head": "bounded"}
        manifest = Manifest("sac", "queue", 2, observation_shape=(SEEN,), capacity=2, **box)
        return NetworkPolicy(manifest, kinds.dense(rng, "layer", (SEEN + 2 * SIZE, SIZE, SIZE)))
    if kind == "recurrent":
        arrays = kinds.recurrent(rng, 8, SIZE, SIZE)
        arrays["lstm/input"] = np.zeros((4 * SIZE, SIZE), np.float32)
        arrays |= kinds.dense(rng, "layer", (SEEN, SIZE))
        return NetworkPolicy(kinds.recurrent_manifest(2, SEEN, SIZE), arrays)
    arrays = kinds.deep(rng, SEEN, "change", 2, SEEN, SIZE, (SIZE,))
    how = {"observation_shape": (SEEN,), "actions": SIZE, "model": "change", "members": 2}
    return NetworkPolicy(kinds.deep_manifest(delay=2, **how), arrays)


def most_bytes(call):
    """Return the most bytes that a call holds at once beyond those before."""
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    call()
    return tracemalloc.get_traced_memory()[1] - before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ensemble", "box", "recurrent"])
def test_no_step_allocates_an_array(kind):
    policy = large(kind)
    controller = Controller(policy, np.zeros(SIZE) if policy.action_shape else 0)
    controller.warm()
    obs = np.random.default_rng(0).normal(size=SEEN)
    queue = np.zeros((2, *policy.action_shape), int)
    tracemalloc.start()
    try:
        peaks = [most_bytes(lambda t=t: controller.step(obs, t)) for t in range(60)]
        of_act = most_bytes(lambda: policy.act(obs, queue))
    finally:
        tracemalloc.stop()
    assert controller.statistics.ages == (60,)
    assert max(peaks) < 4 * SIZE < of_act


def test_arguments_that_are_refused():
    policy = delayed()
    for wrong, words in (
        ({"safe_action": 3}, "safe_action is the number of an action, 0 to 2; got 3"),
        ({"safe_action": 0.5}, "safe_action is the number of an action"),
        ({"period": 0}, "period is the time of a step, more than 0; got 0"),
        ({"observation_age": 4}, "observation_age is at most the policy's delay, 3; got 4"),
        ({"timeout": -1}, "timeout is a whole number of steps"),
        ({"on_timeout": "stop"}, "on_timeout is safe or hold; got 'stop'"),
        ({"policy": lambda obs: 0}, "a Controller runs a policy of deadtime"),
    ):
        with pytest.raises(ValueError, match=words):
            Controller(**{"policy": policy, "safe_action": 0} | wrong)
    with pytest.raises(ValueError, match="safe_action is 2 numbers from .*; got 9"):
        Controller(POLICIES["box state"], 9)
    with pytest.raises(ValueError, match="the last 3 actions"):
        Controller(policy, 0).reset([0, 1])
    draw, build = kinds.KINDS["frames delayed"]
    with pytest.raises(ValueError, match="need no emulator"):
        Controller(build(draw(np.random.default_rng(0))), 0)


def test_frames_and_tables_of_numbered_states_are_checked():
    draw, build = kinds.KINDS["frames augmented"]
    policy = build(draw(np.random.default_rng(0)))
    controller = Controller(policy, 3)
    controller.reset([1, 2, 3])
    frames = np.random.default_rng(0).integers(256, size=(4, 84, 84)).astype(np.uint8)
    assert controller.step(frames.astype(np.int64)) == 3
    controller.reset([1, 2, 3])
    assert controller.step(frames) == policy.act(frames, [1, 2, 3])
    table = POLICIES["table delayed"]
    assert isinstance(table, TablePolicy)
    controller = Controller(table, 2)
    assert [controller.step(obs) for obs in (6, -1, 0.5, "x")] == [2] * 4
    assert controller.statistics.invalid == 4


def test_the_law_of_ages():
    controller = Controller(delayed(), 0)
    with pytest.raises(ValueError, match="needs decisions from observations; got none"):
        _ = controller.statistics.age_law
    for t, obs in enumerate(observations(10)):
        controller.step(None if t % 5 == 4 else obs, t)
    assert controller.statistics.age_law.age_law.tolist() == [0.8, 0.2]
