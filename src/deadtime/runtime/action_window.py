"""The last actions of a control loop, in one array that never moves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

_LENGTHS = 8
"""The size of the array in lengths of the window."""


class ActionWindow:
    """The last `length` actions, oldest first.

    Actions are written one after the other into an array that is several times as long. At the end
    of the array, the last actions are copied to its start. So no step allocates or shifts an array.
    """

    def __init__(self, length: int, shape: tuple[int, ...], dtype: DTypeLike):
        """Allocate the array."""
        self.length = length
        self._slots = np.zeros((_LENGTHS * (length + 1), *shape), dtype)
        self._read_only = self._slots.view()
        self._read_only.flags.writeable = False
        self._end = length

    def fill(self, actions: ArrayLike) -> None:
        """Start with these actions: one that fills the window, or an array of its length."""
        self._slots[: self.length] = actions
        self._end = self.length

    def push(self, action: ArrayLike) -> None:
        """Add the newest action, and forget the oldest."""
        if self._end == len(self._slots):
            self._slots[: self.length] = self._slots[self._end - self.length :]
            self._end = self.length
        self._slots[self._end] = action
        self._end += 1

    def last(self, count: int) -> np.ndarray:
        """Return a read-only view of the last `count` actions, oldest first.

        It stays as it is for at least `6 * length` further steps.
        """
        return self._read_only[self._end - count : self._end]

    def newest(self) -> Any:
        """Return the newest action: a number, or a read-only view that `last` describes."""
        return self._read_only[self._end - 1]
