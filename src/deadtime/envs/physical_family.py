"""The shared part of CartPole, Acrobot and Pendulum: noise, and a Gymnasium form."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym

from deadtime.delays import Delay
from deadtime.envs.family import Family
from deadtime.envs.noise import PerturbedSettings
from deadtime.wrappers.scalar import ActionDelay

if TYPE_CHECKING:
    from collections.abc import Mapping


class PhysicalFamily(Family[PerturbedSettings]):
    """Physical systems with noise on their masses, or on masses and lengths, at each step."""

    loop = "compiled"
    settings: ClassVar[type[PerturbedSettings]]
    """The class of the settings."""
    gymnasium_id: ClassVar[str]
    """The id of the Gymnasium form."""

    def setting_names(self, name: str) -> list[str] | None:
        """Return the settings of the system."""
        return [one.name for one in fields(self.settings)]

    def describe(self, name: str, settings: dict[str, Any]) -> PerturbedSettings:
        """Return the system as checked data."""
        self.check_settings(name, settings)
        return self.settings(**{**self.members[name], **settings})

    def paper_settings(
        self, environment: PerturbedSettings, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the paper's noise, which perturbs masses and lengths."""
        perturb = environment.perturb if "perturb" in given else "masses+lengths"
        return {"perturb": perturb} if environment.noise else {}

    def gymnasium_form(
        self,
        environment: PerturbedSettings,
        delay: Delay,
        policy: object = None,
        render_mode: str | None = None,
    ) -> gym.Env:
        """Return the system as a Gymnasium environment under a delay."""
        settings: dict[str, Any] = {"noise": environment.noise, "perturb": environment.perturb}
        bare = gym.make(self.gymnasium_id, **settings)
        observed: Any = getattr(policy, "observed", "now")
        return ActionDelay(bare, delay, self.warm_up(), observed)

    def warm_up(self) -> Any:
        """Return the warm-up rule of the queue: random actions."""
        return "random"

    def can_draw(self, environment: PerturbedSettings) -> bool:
        """Return True: `watch` can draw the system."""
        return True
