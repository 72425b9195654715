"""Gymnasium environments that show images, for tests of the host loop."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class BrightSideEnv(gym.Env):
    """One half of the image is bright, and the action that names it pays 1."""

    def __init__(self, length=10, actions=2):
        self.length = length
        self.action_space = spaces.Discrete(actions) if actions else spaces.Box(-1, 1, (1,))
        self.observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.paid = []
        return self._image(), {}

    def step(self, action):
        reward = float(action == self.side)
        self.paid.append(reward)
        self.time += 1
        return self._image(), reward, False, self.time == self.length, {}

    def _image(self):
        self.side = int(self.np_random.integers(2))
        image = np.zeros((36, 36, 3), np.uint8)
        image[:, 18 * self.side :][:, :18] = 250
        return image


class ImageDiaryEnv(gym.Env):
    """An environment that shows noise and keeps a log of its images, actions and ends."""

    ends = ((5, True), (4, False), (9, True), (3, False))
    """The length of each episode, and whether it is terminated or truncated."""
    logs = []  # noqa: RUF012
    """The log of each environment, in the order of the first reset."""

    def __init__(self):
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(0, 255, (42, 28), np.uint8)
        self.log = None
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.log is None:
            self.log = []
            self.logs.append(self.log)
        self.episode += 1
        self.time = 0
        return self._image(), {}

    def step(self, action):
        self.time += 1
        last, terminal = self.ends[self.episode % 4]
        over = self.time == last
        reward = float(self.time) - 2.0
        self.log[-1] |= {
            "executed": int(action),
            "reward": reward,
            "terminated": over and terminal,
            "truncated": over and not terminal,
        }
        return self._image(), reward, over and terminal, over and not terminal, {}

    def _image(self):
        image = self.np_random.integers(0, 256, (42, 28)).astype(np.uint8)
        if self.time < self.ends[self.episode % 4][0]:
            self.log.append({"image": image, "age": self.time})
        return image


gym.register("deadtime-test/BrightSide-v0", BrightSideEnv)
gym.register("deadtime-test/ImageDiary-v0", ImageDiaryEnv)
