"""The settings, physics and spaces of CartPole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from deadtime.envs.noise import PerturbedSettings


class CartPoleParams(NamedTuple):
    """The physical constants; noise is a standard deviation relative to the nominal value."""

    gravity: float = 9.8
    mass_cart: float = 1.0
    mass_pole: float = 0.1
    half_length: float = 0.5
    force: float = 10.0
    seconds: float = 0.02
    mass_noise: float = 0.0
    length_noise: float = 0.0
    angle_limit: float = 12 * 2 * np.pi / 360
    position_limit: float = 2.4
    max_steps_in_episode: int = 500


@dataclass(frozen=True)
class CartPoleSettings(PerturbedSettings):
    """The settings of CartPole."""

    @property
    def default_params(self) -> CartPoleParams:
        """The physical constants of Gymnasium, with the noise of these settings."""
        return CartPoleParams(mass_noise=self.noise, length_noise=self.length_noise)

    @property
    def num_actions(self) -> int:
        """The number of actions: left, right."""
        return 2

    def action_space(self, params: CartPoleParams | None = None) -> spaces.Discrete:
        """Return the space of actions: 0 pushes left, 1 right."""
        return spaces.Discrete(2)

    def observation_space(self, params: CartPoleParams | None = None) -> spaces.Box:
        """Return the space of observations: position, velocity, angle, angular velocity."""
        params = params or self.default_params
        high = np.array(
            [params.position_limit * 2, np.inf, params.angle_limit * 2, np.inf], np.float32
        )
        return spaces.Box(-high, high)
