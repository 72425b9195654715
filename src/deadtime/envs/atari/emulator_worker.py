"""The worker process that plays some of a pool's games."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deadtime.envs.atari.games import SIDE, STACK
from deadtime.envs.atari.lane import Lane
from deadtime.envs.worker import LOAD, RESET, SAVE, STEP, Layout, serve


def layout_of(lanes: int, capacity: int) -> Layout:
    """Return the arrays that a pool and its workers share.

    The state of a lane takes about 210,000 bytes, and 8,000 more per step of delay for kept paths.
    """
    return {
        "chosen": ((lanes,), np.int32),
        "resting": ((lanes,), np.bool_),
        "calls": ((lanes,), np.int64),
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


class GameWorker:
    """The games of one worker process (see `worker.Worker`)."""

    def __init__(self, lanes: dict[int, Lane], shared: dict[str, np.ndarray]):
        """Take the lanes, each by the number of its row in the shared arrays."""
        self._lanes = lanes
        self._shared = shared

    @property
    def commands(self) -> Mapping[bytes, Callable[[], None]]:
        """The function of each command."""
        return {RESET: self.reset, STEP: self.step, SAVE: self.save, LOAD: self.load}

    def reset(self) -> None:
        """Start a new episode on every lane."""
        for i, lane in self._lanes.items():
            lane.reset()
            self._shared["calls"][i] += 1
            self._show(i, lane)

    def step(self) -> None:
        """Step each lane that has an action; after an episode the next one starts."""
        shared = self._shared
        for i, lane in self._lanes.items():
            if shared["resting"][i]:
                continue
            lane.step(int(shared["chosen"][i]))
            shared["calls"][i] += 1
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

    def load(self) -> None:
        """Restore the states in the shared memory; raise if one of them is not valid."""
        for i, lane in self._lanes.items():
            try:
                lane.restore(self._shared["state"][i, : self._shared["state_bytes"][i]].tobytes())
            except ValueError as error:
                raise ValueError(
                    f"a game can't be restored from its saved state ({error}): "
                    "train it again from the start"
                ) from error
            self._show(i, lane)

    def _show(self, i: int, lane: Lane) -> None:
        shared = self._shared
        shared["frame"][i] = lane.real.stack[-1]
        shared["shown"][i] = lane.shown
        shared["queue"][i, shared["queue"].shape[1] - lane.game.delay :] = lane.queue
        shared["age"][i] = lane.steps
        shared["emulated"][i] = lane.emulated


def _begin(setup: dict[str, Any], shared: dict[str, np.ndarray]) -> GameWorker:
    return GameWorker({i: Lane(game) for i, game in setup["games"].items()}, shared)


if __name__ == "__main__":
    serve(_begin)
