"""The family `maze`: random mazes, where agents learn tables."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from deadtime.envs.family import Arrows, Draw, Family, Limits
from deadtime.envs.maze_layout import MOVES, carve
from deadtime.envs.maze_settings import MazeSettings
from deadtime.wrappers.scalar import ActionDelay

if TYPE_CHECKING:
    from collections.abc import Mapping


class MazeFamily(Family):
    """Mazes of cells, with or without noise on actions."""

    name = "maze"
    loop = "tabular"
    members = {"maze": {}, "noisy-maze": {"noise": 0.1}}  # noqa: RUF012  (never changed)
    frame_milliseconds = 140

    def setting_names(self, name: str) -> list[str] | None:
        """Return the settings of a maze."""
        return [one.name for one in fields(MazeSettings)]

    def describe(self, name: str, settings: dict[str, Any]) -> MazeSettings:
        """Return a maze as checked data; no wall is carved."""
        self.check_settings(name, settings)
        return MazeSettings(**{**self.members[name], **settings})

    def make(self, name: str, settings: dict[str, Any]) -> Any:
        """Make a maze as pure functions."""
        from deadtime.envs.maze import Maze  # noqa: PLC0415  (JAX)

        return Maze(**vars(self.describe(name, settings)))

    def return_limits(self, settings: Mapping[str, Any]) -> Limits:
        """Return the limits of a return: every step costs, and the goal pays 1."""
        return -1.0, 1.0

    def gymnasium_form(
        self, environment: Any, delay: int, policy: Any = None, **making: Any
    ) -> gym.Env:
        """Return the maze as a Gymnasium environment under a delay."""
        settings = {one.name: getattr(environment, one.name) for one in fields(MazeSettings)}
        return ActionDelay(gym.make("deadtime/Maze-v0", **settings), delay)

    def can_draw(self, environment: Any) -> bool:
        """Return whether `watch` can draw it: always."""
        return True

    def scene(self, environment: Any, env: Any) -> tuple[Draw, Arrows]:
        """Return the drawing of the maze, the agent and the predicted cell."""
        from deadtime.envs import scenes  # noqa: PLC0415  (Pillow)

        return scenes.maze(carve(environment.size, environment.maze_seed)), list(MOVES)
