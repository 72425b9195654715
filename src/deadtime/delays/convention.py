"""The convention: what "delay" means, everywhere in this library.

With ``delay=m`` the action chosen at step t is executed at step t + m; m = 0 is the ordinary
setting. At reset m actions are already pending. At step t the agent sees s_t and the queue (a_{t-m}
… a_{t-1}), oldest first; the oldest is executed now and the newly chosen one joins the end:

    step             t           t+1         …   t+m
    chosen           a_t         a_{t+1}     …   a_{t+m}
    executed         a_{t-m}     a_{t-m+1}   …   a_t

Actions still pending when the episode ends are dropped.

:func:`push` is the rule itself, a pure function of arrays (JAX under ``jit``, ``vmap`` and
``scan``, or NumPy). :class:`PendingActions` is the same rule for a host loop and any Gymnasium
action.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from struct import pack, unpack_from
from typing import Any, NamedTuple, TypeVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy import frombuffer

from deadtime._support.machine import free_memory
from deadtime.delays.nested import from_leaves, leaf_spaces, map_leaves, space_leaves

ArrayT = TypeVar("ArrayT", bound=Any)
Warmup = Any
"""``"random"``, one action that fills the queue, or ``callable(observation, delay, rng)`` that
returns all m actions.
"""

_LONGEST = 2**31 - 1
_RESET_BYTES = (
    100  # measured: a reset's peak for each number in the queue, its random draws included
)
_SMALL_BYTES = 2**26  # no need to look up the free memory for less


def check_delay(delay: Any) -> int:
    """Return `delay` as an int, or raise if it is not one whole number of steps."""
    if isinstance(delay, bool) or not isinstance(delay, int | np.integer) or delay < 0:
        raise ValueError(
            f"delay is a whole number of steps, 0 or more; got {delay!r}: {_delay_remedy(delay)}"
        )
    if delay > _LONGEST:
        raise ValueError(
            f"delay is a whole number of steps, at most {_LONGEST}; got {delay!r}: pass a smaller "
            "one"
        )
    return int(delay)


def _delay_remedy(delay: Any) -> str:
    if delay is not None and not isinstance(delay, int | float | str | np.generic):
        return "pass one number, such as the longest delay"
    if isinstance(delay, float | np.floating) and math.isfinite(delay) and delay > 0:
        return f"pass a whole number, such as {math.ceil(delay)}"
    return "pass 0 for no delay"


def check_memory(what: str, delay: int, size: int) -> None:
    """Raise if `size` bytes, which `what` needs at this delay, are more than the free memory."""
    if size > _SMALL_BYTES and size > (free := free_memory()):
        raise ValueError(
            f"{what} must fit in memory; got a delay of {delay}, "
            f"which needs {size / 1e9:.1f} GB with {free / 1e9:.1f} GB free: pass a smaller delay"
        )


class FixedDelay:
    """Mixin that gives a wrapper the read-only property `delay`."""

    _delay: int

    @property
    def delay(self) -> int:
        """The delay in steps."""
        return self._delay

    @delay.setter
    def delay(self, delay: Any) -> None:
        name = type(self).__name__
        raise AttributeError(
            f"the delay of {name} is fixed when it is made; got {delay!r} after that: wrap the "
            "environment anew with that delay"
        )


def second_delay(first: int, second: Any) -> ValueError:
    """The error for a delay put on a delayed environment, whose two queues would hide one another."""
    return ValueError(
        f"one environment has one queue of pending actions; got a delay of {second!r} on top of "
        f"one of {first}: "
        f"use a single delay of their sum"
    )


def push(queue: ArrayT, action: Any, delay: Any = None) -> tuple[ArrayT, ArrayT]:
    """One step of the convention: ``executed, queue = push(queue, action)``; the queue's first axis
    is m, oldest first.

    A queue may have room for more than `delay` actions, which may then differ between runs of one
    compiled program: the last `delay` entries are pending.
    """
    xp = queue.__array_namespace__()
    action = xp.asarray(action)
    if not xp.isdtype(queue.dtype, "real floating") and xp.isdtype(action.dtype, "real floating"):
        raise ValueError(
            f"an action must be of the queue's type, {queue.dtype}; got {action.dtype}: pass a "
            "whole number"
        )
    slots = xp.concat([queue, xp.asarray(action, dtype=queue.dtype)[None]])
    return slots[0 if delay is None else queue.shape[0] - delay], slots[1:]


def check_action_space(space: spaces.Space) -> None:
    """Refuse a space whose actions can't be kept in a queue."""
    kinds = spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box
    if not all(isinstance(leaf, kinds) for leaf in leaf_spaces(space)):
        raise ValueError(
            "actions are delayed in Discrete, MultiDiscrete, MultiBinary, Box, Dict and Tuple "
            f"spaces; got {space}: "
            "wrap the environment so that its actions are of one of these"
        )


