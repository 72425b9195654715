"""Means over seeds and their intervals, by bootstrap with explicit seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats


class Estimate(NamedTuple):
    """A mean and its 95% interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """As `0.93 [0.91, 0.95]`."""
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean(values: Float[np.ndarray, " seeds"] | Sequence[float]) -> Estimate:
    """The mean over seeds with a bias-corrected bootstrap interval; one value, or equal ones, are their own interval."""
    values = np.asarray(values, float)
    middle = float(values.mean())
    if len(values) < 2 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return Estimate(middle, middle, middle)
    found = stats.bootstrap((values,), np.mean, rng=np.random.default_rng(0), n_resamples=9999, method="BCa")
    return Estimate(middle, float(found.confidence_interval.low), float(found.confidence_interval.high))


def difference(first: Float[np.ndarray, " seeds"], second: Float[np.ndarray, " seeds"]) -> Estimate:
    """The mean of first - second, paired by seed."""
    return mean(np.asarray(first, float) - np.asarray(second, float))
