"""A mountain car with a denser reward, on which a short training finds the way up.

Importing this module registers `deadtime/EnergyMountainCarContinuous-v0` with Gymnasium.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

ID = "deadtime/EnergyMountainCarContinuous-v0"
_SCALE = 60_000.0
"""With it, the energy from the valley to the top is worth as much as the top itself, 100."""


class EnergyReward(gym.Wrapper[Any, Any, Any, Any]):
    """A wrapper that adds the change of the car's energy to the reward.

    The sum of these changes depends on the first and last state only, so the way up stays best.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._before = energy(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step, with the change of energy in its reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        now = energy(observation)
        more = _SCALE * (now - self._before)
        self._before = now
        return observation, float(reward) + more, terminated, truncated, info


def energy(observation: np.ndarray) -> float:
    """Return the energy of the car per unit of mass: of its speed, and of its height."""
    place, speed = observation
    return float(0.5 * speed**2 + 0.0025 / 3 * np.sin(3 * place))


def make(**options: Any) -> gym.Env[Any, Any]:
    """Return Gymnasium's mountain car with the energy in its reward."""
    return EnergyReward(gym.make("MountainCarContinuous-v0", **options).unwrapped)


gym.register(ID, entry_point=f"{__name__}:make", max_episode_steps=999)
