"""How processes end: with their driver, and within a grace period even if they are stuck.

A process that receives a signal stops its runs and writes their checkpoints. It has `GRACE_SECONDS`
to do so. That time starts anew whenever the process writes a file, and all of it lasts at most
`WRITING_SECONDS`. Then one of its threads ends it. If that thread can't run, a small process, the
guard, kills it.
"""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import RLock, Thread, current_thread, main_thread
from time import monotonic, sleep
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

GRACE_SECONDS = 7.0
WRITING_SECONDS = 60.0
CHECKPOINTS: set[str] = set()
"""Paths and URLs where checkpoints of this command's runs may be, for its last message."""
_WRITING: set[object] = set()
_HOLDING: list[list[int]] = []
"""The numbers of the signals that came in each block of `uninterrupted`, innermost last."""


@contextmanager
def unhurried() -> Iterator[None]:
    """Allow the block more time than the grace period, for instance to write a large file."""
    token = object()
    try:
        _WRITING.add(token)
        yield
    finally:
        _WRITING.discard(token)


def end_within_grace(status: int, ask: Callable[[], None], last: Callable[[], None]) -> None:
    """End this process after the grace period.

    While the process writes a file, `ask` is called repeatedly and the grace period starts anew.
    `last` is called once, just before the end.
    """
    began = monotonic()
    deadline = began + GRACE_SECONDS
    while monotonic() < deadline:
        if _WRITING:
            ask()
            deadline = min(monotonic() + GRACE_SECONDS, began + WRITING_SECONDS)
        sleep(0.1)
    last()
    os._exit(status)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt with a signal's number; within `uninterrupted` only note it."""
    if _HOLDING:
        _HOLDING[-1].append(number)
        return
    raise KeyboardInterrupt(number)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay the KeyboardInterrupt of a signal until the end of the block.

    Loading JAX needs it: its C++ code aborts the process if an import that it started raises.
    Signal handlers run in the main thread, so in other threads the block changes nothing.
    """
    if current_thread() is not main_thread():
        yield
        return
    held: list[int] = []
    _HOLDING.append(held)
    try:
        yield
    finally:
        _HOLDING.pop()
        if held:
            interrupt(held[0], None)


def number_of(pressed: BaseException | None) -> int:
    """Return the number of the signal that raised a KeyboardInterrupt."""
    arguments = getattr(pressed, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else signal.SIGINT


def forget_handled_interrupt() -> None:
    """Make CPython forget a KeyboardInterrupt that was handled, so that the exit status counts.

    An interrupt inside `exec` of a text, which dataclasses use, leaves a flag behind. A
    `python -m` process that ends with this flag kills itself by SIGINT, whatever its status.
    """
    exec("")  # resets the flag


def raise_again(
    lost: UnraisableHookArgs, usual: Callable[[UnraisableHookArgs], object] = sys.unraisablehook
) -> None:
    """Repeat a signal whose KeyboardInterrupt was lost in code that may not raise.

    Python calls this function for such a loss, for instance one in garbage collection. This
    function may not raise either, so another thread repeats the signal a moment later.
    """
    if lost.exc_type is not None and issubclass(lost.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_repeat, (number_of(lost.exc_value),))
    else:
        usual(lost)


def _repeat(number: int) -> None:
    sleep(0.05)
    signal.pthread_kill(main_thread().ident or 0, number)


@contextmanager
def interruptible(last: Callable[[], None] | None) -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt in the block, and repeat lost ones.

    With `last`, the first signal also begins the grace period, and `last` is called at its end.
    """
    if current_thread() is not main_thread():
        yield
        return
    pressed: SimpleQueue[int] = SimpleQueue()  # a handler may put into it at any moment

    def press(number: int, frame: FrameType | None) -> None:
        pressed.put(number)
        interrupt(number, frame)

    def wait() -> None:
        number = pressed.get()
        if number and last is not None:
            end_within_grace(128 + number, lambda: None, last)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.unraisablehook = raise_again
    for number, handler in before.items():
        if handler not in (None, signal.SIG_IGN):
            signal.signal(number, press)
    Thread(target=wait, daemon=True).start()
    try:
        yield
    finally:
        pressed.put(0)
        _restore(before)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        if handler is not None:  # None: Python did not set it
            signal.signal(number, handler)


@contextmanager
def same_signals() -> Iterator[None]:
    """Restore the signal handlers after the block.

    An environment may change the handlers. A signal could then no longer end its process.
    """
    numbers = (
        [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1] if current_thread() is main_thread() else []
    )
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        _restore(before)


class Guard:
    """A group of processes that ends after this process, and the small process that ends it.

    If someone kills that small process, another one takes its place.
    """

    def __init__(self, grace: float = GRACE_SECONDS):
        """Start the guard; the group has `grace` seconds once this process is gone."""
        self._grace = grace
        self._lock = RLock()
        self._hurried = False
        self._ended = False
        self._start(0)

    def _start(self, group: int) -> None:
        """Start the small process as a member of a group, or with 0 as the leader of a new one."""
        numbers = [str(number) for number in (os.getpid(), self._grace, WRITING_SECONDS)]
        command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), *numbers]
        none = subprocess.DEVNULL
        # The guard unblocks SIGUSR1 when it can handle it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=none, stderr=none, process_group=group
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._group = group or self._process.pid
        if self._hurried:
            self._close_input()
        Thread(target=self._watch, args=(self._process,), daemon=True).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a guard; if the group still has processes, start another one."""
        process.wait()
        with self._lock:
            if process is self._process and not self._ended:
                process.stdin.close()  # type: ignore[union-attr]
                with suppress(PermissionError):  # the group has no process left
                    self._start(self._group)

    @property
    def group(self) -> int:
        """The group's number, for `subprocess.Popen(process_group=...)`."""
        with self._lock:
            if self._process.poll() is not None:
                try:
                    self._start(self._group)
                except PermissionError:  # the group has no process left
                    self._start(0)
            return self._group

    def hurry(self) -> None:
        """Begin the grace period now."""
        with self._lock:
            self._hurried = True
            self._close_input()

    def _close_input(self) -> None:
        """Close the guard's input, which begins the grace period."""
        self._process.stdin.close()  # type: ignore[union-attr]

    def end(self) -> None:
        """Kill all processes that are left of the group, and the guard."""
        with self._lock:
            self._ended = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
            self._close_input()
        self._process.wait()
