"""The worker process that steps some of the environments of a `ProcessPool`."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from deadtime.envs.local_pool import LocalPool
from deadtime.envs.pools import Played
from deadtime.envs.process_pool import COPIED
from deadtime.envs.worker import RESET, STEP, serve


class EnvWorker:
    """The environments of one worker process (see `worker.Worker`)."""

    def __init__(self, pool: LocalPool, shared: dict[str, np.ndarray]):
        """Take the pool of this worker's lanes, and their rows of the shared arrays."""
        self._pool = pool
        self._shared = shared
        pool.calls = shared["calls"]

    @property
    def commands(self) -> Mapping[bytes, Callable[[], None]]:
        """The function of each command."""
        return {RESET: self.reset, STEP: self.step}

    def reset(self) -> None:
        """Start a new episode on every lane."""
        self._write(self._pool.reset())

    def step(self) -> None:
        """Step each lane that does not rest; after an episode the next one starts."""
        self._pool.send(self._shared["chosen"], self._shared["resting"])
        self._write(self._pool.receive())

    def _write(self, played: Played) -> None:
        for name in {*COPIED} & self._shared.keys():
            self._shared[name][:] = getattr(played, name)


@contextmanager
def _no_repeats() -> Iterator[None]:
    """Hide what environments print to stderr as they are made, unless one fails.

    The pool's process has made one of them before, so it has printed the same.
    """
    error = sys.stderr.fileno()
    before = os.dup(error)
    with tempfile.TemporaryFile() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.dup2(file.fileno(), error)
        try:
            yield
        except BaseException:
            file.seek(0)
            os.write(before, file.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(before, error)
            os.close(before)


def _begin(setup: dict[str, Any], shared: dict[str, np.ndarray]) -> EnvWorker:
    rows = slice(*setup["rows"])
    with _no_repeats():
        pool = setup["make"]()
    return EnvWorker(pool, {name: array[rows] for name, array in shared.items()})


if __name__ == "__main__":
    serve(_begin)
