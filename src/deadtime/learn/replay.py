"""A ring of transitions, one row of numbers each, so that storing and sampling are one memory operation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Transition(NamedTuple):
    """What Q and the model learn from; `queue` and `next_queue` are there for views that see the queue."""

    obs: Float[Array, " D"]
    queue: Int[Array, " C"]
    action: Int[Array, ""]
    reward: Float[Array, ""]
    next_obs: Float[Array, " D"]
    next_queue: Int[Array, " C"]
    terminated: Any


class Replay(NamedTuple):
    """`stored` transitions were written in all; row i % capacity holds the i-th."""

    rows: Float[Array, "capacity row"]
    stored: Int[Array, ""]


def new_replay(capacity: int, observation: int, queue: int) -> Replay:
    """An empty ring; `queue` is 0 for views that do not see it."""
    return Replay(
        jnp.zeros((capacity, 2 * observation + 3 + (queue + 1 if queue else 0))),
        jnp.zeros((), jnp.int32),
    )


def store(replay: Replay, item: Transition, keep: Any) -> Replay:
    """Write a transition if `keep`; the next queue is the queue and one action more, so one row holds both."""
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
    """A batch with replacement from what is stored."""
    held = jnp.minimum(replay.stored, replay.rows.shape[0])
    rows = replay.rows[
        (jax.random.bits(key, (batch,)) % jnp.maximum(held, 1).astype(jnp.uint32)).astype(jnp.int32)
    ]
    d, scalars = observation, rows[:, 2 * observation : 2 * observation + 3]
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
