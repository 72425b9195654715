"""Random mazes as pure functions: the paper's tabular domain. `maze_layout` has the walls and the exact probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from deadtime.envs.functional import Environment, Key, Step
from deadtime.envs.maze_layout import carve
from deadtime.envs.maze_settings import MazeSettings


class MazeParams(NamedTuple):
    """Where each action leads from each cell, and how likely an action is to be replaced."""

    leads_to: jax.Array
    noise: float | jax.Array


class MazeState(NamedTuple):
    """The agent's cell and the number of steps taken."""

    cell: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class Maze(MazeSettings, Environment):
    """Find the way through the maze that `maze_seed` gives; each action is random with probability `noise`."""

    @property
    def default_params(self) -> MazeParams:
        """This maze; parameters of other mazes of the same size can be stacked and mapped over."""
        return MazeParams(jnp.asarray(carve(self.size, self.maze_seed), jnp.int32), self.noise)

    def reset_env(self, key: Key, params: MazeParams) -> tuple[jax.Array, MazeState]:
        """Begin in the top left cell."""
        cell = jnp.zeros((), jnp.int32)
        return cell, MazeState(cell, jnp.zeros((), jnp.int32))

    def step_env(self, key: Key, state: MazeState, action: jax.Array, params: MazeParams) -> Step:
        """Reward 1 for reaching the goal, -1/(10 N²) for any other step."""
        key_replace, key_action = jax.random.split(key)
        replaced = jax.random.uniform(key_replace) < params.noise
        action = jnp.where(replaced, jax.random.randint(key_action, (), 0, 4), action)
        cell = params.leads_to[state.cell, action]
        terminated = cell == self.size**2 - 1
        reward = jnp.where(terminated, 1.0, -1.0 / (10 * self.size**2))
        return cell, MazeState(cell, state.time + 1), reward, terminated, {}

    def is_truncated(self, state: MazeState, params: MazeParams) -> jax.Array:
        """After 10 N² steps."""
        return state.time >= 10 * self.size**2
