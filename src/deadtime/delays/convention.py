"""The convention: what "delay" means, everywhere in this library.

With ``delay=m`` the action chosen at step t is executed at step t + m; m = 0 is the ordinary
setting. At reset m actions are already pending. At step t the agent sees s_t and the queue
(a_{t-m} … a_{t-1}), oldest first; the oldest is executed now and the newly chosen one joins the
end:

    step             t           t+1         …   t+m
    chosen           a_t         a_{t+1}     …   a_{t+m}
    executed         a_{t-m}     a_{t-m+1}   …   a_t

In general step t executes the action of age z_t, a_{t-z_t}. The queue keeps the last K actions, K
being the longest age. Reading an action does not remove it. A constant delay is z_t = m = K.

Actions still pending when the episode ends are dropped.

:func:`push` is the rule itself, a pure function of arrays (JAX under ``jit``, ``vmap`` and
``scan``, or NumPy). :class:`deadtime.delays.PendingActions` is the same rule for a host loop and
any Gymnasium action. `deadtime.delays.process` describes where the ages come from.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from deadtime._support.machine import free_memory

ArrayT = TypeVar("ArrayT", bound=Any)
Warmup = Any
"""``"random"``, one action that fills the queue, or ``callable(observation, delay, rng)``.

The callable returns all pending actions, oldest first; `delay` is how many, the longest age.
"""

LONGEST = 2**31 - 1
"""The longest delay that counts of steps can hold."""

_SMALL_BYTES = 2**26  # no need to look up the free memory for less


def check_delay(delay: object) -> int:
    """Return `delay` as an int, or raise if it is not one whole number of steps."""
    if isinstance(delay, bool) or not isinstance(delay, int | np.integer) or delay < 0:
        raise ValueError(
            f"delay is a whole number of steps, 0 or more; got {delay!r}: {_delay_remedy(delay)}"
        )
    if delay > LONGEST:
        raise ValueError(
            f"delay is a whole number of steps, at most {LONGEST}; got {delay!r}: pass a smaller "
            "one"
        )
    return int(delay)


def _delay_remedy(delay: object) -> str:
    if delay is not None and not isinstance(delay, int | float | str | np.generic):
        return "pass one number, such as the longest delay"
    if isinstance(delay, float | np.floating) and math.isfinite(delay) and delay > 0:
        seconds = f"; for seconds, deadtime.delays.Seconds({delay:g}, step)" if delay < 1 else ""
        return f"pass a whole number, such as {math.ceil(delay)}{seconds}"
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
        """The delay in steps; of a random delay, the longest age."""
        return self._delay

    @delay.setter
    def delay(self, delay: object) -> None:
        name = type(self).__name__
        raise AttributeError(
            f"the delay of {name} is fixed when it is made; got {delay!r} after that: wrap the "
            "environment anew with that delay"
        )


def second_delay(first: int, second: object) -> ValueError:
    """Return the error for a delay around another: the outer queue hides the inner one."""
    return ValueError(
        f"one environment has one queue of pending actions; got a delay of {second!r} on top of "
        f"one of {first}: use a single delay of their sum"
    )


def push(queue: ArrayT, action: ArrayLike, age: ArrayLike | None = None) -> tuple[ArrayT, ArrayT]:
    """Make one step of the convention: ``executed, queue = push(queue, action, age)``.

    The queue holds the last K actions along its first axis, oldest first. The executed action is
    the one of `age`, 0 … K: age 0 is `action` itself, age K the oldest. Without `age` it is the
    oldest, as for a constant delay of K. The age may be traced, and may differ between steps or
    between runs of one compiled program.
    """
    xp = queue.__array_namespace__()
    newest = xp.asarray(action)
    if not xp.isdtype(queue.dtype, "real floating") and xp.isdtype(newest.dtype, "real floating"):
        raise ValueError(
            f"an action must be of the queue's type, {queue.dtype}; got {newest.dtype}: "
            "pass a whole number"
        )
    slots = xp.concat([queue, xp.asarray(newest, dtype=queue.dtype)[None]])
    return slots[0 if age is None else queue.shape[0] - age], slots[1:]
