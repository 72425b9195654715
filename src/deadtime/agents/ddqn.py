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


def centred(reward: Any, terminated: Any, discount: Any, centre: Any) -> tuple[Any, Any]:
    """Reward and discount of a transition when Q is measured from `centre` / (1 - γ) and in units of 1 / (1 - γ).

    Q' = (1 - γ) Q - c has the same greedy policy as Q, and where every step pays c it begins at the right value, 0: then only
    the end of an episode is news. Without a centre nothing changes.
    """
    shifted = (1.0 - discount) * (reward - centre) - terminated * discount * centre
    return jnp.where(centre == 0.0, reward, shifted), discount * (1.0 - terminated)
