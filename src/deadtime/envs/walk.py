"""A random walk with momentum: the paper's example of worthless point predictions.

The state is (x, t). At x = 0 the walk goes either way with probability 1/2. Elsewhere it moves away
from 0 with probability `momentum`. Actions do not change the walk: action 0 earns 1 where
|x| ≤ `near`, and action 1 earns 1 where |x| > `near`. An episode has `length` steps.

From x = 0, the law of x after many steps is symmetric with two peaks at ±Z. Its mean is 0, but its
modes are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from deadtime.envs.functional import Environment, Key, Step
from deadtime.envs.walk_settings import WalkSettings


class WalkParams(NamedTuple):
    """The probability of a step away from 0, and the largest |x| that counts as near."""

    momentum: float | jax.Array
    near: int | jax.Array


class WalkState(NamedTuple):
    """The position and the number of steps so far."""

    x: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class Walk(WalkSettings, Environment):
    """The walk as pure functions."""

    @property
    def default_params(self) -> WalkParams:
        """The parameters of these settings."""
        return WalkParams(self.momentum, self.near)

    def reset_env(self, key: Key, params: WalkParams) -> tuple[jax.Array, WalkState]:
        """Start at (0, 0)."""
        state = WalkState(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return self.number(*state), state

    def step_env(self, key: Key, state: WalkState, action: jax.Array, params: WalkParams) -> Step:
        """Move the walk; the reward is 1 if the action fits the position before the move."""
        right = (jnp.abs(state.x) > params.near) == (action == 1)
        away = jnp.where(state.x == 0, 0.5, params.momentum)
        sign = jnp.where(state.x < 0, -1, 1)
        x = state.x + jnp.where(jax.random.uniform(key) < away, sign, -sign)
        after = WalkState(x, state.time + 1)
        return self.number(*after), after, right.astype(jnp.float32), after.time >= self.length, {}

    def is_truncated(self, state: WalkState, params: WalkParams) -> jax.Array:
        """Return False: the last step terminates the episode."""
        return jnp.zeros((), bool)
