"""A pool of Gymnasium environments in worker processes, with several environments each.

Each worker steps its lanes in a `LocalPool`, delays included. So the pool plays the same bits as a
`LocalPool` of all lanes, for any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector.utils import CloudpickleWrapper

from deadtime._support.machine import cores
from deadtime.delays import as_process
from deadtime.envs.local_pool import LocalPool
from deadtime.envs.pools import Lane, Played
from deadtime.envs.worker import Layout
from deadtime.envs.worker_pool import WorkerPool, other_seed

MakePool = Callable[[Sequence[Lane], int], LocalPool]
"""A function that makes the pool of some lanes, with queues of a given length at least."""
COPIED = (
    "shown",
    "queue",
    "age",
    "executed",
    "reward",
    "earned",
    "terminated",
    "truncated",
    "life_lost",
    "frame",
    "after",
    "queue_after",
    "action_age",
    "next_age",
    "age_now",
)
"""The fields of `Played` that workers write; frames have no `after`, and numbers no `frame`."""


class ProcessPool(WorkerPool):
    """A pool of Gymnasium environments in worker processes (see `pools.Pool`)."""

    module = "deadtime.envs.process_worker"
    saves = False

    def __init__(
        self, lanes: Sequence[Lane], make: MakePool, name: str, workers: int | None = None
    ):
        """Start the workers; each calls `make` with its lanes, which must be alike in their spaces.

        `make` and the lanes are pickled by value where they can't be imported.
        """
        self._lanes = list(lanes)
        self._make = make
        count = min(workers or cores(), len(lanes))
        shares = [part.tolist() for part in np.array_split(np.arange(len(lanes)), count)]
        super().__init__(_layout_of(lanes), shares, name)

    def _setup(self, places: Sequence[int]) -> dict[str, Any]:
        lanes = [self._lanes[place] for place in places]
        capacity = self.memory["queue"].shape[1]
        make = CloudpickleWrapper(partial(self._make, lanes, capacity))  # type: ignore[arg-type]
        return {"rows": (places[0], places[-1] + 1), "make": make}

    def _renew(self, place: int) -> None:
        lane = self._lanes[place]
        self._lanes[place] = lane._replace(seed=other_seed(lane.seed))

    def _played(self) -> Played:
        """Return copies, since the next step overwrites the shared arrays."""
        fields = {name: self.memory[name].copy() for name in COPIED if name in self.memory}
        return Played(**fields, lost=self._lost.copy())

    def save(self) -> list[bytes]:
        """Raise, because a Gymnasium environment can't be saved in general."""
        raise NotImplementedError

    def load(self, states: Sequence[bytes]) -> Played:
        """Raise, because a Gymnasium environment can't be saved in general."""
        raise NotImplementedError


def _layout_of(lanes: Sequence[Lane]) -> Layout:
    environment = lanes[0].environment
    seen = environment.observation_space()
    actions = environment.action_space()
    shape = tuple(actions.shape)
    kind = np.int32 if not shape else np.float32
    count = len(lanes)
    longest = max(as_process(lane.delay).longest for lane in lanes)
    queue = (count, longest, *shape), kind
    shown = (count, *seen.shape), seen.dtype
    frame = {"frame": ((count, *seen.shape[1:]), seen.dtype)}
    number = (count,), np.int64
    flag = (count,), np.bool_
    return {
        "chosen": ((count, *shape), kind),
        "resting": flag,
        "calls": number,
        "shown": shown,
        "queue": queue,
        "age": number,
        "executed": ((count, *shape), kind),
        "reward": ((count,), np.float32),
        "earned": ((count,), np.float64),
        "terminated": flag,
        "truncated": flag,
        "life_lost": flag,
        "queue_after": queue,
        "action_age": ((count,), np.int32),
        "next_age": ((count,), np.int32),
        "age_now": ((count,), np.int32),
        **(frame if len(seen.shape) > 1 else {"after": shown}),
    }
