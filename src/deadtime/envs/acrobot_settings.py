"""The settings, physics and spaces of Acrobot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from deadtime.envs.noise import PerturbedSettings


class AcrobotParams(NamedTuple):
    """The physical constants.

    `centre` is the position of a link's centre of mass, as a fraction of its length. As in
    Gymnasium, `inertia` does not depend on the masses.
    """

    gravity: float = 9.8
    mass_1: float = 1.0
    mass_2: float = 1.0
    length_1: float = 1.0
    length_2: float = 1.0
    centre: float = 0.5
    inertia: float = 1.0
    torque: float = 1.0
    seconds: float = 0.2
    mass_noise: float = 0.0
    length_noise: float = 0.0
    max_speed_1: float = 4 * np.pi
    max_speed_2: float = 9 * np.pi
    max_steps_in_episode: int = 500


@dataclass(frozen=True)
class AcrobotSettings(PerturbedSettings):
    """The settings of Acrobot."""

    @property
    def default_params(self) -> AcrobotParams:
        """The physical constants of Gymnasium, with the noise of these settings."""
        return AcrobotParams(mass_noise=self.noise, length_noise=self.length_noise)

    @property
    def num_actions(self) -> int:
        """The number of actions: torque -1, 0, +1."""
        return 3

    def action_space(self, params: AcrobotParams | None = None) -> spaces.Discrete:
        """Return the space of actions: torque -1, 0, +1 on the joint."""
        return spaces.Discrete(3)

    def observation_space(self, params: AcrobotParams | None = None) -> spaces.Box:
        """Return the space of observations: cosine and sine of both angles, both speeds."""
        params = params or self.default_params
        high = np.array([1.0, 1.0, 1.0, 1.0, params.max_speed_1, params.max_speed_2], np.float32)
        return spaces.Box(-high, high)
