"""Time limits for the steps of outside environments, and calls with a timeout.

A call can't be stopped from outside. It runs in a thread of its own, and its caller stops waiting
at the timeout. If the call lets no other thread run, `faulthandler` ends the whole process.
"""

from __future__ import annotations

import faulthandler
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

VARIABLE = "DEADTIME_STEP_TIMEOUT"
"""The environment variable with the seconds that a step may take; processes inherit it."""
STUCK: set[str] = set()
"""Names of the environments that exceeded a timeout; their threads still run."""
_MARGIN_SECONDS = 5.0
_WAITING: set[object] = set()
_LOCK = Lock()


class StepTimeoutError(RuntimeError):
    """The error for a step of an environment that exceeds its time limit."""


def step_timeout() -> float | None:
    """Return the seconds that a step of an outside environment may take; None means no limit."""
    given = os.environ.get(VARIABLE, "")
    return _checked(given) if given else None


@contextmanager
def limited_steps(seconds: float | None) -> Iterator[None]:
    """Set the time limit for steps of this process and the processes that it starts.

    None leaves the limit as it is.
    """
    before = os.environ.get(VARIABLE, "")
    os.environ[VARIABLE] = before if seconds is None else str(_checked(seconds))
    try:
        yield
    finally:
        os.environ[VARIABLE] = before


def _checked(given: str | float) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(
            f"a step timeout is a number of seconds above 0; got {given}: "
            "pass 60, for example, or leave it out"
        )
    return seconds


class Patient:
    """A thread that calls functions for other threads, which wait up to a timeout."""

    def __init__(self, name: str):
        """Start the thread; `name` is for errors."""
        self.name = name
        self.stuck = False
        self._asked: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        Thread(target=self._serve, daemon=True).start()

    def call(
        self,
        function: Callable[..., Any],
        *arguments: object,
        seconds: float | None = None,
        **named: object,
    ) -> Any:
        """Call a function in the thread, and return its value or raise its error.

        Raises StepTimeoutError after `seconds`.
        """
        if not self.stuck:
            self._asked.put((function, arguments, named))
            self.stuck = True  # until it answers
            with suppress(Empty), _ended_if_stuck(seconds):
                value, error = self._answers.get(timeout=seconds)
                self.stuck = False
        if self.stuck:
            STUCK.add(self.name)
            raise StepTimeoutError(
                f"a step or reset of {self.name} takes at most {seconds:g} s (--step-timeout); "
                "one took longer: fix the environment, or allow more"
            )
        if error is not None:
            raise error
        return value

    def _serve(self) -> None:
        while (asked := self._asked.get()) is not None:
            function, arguments, named = asked
            try:
                self._answers.put((function(*arguments, **named), None))
            except BaseException as error:  # the caller gets it, whatever it is
                self._answers.put((None, error))

    def end(self) -> None:
        """End the thread after its current call."""
        self._asked.put(None)


@contextmanager
def _ended_if_stuck(seconds: float | None) -> Iterator[None]:
    """End this process if the call in the block lets no other thread run for too long.

    A traceback of every thread is printed then.
    """
    if seconds is None:
        yield
        return
    token = object()
    with _LOCK:
        _WAITING.add(token)
        faulthandler.dump_traceback_later(
            seconds + _MARGIN_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr
        )
    try:
        yield
    finally:
        with _LOCK:
            _WAITING.discard(token)
            if not _WAITING:
                faulthandler.cancel_dump_traceback_later()
