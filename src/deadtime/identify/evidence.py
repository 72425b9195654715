"""A calibrated posterior, computed from scores.

Residuals of adjacent rows are dependent and models are approximate, so log-likelihood ratios
overstate what a log shows. The ratio between two lags is therefore compared with its own spread
over blocks of rows. If a ratio of mean L over the log is normal and calibrated, its variance is
2 L; so with the z-value Z = L / sd, the ratio may not exceed 2 Z^2. The smaller of the two is used.
"""

from __future__ import annotations

import numpy as np

_MOST_BLOCKS = 40
_LEAST_BLOCK = 20


def blocks_of(rows: int) -> np.ndarray:
    """Return the block of each row: at most 40 contiguous blocks of 20 rows or more."""
    count = max(2, min(_MOST_BLOCKS, rows // _LEAST_BLOCK))
    return np.arange(rows) * count // rows


def tempered(differences: np.ndarray) -> np.ndarray:
    """Return calibrated log-odds from log-likelihood ratios of rows, shape (…, n)."""
    block = blocks_of(differences.shape[-1])
    count = int(block[-1]) + 1
    firsts = np.searchsorted(block, np.arange(count))
    sums = np.add.reduceat(differences, firsts, axis=-1)
    total = sums.sum(-1)
    variance = sums.var(-1, ddof=1) * count
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.where(variance > 0, total**2 / variance, np.where(total == 0, 0.0, np.inf))
        limit = count * np.log1p(2 * square / count)
    return np.sign(total) * np.minimum(np.abs(total), limit)


def z_value(differences: np.ndarray) -> float:
    """Return the mean of rows over its standard error, which comes from blocks."""
    block = blocks_of(len(differences))
    sums = np.bincount(block, differences)
    spread = sums.std(ddof=1) * np.sqrt(len(sums))
    return float(sums.sum() / spread) if spread > 0 else 0.0


def posterior_of(gains: np.ndarray) -> np.ndarray:
    """Return the posterior of each lag under a uniform prior, from gains of shape (K + 1, n)."""
    best = int(gains.sum(1).argmax())
    odds = tempered(gains[best] - gains)
    odds[best] = 0.0
    weights = np.exp(-np.maximum(odds, 0.0))
    return weights / weights.sum()


def interval_of(posterior: np.ndarray, level: float) -> tuple[int, int]:
    """Return the shortest range of lags with at least the posterior probability `level`."""
    sums = np.concatenate([[0.0], posterior.cumsum()])
    for width in range(1, len(posterior) + 1):
        mass = sums[width:] - sums[:-width]
        low = int(mass.argmax())
        if mass[low] >= min(level, sums[-1] - 1e-12):
            return low, low + width - 1
    return 0, len(posterior) - 1
