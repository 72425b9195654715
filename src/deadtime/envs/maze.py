"""Random mazes as pure functions, the paper's tabular domain (see also `maze_layout`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from deadtime.envs.functional import Environment, Key, Step
from deadtime.envs.maze_layout import carve
from deadtime.envs.maze_settings import MazeSettings


class MazeParams(NamedTuple):
    """The cell that each action leads to, and the probability that an action is replaced."""

    leads_to: jax.Array
    noise: float | jax.Array


class MazeState(NamedTuple):
    """The cell of the agent and the number of steps so far."""

    cell: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class Maze(MazeSettings, Environment):
    """The task to reach the goal of a maze; an action is random with probability `noise`."""

    @property
    def default_params(self) -> MazeParams:
        """The parameters of this maze; mazes of one size can be stacked for `vmap`."""
        return MazeParams(jnp.asarray(carve(self.size, self.maze_seed), jnp.int32), self.noise)

    def reset_env(self, key: Key, params: MazeParams) -> tuple[jax.Array, MazeState]:
        """Start in the top left cell."""
        cell = jnp.zeros((), jnp.int32)
        return cell, MazeState(cell, jnp.zeros((), jnp.int32))

    def step_env(self, key: Key, state: MazeState, action: jax.Array, params: MazeParams) -> Step:
        """Step the maze; the reward is 1 at the goal and -1/(10 N²) elsewhere."""
        key_replace, key_action = jax.random.split(key)
        replaced = jax.random.uniform(key_replace) < params.noise
        action = jnp.where(replaced, jax.random.randint(key_action, (), 0, 4), action)
        cell = params.leads_to[state.cell, action]
        terminated = cell == self.size**2 - 1
        reward = jnp.where(terminated, 1.0, -1.0 / (10 * self.size**2))
        return cell, MazeState(cell, state.time + 1), reward, terminated, {}

    def is_truncated(self, state: MazeState, params: MazeParams) -> jax.Array:
        """Return whether the episode has had 10 N² steps."""
        return state.time >= 10 * self.size**2
