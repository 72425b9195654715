"""A pool of Atari games in worker processes.

ale-py holds the interpreter lock while it emulates, so games run in worker processes
(`emulator_worker`). Workers write observations to shared memory, a file without a name. A worker
ends when its input is closed, or is killed a little later (`ending.Guard`), so it leaves nothing
behind. A worker that dies, or that exceeds the timeout of a step (`--step-timeout`), is replaced,
and its episodes are lost.
"""

from __future__ import annotations

import json
import mmap
import os
import selectors
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from deadtime._support.ending import Guard
from deadtime._support.machine import cores, started
from deadtime._support.timeouts import step_timeout
from deadtime.envs.atari.emulator_worker import REFUSED, views
from deadtime.envs.atari.games import Game
from deadtime.envs.pools import Played

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

_DEATHS = 3
"""The number of deaths per worker, without a step between them, after which the pool gives up."""
_STARTED_IN_SECONDS = 60.0
"""The timeout of a worker's first answer, which may be longer than the timeout of steps."""


class AtariPool:
    """A pool of games in worker processes (see `pools.Pool`)."""

    saves = True

    def __init__(self, lanes: Sequence[Game], workers: int | None = None):
        """Start the workers; `reset` starts the games."""
        self._games = list(lanes)
        self._capacity = max(game.delay for game in lanes)
        self._lost = np.zeros(len(lanes), bool)
        self.unreported = np.zeros(len(lanes), bool)
        self._deaths = 0
        needed = sum(
            -(-array.nbytes // 64) * 64
            for array in views(None, len(lanes), self._capacity).values()
        )
        room = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self._file = tempfile.TemporaryFile(dir=room)  # noqa: SIM115  (closed with the pool)
        self._file.truncate(needed)
        self.memory = views(mmap.mmap(self._file.fileno(), needed), len(lanes), self._capacity)
        self._waiting: set[int] = set()
        self._deadlines: dict[int, float] = {}
        self._seconds = step_timeout()
        self._guard = Guard(grace=1.0)
        self._selector = selectors.DefaultSelector()
        self._mine = _shares(self._games, workers or cores())
        self._workers = [self._started(i) for i in range(len(self._mine))]

    def _started(self, i: int) -> subprocess.Popen[bytes]:
        pipe, memory = subprocess.PIPE, self._file.fileno()
        worker = started(
            "deadtime.envs.atari.emulator_worker",
            bufsize=0,
            stdin=pipe,
            stdout=pipe,
            pass_fds=[memory],
            process_group=self._guard.group,
        )
        self._deadlines[i] = monotonic() + _STARTED_IN_SECONDS
        mine = {place: asdict(self._games[place]) for place in self._mine[i]}
        setup = {
            "memory": memory,
            "lanes": len(self._games),
            "capacity": self._capacity,
            "games": mine,
        }
        self._selector.register(worker.stdout, selectors.EVENT_READ, i)  # type: ignore[arg-type]
        self._write(worker, json.dumps(setup).encode() + b"\n")
        return worker

    @staticmethod
    def _write(worker: subprocess.Popen[bytes], message: bytes) -> None:
        with suppress(BrokenPipeError):  # if it is dead, `_wait` finds out
            worker.stdin.write(message)  # type: ignore[union-attr]

    def reset(self) -> Played:
        """Start a new episode on every lane."""
        self.unreported[:] = False
        self._do(b"r")
        return self._wait()

    def send(self, actions: Int[np.ndarray, " n"]) -> None:
        """Send an action to every lane, -1 to pause a lane; `receive` returns the outcome."""
        self.memory["chosen"][:] = np.where(self.unreported, -1, actions)
        self._do(b"s")
        self._lost |= self.unreported
        self.unreported[:] = False

    def receive(self) -> Played:
        """Wait for the step that `send` started, and return it."""
        return self._wait()

    def step(self, actions: Int[np.ndarray, " n"]) -> Played:
        """Step every lane once."""
        self.send(actions)
        return self.receive()

    def save(self) -> list[bytes]:
        """Return the exact state of each lane; the next step reports lost lanes."""
        self.unreported |= self._do_all(b"w")
        return [
            self.memory["state"][i, :n].tobytes() for i, n in enumerate(self.memory["state_bytes"])
        ]

    def load(self, states: Sequence[bytes]) -> Played:
        """Restore the states that `save` returned."""
        room = self.memory["state"].shape[1]
        for i, state in enumerate(states):
            if len(state) > room:
                raise ValueError(
                    f"the saved state of a game has at most {room} bytes; got {len(state)}: "
                    "train it again from the start"
                )
            self.memory["state_bytes"][i] = len(state)
            self.memory["state"][i, : len(state)] = np.frombuffer(state, np.uint8)
        self._do_all(b"l")
        self.unreported[:] = False
        return self._wait()

    def _do_all(self, command: bytes) -> Bool[np.ndarray, " n"]:
        """Repeat a command until no lane is lost; return the lanes that were restarted."""
        lost = np.zeros(len(self._games), bool)
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

    def _wait(self) -> Played:
        while self._waiting:
            for key, _ in self._selector.select(self._time_left()):
                if key.data in self._waiting and (answer := os.read(key.fd, 1)):
                    if answer == REFUSED:
                        raise ValueError(
                            "a game can't be restored from its saved state, for the reason above: "
                            "train it again from the start"
                        )
                    self._waiting.discard(key.data)
                    self._deadlines.pop(key.data, None)
                else:
                    self._replace(key.data)
        if not self._lost.any():
            self._deaths = 0
        fields = {name: self.memory[name] for name in Played._fields if name in self.memory}
        return Played(**fields, lost=self._lost)

    def _time_left(self) -> float | None:
        """Return the seconds until the next timeout; kill the workers that exceeded theirs."""
        if self._seconds is None:
            return None
        now = monotonic()
        for i in self._waiting:
            if self._deadlines[i] < now:
                self._workers[i].kill()
        return max(0.0, min(self._deadlines[i] for i in self._waiting) - now) + 0.05

    def _replace(self, i: int) -> None:
        """Replace a worker that died; its lanes start new episodes with other seeds."""
        self._deaths += 1
        code = self._workers[i].wait()
        if self._deaths > _DEATHS * len(self._workers):
            self.close()
            raise RuntimeError(
                f"Atari workers keep dying, the last one with exit status {code}: see its output "
                "above; if it was killed, allow more memory, or more time (--step-timeout)"
            )
        self._end(i)
        for place in self._mine[i]:
            seed = np.random.SeedSequence([self._games[place].seed, 0xDEAD]).generate_state(1)[0]
            self._games[place] = replace(self._games[place], seed=int(seed))
            self._lost[place] = True
        self._workers[i] = self._started(i)
        self._write(self._workers[i], b"r")
        self._waiting.add(i)

    def _end(self, i: int) -> None:
        worker = self._workers[i]
        self._selector.unregister(worker.stdout)  # type: ignore[arg-type]
        for pipe in (worker.stdin, worker.stdout):
            pipe.close()  # type: ignore[union-attr]

    @property
    def emulated(self) -> int:
        """The number of emulated steps, those of the look-ahead included."""
        return int(self.memory["emulated"].sum())

    def close(self) -> None:
        """Stop all workers and free the memory."""
        for i in range(len(self._workers)):
            self._end(i)
        self._guard.end()
        while self._workers:
            self._workers.pop().wait()
        self._selector.close()
        self._file.close()


def _shares(lanes: Sequence[Game], workers: int) -> list[list[int]]:
    """Return the lanes of each worker; costly lanes go first, to the least busy worker."""
    cost = [
        1 + (game.delay if game.sticky else 1) * bool(game.look_ahead and game.delay)
        for game in lanes
    ]
    loads: list[tuple[int, list[int]]] = [(0, []) for _ in range(min(workers, len(lanes)))]
    for place in sorted(range(len(lanes)), key=lambda place: -cost[place]):
        least = min(range(len(loads)), key=lambda i: (loads[i][0], i))
        loads[least] = loads[least][0] + cost[place], [*loads[least][1], place]
    return [sorted(mine) for _, mine in loads]
