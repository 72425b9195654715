"""The convention: what "delay" means, everywhere in this library.

With ``delay=m`` the action chosen at step t is executed at step t + m; m = 0 is the ordinary setting. At reset m actions
are already pending. At step t the agent sees s_t and the queue (a_{t-m} … a_{t-1}), oldest first; the oldest is executed
now and the newly chosen one joins the end:

    step             t           t+1         …   t+m
    chosen           a_t         a_{t+1}     …   a_{t+m}
    executed         a_{t-m}     a_{t-m+1}   …   a_t

Actions still pending when the episode ends are dropped.

:func:`push` is the rule itself, a pure function of arrays (JAX under ``jit``, ``vmap`` and ``scan``, or NumPy).
:class:`PendingActions` is the same rule for a host loop, at a cost that does not grow with m, for any Gymnasium action.
A delay that varies from step to step would change these two and nothing else: the queue's length is the longest delay,
and which entry leaves it is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from deadtime.nested import from_leaves, leaf_spaces, map_leaves, space_leaves

ArrayT = TypeVar("ArrayT", bound=Any)
Warmup = Any
"""``"random"``, one action that fills the queue, or ``callable(observation, delay, rng)`` that returns all m actions."""

_LOG_ITEMS = 4096


def check_delay(delay: Any) -> int:
    """Return `delay` as an int, or say what is wrong with it."""
    if isinstance(delay, bool) or not isinstance(delay, int | np.integer) or delay < 0:
        raise ValueError(f"delay is a whole number of steps, 0 or more; got {delay!r}: pass 0 for no delay")
    return int(delay)


def second_delay(first: int, second: Any) -> ValueError:
    """The error for a delay put on a delayed environment, whose two queues would hide one another."""
    return ValueError(
        f"one environment has one queue of pending actions; got a delay of {second!r} on top of one of {first}: "
        f"use a single delay of their sum"
    )


def push(queue: ArrayT, action: Any, delay: Any = None) -> tuple[ArrayT, ArrayT]:
    """One step of the convention: ``executed, queue = push(queue, action)``; the queue's first axis is m, oldest first.

    A queue may have room for more than `delay` actions, which may then differ between runs of one compiled program: the
    last `delay` entries are pending.
    """
    xp = queue.__array_namespace__()
    action = xp.asarray(action)
    if not xp.isdtype(queue.dtype, "real floating") and xp.isdtype(action.dtype, "real floating"):
        raise ValueError(f"an action must be of the queue's type, {queue.dtype}; got {action.dtype}: pass a whole number")
    slots = xp.concat([queue, xp.asarray(action, dtype=queue.dtype)[None]])
    return slots[0 if delay is None else queue.shape[0] - delay], slots[1:]


def check_action_space(space: spaces.Space) -> None:
    """Refuse a space whose actions can't be kept in a queue."""
    kinds = spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box
    if not all(isinstance(leaf, kinds) for leaf in leaf_spaces(space)):
        raise ValueError(
            f"actions are delayed in Discrete, MultiDiscrete, MultiBinary, Box, Dict and Tuple spaces; got {space}: "
            "wrap the environment so that its actions are of one of these"
        )


