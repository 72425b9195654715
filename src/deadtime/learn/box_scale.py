"""The scale of actions within a box: networks see and choose numbers from -1 to 1."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Array, Float


class BoxScale:
    """The map between actions in the environment's units and flat vectors from -1 to 1."""

    def __init__(self, box: Box):
        """Take a box; raise if a bound is infinite, or not below the other one."""
        bounds = np.array([box.low, box.high], np.float32)
        if not (np.isfinite(bounds).all() and (bounds[0] < bounds[1]).all()):
            raise ValueError(
                f"actions are scaled by finite bounds, low below high; got {box}: wrap the "
                "environment in gymnasium.wrappers.RescaleAction, or give its space bounds"
            )
        low, high = (np.asarray(side, np.float64).ravel() for side in (box.low, box.high))
        self.shape: tuple[int, ...] = tuple(box.shape)
        self.size = math.prod(self.shape)
        self.low = np.float32(low)
        self.high = np.float32(high)
        self.centre = np.float32((high + low) / 2)
        self.reach = np.float32((high - low) / 2)

    def inward(self, action: Array) -> Float[Array, "... n"]:
        """Return actions as flat vectors from -1 to 1."""
        lead = action.shape[: action.ndim - len(self.shape)]
        return (action.reshape(*lead, self.size) - self.centre) / self.reach

    def outward(self, vector: Float[Array, " n"]) -> Array:
        """Return the action of a flat vector from -1 to 1, in the environment's units."""
        action = jnp.clip(self.centre + self.reach * vector, self.low, self.high)
        return action.reshape(self.shape)

    def unscaled(
        self, weight: np.ndarray, bias: np.ndarray, first: int, pending: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a first layer for actions in the environment's units.

        The columns from `first` on are those of flat actions; the last `pending` of them are used.
        Leading axes are those of an ensemble.
        """
        count = (weight.shape[-1] - first) // self.size
        part = weight[..., first:] / np.tile(self.reach, count)
        used = part[..., part.shape[-1] - pending * self.size :]
        shift = used @ np.tile(self.centre, pending)
        return np.concatenate([weight[..., :first], part], axis=-1), bias - shift
