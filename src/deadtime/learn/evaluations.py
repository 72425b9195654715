"""Evaluations during training: mean greedy returns at regular steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deadtime.learn.run_spec import DeepRun

if TYPE_CHECKING:
    from jaxtyping import Float32

EPISODES = 5
"""The number of held-out episodes in one evaluation."""


class Evaluations:
    """The greedy returns of a group's runs at the multiples of `evaluate_every`.

    A loop that makes several steps at once evaluates at the first step that it reaches at or after
    each multiple.
    """

    def __init__(self, pairs: Sequence[tuple[DeepRun, int]]):
        """Prepare a row for each run; a run without evaluations has an empty one."""
        self._every = [spec.evaluate_every or 0 for spec, _ in pairs]
        lengths = [spec.length for spec, _ in pairs]
        points = zip(lengths, self._every, strict=True)
        self._counts = [length // every if every else 0 for length, every in points]
        width = max(self._counts)
        self.returns = np.full((len(pairs), width), np.nan, np.float32)

    def steps_left(self, done: int) -> int | None:
        """Return the steps from `done` to the next evaluation of any run; None without one."""
        waits = [
            every - done % every
            for every, count in zip(self._every, self._counts, strict=True)
            if every and done // every < count
        ]
        return min(waits, default=None)

    def due(self, done: int) -> bool:
        """Return whether a run should be evaluated after `done` steps."""
        return any(np.isnan(self.returns[i, at]) for i, at in self._places(done))

    def note(self, done: int, scores: Sequence[float]) -> None:
        """Record the mean returns of all runs after `done` steps."""
        for i, at in self._places(done):
            if np.isnan(self.returns[i, at]):
                self.returns[i, at] = scores[i]

    def of(self, i: int) -> Float32[np.ndarray, " points"]:
        """Return the evaluations of run i, in the order of their steps."""
        return self.returns[i, : self._counts[i]]

    def _places(self, done: int) -> list[tuple[int, int]]:
        """Return the last point that each run has reached, as (run, point)."""
        reached = [
            (i, min(done // every, count) - 1)
            for i, (every, count) in enumerate(zip(self._every, self._counts, strict=True))
            if every
        ]
        return [(i, at) for i, at in reached if at >= 0]
