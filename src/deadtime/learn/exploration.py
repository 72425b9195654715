"""Functions that choose an action from values, with one uniform number per decision."""

from __future__ import annotations

import numba
import numpy as np
from jaxtyping import Float, UInt64

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@numba.njit(cache=True)
def uniform(streams: UInt64[np.ndarray, " n"], which: int) -> float:
    """Return the next number in [0, 1) of one of several streams.

    The generator is SplitMix64, whose state is one word.
    """
    streams[which] += _STEP
    z = streams[which]
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@numba.njit(cache=True)
def draw(  # type: ignore[no-untyped-def]
    values, cumulative, streams, which
):
    """Return one of `values`, by their cumulative probabilities; one value alone needs no draw."""
    if values.shape[0] == 1:
        return values[0]
    u = uniform(streams, which)
    place = 0
    while place < cumulative.shape[0] and u >= cumulative[place]:
        place += 1
    return values[place]


@numba.njit(cache=True)
def epsilon_greedy(q: Float[np.ndarray, "rows A"], row: int, epsilon: float, u: float) -> int:
    """Return a random action with probability `epsilon`, else one of the row's best.

    Ties are broken at random. The uniform number `u` decides everything.
    """
    actions = q.shape[1]
    if u < epsilon:
        return min(int(u / epsilon * actions), actions - 1)
    best, ties, chosen = q[row, 0], 1, 0
    for a in range(1, actions):
        if q[row, a] > best:
            best, ties, chosen = q[row, a], 1, a
        elif q[row, a] == best:
            ties += 1
    if ties == 1:
        return chosen
    skip = min(int((u - epsilon) / (1.0 - epsilon) * ties), ties - 1)
    for a in range(actions):
        if q[row, a] == best:
            if skip == 0:
                return a
            skip -= 1
    return chosen


@numba.njit(cache=True)
def best_value(q: Float[np.ndarray, "rows A"], row: int) -> float:
    """Return the largest value of a row; faster than `q[row].max()`, which makes a view."""
    best = q[row, 0]
    for a in range(1, q.shape[1]):
        best = max(best, q[row, a])
    return best
