"""The process that a local engine gives units to: `python -m deadtime.runs.unit_worker FD GUARD`.

It ends when the other side of its socket is gone: its runs write their checkpoints, and after the
grace period it ends whatever it is doing (see `ending`).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from queue import Queue
from threading import Lock, Thread, main_thread
from time import monotonic

from deadtime._support import ending, timeouts
from deadtime._support.machine import resident_memory
from deadtime.runs.record_format import to_bytes
from deadtime.runs.units import Unit, from_json, reason, trained

PROGRESS, DONE, FAILED, LAST = b"p", b"d", b"f", b"l"
"""Kinds of messages. LAST comes before DONE or FAILED: the process ends after it."""
TELL_EVERY_SECONDS = 0.2
_MOST_GROWTH = 300 * 2**20
"""Bytes by which a process may grow after its first unit: a compiled program takes about 65 MB for good."""


class Teller:
    """Passes progress on, not more often than anyone looks."""

    def __init__(self, connection: Connection):
        """To where it is told."""
        self._connection, self._untold, self._last, self._lock = connection, 0, 0.0, Lock()

    def __call__(self, n: int) -> None:
        """So much more is done; runs may tell so from several threads."""
        with self._lock:
            self._untold += n
            if monotonic() - self._last > TELL_EVERY_SECONDS:
                with suppress(OSError):  # no one listens any more: `_listen` ends all this
                    self._connection.send_bytes(PROGRESS + str(self._untold).encode())
                self._untold, self._last = 0, monotonic()


def main(descriptor: int, guard: int) -> None:
    """Do units until there are no more; `guard` is the process that would kill this one."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches all processes; the driver's end is what counts
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sys.unraisablehook = ending.raise_again
    signal.signal(signal.SIGUSR1, ending.interrupt)
    connection = Connection(descriptor)
    asked: Queue[bytes] = Queue()
    Thread(target=_listen, args=(connection, asked, guard), daemon=True).start()
    with suppress(KeyboardInterrupt, BrokenPipeError):
        _serve(connection, asked)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def _serve(connection: Connection, asked: Queue[bytes]) -> None:
    """Do units until there are no more, or until this process has grown too large or has a thread that is stuck."""
    first: int | None = None
    while content := asked.get():
        folder, _, text = content.decode().partition("\n")
        answer = done(from_json(text), folder or None, Teller(connection))
        size = resident_memory()
        first = size if first is None else first
        last = bool(timeouts.STUCK) or size - first > _MOST_GROWTH
        if last:
            connection.send_bytes(LAST)
        connection.send_bytes(answer)
        if last:
            return


def done(unit: Unit, checkpoints: str | None, tell: Callable[[int], None]) -> bytes:
    """Do a unit, and return the message of its end to the driver."""
    try:
        return DONE + to_bytes(trained(unit, checkpoints, tell))
    except Exception as error:  # whatever it is
        return FAILED + reason(error).encode()


def _listen(connection: Connection, asked: Queue[bytes], guard: int) -> None:
    """Pass on what is asked for; at its end interrupt what is being done, and end this process in time."""
    with suppress(EOFError, OSError):
        while True:
            asked.put(connection.recv_bytes())
    asked.put(b"")
    signal.pthread_kill(
        main_thread().ident or 0, signal.SIGUSR1
    )  # a real signal: it wakes a thread that waits
    ending.end_within_grace(1, ask=partial(_ask, guard), last=lambda: None)


def _ask(guard: int) -> None:
    """Ask the guard for more time."""
    with suppress(ProcessLookupError):
        os.kill(guard, signal.SIGUSR1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
