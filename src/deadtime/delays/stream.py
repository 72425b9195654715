"""The ages of one channel, step by step, for a host loop."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from deadtime.delays.chain import END
from deadtime.delays.process import DelayProcess


class AgeStream:
    """A generator of the ages of `process`, with its own random stream.

    Streams with different `name` numbers are independent, even with equal seeds.
    """

    def __init__(self, process: DelayProcess, name: int = 0):
        """Use a stream without a seed until `seed` is called."""
        self.process, self._name = process, name
        self._tables = process.chain.host_tables
        self._state = 0
        self._rng = age_rng(None, name)

    def seed(self, seed: int) -> None:
        """Seed the random stream of the ages."""
        self._rng = age_rng(seed, self._name)

    def start(self) -> int:
        """Begin an episode; return its first age."""
        tables = self._tables
        place = 0
        if tables.first_cumulative:
            place = bisect_right(tables.first_cumulative, self._rng.random())
        self._state = tables.first[place]
        return tables.ages[self._state]

    def advance(self, ended: bool = False) -> int:
        """Go to the next step and return its age; raise if a trace is used up.

        After the last step of an episode (`ended`) the trace may be used up; the age then stays.
        """
        tables, width = self._tables, self._tables.width
        place = self._state * width
        if width > 1:
            low = self._state * (width - 1)
            place += bisect_right(tables.cumulative, self._rng.random(), low, low + width - 1) - low
        after = tables.successors[place]
        if after == END:
            if not ended:
                raise TraceEndError(self.process)
            after = self._state
        self._state = after
        return tables.ages[after]


def age_rng(seed: int | None, name: int) -> np.random.Generator:
    """Return the random generator of the stream `name`, independent of all other random numbers."""
    return np.random.default_rng(None if seed is None else [seed, name, 0xA6E5])


class TraceEndError(ValueError):
    """The error for an episode that is longer than its trace of delays."""

    def __init__(self, process: DelayProcess):
        """Write the message, with the trace's length and the remedies."""
        length = process.chain.size
        super().__init__(
            f"an episode is no longer than the trace of its delays; got a trace of {length} steps "
            "and an episode "
            "that goes on: pass a longer trace, Trace(…, repeat=True), or a time limit of "
            f"{length} steps"
        )
