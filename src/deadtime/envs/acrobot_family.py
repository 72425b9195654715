"""The family `acrobot`: a pendulum of two links, with or without noise on its masses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deadtime.envs.acrobot_settings import AcrobotSettings
from deadtime.envs.family import Arrows, Draw, Limits
from deadtime.envs.physical_family import PhysicalFamily

if TYPE_CHECKING:
    from collections.abc import Mapping

    import gymnasium as gym

    from deadtime.envs.noise import PerturbedSettings


class AcrobotFamily(PhysicalFamily):
    """Acrobot as in Gymnasium, and with noise."""

    name = "acrobot"
    members = {"acrobot": {}, "noisy-acrobot": {"noise": 0.1}}  # noqa: RUF012  (never changed)
    settings = AcrobotSettings
    gymnasium_id = "deadtime/NoisyAcrobot-v1"

    def make(self, name: str, settings: dict[str, Any]) -> Any:
        """Make Acrobot as pure functions."""
        from deadtime.envs.acrobot import Acrobot  # noqa: PLC0415  (JAX)

        return Acrobot(**vars(self.describe(name, settings)))

    def return_limits(self, settings: Mapping[str, Any]) -> Limits:
        """Return the limits of a return: a step costs 1, and an episode has at most 500."""
        return -500.0, 0.0

    def scene(self, environment: PerturbedSettings, env: gym.Env) -> tuple[Draw, Arrows]:
        """Return a function that draws the system and its predicted state."""
        from deadtime.envs import scenes  # noqa: PLC0415  (Pillow)

        return scenes.acrobot, [(0, -1), (0, 0), (0, 1)]