def checked_leaves(space: spaces.Space, action: Any) -> list[np.ndarray]:
    """The leaves of an action as arrays of the space's types, or an error if the space can't hold
    them as they are.

    A Box is held to its shape and type only: what lies outside its bounds is the environment's to
    clip or refuse.
    """
    try:
        leaves = [_held(part, leaf) for part, leaf in space_leaves(space, action)]
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        leaves = [None]
    if any(leaf is None for leaf in leaves):
        raise _outside(space, action)
    return [leaf for leaf in leaves if leaf is not None]


def _held(space: spaces.Space, leaf: Any) -> np.ndarray | None:
    given = np.asarray(leaf)
    if not isinstance(space, spaces.Box):
        return given.astype(space.dtype) if space.contains(given) else None
    held = given.astype(space.dtype)
    exact = not np.isnan(given).any() if held.dtype.kind == "f" else np.array_equal(held, given)
    return held if exact and given.shape == space.shape else None


def _outside(space: spaces.Space, action: Any) -> ValueError:
    return ValueError(
        f"an action must lie in the action space {space}; got {action!r}: "
        "under a delay it would fail only when its turn comes, so it is refused now"
    )


class _Leaf(NamedTuple):
    """One leaf of the action space, as a queue keeps it: the bytes of m + 1 actions."""

    dtype: np.dtype
    shape: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, space: spaces.Space, delay: int) -> _Leaf:
        """Return the layout of a leaf; `shape` is of all m + 1 actions, `size` the bytes of one."""
        dtype, shape = np.dtype(space.dtype), space.shape or ()
        return cls(dtype, (delay + 1, *shape), dtype.itemsize * math.prod(shape))

    def array(self, slots: bytes) -> np.ndarray:
        """Return the actions in `slots` as a read-only array."""
        return frombuffer(slots, self.dtype).reshape(self.shape)


