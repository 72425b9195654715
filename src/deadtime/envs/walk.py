"""A random walk with momentum, where a point prediction of the state can be worthless: the paper's warning.

The state is (x, t). From x = 0 the walk goes either way; from elsewhere it moves away from 0 with probability `momentum`.
Actions don't move it: action 0 pays 1 where |x| ≤ `near`, action 1 where |x| > `near`. An episode has `length` steps.

Seen from x = 0, the law of x after many steps is symmetric with two peaks at ±Z: its mean is 0, its mode is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from deadtime.envs.functional import Environment, Key, Step
from deadtime.envs.walk_settings import WalkSettings


class WalkParams(NamedTuple):
    """How likely the walk is to move away from 0, and what counts as near."""

    momentum: float | jax.Array
    near: int | jax.Array


class WalkState(NamedTuple):
    """Position and time."""

    x: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class Walk(WalkSettings, Environment):
    """The walk as pure functions."""

    @property
    def default_params(self) -> WalkParams:
        """As given."""
        return WalkParams(self.momentum, self.near)

    def reset_env(self, key: Key, params: WalkParams) -> tuple[jax.Array, WalkState]:
        """Begin at (0, 0)."""
        state = WalkState(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return self.number(*state), state

    def step_env(self, key: Key, state: WalkState, action: jax.Array, params: WalkParams) -> Step:
        """Pay 1 if the action suits the position, then walk."""
        right = (jnp.abs(state.x) > params.near) == (action == 1)
        away = jnp.where(state.x == 0, 0.5, params.momentum)
        sign = jnp.where(state.x < 0, -1, 1)
        x = state.x + jnp.where(jax.random.uniform(key) < away, sign, -sign)
        after = WalkState(x, state.time + 1)
        return self.number(*after), after, right.astype(jnp.float32), after.time >= self.length, {}

    def is_truncated(self, state: WalkState, params: WalkParams) -> jax.Array:
        """Never: the end of the walk is its own."""
        return jnp.zeros((), bool)
