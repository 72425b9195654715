"""The family `pendulum`: a rod with a motor, with or without noise on its mass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym

from deadtime.delays import Delay
from deadtime.envs.family import Arrows, Draw, Limits
from deadtime.envs.pendulum_settings import PendulumSettings
from deadtime.envs.physical_family import PhysicalFamily
from deadtime.wrappers.scalar import ActionDelay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deadtime.envs.noise import PerturbedSettings

_MOST_COST = 3.15**2 + 0.1 * 8**2 + 0.001 * 2**2
"""A bound on the cost of a step: half a turn away, at the largest velocity and torque."""


class PendulumFamily(PhysicalFamily):
    """Pendulum as in Gymnasium; also with other constants, and with noise."""

    name = "pendulum"
    members = {"pendulum": {}, "noisy-pendulum": {"noise": 0.1}}  # noqa: RUF012  (never changed)
    action_kinds = ("box",)
    settings = PendulumSettings
    gymnasium_id = "deadtime/NoisyPendulum-v1"

    def make(self, name: str, settings: dict[str, Any]) -> Any:
        """Make Pendulum as pure functions."""
        from deadtime.envs.pendulum import Pendulum  # noqa: PLC0415  (JAX)

        return Pendulum(**vars(self.describe(name, settings)))

    def paper_settings(
        self, environment: PerturbedSettings, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return nothing, because the paper has no Pendulum."""
        return {}

    def return_limits(self, settings: Mapping[str, Any]) -> Limits:
        """Return the limits of a return: an episode has 200 steps, and each has a cost."""
        return -200 * _MOST_COST, 0.0

    def gymnasium_form(
        self,
        environment: PerturbedSettings,
        delay: Delay,
        policy: object = None,
        render_mode: str | None = None,
    ) -> gym.Env:
        """Return Pendulum as a Gymnasium environment under a delay."""
        names = self.setting_names(self.name) or ()
        settings = {name: getattr(environment, name) for name in names}
        observed: Any = getattr(policy, "observed", "now")
        bare = gym.make(self.gymnasium_id, **settings)
        return ActionDelay(bare, delay, self.warm_up(), observed)

    def scene(self, environment: PerturbedSettings, env: gym.Env) -> tuple[Draw, Arrows]:
        """Return a function that draws the rod and its predicted state."""
        from deadtime.envs import scenes  # noqa: PLC0415  (Pillow)

        return scenes.pendulum, None
