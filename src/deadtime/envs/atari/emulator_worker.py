"""The worker process that plays some of a pool's games.

The process reads one line with its games and the shared memory. Then it reads one byte per command
and answers with one byte. It ends when its input is closed.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from deadtime.envs.atari.emulator import Lane
from deadtime.envs.atari.games import SIDE, STACK, Game

REFUSED = b"!"
"""The answer of a worker that can't restore a state."""


def views(memory: mmap.mmap | None, lanes: int, capacity: int) -> dict[str, np.ndarray]:
    """Return the arrays that a pool and its workers share; without memory, empty ones to measure.

    The state of a lane takes about 210,000 bytes, and 8,000 more per step of delay for kept paths.
    """
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "chosen": ((lanes,), np.int32),
        "frame": ((lanes, SIDE, SIDE), np.uint8),
        "shown": ((lanes, STACK, SIDE, SIDE), np.uint8),
        "queue": ((lanes, capacity), np.uint8),
        "executed": ((lanes,), np.int32),
        "age": ((lanes,), np.int32),
        "reward": ((lanes,), np.float32),
        "earned": ((lanes,), np.float64),
        "terminated": ((lanes,), np.bool_),
        "truncated": ((lanes,), np.bool_),
        "life_lost": ((lanes,), np.bool_),
        "emulated": ((lanes,), np.int64),
        "state_bytes": ((lanes,), np.int64),
        "state": ((lanes, 300_000 + 10_000 * capacity), np.uint8),
    }
    found = {}
    first = 0
    for name, (shape, kind) in shapes.items():
        found[name] = (
            np.ndarray(shape, kind, memory, first) if memory is not None else np.empty(shape, kind)
        )
        first += -(-found[name].nbytes // 64) * 64
    return found


class Worker:
    """The lanes of one worker process, which writes to the shared arrays."""

    def __init__(self, lanes: dict[int, Lane], shared: dict[str, np.ndarray]):
        """Take the lanes by their rows in the shared arrays."""
        self._lanes = lanes
        self._shared = shared

    def reset(self) -> None:
        """Start a new episode on every lane."""
        for i, lane in self._lanes.items():
            lane.reset()
            self._show(i, lane)

    def step(self) -> None:
        """Step each lane that has an action; after an episode the next one starts."""
        shared = self._shared
        for i, lane in self._lanes.items():
            if shared["chosen"][i] < 0:
                continue
            lane.step(int(shared["chosen"][i]))
            for name in ("executed", "reward", "earned", "terminated", "truncated", "life_lost"):
                shared[name][i] = getattr(lane, name)
            if lane.terminated or lane.truncated:
                lane.reset()
            self._show(i, lane)

    def save(self) -> None:
        """Write the state of each lane to the shared memory."""
        for i, lane in self._lanes.items():
            content = np.frombuffer(lane.saved(), np.uint8)
            self._shared["state_bytes"][i] = len(content)
            self._shared["state"][i, : len(content)] = content

    def load(self) -> bytes | None:
        """Restore the states in the shared memory; return `REFUSED` if one of them is not valid."""
        for i, lane in self._lanes.items():
            try:
                lane.restore(self._shared["state"][i, : self._shared["state_bytes"][i]].tobytes())
            except ValueError as error:
                print(f"a game can't be restored from its saved state: {error}", file=sys.stderr)
                return REFUSED
            self._show(i, lane)
        return None

    def _show(self, i: int, lane: Lane) -> None:
        shared = self._shared
        shared["frame"][i] = lane.real.stack[-1]
        shared["shown"][i] = lane.shown
        shared["queue"][i, shared["queue"].shape[1] - lane.game.delay :] = lane.queue
        shared["age"][i] = lane.steps
        shared["emulated"][i] = lane.emulated


DO: dict[bytes, Callable[[Worker], bytes | None]] = {
    b"r": Worker.reset,
    b"s": Worker.step,
    b"w": Worker.save,
    b"l": Worker.load,
}


def main() -> None:
    """Run the commands of the pool until its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool's process handles interrupts
    os.nice(5)  # where cores are few, the pool's process goes first
    commands = sys.stdin.buffer
    answers = sys.stdout.fileno()
    setup = json.loads(commands.readline())
    memory = mmap.mmap(setup["memory"], 0)
    shared = views(memory, setup["lanes"], setup["capacity"])
    worker = Worker({int(i): Lane(Game(**game)) for i, game in setup["games"].items()}, shared)
    while command := commands.read(1):
        os.write(answers, DO[command](worker) or b".")


if __name__ == "__main__":
    main()
