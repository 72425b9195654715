"""The process that a local engine gives units to: `python -m deadtime.experiments.unit_worker FD`.

It ends when the other side of its socket is gone; what it was training is then written down, to go on from.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import Queue
from threading import Lock, Thread, main_thread
from time import monotonic

from deadtime.experiments.records import packed
from deadtime.experiments.units import Unit, heard, reason, trained

PROGRESS, DONE, FAILED = b"p", b"d", b"f"
TELL_EVERY_SECONDS = 0.2


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


def main(descriptor: int) -> None:
    """Do units until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the driver's end is what counts
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    connection = Connection(descriptor)
    asked: Queue[bytes] = Queue()
    Thread(target=_listen, args=(connection, asked), daemon=True).start()
    signal.signal(signal.SIGUSR1, signal.default_int_handler)
    while True:
        try:
            content = asked.get()
            if not content:
                return
            folder, _, said = content.decode().partition("\n")
            connection.send_bytes(done(heard(said), folder or None, Teller(connection)))
        except (KeyboardInterrupt, BrokenPipeError):
            return


def done(unit: Unit, checkpoints: str | None, tell: Callable[[int], None]) -> bytes:
    """Do a unit; what its driver is to know of the end."""
    try:
        return DONE + packed(trained(unit, checkpoints, tell))
    except Exception as error:  # whatever it is
        return FAILED + reason(error).encode()


def _listen(connection: Connection, asked: Queue[bytes]) -> None:
    """Pass on what is asked for; at its end interrupt what is being done."""
    try:
        while True:
            asked.put(connection.recv_bytes())
    except (EOFError, OSError):
        asked.put(b"")
        signal.pthread_kill(main_thread().ident or 0, signal.SIGUSR1)  # a real signal: it wakes a thread that waits


if __name__ == "__main__":
    main(int(sys.argv[1]))
