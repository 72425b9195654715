"""Double Q-learning with networks: pure functions on one transition, mapped over a batch by the caller."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def double_q_target(
    reward: Float[Array, ""], discount: Any, q_next: Float[Array, " A"], target_next: Float[Array, " A"]
) -> Float[Array, ""]:
    """r + γ · Q_target(s', argmax_a Q(s', a)); `discount` is 0 where the episode terminated (van Hasselt et al.)."""
    return reward + discount * target_next[jnp.argmax(q_next)]


def huber(error: Float[Array, ""]) -> Float[Array, ""]:
    """Quadratic up to 1, linear beyond."""
    size = jnp.abs(error)
    return jnp.where(size <= 1.0, 0.5 * error**2, size - 0.5)


def double_q_loss(
    q: Float[Array, " A"], action: Int[Array, ""], reward: Array, discount: Any, q_next: Array, target_next: Array
) -> Float[Array, ""]:
    """Huber loss of the taken action's value."""
    target = double_q_target(reward, discount, q_next, target_next)
    return huber(q[action] - jax.lax.stop_gradient(target))


def measured(reward: Any, terminated: Any, discount: Any, centre: Any, scaled: Any) -> tuple[Any, Any]:
    """Reward and discount of a transition when Q is measured from `centre` / (1 - γ) and, if `scaled`, in units of 1 / (1 - γ).

    The greedy policy stays the same. Where every step pays the centre Q begins at its right value, 0: then only the end of an
    episode is news. Scaled, Q is of the size of one reward, whatever the discount.
    """
    unit = jnp.where(scaled, 1.0 - discount, 1.0)
    lost = jnp.where(centre == 0.0, 0.0, unit * centre * discount / (1.0 - discount))
    return unit * (reward - centre) - terminated * lost, discount * (1.0 - terminated)
