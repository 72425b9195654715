"""Gymnasium environments for tests of the host loop: known values, transitions, refused spaces."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class ProbeEnv(gym.Env):
    """`probe.Probe`: the state flips at each step, and the action that names it pays 1."""

    def __init__(self):
        self.action_space, self.observation_space = (
            spaces.Discrete(2),
            spaces.Box(0.0, 1.0, (1,), np.float32),
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.flipped = int(self.np_random.integers(2))
        return np.array([self.flipped], np.float32), {}

    def step(self, action):
        reward = float(action == self.flipped)
        self.flipped = 1 - self.flipped
        return np.array([self.flipped], np.float32), reward, False, False, {}


class DiaryEnv(gym.Env):
    """An environment that shows its number, episode, step and executed action."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    ends = ((5, True, False), (4, False, True), (7, True, True), (3, False, True))

    def __init__(self, actions=3, first=0, endless=False, bad=None, ends=ends, render_mode=None):
        self.ends = ends
        self.action_space = spaces.Discrete(actions, start=first)
        self.observation_space = spaces.Box(-1e6, 1e6, (4,), np.float64)
        self.render_mode, self.endless, self.bad, self.mark, self.episode = (
            render_mode,
            endless,
            bad,
            None,
            -1,
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.mark = int(self.np_random.integers(10**6)) if self.mark is None else self.mark
        self.episode, self.time, self.executed = self.episode + 1, 0, -1
        return self._seen(), {}

    def _seen(self):
        return np.array([self.mark, self.episode, self.time, self.executed], np.float64)

    def step(self, action):
        assert type(action) is int
        self.time, self.executed = self.time + 1, action
        last, terminated, truncated = self.ends[self.episode % 4]
        over = self.time >= last and not self.endless
        seen, reward = self._seen(), 0.5 * self.time
        if self.bad is not None and self.time == 3:
            seen, reward = (
                (seen * np.nan, reward) if self.bad == "observation" else (seen, float("inf"))
            )
        return seen, reward, over and terminated, over and truncated, {}

    def render(self):
        return np.full((8, 600, 3), self.time, np.uint8)


class SpacesEnv(gym.Env):
    """Whatever spaces are asked for."""

    spaces = {  # noqa: RUF012
        "numbered": spaces.Discrete(2),
        "counts": spaces.MultiDiscrete([11, 10, 10]),
        "unbounded": spaces.Box(-np.inf, np.inf, (1,)),
        "whole": spaces.Box(0, 3, (1,), np.int64),
        "scalar": spaces.Box(-1, 1, ()),
        "fixed": spaces.Box(np.float32([-1, 2]), np.float32([1, 2])),
    }

    def __init__(self, actions="numbered", axes=1, side=2):
        self.action_space = self.spaces[actions]
        is_box = axes >= 0
        seen = spaces.Box(0, 1, (side,) * axes) if is_box else spaces.Sequence(spaces.Discrete(2))
        self.observation_space = seen


gym.register("deadtime-test/Probe-v0", ProbeEnv, max_episode_steps=20)
gym.register("deadtime-test/Diary-v0", DiaryEnv)
gym.register("deadtime-test/Spaces-v0", SpacesEnv)
