"""Delay buffers for batched environments of JAX, as pure functions (extra `learn`).

They are for environments such as those of MuJoCo Playground, Brax and MJX. This module is the one
integration that imports JAX, since JAX arrays are what it integrates with. `deadtime.envs.delayed`
does the same for whole functional environments.

A buffer is a constant of the program, and its state is a pytree. All functions work under `jit`,
`scan` and `vmap`, with one item per environment along the first axis.
"""

from __future__ import annotations

from typing import NamedTuple

from deadtime._support.extras import extras_needed
from deadtime.delays import Delay, DelayProcess, as_process
from deadtime.integrations.endless import check_endless

with extras_needed("learn"):
    import jax
    import jax.numpy as jnp
    from jax import Array

__all__ = ["ActionBuffer", "BufferState", "ObservationBuffer"]


class BufferState(NamedTuple):
    """The items and the channel of each environment."""

    slots: Array
    """The last K + 1 items, shape (K + 1, environments, …)."""
    head: Array
    """The place of the newest item."""
    channel: Array
    """The channel's state of each environment; of length 0 for a constant delay."""
    steps: Array
    """How many items each environment has had in its episode.

    The number tells which items are of this episode, so a reset writes none.
    """


class _Ring:
    """The base of both buffers: it holds the delay process, which never changes."""

    def __init__(self, delay: Delay | str):
        """`delay` is a number of steps, a process of `deadtime.delays` or its text form."""
        process = as_process(delay)
        if process.constant is None:
            check_endless(process)
        self.process: DelayProcess = process

    def ages(self, state: BufferState) -> Array:
        """Return the age that the next step reads, for each environment."""
        if self.process.constant is not None:
            return jnp.full(state.steps.shape, self.process.constant, jnp.int32)
        return self.process.chain.age(state.channel)

    def init(self, like: Array, key: Array) -> BufferState:
        """Return the state at the start of all episodes.

        `like` has the shape and type of the items, (environments, …).
        """
        count = like.shape[0]
        slots = jnp.zeros((self.process.longest + 1, *like.shape), like.dtype)
        channel = jnp.zeros(count if self.process.constant is None else 0, jnp.int32)
        zero = jnp.zeros((), jnp.int32)
        state = BufferState(slots, zero, channel, jnp.zeros(count, jnp.int32))
        return self.reset(state, jnp.ones(count, bool), key)

    def reset(self, state: BufferState, mask: Array, key: Array) -> BufferState:
        """Return the state with new episodes in the environments of `mask`."""
        steps = jnp.where(mask, 0, state.steps)
        channel = state.channel
        if self.process.constant is None:
            first = self.process.chain.initial(_uniform(key, len(mask)))
            channel = jnp.where(mask, first, channel)
        return state._replace(channel=channel, steps=steps)

    def _stored(self, state: BufferState, items: Array) -> BufferState:
        head = (state.head + 1) % len(state.slots)
        return state._replace(slots=state.slots.at[head].set(items), head=head)

    def _read(self, state: BufferState, ages: Array) -> Array:
        return state.slots[(state.head - ages) % len(state.slots), jnp.arange(len(ages))]

    def _advanced(self, state: BufferState, key: Array) -> BufferState:
        channel = state.channel
        if self.process.constant is None:
            chain = self.process.chain
            channel = chain.next(channel, _uniform(key, len(channel)))
        return state._replace(channel=channel, steps=state.steps + 1)


class ActionBuffer(_Ring):
    """The pending actions of each environment.

    `warmup` is the action that is pending at reset, or K of them along the first axis, oldest
    first.
    """

    def __init__(self, delay: Delay | str, warmup: Array | float = 0.0):
        """`delay` is a number of steps, a process of `deadtime.delays` or its text form."""
        super().__init__(delay)
        self.warmup = warmup

    def push(self, state: BufferState, actions: Array, key: Array) -> tuple[Array, BufferState]:
        """Return the actions to execute now, and the state after `actions` joined the queues."""
        state = self._stored(state, actions)
        ages = self.ages(state)
        if self.process.constant is None:
            executed = self._read(state, ages)
        else:
            executed = state.slots[(state.head + 1) % len(state.slots)]
        step = state.steps - ages
        warm = self._of_warmup(state, self.process.longest + step)
        executed = jnp.where(_wide(step >= 0, executed), executed, warm)
        return executed, self._advanced(state, key)

    def pending(self, state: BufferState) -> Array:
        """Return the K pending actions, oldest first, shape (environments, K, …)."""
        longest = self.process.longest
        places = jnp.arange(longest)
        chosen = state.slots[(state.head + 2 + places) % len(state.slots)]
        chosen = jnp.moveaxis(chosen, 0, 1)
        step = state.steps[:, None] + places - longest
        warm = self._of_warmup(state, longest + step)
        return jnp.where(_wide(step >= 0, chosen), chosen, warm)

    def _of_warmup(self, state: BufferState, places: Array) -> Array:
        """Return the warm-up actions at `places`, or the only one."""
        given = jnp.asarray(self.warmup, state.slots.dtype)
        if given.ndim < state.slots.ndim - 1:
            return given
        return given[jnp.clip(places, 0, max(self.process.longest - 1, 0))]


class ObservationBuffer(_Ring):
    """The last observations of each environment.

    The first observation pushed after a reset is the first one of the episode, and is shown at
    once.
    """

    def push(
        self, state: BufferState, observations: Array, key: Array
    ) -> tuple[Array, BufferState]:
        """Return the observations to show now, w_t ≤ t steps old, and the next state."""
        state = self._stored(state, observations)
        shown = self._read(state, jnp.minimum(self.ages(state), state.steps))
        return shown, self._advanced(state, key)


def _uniform(key: Array, count: int) -> Array:
    return jax.random.uniform(key, (count,))


def _wide(mask: Array, like: Array) -> Array:
    """Return a mask with as many axes as `like`."""
    return mask.reshape(*mask.shape, *[1] * (like.ndim - mask.ndim))
