"""The parts of the recurrent learner against hand-computed arrays and a second implementation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deadtime.learn.a2c import (
    Memory,
    forget,
    new_actor_critic,
    nothing,
    returns,
    rollout_loss,
    shortened,
    step_loss,
)
from deadtime.learn.networks import new_orthogonal
from deadtime.learn.settings import A2C

NO, YES = False, True


@pytest.mark.parametrize(
    ("terminated", "ended", "expected"),
    [
        (
            [NO, NO, NO],
            [NO, NO, NO],
            [1 + 0.5 * (2 + 0.5 * (4 + 0.5 * 30)), 2 + 0.5 * (4 + 0.5 * 30), 4 + 0.5 * 30],
        ),
        ([NO, YES, NO], [NO, YES, NO], [1 + 0.5 * 2, 2, 4 + 0.5 * 30]),
        ([NO, NO, NO], [NO, YES, NO], [1 + 0.5 * (2 + 0.5 * 20), 2 + 0.5 * 20, 4 + 0.5 * 30]),
        ([NO, NO, YES], [NO, NO, YES], [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4]),
        ([NO, NO, NO], [YES, NO, YES], [1 + 0.5 * 10, 2 + 0.5 * (4 + 0.5 * 30), 4 + 0.5 * 30]),
    ],
)
def test_returns_by_hand(terminated, ended, expected):
    rewards, after = jnp.array([1.0, 2.0, 4.0]), jnp.array([10.0, 20.0, 30.0])
    found = returns(rewards, after, jnp.array(terminated), jnp.array(ended), 0.5)
    np.testing.assert_allclose(found, expected)


@pytest.mark.slow
def test_loss_and_its_slopes_by_hand():
    """Two actions with probabilities ¼ and ¾, value 2, return 5: an advantage of 3, no gradient."""
    logits, value, gained = jnp.log(jnp.array([1.0, 3.0])), jnp.float32(2.0), jnp.float32(5.0)
    p = np.array([0.25, 0.75])
    entropy = -(p * np.log(p)).sum()
    loss = step_loss(logits, value, jnp.int32(1), gained, 0.25, 0.1)
    assert loss == pytest.approx(0.25 * 9 - 3 * np.log(0.75) - 0.1 * entropy, rel=1e-6)
    slopes = jax.grad(step_loss, argnums=(0, 1))(logits, value, jnp.int32(1), gained, 0.25, 0.1)
    np.testing.assert_allclose(
        slopes[0], -3 * (np.array([0, 1]) - p) + 0.1 * p * (np.log(p) + entropy), rtol=1e-5
    )
    assert slopes[1] == pytest.approx(-2 * 0.25 * 3)


def by_loops(lstm, memory, x):
    """One step of an LSTM, number by number."""

    def norm(i, values):
        if lstm.norms is None:
            return values
        mean = sum(values) / len(values)
        spread = np.sqrt(sum((v - mean) ** 2 for v in values) / len(values) + 1e-5)
        gain, shift = np.asarray(lstm.norms[i].gain), np.asarray(lstm.norms[i].shift)
        return [(v - mean) / spread * g + s for v, g, s in zip(values, gain, shift, strict=True)]

    def times(matrix, vector):
        return [
            sum(float(w) * float(v) for w, v in zip(row, vector, strict=True))
            for row in np.asarray(matrix)
        ]

    units = len(memory.cell)
    into, back = norm(0, times(lstm.from_input, x)), norm(1, times(lstm.from_output, memory.output))
    gates = [a + b + float(c) for a, b, c in zip(into, back, lstm.bias, strict=True)]
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    i, f, o, g = (gates[k * units : (k + 1) * units] for k in range(4))
    cell = [
        sigmoid(f[k]) * float(memory.cell[k]) + sigmoid(i[k]) * np.tanh(g[k]) for k in range(units)
    ]
    shown = norm(2, cell)
    return cell, [sigmoid(o[k]) * np.tanh(shown[k]) for k in range(units)]


def wobbly(settings, observation=3, actions=2):
    """A network none of whose numbers is 0 or 1."""
    net = new_actor_critic(jax.random.key(0), observation, actions, settings)
    return jax.tree.map(
        lambda leaf: leaf + 0.3 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), net
    )


@pytest.mark.slow
@pytest.mark.parametrize("layer_norm", [False, True])
def test_lstm_against_loops(layer_norm):
    lstm = wobbly(A2C(hidden=(4,), lstm=5, layer_norm=layer_norm)).lstm
    memory = Memory(jnp.linspace(-1, 2, 5), jnp.linspace(0.5, -0.5, 5))
    for seed in range(3):
        x = jax.random.normal(jax.random.key(seed), (4,))
        cell, output = by_loops(lstm, memory, x)
        memory = lstm(memory, x)
        np.testing.assert_allclose(memory.cell, cell, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(memory.output, output, rtol=1e-4, atol=1e-5)


@pytest.mark.full
def test_nothing_of_an_episode_reaches_the_next():
    """A rollout over two episodes has the loss, and the gradient, of two rollouts."""
    net, units = wobbly(A2C(hidden=(4,), lstm=5)), 5
    memory = Memory(jnp.linspace(-1, 2, units), jnp.linspace(0.5, -0.5, units))
    obs, actions = jax.random.normal(jax.random.key(1), (5, 3)), jnp.array([0, 1, 1, 0, 1])
    gained, ended = jnp.array([1.0, -2.0, 0.5, 3.0, 1.0]), jnp.array([NO, YES, NO, NO, NO])
    both = jax.jit(jax.value_and_grad(rollout_loss))

    def loss(memory, part):
        return both(net, memory, obs[part], actions[part], gained[part], ended[part], 0.25, 0.01)

    whole, slope = loss(memory, slice(0, 5))
    one, first = loss(memory, slice(0, 2))
    other, second = loss(nothing(units), slice(2, 5))
    assert whole == pytest.approx(float(2 * one + 3 * other) / 5, rel=1e-5)
    for all_of_it, a, b in zip(*map(jax.tree.leaves, (slope, first, second)), strict=True):
        np.testing.assert_allclose(all_of_it, (2 * a + 3 * b) / 5, rtol=1e-3, atol=1e-5)
    assert abs(float(other) - float(loss(memory, slice(2, 5))[0])) > 1e-3
    assert not any(leaf.any() for leaf in jax.tree.leaves(forget(memory, jnp.array(YES))))


def test_a_long_gradient_is_shortened_as_a_whole():
    gradient = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([[4.0]])}
    cut, norm = shortened(gradient, 0.5)
    assert norm == 5
    np.testing.assert_allclose(cut["a"], [0.3, 0.0], rtol=1e-6)
    np.testing.assert_allclose(cut["b"], [[0.4]], rtol=1e-6)
    np.testing.assert_array_equal(shortened(gradient, 6.0)[0]["b"], [[4.0]])


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (3, 16), (256, 64), (1, 8)])
def test_orthogonal_weights(rows, columns):
    made = jax.jit(jax.vmap(lambda key: new_orthogonal(key, rows, columns, 2.0)))(
        jax.random.split(jax.random.key(0), 5)
    )
    for w in np.asarray(made):
        product = w @ w.T if rows <= columns else w.T @ w
        np.testing.assert_allclose(product, 4 * np.eye(min(rows, columns)), atol=1e-4)
    assert not np.allclose(made[0], made[1])
