"""NumPy policies agree with the networks and the compiled functions of the training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime.learn.a2c import nothing
from deadtime.learn.counts import roll_law
from deadtime.learn.exploration import epsilon_greedy
from deadtime.learn.forward_model import ModelState, Scale, rolled
from deadtime.learn.frame_a2c import new_frame_actor_critic
from deadtime.learn.frame_networks import named_arrays, new_q, one_hot_queue
from deadtime.learn.networks import MLP
from deadtime.learn.q_table import by_queue, find, pack, with_room
from deadtime.learn.settings import PixelA2C, PixelQ
from deadtime.runtime import NetworkPolicy, to_onnx
from deadtime.runtime.frame_layers import MOST_ACTIONS
from deadtime.runtime.queue_keys import KeyIndex, bits_of, key_of, words_of
from deadtime.runtime.state_laws import rolled_law
from deadtime.runtime.table_policy import best_action
from tests.runtime import kinds

pytestmark = pytest.mark.slow


def mlp(arrays, part, member=None):
    """Return the network of the training with these arrays."""
    count = sum(name.startswith(f"{part}/") for name in arrays) // 2
    chosen = (lambda array: array) if member is None else (lambda array: array[member])
    weights, biases = (
        [jnp.asarray(chosen(arrays[f"{part}/{i}/{kind}"])) for i in range(count)]
        for kind in ("weight", "bias")
    )
    return MLP(weights, biases)


def scale(arrays, part):
    """Return the training's scale of the recorded mean and deviation."""
    mean, deviation = (jnp.asarray(arrays[f"{part}/{name}"]) for name in ("mean", "deviation"))
    return Scale(jnp.float32(9.0), mean, deviation**2)


@pytest.mark.parametrize("hidden", [(), (8,), (64, 64), (16, 8, 12)])
@pytest.mark.parametrize(("kind", "members"), [("learned", 1), ("change", 3)])
@pytest.mark.parametrize("delay", [0, 1, 25])
def test_deep_policies_that_predict(kind, members, hidden, delay):
    rng = np.random.default_rng(len(hidden))
    arrays = kinds.deep(rng, 4, kind, members, hidden=hidden)
    for name in arrays:
        if name.startswith("model/"):
            arrays[name] *= np.float32(0.5)  # keeps predictions as large as observations
    manifest = kinds.deep_manifest(delay=delay, model=kind, members=members)
    policy = NetworkPolicy(manifest, arrays)
    q = mlp(arrays, "q")
    nets = [mlp(arrays, "model", i) for i in range(members)]
    model = ModelState(nets[0], scale(arrays, "inputs"), scale(arrays, "changes"))
    roll = jax.jit(lambda net, obs, queue: rolled(model, net, kind, 3, obs, queue, delay))
    for _ in range(10):
        obs, queue = rng.normal(size=4).astype(np.float32), rng.integers(3, size=delay)
        states = np.array([roll(net, obs, jnp.asarray(queue, jnp.int32)) for net in nets])
        values = np.mean([q(state) for state in states], axis=0)
        np.testing.assert_allclose(
            policy.predicted_observation(obs, queue), states.mean(0), rtol=1e-3, atol=1e-4
        )
        np.testing.assert_allclose(policy.q_values(obs, queue), values, rtol=1e-3, atol=1e-4)
        assert policy.act(obs, queue) == values.argmax() or np.diff(np.sort(values))[-1] < 1e-3
        if delay == 0 and members == 1:
            np.testing.assert_array_equal(policy.predicted_observation(obs), obs)


