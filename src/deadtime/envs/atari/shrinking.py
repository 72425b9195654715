"""Screens of an emulator, shrunk to small square frames as OpenCV's INTER_AREA does."""

from __future__ import annotations

import math
from functools import cache

import numba
import numpy as np

from deadtime.envs.atari.games import SIDE


@cache
def pixel_weights(height: int, width: int) -> tuple[np.ndarray, ...]:
    """Return the screen rows and columns that each pixel of a frame covers, with their weights."""
    places: list[np.ndarray] = []
    for size in (height, width):
        taps = [_covered(i * size / SIDE, i * size / SIDE + size / SIDE, size) for i in range(SIDE)]
        most = max(3, *map(len, taps))
        padded = [one + [(one[-1][0], 0.0)] * (most - len(one)) for one in taps]
        places += [np.array([[tap[0] for tap in one] for one in padded]).T.astype(np.uint64).copy()]
        places += [
            np.array([[tap[1] for tap in one] for one in padded]).T.astype(np.float32).copy()
        ]
    return tuple(places)


def _covered(begin: float, end: float, size: int) -> list[tuple[int, float]]:
    """Return the pixels from `begin` to `end`, each with its share of the interval."""
    whole = min(end - begin, size - begin)
    first, last = min(math.ceil(begin), size - 1), min(math.floor(end), size - 1)
    found = [(first - 1, (first - begin) / whole)] if first - begin > 1e-3 else []
    found += [(place, 1.0 / whole) for place in range(first, last)]
    return found + ([(last, min(end - last, 1.0) / whole)] if end - last > 1e-3 else [])


@numba.njit(cache=True)
def shrink(screens, out, rows, row_weights, columns, column_weights):  # type: ignore[no-untyped-def]
    """Shrink the maximum of two screens, with the same numbers as OpenCV's INTER_AREA.

    The maximum is kept in the first screen.
    """
    np.maximum(screens[0], screens[1], screens[0])
    lines = np.empty((screens.shape[1], out.shape[1]), np.float32)
    (first, second, third), (a, b, c) = columns, column_weights
    for y in range(lines.shape[0]):
        screen, line = screens[0, y], lines[y]
        for x in range(line.shape[0]):
            line[x] = screen[first[x]] * a[x] + screen[second[x]] * b[x] + screen[third[x]] * c[x]
    total = np.empty(out.shape[1], np.float32)
    for y in range(out.shape[0]):
        total[:] = np.float32(0.0)
        for i in range(rows.shape[0]):
            line, weight = lines[rows[i, y]], row_weights[i, y]
            for x in range(line.shape[0]):
                total[x] += weight * line[x]
        for x in range(line.shape[0]):
            out[y, x] = np.uint8(np.rint(total[x]))
