"""(observation, queue) as one observation: the paper's augmented state, as a Dict or as one vector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from deadtime.delays.nested import leaf_spaces, map_leaves, space_leaves


def beneath(env: Any, kind: type) -> Iterator[Any]:
    """Yield the wrappers of type `kind` in `env`, outermost first."""
    while isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
        if isinstance(env, kind):
            yield env
        env = env.env


def check_present(action_delay: int, observation_delay: int, prefix: str = "") -> None:
    """Raise if observations are delayed: the queue then lacks actions that the observation does not show either."""
    if observation_delay:
        raise ValueError(
            f"{prefix}AugmentObservation shows the queue of {prefix}ActionDelay, which is enough only for observations "
            f"without delay; got an action delay of {action_delay} and an observation delay of {observation_delay}: "
            f"use {prefix}ActionDelay(env, {action_delay + observation_delay}) without {prefix}ObservationDelay, "
            "which is equivalent"
        )


class Augmentation:
    """The space of (observation, queue) and the function into it; `batch` leading axes for vector environments."""

    def __init__(
        self,
        observation_space: spaces.Space,
        pending_spec: tuple[spaces.Space, int] | None,
        flat: bool,
    ):
        """`pending_spec` is what an action-delay wrapper says of its queue: the space of one action, and the delay."""
        if pending_spec is None:
            raise ValueError(
                "AugmentObservation shows the pending actions of an ActionDelay; there is none beneath it: "
                "write AugmentObservation(ActionDelay(env, delay)) (VectorActionDelay for a vector environment)"
            )
        self._observation_space, self._flat = observation_space, flat
        self._action_space, self.delay = pending_spec
        queue_space = batch_space(self._action_space, self.delay)
        self.space: spaces.Space = spaces.Dict(
            {"observation": observation_space, "pending_actions": queue_space}
        )
        if flat:
            self.space = self._flat_space()

    def _flat_space(self) -> spaces.Box:
        bounds = [_bounds(leaf) for leaf in leaf_spaces(self._observation_space)]
        bounds += [_bounds(leaf) for leaf in leaf_spaces(self._action_space)] * self.delay
        low, high = (np.concatenate(side) for side in zip(*bounds, strict=True))
        wide = any(leaf.dtype == np.float64 for leaf in leaf_spaces(self._observation_space))
        dtype = np.float64 if wide else np.float32
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype)

    def join(self, observation: Any, queue: Any, batch: tuple[int, ...] = ()) -> Any:
        """Join an observation (with leading axes `batch`) and its queue (axes `batch`, then m)."""
        if not self._flat:
            return {
                "observation": observation,
                "pending_actions": map_leaves(np.copy, self._action_space, queue),
            }
        seen = [
            _encode(leaf, part, batch)
            for leaf, part in space_leaves(self._observation_space, observation)
        ]
        lead = (*batch, self.delay)
        pending = [
            _encode(leaf, part, lead) for leaf, part in space_leaves(self._action_space, queue)
        ]
        seen.append(np.concatenate(pending, axis=-1).reshape(*batch, -1))
        return np.concatenate(seen, axis=-1).astype(self.space.dtype)


def _bounds(leaf: spaces.Space) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(leaf, spaces.Box):
        return leaf.low.ravel().astype(np.float64), leaf.high.ravel().astype(np.float64)
    if isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete):
        size = int(np.sum(_categories(leaf)[0]))
    elif isinstance(leaf, spaces.MultiBinary):
        size = int(np.prod(leaf.shape))
    else:
        raise ValueError(
            f"a flat observation holds Discrete, MultiDiscrete, MultiBinary and Box; got {leaf}: pass flat=False"
        )
    return np.zeros(size), np.ones(size)


def _categories(leaf: spaces.Discrete | spaces.MultiDiscrete) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(leaf, spaces.Discrete):
        return np.array([leaf.n]), np.array([leaf.start])
    return leaf.nvec.ravel(), leaf.start.ravel()


def _encode(leaf: spaces.Space, value: Any, lead: tuple[int, ...]) -> np.ndarray:
    """One vector for each of the leading axes: numbers as they are, categories as one-hot."""
    columns = (
        np.asarray(value).reshape(*lead, -1)
        if 0 not in lead
        else np.zeros((*lead, int(np.prod(leaf.shape or ()))))
    )
    if not isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete):
        return columns
    sizes, starts = _categories(leaf)
    hot = [
        np.eye(n)[columns[..., j].astype(int) - start]
        for j, (n, start) in enumerate(zip(sizes, starts, strict=True))
    ]
    return np.concatenate(hot, axis=-1)
