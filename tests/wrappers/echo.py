"""Environments whose observations say which actions were executed, for any action space and any
episode lengths.
"""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class EchoEnv(gym.Env):
    """Episode e lasts ``lengths[e]`` steps (cyclically); the observation is (episode, step);
    executed actions are kept.
    """

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": None}  # noqa: RUF012

    def __init__(self, lengths=(1000,), action_space=None, truncate=False, render_mode=None):
        self.lengths, self.truncate, self.render_mode = lengths, truncate, render_mode
        self.action_space = action_space or spaces.Discrete(7)
        self.observation_space = spaces.Box(-1, 1e6, (2,), np.float64)
        self.episode, self.time, self.executed = -1, 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        self.executed.append([])
        return self._obs(), {}

    def _obs(self):
        return np.array([self.episode, self.time], np.float64)

    def step(self, action):
        self.executed[-1].append(action)
        self.time += 1
        ended = self.time >= self.lengths[self.episode % len(self.lengths)]
        return (
            self._obs(),
            float(self.time),
            ended and not self.truncate,
            ended and self.truncate,
            {},
        )

    def render(self):
        return np.full((8, 8, 3), self.time % 255, np.uint8)
