"""The settings, spaces and exact probabilities of a maze (see `maze_layout`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gymnasium import spaces

from deadtime.envs.maze_layout import carve, check_maze_seed, check_size, finite, model
from deadtime.envs.noise import check_noise

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float

    from deadtime.envs.finite import Finite


@dataclass(frozen=True)
class MazeSettings:
    """The settings of a maze: its size, the seed of its walls, and the noise on actions."""

    size: int = 10
    noise: float = 0.0
    maze_seed: int = 0

    def __post_init__(self) -> None:
        """Raise if the size, the noise or the seed is out of range."""
        object.__setattr__(self, "size", check_size(self.size))
        object.__setattr__(self, "noise", check_noise(self.noise))
        object.__setattr__(self, "maze_seed", check_maze_seed(self.maze_seed))

    @property
    def num_actions(self) -> int:
        """The number of actions: up, right, down, left."""
        return 4

    @property
    def max_steps(self) -> int:
        """The step limit of an episode, 10 N²."""
        return 10 * self.size**2

    def action_space(self, params: object = None) -> spaces.Discrete:
        """Return the space of actions: up, right, down, left."""
        return spaces.Discrete(4)

    def observation_space(self, params: object = None) -> spaces.Discrete:
        """Return the space of observations: the number of the agent's cell."""
        return spaces.Discrete(self.size**2)

    def model(self) -> tuple[Float[np.ndarray, "S 4 S"], Float[np.ndarray, "S 4"]]:
        """Return the exact transition probabilities P and rewards r."""
        return model(carve(self.size, self.maze_seed), self.noise)

    def finite(self) -> Finite:
        """Return the maze as arrays, for tabular learners."""
        return finite(carve(self.size, self.maze_seed), self.noise)
