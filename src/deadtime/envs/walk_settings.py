"""The settings, spaces and exact probabilities of the random walk (see `walk`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from gymnasium import spaces

from deadtime.envs.finite import Finite, one_start

if TYPE_CHECKING:
    from jaxtyping import Array, Float

Number = TypeVar("Number", int, np.ndarray, "Array")

LARGEST = 1000
"""The largest number of steps. The number of states grows with its square."""


@dataclass(frozen=True)
class WalkSettings:
    """The settings of the walk; (x, t) has the number t · (2 `length` + 1) + x + `length`."""

    length: int = 40
    momentum: float = 0.6
    near: int = 3

    def __post_init__(self) -> None:
        """Raise if a setting is out of range."""
        whole = {"length": (self.length, 1, "at least 1"), "near": (self.near, 0, "0 or more")}
        for name, (value, least, rule) in whole.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                usual = getattr(WalkSettings, name)
                raise ValueError(
                    f"{name} is a whole number, {rule}; got {value!r}: pass one such as {usual}"
                )
            object.__setattr__(self, name, int(value))
        if self.length > LARGEST:
            raise ValueError(
                f"a walk has at most {LARGEST} steps; got length {self.length!r:.50}: "
                "pass a smaller one"
            )
        number = isinstance(self.momentum, int | float) and not isinstance(self.momentum, bool)
        if not number or not 0.5 <= self.momentum <= 1:
            raise ValueError(
                f"momentum is a probability in [0.5, 1]; got {self.momentum!r}: "
                "pass 0.5 for no momentum"
            )
        object.__setattr__(self, "momentum", float(self.momentum))

    @property
    def num_actions(self) -> int:
        """The number of actions: near, far."""
        return 2

    @property
    def max_steps(self) -> int:
        """The number of steps of an episode."""
        return self.length

    def action_space(self, params: object = None) -> spaces.Discrete:
        """Return the space of actions: near, far."""
        return spaces.Discrete(2)

    def observation_space(self, params: object = None) -> spaces.Discrete:
        """Return the space of observations: the number of (x, t)."""
        return spaces.Discrete((2 * self.length + 1) * (self.length + 1))

    def number(self, x: Number, time: Number) -> Number:
        """Return the number of the state (x, t)."""
        return time * (2 * self.length + 1) + x + self.length

    def finite(self) -> Finite:
        """Return the walk as arrays; a state that can't be reached leads to itself."""
        wide, long = 2 * self.length + 1, self.length + 1
        time, x = np.divmod(np.arange(wide * long), wide)
        x = x - self.length
        sign = np.where(x < 0, -1, 1)
        inside = (np.abs(x) <= time) & (time < self.length)
        after = [
            np.where(inside, self.number(x + step, time + 1), np.arange(wide * long))
            for step in (sign, -sign)
        ]
        successors = np.repeat(np.stack(after, axis=-1)[:, None], 2, axis=1).astype(np.int32)
        away = np.where(x == 0, 0.5, self.momentum)
        cumulative = np.repeat(np.stack([away, np.ones_like(away)], axis=-1)[:, None], 2, axis=1)
        pays = (np.abs(x) > self.near)[:, None] == np.array([False, True])
        rewards = np.repeat(np.where(inside[:, None], pays, 0.0)[:, :, None], 2, axis=2)
        return Finite(
            successors,
            cumulative,
            rewards,
            time == self.length,
            *one_start(self.number(0, 0)),
            self.length,
        )

    def model(self) -> tuple[Float[np.ndarray, "S 2 S"], Float[np.ndarray, "S 2"]]:
        """Return the exact transition probabilities P and rewards r."""
        return self.finite().model()
