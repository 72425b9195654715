"""The spaces of Gymnasium environments in which agents can be trained."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

_MOST_FLATTENED = 1000
"""The largest observation that is worth flattening; a larger one counts as an image."""
_WRAP = "wrap the environment in gymnasium.wrappers"


class Bounds(NamedTuple):
    """The shape of an action that is an array of real numbers, and its least and largest values."""

    shape: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, box: spaces.Box) -> Bounds:
        """Return the bounds of a Box, in single precision."""
        low, high = (bound.astype(np.float32).ravel().tolist() for bound in (box.low, box.high))
        return cls(tuple(map(int, box.shape)), tuple(low), tuple(high))

    @property
    def space(self) -> spaces.Box:
        """The Box with these bounds, in single precision."""
        low, high = (np.array(bound, np.float32) for bound in (self.low, self.high))
        return spaces.Box(low.reshape(self.shape), high.reshape(self.shape))


def check_spaces(name: str, env: gym.Env) -> None:
    """Raise if no agent can be trained in an environment with these spaces."""
    _check_actions(name, env.action_space)
    _check_observations(name, env.observation_space)


def _check_actions(name: str, actions: spaces.Space) -> None:
    if isinstance(actions, spaces.Discrete):
        if actions.start != 0:
            raise ValueError(
                f"actions are numbered from 0; {name} has {actions}: {_WRAP}.TransformAction"
            )
        return
    if not isinstance(actions, spaces.Box) or np.dtype(actions.dtype).kind != "f":
        raise ValueError(
            "agents choose numbered actions (Discrete) or real vectors (Box of floats); "
            f"{name} has {actions}: wrap the environment so that its actions are one of these"
        )
    if not actions.shape or 0 in actions.shape:
        raise ValueError(
            f"an action has one number or more on at least one axis; {name} has {actions}: "
            f"{_WRAP}.TransformAction"
        )
    low, high = actions.low.astype(np.float32), actions.high.astype(np.float32)
    if not np.isfinite([low, high]).all():
        raise ValueError(
            f"real actions have finite bounds; {name} has {actions}: {_WRAP}.RescaleAction or "
            "ClipAction, or pass settings with bounds"
        )
    if not (low < high).all():
        raise ValueError(
            f"one bound of an action is below the other; {name} has {actions}: leave out the "
            "numbers that can't vary"
        )


def _check_observations(name: str, seen: spaces.Space) -> None:
    if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
        given = f"agents take observations of one axis (Box); {name} has {seen}"
        if isinstance(seen, spaces.Box) and np.prod(seen.shape) > _MOST_FLATTENED:
            raise ValueError(
                f"{given}, and images are supported only as Atari frames: choose an environment "
                "that gives numbers, or atari:NAME"
            )
        raise ValueError(f"{given}: wrap it, for example in gymnasium.wrappers.FlattenObservation")
