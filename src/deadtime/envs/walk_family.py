"""The family `walk`: a random walk with momentum for tabular agents (see `walk`)."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from deadtime.delays import Delay
from deadtime.envs.family import Family, Limits
from deadtime.envs.walk_settings import WalkSettings
from deadtime.wrappers.scalar import ActionDelay

if TYPE_CHECKING:
    from collections.abc import Mapping

    import gymnasium as gym


class WalkFamily(Family[WalkSettings]):
    """The random walk with momentum."""

    name = "walk"
    loop = "tabular"
    members = {"walk": {}}  # noqa: RUF012  (never changed)

    def setting_names(self, name: str) -> list[str] | None:
        """Return the settings of the walk."""
        return [one.name for one in fields(WalkSettings)]

    def describe(self, name: str, settings: dict[str, Any]) -> WalkSettings:
        """Return the checked settings of the walk."""
        self.check_settings(name, settings)
        return WalkSettings(**settings)

    def make(self, name: str, settings: dict[str, Any]) -> Any:
        """Make the walk as pure functions."""
        from deadtime.envs.walk import Walk  # noqa: PLC0415  (JAX)

        return Walk(**vars(self.describe(name, settings)))

    def return_limits(self, settings: Mapping[str, Any]) -> Limits:
        """Return the limits of a return: each step pays 0 or 1."""
        return 0.0, float(settings.get("length", WalkSettings.length))

    def gymnasium_form(
        self,
        environment: WalkSettings,
        delay: Delay,
        policy: object = None,
        render_mode: str | None = None,
    ) -> gym.Env:
        """Return the walk as a Gymnasium environment under a delay."""
        from deadtime.envs.registered import WalkEnv  # noqa: PLC0415  (records need none)

        settings = {one.name: getattr(environment, one.name) for one in fields(WalkSettings)}
        observed: Any = getattr(policy, "observed", "now")
        return ActionDelay(WalkEnv(**settings), delay, observed=observed)
