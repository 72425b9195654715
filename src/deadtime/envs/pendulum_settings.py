"""The settings, physics and spaces of Pendulum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from deadtime.envs.noise import PerturbedSettings


class PendulumParams(NamedTuple):
    """The physical constants; noise is a standard deviation relative to the nominal value."""

    gravity: float = 10.0
    mass: float = 1.0
    length: float = 1.0
    mass_noise: float = 0.0
    length_noise: float = 0.0
    seconds: float = 0.05
    max_speed: float = 8.0
    max_torque: float = 2.0
    max_steps_in_episode: int = 200


@dataclass(frozen=True)
class PendulumSettings(PerturbedSettings):
    """The settings of Pendulum."""

    mass: float = 1.0
    length: float = 1.0
    gravity: float = 10.0

    def __post_init__(self) -> None:
        """Raise if a setting is out of range."""
        super().__post_init__()
        for name in ("mass", "length", "gravity"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value <= 0:
                usual = getattr(PendulumSettings, name)
                raise ValueError(
                    f"{name} is a number above 0; got {value!r}: leave it out for {usual:g}"
                )
            object.__setattr__(self, name, float(value))

    @property
    def default_params(self) -> PendulumParams:
        """The physical constants of these settings; the others are Gymnasium's."""
        return PendulumParams(self.gravity, self.mass, self.length, self.noise, self.length_noise)

    def action_space(self, params: PendulumParams | None = None) -> spaces.Box:
        """Return the space of actions: a torque, positive anticlockwise."""
        torque = (params or self.default_params).max_torque
        return spaces.Box(-torque, torque, (1,), np.float32)

    def observation_space(self, params: PendulumParams | None = None) -> spaces.Box:
        """Return the space of observations: cosine and sine of the angle, angular velocity."""
        high = np.array([1.0, 1.0, (params or self.default_params).max_speed], np.float32)
        return spaces.Box(-high, high)
