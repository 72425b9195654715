"""The timeline of a delay process: which step reads the item of which step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deadtime.delays.parse import DelayLike, as_process
from deadtime.delays.stream import AgeStream


class Timeline(NamedTuple):
    """One episode's ages: step t reads the item made at step ``made[t] = t - ages[t]``; below 0, a
    warm-up item.
    """

    ages: np.ndarray
    made: np.ndarray


def timeline(delay: DelayLike, steps: int, seed: int = 0) -> Timeline:
    """Return the ages of the first `steps` steps of an episode."""
    stream = AgeStream(as_process(delay))
    stream.seed(seed)
    ages = np.array([stream.advance() if t else stream.start() for t in range(steps)], np.int64)
    return Timeline(ages, np.arange(steps) - ages)
