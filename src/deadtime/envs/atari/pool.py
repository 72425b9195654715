"""A pool of Atari games, played in processes.

ale-py holds the interpreter while it emulates, so games are played in processes of their own (`emulator_worker`), which write
what they see to memory that all share. That memory is a file without a name. A worker ends when its input does, or else is
killed a little later (`ending.Guard`), so nothing stays behind, whatever becomes of the process that made the pool. A worker
that dies is replaced, and its episodes are lost; so is one that takes longer for a step than it may (`--step-timeout`).
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
"""In a row, without a step between them, after which a worker is not replaced any more."""
_STARTED_IN_SECONDS = 60.0
"""How long a worker may take for its first answer, whatever the time limit for steps is."""


class AtariPool:
    """Games in worker processes, stepped together (see `pools.Pool`)."""

    saves = True

    def __init__(self, lanes: Sequence[Game], workers: int | None = None):
        """Start the workers; they play from `reset` on."""
        self._games, self._capacity = list(lanes), max(game.delay for game in lanes)
        self._lost, self.untold, self._deaths = (
            np.zeros(len(lanes), bool),
            np.zeros(len(lanes), bool),
            0,
        )
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
        self._seconds, self._guard = step_timeout(), Guard(grace=1.0)
        self._selector = selectors.DefaultSelector()
        self._mine = _shared_out(self._games, workers or cores())
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
        told = {
            "memory": memory,
            "lanes": len(self._games),
            "capacity": self._capacity,
            "games": mine,
        }
        self._selector.register(worker.stdout, selectors.EVENT_READ, i)  # type: ignore[arg-type]
        self._tell(worker, json.dumps(told).encode() + b"\n")
        return worker

    @staticmethod
    def _tell(worker: subprocess.Popen[bytes], words: bytes) -> None:
        with suppress(BrokenPipeError):  # if it is dead, `_wait` finds out
            worker.stdin.write(words)  # type: ignore[union-attr]

    def reset(self) -> Played:
        """Begin episodes everywhere."""
        self.untold[:] = False
        self._do(b"r")
        return self._wait()

    def send(self, actions: Int[np.ndarray, " n"]) -> None:
        """Give every lane its action (-1: it rests); `receive` waits for what comes of it."""
        self.memory["chosen"][:] = np.where(self.untold, -1, actions)
        self._do(b"s")
        self._lost |= self.untold
        self.untold[:] = False

    def receive(self) -> Played:
        """What came of what was sent."""
        return self._wait()

    def step(self, actions: Int[np.ndarray, " n"]) -> Played:
        """One step of every lane."""
        self.send(actions)
        return self.receive()

    def save(self) -> list[bytes]:
        """What each lane needs to go on from here to the same bits; what is lost meanwhile, the next step tells."""
        self.untold |= self._do_all(b"w")
        return [
            self.memory["state"][i, :n].tobytes() for i, n in enumerate(self.memory["state_bytes"])
        ]

    def load(self, states: Sequence[bytes]) -> Played:
        """Go on from what `save` gave."""
        room = self.memory["state"].shape[1]
        for i, state in enumerate(states):
            if len(state) > room:
                raise ValueError(
                    f"what is saved of a game takes at most {room} bytes; got {len(state)}: begin it anew"
                )
            self.memory["state_bytes"][i] = len(state)
            self.memory["state"][i, : len(state)] = np.frombuffer(state, np.uint8)
        self._do_all(b"l")
        self.untold[:] = False
        return self._wait()

    def _do_all(self, command: bytes) -> Bool[np.ndarray, " n"]:
        """Until every lane has done it; which ones began anew on the way."""
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
            self._tell(worker, command)
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
                            "a game can't go on from what was saved of it, the reason is above: begin it anew"
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
        """Return the seconds until a worker must have answered; one that did not in time is killed, and so replaced."""
        if self._seconds is None:
            return None
        now = monotonic()
        for i in self._waiting:
            if self._deadlines[i] < now:
                self._workers[i].kill()
        return max(0.0, min(self._deadlines[i] for i in self._waiting) - now) + 0.05

    def _replace(self, i: int) -> None:
        """Start a worker again whose process has died; its episodes begin anew, from other seeds."""
        self._deaths += 1
        code = self._workers[i].wait()
        if self._deaths > _DEATHS * len(self._workers):
            self.close()
            raise RuntimeError(
                f"workers that play Atari keep dying, the last one with exit status {code}: what it said is above; "
                "if it was killed, there may be too little memory, or too little time (--step-timeout)"
            )
        self._end(i)
        for place in self._mine[i]:
            seed = np.random.SeedSequence([self._games[place].seed, 0xDEAD]).generate_state(1)[0]
            self._games[place] = replace(self._games[place], seed=int(seed))
            self._lost[place] = True
        self._workers[i] = self._started(i)
        self._tell(self._workers[i], b"r")
        self._waiting.add(i)

    def _end(self, i: int) -> None:
        worker = self._workers[i]
        self._selector.unregister(worker.stdout)  # type: ignore[arg-type]
        for pipe in (worker.stdin, worker.stdout):
            pipe.close()  # type: ignore[union-attr]

    @property
    def emulated(self) -> int:
        """Steps of all emulators, those that look ahead too."""
        return int(self.memory["emulated"].sum())

    def close(self) -> None:
        """End all workers: they have nothing to lose."""
        for i in range(len(self._workers)):
            self._end(i)
        self._guard.end()
        while self._workers:
            self._workers.pop().wait()
        self._selector.close()
        self._file.close()


def _shared_out(lanes: Sequence[Game], workers: int) -> list[list[int]]:
    """The lanes of each worker: the costly ones first, each to the one that has least to do."""
    cost = [
        1 + (game.delay if game.sticky else 1) * bool(game.look_ahead and game.delay)
        for game in lanes
    ]
    loads: list[tuple[int, list[int]]] = [(0, []) for _ in range(min(workers, len(lanes)))]
    for place in sorted(range(len(lanes)), key=lambda place: -cost[place]):
        least = min(range(len(loads)), key=lambda i: (loads[i][0], i))
        loads[least] = loads[least][0] + cost[place], [*loads[least][1], place]
    return [sorted(mine) for _, mine in loads]
