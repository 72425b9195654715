"""A ring of transitions, one row each, so that storing and sampling are one memory operation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Transition(NamedTuple):
    """A transition; `queue` and `next_queue` are empty if the view does not see the queue."""

    obs: Float[Array, " D"]
    queue: Int[Array, " C"]
    action: Int[Array, ""]
    reward: Float[Array, ""]
    next_obs: Float[Array, " D"]
    next_queue: Int[Array, " C"]
    terminated: Any


class Replay(NamedTuple):
    """A replay buffer; of all `stored` transitions, the i-th is in row i % capacity."""

    rows: Float[Array, "capacity row"]
    stored: Int[Array, ""]


def new_replay(capacity: int, observation: int, queue: int) -> Replay:
    """Return an empty replay buffer; `queue` is 0 if the view does not see the queue."""
    return Replay(
        jnp.zeros((capacity, 2 * observation + 3 + (queue + 1 if queue else 0))),
        jnp.zeros((), jnp.int32),
    )


def store(replay: Replay, item: Transition, keep: Any) -> Replay:
    """Return the replay buffer with one more transition if `keep`.

    The next queue is the queue with one more action, so a row holds only that action of it.
    """
    numbers = [
        item.obs,
        item.next_obs,
        jnp.stack([item.action.astype(jnp.float32), item.reward, jnp.float32(item.terminated)]),
    ]
    if item.queue.shape[0]:
        numbers += [item.queue.astype(jnp.float32), item.next_queue[-1:].astype(jnp.float32)]
    slot = replay.stored % replay.rows.shape[0]
    row = jnp.where(keep, jnp.concatenate(numbers), replay.rows[slot])
    return Replay(replay.rows.at[slot].set(row), replay.stored + keep)


def sample(replay: Replay, key: Array, batch: int, observation: int) -> Transition:
    """Return a batch of stored transitions, drawn with replacement."""
    held = jnp.minimum(replay.stored, replay.rows.shape[0])
    drawn = jax.random.bits(key, (batch,)) % jnp.maximum(held, 1).astype(jnp.uint32)
    rows = replay.rows[drawn.astype(jnp.int32)]
    d = observation
    scalars = rows[:, 2 * d : 2 * d + 3]
    slots = rows[:, 2 * d + 3 :].astype(jnp.int32)
    return Transition(
        rows[:, :d],
        slots[:, :-1],
        scalars[:, 0].astype(jnp.int32),
        scalars[:, 1],
        rows[:, d : 2 * d],
        slots[:, 1:],
        scalars[:, 2],
    )