class PendingActions:
    """The queue for a host loop: the bytes of the action executed last and of the m pending ones.

    Each step makes new bytes. So the arrays that an earlier step returned are read-only, stay as
    they were, and share no memory with later ones. A step copies m actions, which shows from a
    delay of a few hundred on.
    """

    def __init__(self, space: spaces.Space, delay: int):
        """`space` holds one action; for a vector environment, one batch of actions."""
        self.space, self.delay = space, check_delay(delay)
        self._leaves = [_Leaf.of(leaf, self.delay) for leaf in leaf_spaces(space)]
        numbers = sum(math.prod(leaf.shape) for leaf in self._leaves)
        check_memory("a queue of pending actions", self.delay, _RESET_BYTES * numbers)
        self._slots = [bytes(leaf.size * (self.delay + 1)) for leaf in self._leaves]
        self._nested = isinstance(space, spaces.Dict | spaces.Tuple)
        self._discrete = isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.Discrete):
            self._low, self._high = int(space.start), int(space.start) + int(space.n)
            dtype = self._leaves[0].dtype
            self._number = dtype.char, dtype.itemsize, dtype

    def fill(self, actions: Any) -> None:
        """Start an episode with these m pending actions, oldest first (stacked, as an element of
        the batched space).
        """
        stacked = [np.asarray(part) for _, part in space_leaves(self.space, actions)]
        self._slots = [
            bytes(leaf.size)
            + part.astype(leaf.dtype).reshape(self.delay, *leaf.shape[1:]).tobytes()
            for leaf, part in zip(self._leaves, stacked, strict=True)
        ]

    @property
    def actions(self) -> Any:
        """The m pending actions, oldest first: each leaf is a read-only array of shape (m, …)."""
        return self._joined(
            [leaf.array(slots)[1:] for leaf, slots in zip(self._leaves, self._slots, strict=True)]
        )

    def push(self, action: Any) -> tuple[Any, Any]:
        """Add the newly chosen action; return the one to execute now, and the actions that are
        pending after it.
        """
        if not self._discrete:
            return self._push_any(action)
        try:
            chosen = index(action)
        except TypeError:
            raise _outside(self.space, action) from None
        if not self._low <= chosen < self._high:
            raise _outside(self.space, action)
        code, size, dtype = self._number
        slots = self._slots[0][size:] + pack(code, chosen)
        self._slots = [slots]
        return unpack_from(code, slots)[0], frombuffer(slots, dtype, -1, size)

    def _push_any(self, action: Any) -> tuple[Any, Any]:
        chosen = checked_leaves(self.space, action)
        self._slots = [
            b"".join((memoryview(slots)[leaf.size :], part.tobytes()))
            for leaf, slots, part in zip(self._leaves, self._slots, chosen, strict=True)
        ]
        arrays = [leaf.array(slots) for leaf, slots in zip(self._leaves, self._slots, strict=True)]
        return self._joined([array[0].copy() for array in arrays]), self._joined(
            [array[1:] for array in arrays]
        )

    def _joined(self, leaves: list[Any]) -> Any:
        return from_leaves(self.space, iter(leaves)) if self._nested else leaves[0]


class WarmUp:
    """Draws the m actions that are pending at reset."""

    def __init__(self, warmup: Warmup, space: spaces.Space, delay: int):
        """`space` is that of one action of one environment."""
        self.delay, self._space, self._warmup = check_delay(delay), space, warmup
        check_action_space(space)
        self.queue_space = batch_space(space, self.delay)
        self.queue_space.seed(
            None
        )  # batch_space copies the generator of `space`, and with it the actions it will sample
        if isinstance(warmup, str) and warmup != "random":
            raise ValueError(
                f'warmup is "random", an action, or a callable; got {warmup!r}: did you mean '
                '"random"?'
            )
        if not callable(warmup) and not isinstance(warmup, str):
            _check_inside(space, warmup, "the warm-up action")

    def seed(self, seed: int) -> None:
        """Make the draws that follow a function of `seed`, apart from the environment's own random
        numbers.
        """
        self.queue_space.seed(
            int(np.random.SeedSequence([seed, self.delay, 0xDEAD]).generate_state(1)[0])
        )

    @property
    def needs_observation(self) -> bool:
        """Whether the queue depends on what the agent sees at reset."""
        return callable(self._warmup)

    def draw(self, observation: Any) -> Any:
        """The m actions, stacked, oldest first."""
        if isinstance(self._warmup, str):
            return self.queue_space.sample()
        actions = [self._warmup] * self.delay
        if callable(self._warmup):
            given = self._warmup(observation, self.delay, self.queue_space.np_random)
            actions = list(given) if isinstance(given, Iterable) else []
            if len(actions) != self.delay or not isinstance(given, Iterable):
                raise ValueError(
                    f"a warm-up callable returns as many actions as the delay, {self.delay}; got "
                    f"{given!r}: "
                    "return one action for each pending step, oldest first"
                )
            for action in actions:
                _check_inside(self._space, action, "each action that a warm-up callable returns")
        if not actions:
            return self.queue_space.sample()
        return map_leaves(
            lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), self._space, *actions
        )


def _check_inside(space: spaces.Space, action: Any, what: str) -> None:
    try:
        leaves = checked_leaves(space, action)
        inside = all(
            part.contains(leaf) for part, leaf in zip(leaf_spaces(space), leaves, strict=True)
        )
    except ValueError:
        inside = False
    if not inside:
        raise ValueError(
            f"{what} must lie in the action space {space}; got {action!r}: "
            "choose one inside it (to give all pending actions, pass a callable that returns them)"
        )
