"""The spaces of Gymnasium environments in which agents can be trained."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from deadtime.envs.gym_adapted import MOST_COMBINATIONS, counts_of
from deadtime.envs.gym_frames import MOST_FLATTENED, check_image, is_image

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
    counts = counts_of(actions)
    if counts:
        if prod(counts) > MOST_COMBINATIONS:
            raise ValueError(
                f"an action is one of at most {MOST_COMBINATIONS:,} combinations; {name} has "
                f"{actions}, which makes {prod(counts):,}: {_WRAP}.TransformAction"
            )
        return
    if not isinstance(actions, spaces.Box) or np.dtype(actions.dtype).kind != "f":
        raise ValueError(
            "agents choose numbered actions (Discrete, MultiDiscrete, MultiBinary) or real vectors "
            f"(Box of floats); {name} has {actions}: wrap the environment so that its actions are "
            "one of these"
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
            f"an action's lower bound is below its upper bound; {name} has {actions}: leave out "
            "the numbers that can't vary"
        )


def _check_observations(name: str, seen: spaces.Space) -> None:
    if is_image(seen):
        check_image(name, seen)  # type: ignore[arg-type]
        return
    flat = spaces.utils.flatten_space(seen)
    if not isinstance(flat, spaces.Box):
        raise ValueError(
            f"agents take observations that flatten to one vector; {name} has {seen}: "
            f"{_WRAP}.TransformObservation"
        )
    if isinstance(seen, spaces.Box) and len(seen.shape) == 1:
        return
    if prod(flat.shape) > MOST_FLATTENED:
        raise ValueError(
            f"an observation is flattened to at most {MOST_FLATTENED:,} numbers, and an image is "
            f"the whole observation; {name} has {seen}: {_WRAP}.TransformObservation so that it "
            "gives numbers, or the image alone"
        )
