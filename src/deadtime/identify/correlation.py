"""Cross-correlation of actions and later changes: a second test that needs no model of states.

A policy's actions depend on what happened before. The part of an action that the observation and
the earlier actions do not predict is its news (innovation). News can't be correlated with a change
that comes before its effect, so the first lag with a correlation is the shortest delay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadtime.identify.transitions import Transitions

_LEAST_ROWS = 6
_THRESHOLD = 4.0


@dataclass(frozen=True)
class Correlation:
    """The largest correlation of an action's news with a change, for each lag."""

    values: tuple[float, ...]
    threshold: float
    """Correlations up to this value are noise."""
    onset: int | None
    """The first lag above the threshold, which is the shortest delay."""
    peak: int
    """The lag of the largest value."""


def news_correlation(data: Transitions, news: np.ndarray) -> Correlation:
    """Return the correlation at each lag."""
    values = np.zeros(data.lags)
    for k in range(data.lags):
        use = data.known[k]
        if use.sum() > _LEAST_ROWS:
            early = news[np.flatnonzero(use) - k]
            values[k] = np.abs(_correlations(early, data.change[use])).max(initial=0.0)
    counts = data.known.sum(1)
    threshold = _THRESHOLD / np.sqrt(max(int(counts.max()), 1))
    above = np.flatnonzero(values * np.sqrt(np.maximum(counts, 1)) > _THRESHOLD)
    onset = int(above[0]) if len(above) else None
    return Correlation(tuple(values.tolist()), float(threshold), onset, int(values.argmax()))


def _correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    one, other = (values - values.mean(0) for values in (first, second))
    size = np.sqrt((one**2).sum(0))[:, None] * np.sqrt((other**2).sum(0))
    return one.T @ other / np.where(size > 0, size, np.inf)