def checked_leaves(space: spaces.Space, action: Any) -> list[np.ndarray]:
    """The leaves of an action as arrays of the space's types, or an error if the space can't hold them as they are.

    A Box is held to its shape and type only: what lies outside its bounds is the environment's to clip or refuse.
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
        return given if space.contains(given) else None
    held = given.astype(space.dtype)
    exact = np.isnan(given).sum() == 0 if held.dtype.kind == "f" else np.array_equal(held, given)
    return held if exact and given.shape == space.shape else None


def _outside(space: spaces.Space, action: Any) -> ValueError:
    return ValueError(
        f"an action must lie in the action space {space}; got {action!r}: "
        "under a delay it would fail only when its turn comes, so it is refused now"
    )


class PendingActions:
    """The queue for a host loop: a NumPy log that every action is written to once, and a window of m that slides over it.

    What `actions` returns is a read-only view of that log, and stays as it was when later actions arrive.
    """

    def __init__(self, space: spaces.Space, delay: int):
        """`space` is that of one action (for a vector environment, of one batch of actions)."""
        self.space, self.delay = space, check_delay(delay)
        self._discrete = isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.Discrete):
            self._low, self._high = int(space.start), int(space.start) + int(space.n)
        self._new_log([np.zeros((self.delay, *(leaf.shape or ())), leaf.dtype) for leaf in leaf_spaces(space)])

    def _new_log(self, pending: list[np.ndarray]) -> None:
        largest = max((math.prod(part.shape[1:]) for part in pending), default=1)
        self._first, self._room = 0, self.delay + max(self.delay, _LOG_ITEMS // max(largest, 1), 16)
        self._logs = [np.empty((self._room, *part.shape[1:]), part.dtype) for part in pending]
        self._read_only = [log.view() for log in self._logs]
        for log, view, part in zip(self._logs, self._read_only, pending, strict=True):
            log[: self.delay] = part
            view.setflags(write=False)

    def __getstate__(self) -> dict[str, Any]:
        """A copy needs the pending actions, not the log."""
        return {"space": self.space, "delay": self.delay, "actions": self.actions}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start a new log with the actions that were pending."""
        PendingActions.__init__(self, state["space"], state["delay"])
        self.fill(state["actions"])

    def fill(self, actions: Any) -> None:
        """Start an episode with these m pending actions, oldest first (stacked, as an element of the batched space)."""
        pending = [np.asarray(leaf) for _, leaf in space_leaves(self.space, actions)]
        self._new_log([part.astype(log.dtype) for part, log in zip(pending, self._logs, strict=True)])

    @property
    def actions(self) -> Any:
        """The m pending actions, oldest first: each leaf has shape (m, …)."""
        window = slice(self._first, self._first + self.delay)
        return from_leaves(self.space, iter([log[window] for log in self._read_only]))

    def push(self, action: Any) -> tuple[Any, Any]:
        """Add the newly chosen action; return the one to execute now, and the actions that are pending after it."""
        if not self._discrete:
            return self._push_any(action)
        try:
            chosen = index(action)
        except TypeError:
            raise _outside(self.space, action) from None
        if not self._low <= chosen < self._high:
            raise _outside(self.space, action)
        first = self._advance()
        last = first + self.delay
        log = self._logs[0]
        log[last] = chosen
        return log.item(first), self._read_only[0][first + 1 : last + 1]

    def _push_any(self, action: Any) -> tuple[Any, Any]:
        leaves = checked_leaves(self.space, action)
        first = self._advance()
        for log, leaf in zip(self._logs, leaves, strict=True):
            log[first + self.delay] = leaf
        return from_leaves(self.space, iter([log[first].copy() for log in self._logs])), self.actions

    def _advance(self) -> int:
        if self._first + self.delay == self._room:
            self._new_log([log[self._first :] for log in self._logs])
        self._first += 1
        return self._first - 1


class WarmUp:
    """Draws the m actions that are pending at reset."""

    def __init__(self, warmup: Warmup, space: spaces.Space, delay: int):
        """`space` is that of one action of one environment."""
        self.delay, self._space, self._warmup = check_delay(delay), space, warmup
        check_action_space(space)
        self.queue_space = batch_space(space, self.delay)
        self.queue_space.seed(None)  # batch_space copies the generator of `space`, and with it the actions it will sample
        if isinstance(warmup, str) and warmup != "random":
            raise ValueError(f'warmup is "random", an action, or a callable; got {warmup!r}: did you mean "random"?')
        if not callable(warmup) and not isinstance(warmup, str):
            _check_inside(space, warmup, "the warm-up action")

    def seed(self, seed: int) -> None:
        """Make the draws that follow a function of `seed`, apart from the environment's own random numbers."""
        self.queue_space.seed(int(np.random.SeedSequence([seed, self.delay, 0xDEAD]).generate_state(1)[0]))

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
                    f"a warm-up callable returns as many actions as the delay, {self.delay}; got {given!r}: "
                    "return one action for each pending step, oldest first"
                )
            for action in actions:
                _check_inside(self._space, action, "each action that a warm-up callable returns")
        if not actions:
            return self.queue_space.sample()
        return map_leaves(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), self._space, *actions)


def _check_inside(space: spaces.Space, action: Any, what: str) -> None:
    try:
        leaves = checked_leaves(space, action)
        inside = all(part.contains(leaf) for part, leaf in zip(leaf_spaces(space), leaves, strict=True))
    except ValueError:
        inside = False
    if not inside:
        raise ValueError(
            f"{what} must lie in the action space {space}; got {action!r}: "
            "choose one inside it (to give all pending actions, pass a callable that returns them)"
        )
