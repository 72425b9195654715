"""The queue of pending actions for a host loop and any Gymnasium action."""

from __future__ import annotations

import math
from math import isnan
from operator import index
from struct import pack, unpack_from
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy import frombuffer

from deadtime.delays.convention import check_delay, check_memory
from deadtime.delays.nested import from_leaves, leaf_spaces, space_leaves

_RESET_BYTES = 100
"""The peak bytes of a reset for each number in the queue, random draws included (measured)."""


def check_action_space(space: spaces.Space) -> None:
    """Raise if a queue can't hold the actions of a space."""
    kinds = spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box
    if not all(isinstance(leaf, kinds) for leaf in leaf_spaces(space)):
        raise ValueError(
            "actions are delayed in Discrete, MultiDiscrete, MultiBinary, Box, Dict and Tuple "
            f"spaces; got {space}: "
            "wrap the environment so that its actions are of one of these"
        )


def checked_leaves(space: spaces.Space, action: object) -> list[np.ndarray]:
    """Return the leaves of an action as arrays of the space's types; raise if the space can't hold
    them.

    For a Box, only shape and type are checked: the environment may clip or refuse values outside
    the bounds.
    """
    try:
        leaves = [_held(part, leaf) for part, leaf in space_leaves(space, action)]
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        leaves = [None]
    if any(leaf is None for leaf in leaves):
        raise _outside(space, action)
    return [leaf for leaf in leaves if leaf is not None]


def _held(space: spaces.Space, leaf: object) -> np.ndarray | None:
    given = np.asarray(leaf)
    if not isinstance(space, spaces.Box):
        return given.astype(space.dtype) if space.contains(given) else None
    held = given.astype(space.dtype)
    exact = not np.isnan(given).any() if held.dtype.kind == "f" else np.array_equal(held, given)
    return held if exact and given.shape == space.shape else None


def _outside(space: spaces.Space, action: object) -> ValueError:
    return ValueError(
        f"an action must lie in the action space {space}; got {action!r}: "
        "pass one inside it (checked now, since it is executed only later)"
    )


class _Leaf(NamedTuple):
    """One leaf of the action space, as a queue keeps it: the bytes of K + 1 actions."""

    dtype: np.dtype
    shape: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, space: spaces.Space, delay: int) -> _Leaf:
        """Return the layout of a leaf; `shape` includes all K + 1 actions, `size` is the bytes of
        one.
        """
        dtype, shape = np.dtype(space.dtype), space.shape or ()
        return cls(dtype, (delay + 1, *shape), dtype.itemsize * math.prod(shape))

    def array(self, slots: bytes) -> np.ndarray:
        """Return the actions in `slots` as a read-only array."""
        return frombuffer(slots, self.dtype).reshape(self.shape)


class PendingActions:
    """The queue for a host loop: the bytes of the last K + 1 actions, K being the longest age.

    Each step makes new bytes. So the arrays that an earlier step returned are read-only, stay as
    they were, and share no memory with later ones. A step copies K actions, so it slows down from a
    few hundred pending actions on.
    """

    def __init__(self, space: spaces.Space, delay: int):
        """Allocate a queue for actions of `space`, or for the batches of a batched space."""
        self.space, self.delay = space, check_delay(delay)
        self._leaves = [_Leaf.of(leaf, self.delay) for leaf in leaf_spaces(space)]
        numbers = sum(math.prod(leaf.shape) for leaf in self._leaves)
        check_memory("a queue of pending actions", self.delay, _RESET_BYTES * numbers)
        self._slots = [bytes(leaf.size * (self.delay + 1)) for leaf in self._leaves]
        self._nested = isinstance(space, spaces.Dict | spaces.Tuple)
        self._discrete = isinstance(space, spaces.Discrete)
        self._box = isinstance(space, spaces.Box) and self._leaves[0].dtype.kind == "f"
        if self._box:
            leaf = self._leaves[0]
            count = leaf.size // leaf.dtype.itemsize
            self._layout = leaf.dtype, leaf.shape[1:], (self.delay, *leaf.shape[1:]), count
        if isinstance(space, spaces.Discrete):
            self._low, self._high = int(space.start), int(space.start) + int(space.n)
            dtype = self._leaves[0].dtype
            self._number = dtype.char, dtype.itemsize, dtype

    def fill(self, actions: object) -> None:
        """Start an episode with these K pending actions, oldest first.

        They are stacked, as an element of the batched space.
        """
        stacked = [np.asarray(part) for _, part in space_leaves(self.space, actions)]
        self._slots = [
            bytes(leaf.size)
            + part.astype(leaf.dtype).reshape(self.delay, *leaf.shape[1:]).tobytes()
            for leaf, part in zip(self._leaves, stacked, strict=True)
        ]

    @property
    def actions(self) -> Any:
        """The K pending actions, oldest first: each leaf is a read-only array of shape (K, …)."""
        return self._joined(
            [leaf.array(slots)[1:] for leaf, slots in zip(self._leaves, self._slots, strict=True)]
        )

    def push(self, action: Any, age: Any = None) -> tuple[Any, Any]:
        """Add the newly chosen action; return the one to execute now and the pending ones after it.

        The executed action is the one of `age`, 0 … K; without it, the oldest. For a batch of
        environments `age` is an array with the age of each.
        """
        if not self._discrete:
            if self._box and not isinstance(age, np.ndarray):
                return self._push_box(action, age)
            return self._push_any(action, age)
        try:
            chosen = index(action)
        except TypeError:
            raise _outside(self.space, action) from None
        if not self._low <= chosen < self._high:
            raise _outside(self.space, action)
        code, size, dtype = self._number
        slots = self._slots[0][size:] + pack(code, chosen)
        self._slots = [slots]
        place = 0 if age is None else (self.delay - age) * size
        return unpack_from(code, slots, place)[0], frombuffer(slots, dtype, -1, size)

    def _push_box(self, action: object, age: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Do what `push` does for a Box of floats, in a fifth of the time."""
        dtype, shape, all_pending, count = self._layout
        chosen = action
        if not isinstance(chosen, np.ndarray) or chosen.dtype != dtype or chosen.shape != shape:
            (chosen,) = checked_leaves(self.space, action)
        numbers = chosen.ravel()
        if isnan(numbers.dot(numbers)):
            raise _outside(self.space, action)
        size = self._leaves[0].size
        slots = self._slots[0][size:] + chosen.tobytes()
        self._slots = [slots]
        place = 0 if age is None else (self.delay - age) * size
        executed = frombuffer(slots, dtype, count, place).reshape(shape).copy()
        return executed, frombuffer(slots, dtype, -1, size).reshape(all_pending)

    def _push_any(self, action: object, age: int | np.ndarray | None) -> tuple[Any, Any]:
        chosen = checked_leaves(self.space, action)
        self._slots = [
            b"".join((memoryview(slots)[leaf.size :], part.tobytes()))
            for leaf, slots, part in zip(self._leaves, self._slots, chosen, strict=True)
        ]
        arrays = [leaf.array(slots) for leaf, slots in zip(self._leaves, self._slots, strict=True)]
        place: Any = 0 if age is None else self.delay - age
        if np.ndim(place):
            place = place, np.arange(len(place))
        executed = [array[place].copy() for array in arrays]
        return self._joined(executed), self._joined([array[1:] for array in arrays])

    def _joined(self, leaves: list[Any]) -> Any:
        return from_leaves(self.space, iter(leaves)) if self._nested else leaves[0]
