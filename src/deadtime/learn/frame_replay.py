"""The replay buffer of frames: a ring over time, in which each frame is stored once.

A row holds the newest frame of one step of each lane. A stack of four frames is gathered from four
rows. The rows of all runs and lanes are written together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from deadtime.envs.atari.games import SIDE, STACK
from deadtime.learn.double_q import Batch
from deadtime.learn.host_turn import Turn
from deadtime.learn.program import Program, Setup
from deadtime.runtime.views import Code

_DRAWS = 4
"""The number of draws for each entry of a batch; the first usable one is taken."""


class Row(NamedTuple):
    """A turn as the replay buffer holds it, by run and lane; in the buffer, time is the first axis.

    There are few arrays, since each is sent to the device separately.
    """

    frame: UInt8[Any, "*T R E n"]
    queue: UInt8[Any, "*T R E C"]
    facts: Float[Any, "*T R E 5"]
    """Five numbers: the episode's age (at most 4), the credited action, the reward, whether the
    step ended an episode for learning, and whether the row is usable.

    It is usable if its action is not of the warm-up, and the next row shows its outcome.
    """


def rows(program: Program) -> int:
    """Return the number of rows of a program's replay buffer."""
    return max(program.settings.buffer_size // program.lanes, STACK + 2)


def new_rows(program: Program, runs: int) -> Row:
    """Return an empty replay buffer."""
    at = rows(program), runs, program.lanes
    frames = jnp.zeros((*at, SIDE * SIDE), jnp.uint8)
    return Row(frames, jnp.zeros((*at, program.capacity), jnp.uint8), jnp.zeros((*at, 5)))


def row_of(program: Program, setups: Setup, turn: Turn) -> Row:
    """Return the row of a turn.

    The agent did not choose the actions of the warm-up, so they are not credited.
    """
    # In NumPy: a comparison on the device would wait for the learning that is queued there.
    executed = Code(*map(np.asarray, setups.view)).executed[:, None]
    delay = np.asarray(setups.delay)[:, None]
    before, chosen, after = turn
    action = np.where(executed, after.executed, chosen)
    terminal = after.terminated | (after.life_lost & program.settings.life_loss)
    usable = ~after.lost & ~(after.truncated & ~terminal) & ~(executed & (before.age < delay))
    age = np.minimum(before.age, STACK)
    facts = np.stack([age, action, after.reward, terminal, usable], axis=-1)
    frame = before.frame.reshape(*age.shape, -1)
    return Row(frame, before.queue, facts.astype(np.float32))


def store(program: Program, replay: Row, row: Row, turn: Array) -> Row:
    """Return the replay buffer with a new row."""
    slot = turn % rows(program)
    return jax.tree.map(lambda old, new: old.at[slot].set(new.astype(old.dtype)), replay, row)


def cut(program: Program, replay: Row, turn: int) -> Row:
    """Mark in the replay buffer that the frames after a turn belong to new episodes.

    So the turn's row is usable only if it ended an episode for learning.
    """
    facts = replay.facts
    slot = turn % rows(program)
    return replay._replace(facts=facts.at[slot, ..., -1].multiply(facts[slot, ..., -2]))


def sample(program: Program, replay: Row, turn: Array, keys: Array) -> Batch:
    """Return a batch for every run; each entry is the first usable one of several draws.

    `now` and `then` are the four frames and the queue before and after the action.
    """
    _, runs, lanes, _ = replay.facts.shape
    size = rows(program)
    batch, held = program.settings.batch_size, jnp.minimum(turn + 1, size)

    def draw(key: Array) -> tuple[Array, Array]:
        bits = jax.random.bits(key, (2, batch, _DRAWS))
        back = bits[0] % jnp.maximum(held - STACK, 1).astype(jnp.uint32)
        return turn - 1 - back.astype(jnp.int32), (bits[1] % jnp.uint32(lanes)).astype(jnp.int32)

    time, lane = jax.vmap(draw)(keys)
    run = jnp.arange(runs)[:, None, None]
    first = jnp.argmax(replay.facts[time % size, run, lane, -1], axis=-1)[..., None]
    time = jnp.take_along_axis(time, first, -1)[..., 0]
    lane = jnp.take_along_axis(lane, first, -1)[..., 0]
    run, slot = run[..., 0], time % size
    age, action, reward, terminal, usable = jnp.moveaxis(replay.facts[slot, run, lane], -1, 0)
    age = age.astype(jnp.int32)
    stack = [jnp.minimum(STACK - 1 - i, age) for i in range(STACK)]
    back = jnp.stack([*stack, jnp.full_like(age, -1)], axis=-1)
    at = (time[..., None] - back) % size
    flat = (at * runs + run[..., None]) * lanes + lane[..., None]
    frames = replay.frame.reshape(-1, SIDE * SIDE)[flat]
    frames = frames.reshape(runs, batch, STACK + 1, SIDE, SIDE)
    both = jnp.stack([slot, (slot + 1) % size], axis=-1)
    queue = replay.queue[both, run[..., None], lane[..., None]]
    frames, queue = jax.lax.optimization_barrier(
        (frames, queue)
    )  # else each use would gather again
    now, then = (frames[:, :, :-1], queue[:, :, 0]), (frames[:, :, 1:], queue[:, :, 1])
    return Batch(now, then, action.astype(jnp.int32), reward, terminal, usable)
