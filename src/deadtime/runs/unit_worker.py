"""The worker process of the local engine: `python -m deadtime.runs.unit_worker FD GUARD`.

It ends when the other side of its socket is closed: its runs write checkpoints, and it exits after
the grace period in any case (see `ending`).
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
"""Kinds of messages. LAST comes before a DONE or FAILED after which the process ends."""
SEND_EVERY_SECONDS = 0.2
_MOST_GROWTH = 300 * 2**20
"""Bytes by which a process may grow after its first unit; a compiled program keeps about 65 MB."""


class Reporter:
    """A sender of progress to the driver, which limits how often it sends."""

    def __init__(self, connection: Connection):
        """Send to a connection."""
        self._connection = connection
        self._unsent = 0
        self._last = 0.0
        self._lock = Lock()

    def __call__(self, n: int) -> None:
        """Add `n` steps; several threads may call this."""
        with self._lock:
            self._unsent += n
            if monotonic() - self._last > SEND_EVERY_SECONDS:
                with suppress(OSError):  # the driver is gone: `_listen` ends the process
                    self._connection.send_bytes(PROGRESS + str(self._unsent).encode())
                self._unsent = 0
                self._last = monotonic()


def main(descriptor: int, guard: int) -> None:
    """Run units until there are no more; `guard` is the guard's process number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, which ends this
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
    """Run units until there are no more, memory has grown too much, or a thread is stuck."""
    first: int | None = None
    while content := asked.get():
        folder, _, text = content.decode().partition("\n")
        answer = done(from_json(text), folder or None, Reporter(connection))
        size = resident_memory()
        first = size if first is None else first
        last = bool(timeouts.STUCK) or size - first > _MOST_GROWTH
        if last:
            connection.send_bytes(LAST)
        connection.send_bytes(answer)
        if last:
            return


def done(unit: Unit, checkpoints: str | None, tell: Callable[[int], None]) -> bytes:
    """Run a unit, and return the message to the driver."""
    try:
        return DONE + to_bytes(trained(unit, checkpoints, tell))
    except Exception as error:
        return FAILED + reason(error).encode()


def _listen(connection: Connection, asked: Queue[bytes], guard: int) -> None:
    """Queue the units that arrive; when the socket closes, interrupt the unit and then exit."""
    with suppress(EOFError, OSError):
        while True:
            asked.put(connection.recv_bytes())
    asked.put(b"")
    main = main_thread().ident or 0
    signal.pthread_kill(main, signal.SIGUSR1)  # a real signal wakes a thread that waits
    ending.end_within_grace(1, ask=partial(_ask, guard), last=lambda: None)


def _ask(guard: int) -> None:
    """Request more time from the guard."""
    with suppress(ProcessLookupError):
        os.kill(guard, signal.SIGUSR1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
