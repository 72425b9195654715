"""A pool of Atari games in worker processes.

ale-py holds the interpreter lock while it emulates, so games run in worker processes
(`emulator_worker`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deadtime._support.machine import cores
from deadtime.envs.atari.emulator_worker import layout_of
from deadtime.envs.atari.games import Game
from deadtime.envs.pools import Played
from deadtime.envs.worker import LOAD, SAVE
from deadtime.envs.worker_pool import WorkerPool, other_seed


class AtariPool(WorkerPool):
    """A pool of games in worker processes (see `pools.Pool`)."""

    module = "deadtime.envs.atari.emulator_worker"
    saves = True

    def __init__(self, lanes: Sequence[Game], workers: int | None = None):
        """Start the workers; `reset` starts the games."""
        self._games = list(lanes)
        layout = layout_of(len(lanes), max(game.delay for game in lanes))
        super().__init__(layout, _shares(self._games, workers or cores()), "Atari")

    def _setup(self, places: Sequence[int]) -> dict[str, Any]:
        return {"games": {place: self._games[place] for place in places}}

    def _renew(self, place: int) -> None:
        game = self._games[place]
        self._games[place] = replace(game, seed=other_seed(game.seed))

    def save(self) -> list[bytes]:
        """Return the exact state of each lane; the next step reports lost lanes."""
        self.unreported |= self._do_all(SAVE)
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
        self._do_all(LOAD)
        self.unreported[:] = False
        return self._wait()

    @property
    def emulated(self) -> int:
        """The number of emulated steps, those of the look-ahead included."""
        return int(self.memory["emulated"].sum())


def _shares(lanes: Sequence[Game], workers: int) -> list[list[int]]:
    """Return the lanes of each worker; costly lanes go first, to the least busy worker."""
    cost = [1 + game.delay * bool(game.look_ahead and game.sticky) for game in lanes]
    loads: list[tuple[int, list[int]]] = [(0, []) for _ in range(min(workers, len(lanes)))]
    for place in sorted(range(len(lanes)), key=lambda place: -cost[place]):
        least = min(range(len(loads)), key=lambda i: (loads[i][0], i))
        loads[least] = loads[least][0] + cost[place], [*loads[least][1], place]
    return [sorted(mine) for _, mine in loads]
