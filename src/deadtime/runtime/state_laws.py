"""The law of the state after the pending actions, from the counts of a tabular model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Int32


def rolled_law(
    successors: Int32[np.ndarray, "S A K"],
    visits: Int[np.ndarray, "S A K"],
    state: int,
    queue: Iterable[int],
) -> Float[np.ndarray, " S"]:
    """Return the probability of each state after the actions of `queue`.

    A successor of -1 ends the list of observed successors. The model predicts no change for a pair
    that was never tried. Sums run in the order of the compiled training code, so both give the same
    bits.
    """
    total = np.zeros(len(successors))
    place = np.zeros(len(successors), np.int64)
    members = np.array([state])
    weights = np.ones(1)
    for action in queue:
        seen = visits[members, action]
        after, shares = _moved(successors[members, action], seen, members, weights)
        np.add.at(total, after, shares)
        members = _in_order(after, place)
        weights = total[members]
        total[members] = 0.0
    total[members] = weights
    return total


def _moved(
    after: np.ndarray, visits: np.ndarray, members: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the states after one step, member by member, and the weight of each."""
    counts = visits.sum(axis=1)
    untried = counts == 0
    if untried.any():  # predict the member itself, as if it had been seen once
        after = np.where(untried[:, None], -1, after)
        after[untried, 0] = members[untried]
        visits = np.where(untried[:, None], 1, visits)
        counts = np.where(untried, 1, counts)
    shares = weights[:, None] * visits / counts[:, None]
    kept = shares > 0.0
    if (after < 0).any():
        kept &= np.logical_and.accumulate(after >= 0, axis=1)
    return after[kept], shares[kept]


def _in_order(states: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the distinct `states` in the order of their first occurrence.

    `place` is a buffer with one number per state, and is overwritten.
    """
    order = np.arange(len(states))
    place[states[::-1]] = order[::-1]  # NumPy keeps the last of several assignments
    return states[place[states] == order]
