"""Computations over all values, on several threads if there is enough work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_PIECE = 4096
_SMALL = 200_000
"""For fewer operations than this one thread is faster: waking others would take longer."""


@numba.njit(parallel=True, cache=True)
def changes(after, before):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the least and the greatest change, and the largest absolute value before it."""
    pieces = (len(after) + _PIECE - 1) // _PIECE
    low, high, largest = np.empty(pieces), np.empty(pieces), np.empty(pieces)
    for i in numba.prange(pieces):
        least, most, size = np.inf, -np.inf, 0.0
        for j in range(i * _PIECE, min((i + 1) * _PIECE, len(after))):
            change = after[j] - before[j]
            least = min(least, change)
            most = max(most, change)
            size = max(size, abs(before[j]))
        low[i], high[i], largest[i] = least, most, size
        if not (least - least == 0.0 and most - most == 0.0):  # a NaN hides from min and max
            low[i] = np.nan
    return low.min(), high.max(), largest.max()


def on_threads(work: int, kernel: Callable[..., Any], *arguments: object) -> Any:
    """Call a kernel, on one thread if there is little work."""
    if work > _SMALL:
        return kernel(*arguments)
    allowed = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        return kernel(*arguments)
    finally:
        numba.set_num_threads(allowed)