@pytest.mark.parametrize("kind", ["learned", "change"])
def test_training_numpy_and_onnx_agree_closely(kind):
    """The networks of preset `best` at m = 25, with models whose predictions stay small."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs pip install 'deadtime[onnx]'")
    rng = np.random.default_rng(0)
    arrays = kinds.deep(rng, 4, kind, hidden=(64, 64))
    arrays |= {name: 0.3 * arrays[name] for name in arrays if name.startswith("model/")}
    policy = NetworkPolicy(kinds.deep_manifest(delay=25, model=kind), arrays)
    session = onnxruntime.InferenceSession(to_onnx(policy))
    q, net = mlp(arrays, "q"), mlp(arrays, "model", 0)
    model = ModelState(net, scale(arrays, "inputs"), scale(arrays, "changes"))
    trained = jax.jit(lambda obs, queue: q(rolled(model, net, kind, 3, obs, queue, 25)))
    for _ in range(20):
        obs, queue = rng.normal(size=4).astype(np.float32), rng.integers(3, size=25)
        expected = np.asarray(trained(obs, jnp.asarray(queue, jnp.int32)))
        values = policy.q_values(obs, queue)
        action, shown = session.run(None, {"observation": obs, "pending_actions": queue})
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(shown, expected, rtol=1e-5, atol=1e-5)
        if np.diff(np.sort(expected))[-1] > 1e-5:
            assert policy.act(obs, queue) == action == expected.argmax()


@pytest.mark.parametrize("one_hot", [False, True])
def test_deep_policies_that_see_the_queue(one_hot):
    rng, room, delay = np.random.default_rng(0), 5, 3
    arrays = kinds.deep(rng, 4 + room * (3 if one_hot else 1))
    manifest = kinds.deep_manifest("augmented", "queue", delay, room, one_hot_queue=one_hot)
    policy = NetworkPolicy(manifest, arrays)
    q = mlp(arrays, "q")
    for _ in range(20):
        obs, queue = rng.normal(size=4).astype(np.float32), rng.integers(3, size=delay)
        shown = np.eye(3)[queue].ravel() if one_hot else queue
        unused = np.zeros((room - delay) * (3 if one_hot else 1))
        values = q(jnp.asarray(np.concatenate([obs, unused, shown]), jnp.float32))
        np.testing.assert_allclose(policy.q_values(obs, queue), values, rtol=1e-4, atol=1e-5)
        assert policy.act(obs, queue) == values.argmax()


def test_a_network_with_unused_inputs_for_a_queue():
    rng = np.random.default_rng(0)
    arrays = kinds.deep(rng, 4 + 5)
    policy = NetworkPolicy(kinds.deep_manifest("oblivious", "state", 2, 5), arrays)
    q = mlp(arrays, "q")
    obs = rng.normal(size=4).astype(np.float32)
    values = q(jnp.concatenate([obs, jnp.zeros(5)]))
    np.testing.assert_allclose(policy.q_values(obs, [0, 1]), values, rtol=1e-5, atol=1e-6)


def test_wrong_forward_models_and_views_are_refused():
    arrays = kinds.deep(np.random.default_rng(0), 4)
    for how in ({"model": "other"}, {"members": 0}):
        with pytest.raises(
            ValueError,
            match="1 or more forward models of kind learned or change; got .*: train it again",
        ):
            NetworkPolicy(kinds.deep_manifest(**how), arrays)
    with pytest.raises(
        ValueError,
        match="a policy sees one of state, queue, prediction, law, history; got 'all'",
    ):
        kinds.deep_manifest(sees="all")
    with pytest.raises(ValueError, match="a policy sees one of"):
        kinds.frames_manifest(sees="all")


VALUES = st.sampled_from([0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan])


@settings(deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=6), st.floats(0, 1, exclude_max=True))
def test_ties(values, u):
    row = np.array(values)
    assert best_action(row, u) == epsilon_greedy(row[None], 0, 0.0, u)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 30),
)
def test_laws_to_the_bit(seed, states, actions, outcomes, delay):
    rng = np.random.default_rng(seed)
    successors = rng.integers(-1 if seed % 2 else 0, states, (states, actions, outcomes)).astype(
        np.int32
    )
    visits = rng.integers(0, 10 ** rng.integers(1, 6), successors.shape) * rng.integers(
        0, 2, successors.shape
    )
    queue, state = rng.integers(actions, size=delay), int(rng.integers(states))
    law, members = np.zeros((2, states)), np.zeros((2, states), np.int32)
    steps, places = np.full((1, 1), delay), np.arange(delay).reshape(1, 1, delay)
    roll_law(successors, visits, state, queue, 0, steps, places, 0, 0, law, members)
    found = rolled_law(successors, visits, state, queue.tolist())
    assert found.tobytes() == law[0].tobytes()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(0, 70), st.integers(0, 60))
def test_rows_of_pairs(seed, actions, delay, count):
    """Queues have more than one word, and many differ only in their last action."""
    rng, bits = np.random.default_rng(seed), bits_of(actions)
    table = with_room(by_queue(actions, delay), count + 1)
    visited = [(int(rng.integers(5)), _queue(rng, actions, delay)) for _ in range(count)]
    others = [(int(rng.integers(5)), _queue(rng, actions, delay)) for _ in range(20)]
    key = np.zeros(words_of(actions, delay), np.uint64)
    rows = []
    for insert, pairs in ((True, visited), (False, visited + others)):
        for state, queue in pairs:
            pack(key, state, queue, delay, bits)
            np.testing.assert_array_equal(key_of(state, queue.tolist(), actions), key)
            rows.append(find(table.slots, table.keys, table.used, key, insert))
    index = KeyIndex(table.keys[: int(table.used[0])])
    found = [index.row(key_of(state, queue.tolist(), actions)) for state, queue in visited + others]
    assert found == rows[count:]


def _queue(rng, actions, delay):
    queue = np.zeros(delay, np.int64) if rng.random() < 0.5 else np.full(delay, actions - 1)
    queue[-1:] = rng.integers(actions)
    return queue


def frames(rng):
    return rng.integers(256, size=(4, 84, 84)).astype(np.uint8)


@pytest.mark.parametrize(("dueling", "layer_norm"), [(True, True), (False, False)])
@pytest.mark.parametrize(
    ("sees", "delay"), [("state", 2), ("queue", 3), ("prediction", 1), ("queue", 0)]
)
def test_networks_of_frames(sees, delay, dueling, layer_norm):
    shape = {"channels": (4, 8, 8), "hidden": 32, "dueling": dueling, "layer_norm": layer_norm}
    rng, room, actions = np.random.default_rng(delay), 4, 7
    q = new_q(jax.random.key(delay), PixelQ(**shape), room * MOST_ACTIONS)
    head = "dueling" if dueling else "values"
    manifest = kinds.frames_manifest("", sees, delay, actions, capacity=room, head=head)
    policy = NetworkPolicy(manifest, named_arrays(q))
    for _ in range(5):
        seen, queue = frames(rng), rng.integers(actions, size=delay)
        held = jnp.asarray(np.append(np.zeros(room - delay, int), queue), jnp.int32)
        expected = np.asarray(q(seen, one_hot_queue(held, delay, sees == "queue"), actions))[
            :actions
        ]
        ahead = [seen] if sees == "prediction" else []
        shown = frames(rng) if ahead else seen
        np.testing.assert_allclose(
            policy.q_values(shown, queue, *ahead), expected, rtol=1e-3, atol=1e-4
        )
        assert policy.act(shown, queue, *ahead) == expected.argmax()


@pytest.mark.parametrize("layer_norm", [True, False])
def test_recurrent_networks_of_frames(layer_norm):
    shape = {"channels": (4, 8, 8), "hidden": 32, "lstm": 16, "layer_norm": layer_norm}
    rng, actions = np.random.default_rng(0), 7
    net = new_frame_actor_critic(jax.random.key(0), PixelA2C(**shape))
    manifest = kinds.frames_manifest(delay=2, actions=actions, memory=True)
    policy, memory = NetworkPolicy(manifest, named_arrays(net)), nothing(16)
    forward = jax.jit(lambda *given: net(*given, actions))
    for step in range(12):
        if step == 6:
            policy.reset()
            memory = nothing(16)
        seen = frames(rng)
        memory, logits, _ = forward(memory, seen)
        np.testing.assert_allclose(policy.see(seen), logits[:actions], rtol=1e-3, atol=1e-4)
    assert (
        policy.at_delay(5).act(seen) == np.asarray(forward(nothing(16), seen)[1])[:actions].argmax()
    )


def test_frame_networks_that_do_not_fit():
    shape = {"channels": (2, 2, 2), "hidden": 4, "lstm": 3}
    arrays = named_arrays(new_frame_actor_critic(jax.random.key(0), PixelA2C(**shape)))
    manifest = kinds.frames_manifest(delay=1, memory=True)
    for name, array in arrays.items():
        for wrong in (array[:-1], array.astype(np.float64), array[None]):
            with pytest.raises(ValueError, match="is float32 of shape .*; got float"):
                NetworkPolicy(manifest, arrays | {name: wrong})
        with pytest.raises(ValueError, match="is float32 of shape .*; got nothing"):
            NetworkPolicy(manifest, {one: arrays[one] for one in arrays if one != name})
    with pytest.raises(ValueError, match="is float32 of shape .*; got float32"):
        NetworkPolicy(kinds.frames_manifest(delay=1, memory=True, capacity=2**31 - 1), arrays)
