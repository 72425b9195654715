"""Actions as the inputs of a network."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces


class ActionEncoding:
    """The inputs of an action: a one-hot vector, or the numbers of a Box scaled to [-1, 1]."""

    def __init__(self, space: spaces.Space):
        """Raise if the space is of another kind."""
        self._eye: np.ndarray | None = None
        if isinstance(space, spaces.Discrete):
            self._eye = np.eye(int(space.n), dtype=np.float32)
            self._start = int(space.start)
            self.size = int(space.n)
        elif isinstance(space, spaces.Box):
            low, high = space.low.ravel(), space.high.ravel()
            finite = np.isfinite(low) & np.isfinite(high)
            half = np.where(finite, (high - low) / 2, 1.0)
            self._centre = np.where(finite, (high + low) / 2, 0.0).astype(np.float32)
            self._half = np.where(half > 0, half, 1.0).astype(np.float32)
            self.size = low.size
        else:
            raise ValueError(
                f"a forward model takes Discrete and Box actions; got {space}: use "
                "AugmentObservation, which needs no model"
            )

    def __call__(self, action: int | np.integer | np.ndarray) -> np.ndarray:
        """Return the inputs of one action."""
        if self._eye is not None:
            encoded: np.ndarray = self._eye[int(action) - self._start]
            return encoded
        flat = np.asarray(action, np.float32).ravel()
        return (flat - self._centre) / self._half
