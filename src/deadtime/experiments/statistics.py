"""Means over seeds and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats


class Estimate(NamedTuple):
    """A mean and its 95% interval; one value has none."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """As `0.930 [0.910, 0.950]`."""
        return f"{self.mean:.3f}" + ("" if np.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]")

    def said(self) -> dict[str, Any]:
        """For JSON, which knows no NaN."""
        return {name: None if np.isnan(value) else value for name, value in self._asdict().items()}


def mean(values: Float[np.ndarray, " seeds"] | Sequence[float]) -> Estimate:
    """The mean over seeds and Student's interval, which holds its 95% at few seeds too, where a bootstrap's is too narrow."""
    values = np.asarray(values, float)
    middle = float(values.mean())
    if len(values) < 2:
        return Estimate(middle, np.nan, np.nan)
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(middle, middle - half, middle + half)


def difference(first: Float[np.ndarray, " seeds"], second: Float[np.ndarray, " seeds"]) -> Estimate:
    """The mean of first - second, paired by seed."""
    return mean(np.asarray(first, float) - np.asarray(second, float))
