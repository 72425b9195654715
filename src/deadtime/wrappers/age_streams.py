"""The ages of a batch of channels, one random stream for each environment."""

from __future__ import annotations

import numpy as np

from deadtime.delays.chain import END
from deadtime.delays.process import DelayProcess
from deadtime.delays.stream import TraceEndError, age_rng

_BLOCK = 256


class _Numbers:
    """Uniform random numbers, one generator for each row.

    Blocks of draws contain the same numbers as single draws.
    """

    def __init__(self, name: int, count: int):
        self._name = name
        self._rngs = [age_rng(None, name) for _ in range(count)]
        self._blocks: np.ndarray = np.zeros((count, _BLOCK))
        self._used: np.ndarray = np.full(count, _BLOCK)

    def seed(self, row: int, seed: int) -> None:
        self._rngs[row] = age_rng(seed, self._name)
        self._used[row] = _BLOCK

    def draw(self, rows: np.ndarray) -> np.ndarray:
        """Return the next number of each of `rows`."""
        used = self._used[rows]
        if (used == _BLOCK).any():
            for row in rows[used == _BLOCK]:
                self._blocks[row] = self._rngs[row].random(_BLOCK)
                self._used[row] = 0
            used = self._used[rows]
        self._used[rows] = used + 1
        return self._blocks[rows, used]


class AgeStreams:
    """The present age of each environment.

    Environment i draws the same ages as `deadtime.delays.AgeStream` with its seed.
    """

    def __init__(self, process: DelayProcess, name: int, count: int):
        """Make the streams; a constant process needs none."""
        self.random = process.constant is None
        """True if ages vary at all."""
        self.now: np.ndarray = np.full(count, 0 if self.random else process.longest, np.int64)
        self._process = process
        self._every = np.arange(count)
        self._states: np.ndarray = np.zeros(count, np.int32)
        self._numbers = _Numbers(name, count if self.random else 0)

    def start(self, started: np.ndarray, seeds: list[int | None] | None = None) -> None:
        """Begin an episode in the environments of the mask `started`."""
        if not self.random:
            return
        rows = np.flatnonzero(started)
        for i in rows.tolist():
            if seeds is not None and (seed := seeds[i]) is not None:
                self._numbers.seed(i, seed)
        chain = self._process.chain
        u = self._numbers.draw(rows) if chain.starts_randomly else np.zeros(len(rows))
        states = self._states.copy()
        states[rows] = chain.initial(u)
        self._go(states)

    def advance(self, going: np.ndarray, ended: np.ndarray) -> None:
        """Go to the next step of the episodes in `going`; those in `ended` ended with this step."""
        if not self.random:
            return
        chain = self._process.chain
        rows = self._every if going.all() else np.flatnonzero(going)
        before = self._states[rows]
        after = chain.next(before, None if chain.deterministic else self._numbers.draw(rows))
        if not chain.endless:
            over = after == END
            if (over & ~ended[rows]).any():
                raise TraceEndError(self._process)
            after = np.where(over, before, after)
        if rows is not self._every:
            states = self._states.copy()
            states[rows] = after
            after = states
        self._go(after)

    def _go(self, states: np.ndarray) -> None:
        self._states = states
        self.now = self._process.chain.ages[states]
