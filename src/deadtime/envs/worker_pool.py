"""Worker processes that step the environments of a pool (see `pools.Pool`).

Workers write to memory that they share with the pool, a file without a name. A worker ends when its
input is closed, or is killed a little later (`ending.Guard`), so it leaves nothing behind. A worker
that dies, or that exceeds the timeout of a step (`--step-timeout`), is replaced, and its episodes
are lost.
"""

from __future__ import annotations

import mmap
import os
import pickle
import selectors
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from deadtime._support.ending import Guard
from deadtime._support.machine import started
from deadtime._support.timeouts import VARIABLE, step_timeout
from deadtime.envs.pools import Played
from deadtime.envs.worker import (
    FAILED,
    LENGTH,
    RESET,
    STEP,
    Layout,
    raise_described,
    shared_arrays,
    shared_bytes,
)

if TYPE_CHECKING:
    from jaxtyping import Bool

_DEATHS = 3
"""The number of deaths per worker, without a step between them, after which the pool gives up."""
_STARTED_IN_SECONDS = 60.0
"""The timeout of a worker's first answer, which may be longer than the timeout of steps."""


class WorkerPool:
    """A base class of pools whose environments are in worker processes.

    The shared arrays have the names of `Played`'s fields, and "chosen", "resting" and "calls": the
    actions, the lanes that rest, and the number of steps and resets of each lane.
    """

    module = ""
    """The module that a worker runs (see `worker.serve`)."""

    def __init__(self, layout: Layout, shares: Sequence[Sequence[int]], who: str):
        """Start a worker for each share of the lanes; `who` is for error messages."""
        self._who = who
        self._layout = layout
        self._mine = shares
        count = sum(map(len, shares))
        self._lost = np.zeros(count, bool)
        self.unreported = np.zeros(count, bool)
        self._deaths = 0
        room = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self._file = tempfile.TemporaryFile(dir=room)  # noqa: SIM115  (closed with the pool)
        self._file.truncate(shared_bytes(layout))
        self.memory = shared_arrays(mmap.mmap(self._file.fileno(), 0), layout)
        self._waiting: set[int] = set()
        self._deadlines: dict[int, float] = {}
        self._calls: dict[int, int] = {}
        self._seconds = step_timeout()
        self._guard = Guard(grace=1.0)
        self._selector = selectors.DefaultSelector()
        self._workers = [self._started(i) for i in range(len(shares))]

    def _setup(self, places: Sequence[int]) -> dict[str, Any]:
        """Return the part of a worker's setup that describes its lanes."""
        raise NotImplementedError

    def _renew(self, place: int) -> None:
        """Give a lost lane another seed."""
        raise NotImplementedError

    def _started(self, i: int) -> subprocess.Popen[bytes]:
        pipe, memory = subprocess.PIPE, self._file.fileno()
        worker = started(
            self.module,
            env={VARIABLE: ""},  # the pool limits the time of a step
            bufsize=0,
            stdin=pipe,
            stdout=pipe,
            pass_fds=[memory],
            process_group=self._guard.group,
        )
        self._deadlines[i] = monotonic() + _STARTED_IN_SECONDS
        setup = {"memory": memory, "layout": self._layout} | self._setup(self._mine[i])
        content = pickle.dumps(setup)
        self._selector.register(worker.stdout, selectors.EVENT_READ, i)  # type: ignore[arg-type]
        self._write(worker, LENGTH.pack(len(content)) + content)
        return worker

    @staticmethod
    def _write(worker: subprocess.Popen[bytes], message: bytes) -> None:
        with suppress(BrokenPipeError):  # if it is dead, `_wait` finds out
            left = memoryview(message)
            while left:
                left = left[worker.stdin.write(left) :]  # type: ignore[union-attr]

    def reset(self) -> Played:
        """Start a new episode on every lane."""
        self.unreported[:] = False
        self._do(RESET)
        return self._wait()

    def send(self, actions: np.ndarray, resting: np.ndarray | None = None) -> None:
        """Send an action to every lane that is not `resting`; `receive` returns the outcome."""
        self.memory["chosen"][:] = actions
        self.memory["resting"][:] = (
            self.unreported if resting is None else (resting | self.unreported)
        )
        self._do(STEP)
        self._lost |= self.unreported
        self.unreported[:] = False

    def receive(self) -> Played:
        """Wait for the step that `send` started, and return it."""
        return self._wait()

    def step(self, actions: np.ndarray) -> Played:
        """Step every lane once."""
        self.send(actions)
        return self.receive()

    def _do_all(self, command: bytes) -> Bool[np.ndarray, " n"]:
        """Repeat a command until no lane is lost; return the lanes that were restarted."""
        lost = np.zeros(len(self._lost), bool)
        while True:
            self._do(command)
            again = self._wait().lost
            lost |= again
            if not again.any():
                return lost

    def _do(self, command: bytes) -> None:
        self._lost[:] = False
        for worker in self._workers:
            self._write(worker, command)
        self._waiting = {*range(len(self._workers))}
        if self._seconds is not None:
            until = monotonic() + self._seconds
            self._deadlines = {i: max(until, self._deadlines.get(i, 0.0)) for i in self._waiting}
            self._calls = {i: self._calls_of(i) for i in self._waiting}

    def _wait(self) -> Played:
        while self._waiting:
            for key, _ in self._selector.select(self._time_left()):
                if key.data in self._waiting and (answer := os.read(key.fd, 1)):
                    if answer == FAILED:
                        raise_described(self._line(key.fd), self._who)
                    self._waiting.discard(key.data)
                    self._deadlines.pop(key.data, None)
                else:
                    self._replace(key.data)
        if not self._lost.any():
            self._deaths = 0
        return self._played()

    @staticmethod
    def _line(file: int) -> bytes:
        line = b""
        while not line.endswith(b"\n") and (part := os.read(file, 65536)):
            line += part
        return line

    def _played(self) -> Played:
        fields = {name: self.memory[name] for name in Played._fields if name in self.memory}
        return Played(**fields, lost=self._lost)

    def _time_left(self) -> float | None:
        """Return the seconds until the next timeout; kill the workers that exceeded theirs.

        A worker that has made a step or a reset since the last look gets more time.
        """
        if self._seconds is None:
            return None
        now = monotonic()
        for i in self._waiting:
            if self._deadlines[i] >= now:
                continue
            calls = self._calls_of(i)
            if calls == self._calls.get(i):
                self._workers[i].kill()
            else:
                self._deadlines[i] = now + self._seconds
            self._calls[i] = calls
        return max(0.0, min(self._deadlines[i] for i in self._waiting) - now) + 0.05

    def _calls_of(self, i: int) -> int:
        return int(self.memory["calls"][self._mine[i]].sum())

    def _replace(self, i: int) -> None:
        """Replace a worker that died; its lanes start new episodes with other seeds."""
        self._deaths += 1
        code = self._workers[i].wait()
        if self._deaths > _DEATHS * len(self._workers):
            self.close()
            raise RuntimeError(
                f"workers of {self._who} keep dying, the last one with exit status {code}: see its "
                "output above; if it was killed, allow more memory, or more time (--step-timeout)"
            )
        self._end(i)
        for place in self._mine[i]:
            self._renew(place)
            self._lost[place] = True
        self._workers[i] = self._started(i)
        self._write(self._workers[i], RESET)
        self._waiting.add(i)

    def _end(self, i: int) -> None:
        worker = self._workers[i]
        self._selector.unregister(worker.stdout)  # type: ignore[arg-type]
        for pipe in (worker.stdin, worker.stdout):
            pipe.close()  # type: ignore[union-attr]

    def close(self) -> None:
        """Stop all workers and free the memory."""
        for i in range(len(self._workers)):
            self._end(i)
        self._guard.end()
        while self._workers:
            self._workers.pop().wait()
        self._selector.close()
        self._file.close()


def other_seed(seed: int) -> int:
    """Return the seed of a lane after its episode was lost."""
    return int(np.random.SeedSequence([seed, 0xDEAD]).generate_state(1)[0])
