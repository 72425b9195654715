"""Actions that are numbers within a box, and forward models from outside the package."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import deadtime
from deadtime.runtime import FORWARD_MODELS, Manifest, NetworkPolicy
from tests.runtime.kinds import deep, deep_manifest, dense, normals

LOW, HIGH = (-1.0, 0.1), (1.0, 2.0)


def manifest_of(sees="state", delay=3, **how):
    usual = {"observation_shape": (4,), "low": LOW, "high": HIGH, "head": "bounded"}
    if sees == "queue":
        usual["capacity"] = delay
    return Manifest("sac", sees, delay, **usual | how)


def box_policy(sees, delay, outputs=2, **how):
    manifest = manifest_of(sees, delay, **how)
    arrays = dense(np.random.default_rng(0), "layer", (4 + 2 * manifest.capacity, 8, outputs))
    return NetworkPolicy(manifest, arrays)


def squashed(outputs):
    low, high = np.array(LOW), np.array(HIGH)
    return (low + high) / 2 + (high - low) / 2 * np.tanh(outputs)


def relu_net(arrays, part, x):
    """Return the outputs of a network, computed in double precision."""
    count = sum(name.startswith(f"{part}/") for name in arrays) // 2
    for i in range(count):
        x = arrays[f"{part}/{i}/weight"].astype(float) @ x + arrays[f"{part}/{i}/bias"]
        x = np.maximum(x, 0) if i < count - 1 else x
    return x


@pytest.mark.parametrize("sees", ["state", "queue"])
@pytest.mark.parametrize("outputs", [2, 4])
def test_outputs_are_squashed_and_scaled(sees, outputs):
    """Outputs beyond those of the action, such as log standard deviations, are not used."""
    policy = box_policy(sees, 3, outputs)
    arrays = dense(
        np.random.default_rng(0), "layer", (4 + (6 if sees == "queue" else 0), 8, outputs)
    )
    rng = np.random.default_rng(1)
    for _ in range(20):
        obs, queue = rng.normal(size=4), rng.uniform(LOW, HIGH, (3, 2))
        shown = np.append(obs, queue.ravel()) if sees == "queue" else obs
        action = policy.act(obs, queue)
        assert action.dtype == np.float32
        np.testing.assert_allclose(
            action, squashed(relu_net(arrays, "layer", shown)[:2]), rtol=1e-5
        )


def test_unused_room_comes_first():
    policy = NetworkPolicy(
        manifest_of("queue", 1, capacity=3),
        {"layer/0/weight": np.eye(2, 10, 4), "layer/0/bias": np.zeros(2)},
    )
    np.testing.assert_allclose(policy.act(np.zeros(4), [[5, 5]]), squashed(np.zeros(2)), rtol=1e-6)
    last = {"layer/0/weight": np.eye(2, 10, 8), "layer/0/bias": np.zeros(2)}
    found = NetworkPolicy(manifest_of("queue", 1, capacity=3), last).act(
        np.zeros(4), [[0.5, -0.25]]
    )
    np.testing.assert_allclose(found, squashed(np.array([0.5, -0.25])), rtol=1e-6)


@pytest.mark.parametrize("size", [0.0, 1.0, 1e3, 1e30, np.inf])
def test_actions_stay_in_the_box(size):
    rng = np.random.default_rng(0)
    low = tuple(rng.normal(size=50))
    high = tuple(low + rng.exponential(size=50))
    manifest = manifest_of(low=low, high=high)
    space = spaces.Box(np.float32(low), np.float32(high))
    for sign in (-1, 1):
        bias = np.float32(sign * size * rng.choice([-1, 1], 50))
        policy = NetworkPolicy(
            manifest, {"layer/0/weight": np.zeros((50, 4)), "layer/0/bias": bias}
        )
        action = policy.act(np.zeros(4), np.zeros((3, 50)))
        assert space.contains(action)
        if size > 100:
            np.testing.assert_allclose(action, np.where(bias > 0, space.high, space.low), rtol=1e-6)
        assert policy.fits(space, spaces.Box(-1, 1, (4,)))


def test_a_network_that_diverged_raises():
    arrays = {"layer/0/weight": np.full((2, 4), np.nan), "layer/0/bias": np.zeros(2)}
    policy = NetworkPolicy(manifest_of(delay=0), arrays)
    with pytest.raises(
        ValueError, match="the outputs of a network are numbers; got .nan nan. .*: train it again"
    ):
        policy.act(np.zeros(4))


def test_spaces_that_fit():
    policy = box_policy("state", 0)
    seen = spaces.Box(-1, 1, (4,))
    assert (policy.num_actions, policy.action_shape) == (0, (2,))
    assert policy.fits(spaces.Box(np.float32(LOW), np.float32(HIGH)), seen)
    assert policy.fits(spaces.Box(-9, 9, (2,), np.float64), seen)
    assert not policy.fits(spaces.Box(-9, 9, (2,)), spaces.Box(-1, 1, (5,)))
    for wrong in (spaces.Box(-9, 9, (3,)), spaces.Box(-9, 9, (2, 1)), spaces.Discrete(2)):
        assert not policy.fits(wrong, seen)
    for low, high in ((-1, 1), (0, 2), (0.2, 0.3)):  # some of the policy's actions lie outside
        assert not policy.fits(spaces.Box(low, high, (2,)), seen)
    assert repr(policy) == "NetworkPolicy(sac, delay=0, 4 numbers -> actions of shape (2,))"


def test_queues_that_are_refused():
    policy = box_policy("queue", 3)
    assert policy.act(np.zeros(4), np.ones((3, 2), int)).shape == (2,)
    words = "(?s)the last 3 actions, oldest first, each 2 finite numbers; got .*: pass info"
    for wrong in (
        (),
        np.zeros((2, 2)),
        np.zeros((3, 3)),
        np.zeros(6),
        [["a", "b"]] * 3,
        np.full((3, 2), np.nan),
    ):
        with pytest.raises(ValueError, match=words):
            policy.act(np.zeros(4), wrong)
    with pytest.raises(ValueError, match="exactly 3 actions; got a delay of 2"):
        policy.at_delay(2)
    with pytest.raises(ValueError, match="have q_values; got bounded: use act"):
        policy.q_values(np.zeros(4), np.zeros((3, 2)))


WIDE = {
    "lstm/input": np.zeros((20, 7)),
    "lstm/output": np.zeros((20, 5)),
    "lstm/bias": np.zeros(20),
}
NO_FIT = {
    "more values than actions": ({}, dense(np.random.default_rng(0), "q", (4, 8, 4))),
    "no values": ({}, {}),
    "no units": ({}, dense(np.random.default_rng(0), "q", (4, 0, 3)) | {"q/0/bias": np.zeros(0)}),
    "a memory of other inputs": (
        {"memory": True},
        dense(np.random.default_rng(0), "q", (4, 8)) | WIDE,
    ),
}


@pytest.mark.parametrize("what", NO_FIT)
def test_networks_that_do_not_fit(what):
    how, arrays = NO_FIT[what]
    if how:
        arrays = arrays | {"q/1/weight": np.zeros((3, 5)), "q/1/bias": np.zeros(3)}
        fitting = arrays | {"lstm/input": np.zeros((20, 8))}
        assert NetworkPolicy(deep_manifest("x", "state", **how), fitting).act(np.zeros(4)) == 0
    with pytest.raises(
        ValueError, match="the layers of a policy fit each other .*: train it again"
    ):
        NetworkPolicy(deep_manifest("x", "state", **how), arrays)


@pytest.mark.parametrize(
    "layers", [{"layer/0/weight": np.zeros((1, 4))}, {"layer/0/weight": np.zeros((2, 5))}, {}]
)
def test_networks_that_are_too_small(layers):
    with pytest.raises(ValueError, match="train it again"):
        NetworkPolicy(
            manifest_of("queue", 0), layers | {"layer/0/bias": np.zeros(1 if layers else 2)}
        )


def test_pendulum_under_delay():
    manifest = Manifest(
        "mine", "queue", 2, "", (3,), low=(-2.0,), high=(2.0,), head="bounded", capacity=2
    )
    policy = NetworkPolicy(manifest, dense(np.random.default_rng(0), "layer", (5, 8, 1)))
    scores = deadtime.evaluate(policy, gym.make("Pendulum-v1"), delay=2, episodes=2)
    assert scores.shape == (2,)
    assert (scores < 0).all()
    with pytest.raises(
        ValueError, match=r"3 numbers -> actions of shape \(1,\); .* has observations"
    ):
        deadtime.evaluate(policy, gym.make("CartPole-v1"), delay=2, episodes=1)


@pytest.mark.parametrize("kind", ["learned", "change"])
def test_learned_models_take_the_numbers_of_an_action(kind):
    rng = np.random.default_rng(0)
    scales = {
        f"{part}/{name}": rng.uniform(0.5, 1, 4)
        for part in ("inputs", "changes")
        for name in ("mean", "deviation")
    }
    arrays = dense(rng, "layer", (4, 8, 2)) | dense(rng, "model", (6, 8, 4), (1,)) | scales
    policy = NetworkPolicy(manifest_of("prediction", model=kind), arrays)
    one = {name: array[0] if name.startswith("model/") else array for name, array in arrays.items()}
    obs, queue = rng.normal(size=4), rng.uniform(LOW, HIGH, (3, 2))
    state = obs
    for action in queue:
        if kind == "learned":
            state = relu_net(one, "model", np.append(state, action))
            continue
        scaled = (state - scales["inputs/mean"]) / scales["inputs/deviation"]
        change = relu_net(one, "model", np.append(scaled, action))
        state = state + scales["changes/mean"] + scales["changes/deviation"] * change
    np.testing.assert_allclose(policy.predicted_observation(obs, queue), state, rtol=1e-4)
    np.testing.assert_allclose(
        policy.act(obs, queue), squashed(relu_net(arrays, "layer", state)), rtol=1e-4
    )
    assert abs(policy.act(obs, queue) - policy.act(obs, queue[::-1])).max() > 1e-4


class Shift:
    """A model that adds each action, times a factor of the member, to every number of s."""

    def __init__(self, manifest, arrays):
        self.agent = manifest.agent
        self.factor = float(arrays["model/factor"])
        self.arrays = arrays

    def roll(self, observation, queue):
        return observation + np.float32(self.factor * queue.sum())


@pytest.fixture
def shift(monkeypatch):
    monkeypatch.setitem(FORWARD_MODELS, "shift", Shift)


def test_a_model_from_outside(shift):
    arrays = {
        "q/0/weight": np.eye(3, 4),
        "q/0/bias": np.zeros(3),
        "model/factor": np.array([1.0, 4.0]),
    }
    policy = NetworkPolicy(deep_manifest(model="shift", members=2), arrays)
    obs = np.array([0.0, 2.0, 1.0, 0.0])
    np.testing.assert_allclose(policy.predicted_observation(obs, [0, 1, 2]), obs + 7.5)
    np.testing.assert_allclose(policy.q_values(obs, [0, 1, 2]), obs[:3] + 7.5)
    assert policy.act(obs, [0, 1, 2]) == 1
    np.testing.assert_allclose(policy.at_delay(1).q_values(obs, [2]), obs[:3] + 5)
    with pytest.raises(ValueError, match="train it again"):
        NetworkPolicy(deep_manifest(model="shift", members=3), arrays)


def test_a_model_from_outside_rolls_actions_of_a_box(shift):
    arrays = dense(np.random.default_rng(0), "layer", (4, 8, 2)) | {"model/factor": np.ones(1)}
    policy = NetworkPolicy(manifest_of("prediction", 2, model="shift"), arrays)
    queue = np.array([[0.5, 0.25], [0.125, 1.0]])
    expected = squashed(relu_net(arrays, "layer", np.ones(4) + 1.875))
    np.testing.assert_allclose(policy.act(np.ones(4), queue), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="pending_actions are the last 2 actions"):
        policy.act(np.ones(4))


def test_models_that_nobody_registered(shift):
    arrays = deep(np.random.default_rng(0), 4)
    words = "1 or more forward models of kind learned or change or shift; got 1 of kind 'other'"
    with pytest.raises(ValueError, match=words):
        NetworkPolicy(deep_manifest(model="other"), arrays)
    with pytest.raises(
        ValueError,
        match="can't act without its environment; got model='simulator': train it with",
    ):
        NetworkPolicy(deep_manifest(model="simulator"), arrays)
    assert NetworkPolicy(deep_manifest("oblivious", "state", model="other"), arrays).act(
        np.zeros(4), [0] * 3
    ) in range(3)


def lstm(rng, inputs, units):
    shapes = {
        "lstm/input": (4 * units, inputs),
        "lstm/output": (4 * units, units),
        "lstm/bias": (4 * units,),
    }
    return normals(rng, shapes)


@pytest.mark.parametrize("sees", ["state", "queue", "prediction"])
@pytest.mark.parametrize("head", ["values", "dueling", "logits", "bounded"])
@pytest.mark.parametrize("memory", [False, True])
def test_every_head_with_every_view(head, sees, memory, shift):
    """Networks that no learner trains agree with a plain computation in double precision."""
    rng = np.random.default_rng(0)
    box = head == "bounded"
    capacity = 3 if sees == "queue" else 0
    sizes = {"low": LOW, "high": HIGH} if box else {"actions": 3}
    manifest = Manifest(
        "x",
        sees,
        3,
        observation_shape=(4,),
        head=head,
        memory=memory,
        capacity=capacity,
        one_hot_queue=not box,
        model="shift",
        **sizes,
    )
    part = "q" if head in ("values", "dueling") else "layer"
    inputs = 4 + capacity * (2 if box else 3)
    outputs = {"values": 3, "dueling": 4, "logits": 3, "bounded": 2}[head]
    arrays = dense(rng, part, (inputs, 8, outputs))
    if memory:
        arrays |= lstm(rng, 8, 5)
        arrays[f"{part}/1/weight"] = normals(rng, {"w": (outputs, 5)})["w"]
    policy = NetworkPolicy(manifest, arrays | {"model/factor": np.ones(1)})
    cell, output = np.zeros(5), np.zeros(5)
    for _ in range(4):
        obs = rng.normal(size=4)
        queue = rng.uniform(LOW, HIGH, (3, 2)) if box else rng.integers(3, size=3)
        x = obs + queue.sum() if sees == "prediction" else obs
        if sees == "queue":
            x = np.append(x, queue if box else np.eye(3)[queue])
        x = arrays[f"{part}/0/weight"].astype(float) @ x + arrays[f"{part}/0/bias"]
        x = np.tanh(x) if memory else np.maximum(x, 0)
        if memory:
            gates = arrays["lstm/input"] @ x + arrays["lstm/output"] @ output + arrays["lstm/bias"]
            take, hold, show, candidate = gates.reshape(4, 5)
            cell = cell / (1 + np.exp(-hold)) + np.tanh(candidate) / (1 + np.exp(-take))
            x = output = np.tanh(cell) / (1 + np.exp(-show))
        scores = arrays[f"{part}/1/weight"] @ x + arrays[f"{part}/1/bias"]
        if head == "dueling":
            scores = scores[3] + scores[:3] - scores[:3].mean()
        expected = squashed(scores) if box else scores
        np.testing.assert_allclose(policy.see(obs, queue), expected, rtol=1e-4, atol=1e-5)
