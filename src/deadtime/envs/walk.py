"""A random walk with momentum, where a point prediction of the state can be worthless: the paper's warning.

The state is (x, t). From x = 0 the walk goes either way; from elsewhere it moves away from 0 with probability `momentum`.
Actions don't move it: action 0 pays 1 where |x| ≤ `near`, action 1 where |x| > `near`. An episode has `length` steps.

Seen from x = 0, the law of x after many steps is symmetric with two peaks at ±Z: its mean is 0, its mode is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Float

from deadtime.envs.finite import Finite
from deadtime.envs.functional import Environment, Key, Step

LARGEST = 1000
"""Steps: their square is the number of states, and a length may come from a file."""


class WalkParams(NamedTuple):
    """How likely the walk is to move away from 0, and what counts as near."""

    momentum: float | jax.Array
    near: int | jax.Array


class WalkState(NamedTuple):
    """Position and time."""

    x: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class Walk(Environment):
    """The walk; an observation is the number of (x, t), t · (2 `length` + 1) + x + `length`."""

    length: int = 40
    momentum: float = 0.6
    near: int = 3

    def __post_init__(self) -> None:
        """Refuse what makes no walk."""
        whole = {"length": (self.length, 1, "at least 1"), "near": (self.near, 0, "0 or more")}
        for name, (value, least, rule) in whole.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} is a whole number, {rule}; got {value!r}: pass one such as {getattr(Walk, name)}")
            object.__setattr__(self, name, int(value))
        if self.length > LARGEST:
            raise ValueError(f"a walk has at most {LARGEST} steps; got length {self.length!r:.50}: pass a smaller one")
        number = isinstance(self.momentum, int | float) and not isinstance(self.momentum, bool)
        if not number or not 0.5 <= self.momentum <= 1:
            raise ValueError(f"momentum is a probability in [0.5, 1]; got {self.momentum!r}: 0.5 is a walk without any")
        object.__setattr__(self, "momentum", float(self.momentum))

    @property
    def default_params(self) -> WalkParams:
        """As given."""
        return WalkParams(self.momentum, self.near)

    @property
    def num_actions(self) -> int:
        """Near, far."""
        return 2

    def action_space(self, params: WalkParams | None = None) -> spaces.Discrete:
        """Near, far."""
        return spaces.Discrete(2)

    def observation_space(self, params: WalkParams | None = None) -> spaces.Discrete:
        """The number of (x, t)."""
        return spaces.Discrete((2 * self.length + 1) * (self.length + 1))

    def number(self, x: Any, time: Any) -> Any:
        """The number of the state (x, t)."""
        return time * (2 * self.length + 1) + x + self.length

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

    def finite(self) -> Finite:
        """The walk as arrays, for tabular learners; states that can't be reached stay where they are."""
        wide, long = 2 * self.length + 1, self.length + 1
        time, x = np.divmod(np.arange(wide * long), wide)
        x = x - self.length
        sign = np.where(x < 0, -1, 1)
        inside = (np.abs(x) <= time) & (time < self.length)
        after = [np.where(inside, self.number(x + step, time + 1), np.arange(wide * long)) for step in (sign, -sign)]
        successors = np.repeat(np.stack(after, axis=-1)[:, None], 2, axis=1).astype(np.int32)
        away = np.where(x == 0, 0.5, self.momentum)
        cumulative = np.repeat(np.stack([away, np.ones_like(away)], axis=-1)[:, None], 2, axis=1)
        pays = (np.abs(x) > self.near)[:, None] == np.array([False, True])
        rewards = np.repeat(np.where(inside[:, None], pays, 0.0)[:, :, None], 2, axis=2)
        return Finite(successors, cumulative, rewards, time == self.length, int(self.number(0, 0)), self.length)

    def model(self) -> tuple[Float[np.ndarray, "S 2 S"], Float[np.ndarray, "S 2"]]:
        """The exact transition probabilities P and rewards r of this walk."""
        return self.finite().model()
