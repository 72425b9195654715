"""An environment that shows its episode, step and executed action, compiled and of Gymnasium.

An episode's mark decides its length, and whether it is terminated or truncated.
"""

from dataclasses import dataclass
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from deadtime.envs.functional import Environment


def space_of(box):
    return spaces.Box(-2.0, 2.0, (2,)) if box else spaces.Discrete(5)


class DiaryState(NamedTuple):
    mark: jax.Array
    time: jax.Array


def length_of(mark):
    return 3 + mark % 7


@dataclass(frozen=True)
class Diary(Environment):
    box: bool = False

    @property
    def default_params(self):
        return ()

    @property
    def num_actions(self):
        return 5

    def action_space(self, params=None):
        return space_of(self.box)

    def observation_space(self, params=None):
        return spaces.Box(-1e6, 1e6, (3,), np.float32)

    def reset_env(self, key, params):
        mark = jax.random.randint(key, (), 0, 1000)
        state = DiaryState(mark, jnp.zeros((), jnp.int32))
        return self._seen(state, jnp.float32(-9)), state

    def _seen(self, state, number):
        return jnp.stack([jnp.float32(state.mark), jnp.float32(state.time), number])

    def step_env(self, key, state, action, params):
        state = DiaryState(state.mark, state.time + 1)
        over = state.time >= length_of(state.mark)
        reward = 0.5 * jnp.float32(state.time)
        seen = self._seen(state, jnp.float32(jnp.ravel(action)[0]))
        return seen, state, reward, over & (state.mark % 2 == 0), {}

    def is_truncated(self, state, params):
        return (state.time >= length_of(state.mark)) & (state.mark % 2 == 1)


class DiaryEnv(gym.Env):
    """The same for Gymnasium."""

    def __init__(self, box):
        self.action_space = space_of(box)
        self.observation_space = spaces.Box(-1e6, 1e6, (3,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.mark = int(self.np_random.integers(1000))
        self.time = 0
        return self._seen(-9.0), {}

    def _seen(self, number):
        return np.array([self.mark, self.time, number], np.float32)

    def step(self, action):
        self.time += 1
        over = self.time >= length_of(self.mark)
        seen = self._seen(np.ravel(action)[0])
        terminated = over and self.mark % 2 == 0
        return seen, 0.5 * self.time, terminated, over and not terminated, {}
