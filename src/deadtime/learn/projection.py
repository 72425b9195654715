"""Q-learning for the view `projected`: Q over states, and its projection on what the agent sees.

Q(s, ·) learns from executed actions, as without a delay. When the action chosen at (s, queue) is
executed, in a state s' that was not known then, the projection F(s, queue) moves towards Q(s', ·).
So F(s, queue) tends to the mean of Q over the states to which the queue leads, and no forward
model is needed. The agent chooses the action with the largest F. The target of Q takes the action
that F chooses from what the next action was decided from: r + γ Q'(s_{t+1}, argmax F(x')).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from deadtime.learn.double_q import Batch, LossSettings, batch_loss
from deadtime.learn.networks import MLP
from deadtime.learn.replay import Transition

Decide = Callable[[MLP, Array, Array, Any], Float[Array, " A"]]
"""The values by which the projection decides at an observation, a queue and a known age."""


class Projected(NamedTuple):
    """The networks of a learner that decides and values from different inputs."""

    values: MLP
    """Q over states."""
    projection: MLP
    """F over observations and queues."""


def valuing(q: PyTree) -> MLP:
    """Return the network that a target network follows."""
    return q.values if isinstance(q, Projected) else q


def deciding(q: PyTree) -> MLP:
    """Return the network that decides."""
    return q.projection if isinstance(q, Projected) else q


def projected_loss(
    q: Projected,
    target: MLP,
    decide: Decide,
    batch: Transition,
    numbers: LossSettings,
    weight: float,
) -> Float[Array, ""]:
    """Return the loss of Q on states, plus `weight` times the projection's squared error.

    If the next step executes the same action, held by the channel, it is the next action. The
    projection learns from the first execution of an action only.
    """

    def choosing(one: Transition) -> Array:
        return decide(q.projection, one.next_seen, one.next_seen_queue, one.next_known)

    def error(one: Transition) -> Array:
        aim = jax.lax.stop_gradient(q.values(one.obs))
        off = decide(q.projection, one.seen, one.seen_queue, one.known) - aim
        return jnp.where(one.first, jnp.mean(off**2), 0.0)

    shown = Batch(
        batch.obs,
        batch.next_obs,
        batch.action,
        batch.reward,
        batch.terminated,
        choosing=jax.vmap(choosing)(batch),
        held=~batch.fresh,
    )
    loss = batch_loss(q.values, target, lambda net, obs: net(obs), shown, numbers)
    return loss + weight * jax.vmap(error)(batch).mean()
