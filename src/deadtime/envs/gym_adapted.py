"""Gymnasium environments with the observations and the actions that agents take.

The rules are these:

- An observation is a vector of numbers, or frames. A Box of one axis stays as it is. Images become
  frames by the rules of `gym_frames`; stacked frames stay as they are. Every other space is
  flattened as `gymnasium.spaces.utils.flatten` does: the parts of a Dict or a Tuple follow each
  other, a Dict's in the order of its keys, and a Discrete value is one-hot.
- An action is a number from 0 or a vector of real numbers. Combinations of a MultiDiscrete or a
  MultiBinary action are numbered, where the last number of a combination changes fastest. A
  Discrete action that starts elsewhere is numbered from 0.
"""

from __future__ import annotations

from math import prod
from typing import Any, SupportsInt

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from deadtime.envs.gym_frames import Frames, is_frames, is_image

MOST_COMBINATIONS = 1000
"""The largest number of combinations of an action; each has an output of the network."""


def adapted(env: gym.Env) -> gym.Env:
    """Return `env` with vectors or frames to observe, and with numbered actions or real ones."""
    seen = env.observation_space
    if is_image(seen):
        env = env if is_frames(seen) else Frames(env)
    elif not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
        env = gym.wrappers.FlattenObservation(env)
    actions = env.action_space
    if isinstance(actions, spaces.Discrete) and actions.start == 0:
        return env
    return env if isinstance(actions, spaces.Box) else NumberedActions(env)


class NumberedActions(gym.ActionWrapper, gym.utils.RecordConstructorArgs):
    """Numbers from 0 in place of the actions of a Discrete, MultiDiscrete or MultiBinary space."""

    def __init__(self, env: gym.Env):
        """Number the actions of `env`."""
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.ActionWrapper.__init__(self, env)
        self.action_space = spaces.Discrete(prod(counts_of(env.action_space)))

    def action(self, action: SupportsInt) -> Any:
        """Return the environment's own action for a number."""
        space: Any = self.env.action_space
        if isinstance(space, spaces.Discrete):
            return int(action) + int(space.start)
        parts = np.reshape(np.unravel_index(int(action), counts_of(space)), space.shape)
        return (parts + getattr(space, "start", 0)).astype(space.dtype)


def counts_of(space: spaces.Space) -> tuple[int, ...]:
    """Return the number of values of each part of an action; () if the space has no such parts."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(int(one) for one in space.nvec.ravel())
    return (2,) * prod(space.shape) if isinstance(space, spaces.MultiBinary) else ()
