"""The process that plays some of a pool's games: `python -m deadtime.envs.atari.emulator_worker`, started by `atari.Pool`.

It reads one line that says what to play and where the shared memory is, then one byte for each thing to do, and answers each
with one byte. It ends when the other side of its input is gone, however that came to be.
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
"""The answer to a state that can't be restored."""


def views(memory: Any, lanes: int, capacity: int) -> dict[str, np.ndarray]:
    """The arrays that a pool and its workers share; without memory, empty ones to measure.

    What a lane needs to go on from is some 210,000 bytes, and where paths are kept 8,000 more for each step of delay.
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
    found, first = {}, 0
    for name, (shape, kind) in shapes.items():
        found[name] = (
            np.ndarray(shape, kind, memory, first) if memory is not None else np.empty(shape, kind)
        )
        first += -(-found[name].nbytes // 64) * 64
    return found


class Worker:
    """Some lanes of a pool, at their places in the shared arrays."""

    def __init__(self, lanes: dict[int, Lane], shared: dict[str, np.ndarray]):
        """`lanes` by their places."""
        self._lanes, self._shared = lanes, shared

    def reset(self) -> None:
        """Begin episodes everywhere."""
        for i, lane in self._lanes.items():
            lane.reset()
            self._show(i, lane)

    def step(self) -> None:
        """One step of each lane that was given an action; an episode that ends is followed by the next."""
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
        """Put down what each lane needs to go on."""
        for i, lane in self._lanes.items():
            content = np.frombuffer(lane.saved(), np.uint8)
            self._shared["state_bytes"][i] = len(content)
            self._shared["state"][i, : len(content)] = content

    def load(self) -> bytes | None:
        """Go on from what was put there, unless a lane can't."""
        for i, lane in self._lanes.items():
            try:
                lane.restore(self._shared["state"][i, : self._shared["state_bytes"][i]].tobytes())
            except ValueError as error:
                print(f"a game can't go on from what was saved of it: {error}", file=sys.stderr)
                return REFUSED
            self._show(i, lane)
        return None

    def _show(self, i: int, lane: Lane) -> None:
        shared = self._shared
        shared["frame"][i], shared["shown"][i] = lane.real.stack[-1], lane.shown
        shared["queue"][i, shared["queue"].shape[1] - lane.game.delay :] = lane.queue
        shared["age"][i], shared["emulated"][i] = lane.steps, lane.emulated


DO: dict[bytes, Callable[[Worker], bytes | None]] = {
    b"r": Worker.reset,
    b"s": Worker.step,
    b"w": Worker.save,
    b"l": Worker.load,
}


def main() -> None:
    """Serve until the pool is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool's process decides when to stop
    os.nice(5)  # and goes first where cores are few, since all wait for it
    commands, answers = sys.stdin.buffer, sys.stdout.fileno()
    told = json.loads(commands.readline())
    memory = mmap.mmap(told["memory"], 0)
    shared = views(memory, told["lanes"], told["capacity"])
    worker = Worker({int(i): Lane(Game(**game)) for i, game in told["games"].items()}, shared)
    while command := commands.read(1):
        os.write(answers, DO[command](worker) or b".")


if __name__ == "__main__":
    main()
