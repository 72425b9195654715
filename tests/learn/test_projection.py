"""The loss of Q over states and of its projection, against loops in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deadtime.learn.deep_q import Numbers
from deadtime.learn.networks import new_mlp
from deadtime.learn.program import split_settings
from deadtime.learn.projection import Projected, projected_loss
from deadtime.learn.replay import Transition
from deadtime.learn.settings import DoubleQ
from deadtime.runs.deep_specs import DeepSpec

ROWS, NUMBERS, ROOM, ACTIONS = 40, 3, 2, 4
GAMMA = 0.9


def decide(net, obs, queue, known=None):
    return net(jnp.concatenate([obs, queue.astype(jnp.float32)]))


def batch_of(rng):
    def observations():
        return jnp.array(rng.normal(size=(ROWS, NUMBERS)), jnp.float32)

    def actions(*shape):
        return jnp.array(rng.integers(ACTIONS, size=(ROWS, *shape)))

    def flags():
        return jnp.array(rng.integers(2, size=ROWS), bool)

    return Transition(
        observations(),
        actions(0),
        actions(),
        jnp.array(rng.normal(size=ROWS), jnp.float32),
        observations(),
        actions(0),
        flags().astype(jnp.float32),
        observations(),
        actions(ROOM),
        observations(),
        actions(ROOM),
        flags(),
        flags(),
    )


def networks():
    keys = jax.random.split(jax.random.key(0), 3)
    q, target = (new_mlp(key, (NUMBERS, 8, ACTIONS), NUMBERS) for key in keys[:2])
    wide = NUMBERS + ROOM
    return Projected(q, new_mlp(keys[2], (wide, 8, ACTIONS), wide)), target


def loss_by_hand(q, target, batch, weight):
    total = 0.0
    for i in range(ROWS):
        row = jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), batch)
        following = int(np.argmax(decide(q.projection, row.next_seen, row.next_seen_queue)))
        if not row.fresh:
            following = int(row.action)
        later = 0.0 if row.terminated else float(target(row.next_obs)[following])
        off = abs(float(q.values(row.obs)[row.action]) - (float(row.reward) + GAMMA * later))
        total += 0.5 * off**2 if off <= 1 else off - 0.5
        if row.first:
            apart = decide(q.projection, row.seen, row.seen_queue) - q.values(row.obs)
            total += weight * float(np.mean(np.asarray(apart) ** 2))
    return total / ROWS


def test_the_loss_is_the_one_of_a_loop_over_the_rows():
    batch = batch_of(np.random.default_rng(1))
    q, target = networks()
    numbers = Numbers(*split_settings(DoubleQ(gamma=GAMMA))[1])
    for weight in (0.0, 10.0):
        found = projected_loss(q, target, decide, batch, numbers, weight)
        assert found == pytest.approx(loss_by_hand(q, target, batch, weight), rel=1e-5)


def test_the_projection_does_not_pull_on_q():
    batch = batch_of(np.random.default_rng(1))
    q, target = networks()
    numbers = Numbers(*split_settings(DoubleQ(gamma=GAMMA))[1])
    slopes = [
        jax.grad(projected_loss)(q, target, decide, batch, numbers, weight) for weight in (0.0, 9.0)
    ]
    np.testing.assert_allclose(slopes[0].values.weights[0], slopes[1].values.weights[0], rtol=1e-6)
    assert not slopes[0].projection.weights[0].any()
    assert slopes[1].projection.weights[0].any()


def test_only_projected_has_a_weight_of_its_projection():
    assert DeepSpec("cartpole", "projected", 2, changes={"projection_weight": 1.0}).changes
    with pytest.raises(ValueError, match="augmented has no projection, so projection_weight would"):
        DeepSpec("cartpole", "augmented", 2, changes={"projection_weight": 1.0})
