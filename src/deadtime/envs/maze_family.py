"""The family `maze`: random mazes for tabular agents."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from deadtime.delays import Delay
from deadtime.envs.family import Arrows, Draw, Family, Limits
from deadtime.envs.maze_layout import MOVES, carve
from deadtime.envs.maze_settings import MazeSettings
from deadtime.wrappers.scalar import ActionDelay

if TYPE_CHECKING:
    from collections.abc import Mapping


class MazeFamily(Family[MazeSettings]):
    """Random mazes, with or without noise on actions."""

    name = "maze"
    loop = "tabular"
    members = {"maze": {}, "noisy-maze": {"noise": 0.1}}  # noqa: RUF012  (never changed)
    frame_milliseconds = 140

    def setting_names(self, name: str) -> list[str] | None:
        """Return the settings of a maze."""
        return [one.name for one in fields(MazeSettings)]

    def describe(self, name: str, settings: dict[str, Any]) -> MazeSettings:
        """Return the checked settings of a maze, without carving it."""
        self.check_settings(name, settings)
        return MazeSettings(**{**self.members[name], **settings})

    def make(self, name: str, settings: dict[str, Any]) -> Any:
        """Make a maze as pure functions."""
        from deadtime.envs.maze import Maze  # noqa: PLC0415  (JAX)

        return Maze(**vars(self.describe(name, settings)))

    def return_limits(self, settings: Mapping[str, Any]) -> Limits:
        """Return the limits of a return: each step costs, and the goal pays 1."""
        return -1.0, 1.0

    def gymnasium_form(
        self,
        environment: MazeSettings,
        delay: Delay,
        policy: object = None,
        render_mode: str | None = None,
    ) -> gym.Env:
        """Return the maze as a Gymnasium environment under a delay."""
        settings = {one.name: getattr(environment, one.name) for one in fields(MazeSettings)}
        observed: Any = getattr(policy, "observed", "now")
        return ActionDelay(gym.make("deadtime/Maze-v0", **settings), delay, observed=observed)

    def can_draw(self, environment: MazeSettings) -> bool:
        """Return True: `watch` can draw a maze."""
        return True

    def scene(self, environment: MazeSettings, env: gym.Env) -> tuple[Draw, Arrows]:
        """Return a function that draws the maze, the agent and the predicted cell."""
        from deadtime.envs import scenes  # noqa: PLC0415  (Pillow)

        return scenes.maze(carve(environment.size, environment.maze_seed)), list(MOVES)
