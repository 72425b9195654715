"""A policy in a control loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from deadtime.delays.convention import check_memory
from deadtime.delays.process import check_steps
from deadtime.runtime.action_window import ActionWindow
from deadtime.runtime.deciders import decider_of
from deadtime.runtime.inbox import Inbox
from deadtime.runtime.policy import Policy
from deadtime.runtime.stream_counts import Counts, Statistics

_WINDOW_BYTES = 64
"""The approximate bytes of the window of actions, for each number of an action and each step."""
Clock = Callable[[], float]
"""A function that returns the time in seconds and never goes back, such as `time.monotonic`."""


class Controller:
    """A policy in a control loop: `step` decides once per period, from the newest observation.

    The controller keeps the pending actions. It measures the age of each observation by its time
    stamp, and a policy that predicts looks as many steps further as the observation is older than
    usual. Without a new observation it decides from the last one.

    Whatever the stream of observations contains, `step` returns an action. It is the safe action if
    an observation is not finite or of another shape, if there was none yet, or if the policy fails.
    If the newest observation is more than `timeout` steps older than usual, `on_timeout` decides:
    "safe" is the safe action, "hold" the last action.

    All methods may be called from several threads. After `warm`, a policy whose network observes
    numbers decides without allocating arrays.
    """

    def __init__(
        self,
        policy: Policy,
        safe_action: ArrayLike,
        *,
        period: float = 1.0,
        clock: Clock | None = None,
        observation_age: int = 0,
        timeout: int = 10,
        on_timeout: Literal["safe", "hold"] = "safe",
    ):
        """`policy.delay` is the number of steps from an observation to the effect of its action.

        `period` is the time of a step, in the unit of the time stamps. Without a `clock`, step t is
        at the time t · `period`. `observation_age` is the part of `policy.delay` that has passed
        when an observation usually arrives.
        """
        _check(policy, period, on_timeout)
        self.policy = policy
        self.period = float(period)
        self._clock = clock
        self._usual = _usual_age(policy, observation_age)
        self._timeout = check_steps(timeout, "timeout")
        self._on_timeout = on_timeout
        numbers = math.prod(policy.action_shape) * (policy.delay + self._timeout)
        check_memory("a controller's pending actions", policy.delay, _WINDOW_BYTES * numbers)
        self._counts = Counts(np.zeros(self._usual + self._timeout + 1, np.int64))
        self._inbox = Inbox(policy, self.period, self._counts)
        dtype = np.float32 if policy.action_shape else np.int64
        self._window = ActionWindow(policy.delay + self._timeout + 1, policy.action_shape, dtype)
        self._safe = self._checked_action(safe_action)
        self._decide = decider_of(policy)
        self._looks_further = policy.manifest.predicts and policy.process is None
        self._lock = Lock()
        self.reset()

    def reset(self, pending_actions: ArrayLike | None = None) -> None:
        """Start an episode with these pending actions, oldest first; default: the safe action."""
        queue = None
        if pending_actions is not None:
            queue = self.policy._checked_queue(pending_actions)
        with self._lock:
            self._window.fill(self._safe)
            for action in () if queue is None else queue:
                self._window.push(action)
            self._inbox.clear()
            self._decide.reset()
            self._tick = -1
            self._start = math.nan
            self._before = math.nan

    def warm(self) -> None:
        """Decide a few times and forget it, so that the first step takes no longer than others."""
        with self._lock:
            queue = self._window.last(self.policy.delay)
            for _ in range(3):
                self._decide(self._inbox.observation, queue, 0)
            self._decide.reset()

    def receive(self, observation: ArrayLike, stamp: float | None = None) -> None:
        """Take an observation that arrives between two steps; `stamp` is when it was sampled."""
        with self._lock:
            now = (self._tick + 1) * self.period if self._clock is None else self._clock()
            self._inbox.receive(observation, stamp, now, self._usual)

    def step(
        self,
        observation: ArrayLike | None = None,
        stamp: float | None = None,
        action_age: int | None = None,
    ) -> Any:
        """Return the action of this period.

        `observation` is the one that has just arrived, and `stamp` the time when it was sampled.
        Without a stamp it has the usual age, and it is newer than those that arrived before it.
        Without an observation, the newest one from `receive` is used. A policy that needs ages
        takes `action_age`, the age of the action that is executed now. An action with several
        numbers is a read-only array, which a later step overwrites: copy it to keep it.
        """
        with self._lock:
            now = self._advance()
            if observation is not None:
                self._inbox.receive(observation, stamp, now, self._usual)
            self._window.push(self._choice(now, action_age))
            return self._returned()

    @property
    def statistics(self) -> Statistics:
        """The counts since the controller was made."""
        with self._lock:
            return self._counts.statistics()

    def _advance(self) -> float:
        """Go to the next step and return its time. In steps that were missed, hold the action."""
        if self._clock is None:
            self._tick += 1
            self._counts.steps += 1
            return self._tick * self.period
        now = self._clock()
        if self._tick < 0:
            self._start = now
        else:
            self._counts.interval(now - self._before - self.period)
        self._before = now
        tick = max(round((now - self._start) / self.period), self._tick + 1)
        missed = tick - self._tick - 1
        self._counts.skipped += missed
        for _ in range(min(missed, self._window.length)):
            self._window.push(self._window.newest())
        self._tick = tick
        self._counts.steps += 1
        return now

    def _choice(self, now: float, action_age: int | None) -> Any:
        """Return the action to choose at this time."""
        inbox, counts = self._inbox, self._counts
        fresh, broken = inbox.is_fresh, inbox.is_broken
        inbox.is_fresh = inbox.is_broken = False
        counts.missing += not fresh
        if math.isinf(inbox.stamp) or (broken and not fresh):
            return self._safe
        exact = (now - inbox.stamp) / self.period
        if exact >= self._usual + self._timeout + 0.5:
            counts.timeouts += 1
            return self._window.newest() if self._on_timeout == "hold" else self._safe
        age = max(round(exact), 0)
        counts.ages[age] += 1
        counts.late += age > self._usual
        more = age - self._usual if self._looks_further else 0
        try:
            queue = self._window.last(self.policy.delay + more)
            return self._decide(inbox.observation, queue, action_age)
        except Exception:  # a robot needs an action, whatever is wrong with the policy
            counts.failures += 1
            self._decide.reset()
            return self._safe

    def _returned(self) -> Any:
        """Return the newest action in the form that `Policy.act` has."""
        newest = self._window.newest()
        return newest if self.policy.action_shape else int(newest)

    def _checked_action(self, action: ArrayLike) -> np.ndarray:
        """Return an action as an array; raise if the policy could not choose it."""
        found = np.asarray(action)
        if self.policy.action_shape:
            low, high = self.policy.manifest.low, self.policy.manifest.high
            good = found.shape == self.policy.action_shape and found.dtype.kind in "iuf"
            good = good and bool(((found >= low) & (found <= high)).all())
            rule = f"safe_action is {len(low)} numbers from {low} to {high}"
        else:
            good = found.shape == () and found.dtype.kind in "iu"
            good = good and 0 <= int(found) < self.policy.num_actions
            rule = f"safe_action is the number of an action, 0 to {self.policy.num_actions - 1}"
        if not good:
            raise ValueError(f"{rule}; got {action!r}: pass one that keeps the machine safe")
        return found.astype(np.float32 if self.policy.action_shape else np.int64)


def _check(policy: Policy, period: float, on_timeout: str) -> None:
    """Raise if an argument of a controller is not valid."""
    if not isinstance(policy, Policy):
        raise ValueError(
            f"a Controller runs a policy of deadtime; got {policy!r:.80}: pass "
            "deadtime.load(FOLDER) or deadtime.runtime.load(FILE)"
        )
    number = isinstance(period, int | float) and not isinstance(period, bool)
    if not number or not 0 < period < math.inf:
        rule = "period is the time of a step, more than 0"
        raise ValueError(f"{rule}; got {period!r}: pass, for example, 0.02")
    if on_timeout not in ("safe", "hold"):
        raise ValueError(f"on_timeout is safe or hold; got {on_timeout!r}: pass one of them")


def _usual_age(policy: Policy, age: int) -> int:
    """Return the usual age of observations; raise if the policy's delay does not contain it."""
    if check_steps(age, "observation_age") > policy.delay:
        raise ValueError(
            f"observation_age is at most the policy's delay, {policy.delay}; got {age}: "
            "use policy.at_delay(m) with the sum of both delays"
        )
    return int(age)
