"""The wait of an action until its first execution, and the actions that are executed before it.

An agent that predicts the state in which its action will be executed must know how long that takes.
The action chosen now waits n steps if step n from now executes it, and every step before executes
an older action: with the ages z_0, z_1, … from now on, z_j > j for j < n, and z_n = n. All actions
that are executed on the way are then known. If a newer action is executed first, the action is
overtaken. A channel that is in order then never executes it. So laws of the wait are conditional:
the action is not overtaken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from deadtime.delays.chain import Chain
from deadtime.delays.convention import check_memory
from deadtime.delays.process import DelayProcess

Observed = Literal["now", "hindsight", "never"]
"""When an agent learns the age z_t: before it chooses a_t, one step later, or never."""
OBSERVED: tuple[Observed, ...] = ("now", "hindsight", "never")
WAYS_VERSION = 2
"""The version of the choice of ways for networks: part of the ids of agents that predict along
them. In version 1 the ages of a way were the most likely ones.
"""
_STEPS = 256
"""The number of steps of an episode over which the law of the channel is averaged."""


class Waits(NamedTuple):
    """The ways from now to the first execution of the action chosen now.

    Row i is for a known age of i - 1. Row 0 is for an agent that knows no age: always with
    "never", and before the first step with "hindsight". Way r of a row takes `steps[i, r]` steps
    and has the probability `weights[i, r]`; `ages[i, r, j]` is the age that step j from now reads.
    """

    steps: np.ndarray
    weights: np.ndarray
    ages: np.ndarray


def waits_of(
    process: DelayProcess, observed: Observed, *, likely: bool = False, every: bool = False
) -> Waits:
    """Return the ways to the first execution, by the age that the agent knows.

    By default a row has one way, the *expected* one: it has the possible number of steps that is
    nearest to the mean. With `every` a row has one way for each possible number of steps.

    Agents with a network predict the mean of the next state, so the ages of a way are the possible
    ones nearest to the mean ages of all ways of its length (least squares). Agents with a table
    predict the most likely next state. With `likely` the ages are therefore followed back from the
    way's end: before each state of the channel comes the most likely one of those that lead to it.
    A network would fare badly with these: where all latencies are equally likely, they skip the
    same pending action at every decision.
    """
    longest = process.longest
    ways = longest + 1 if every else 1
    numbers = (longest + 2) * longest * (ways + process.chain.size)
    check_memory("the waits of a delay that varies", longest, 8 * numbers)
    found = Waits(
        np.zeros((longest + 2, ways), np.int64),
        np.zeros((longest + 2, ways)),
        np.zeros((longest + 2, ways, longest), np.int64),
    )
    moves = _Moves(process.chain)
    for row, law in enumerate(_known_laws(process.chain, moves, observed)):
        if law.any():
            _fill(found, row, moves, law, _likely_ages if likely else _mean_ages)
    return found


def pending_counts(process: DelayProcess, observed: Observed) -> np.ndarray:
    """Return how many of the last K actions may still be executed, in the rows of `Waits`.

    A constant delay has one row.
    """
    first = np.array([process.longest])
    if process.constant is not None:
        return first
    if observed == "never":
        return np.full(process.longest + 2, process.longest)
    chain = process.chain
    return np.concatenate([first, chain.pending_now if observed == "now" else chain.pending_after])


def _fill(found: Waits, row: int, moves: _Moves, law: np.ndarray, ages_of: _AgesOf) -> None:
    """Fill the ways of a row, from the law of the channel's present state."""
    longest = found.ages.shape[2]
    laws = []
    arrived = np.zeros(longest + 1)
    for n in range(longest + 1):
        laws.append(law)
        arrived[n] = law[moves.ages == n].sum()
        law = moves.after(np.where(moves.ages > n, law, 0.0))
    possible = np.flatnonzero(arrived)
    if not len(possible):  # it is always overtaken
        return
    weights = arrived / arrived.sum()
    chosen = possible
    if found.steps.shape[1] == 1:
        mean = weights @ np.arange(longest + 1)
        chosen = possible[[np.argmin(np.abs(possible - mean))]]
        weights = np.ones(longest + 1)
    for way, n in enumerate(chosen.tolist()):
        found.steps[row, way], found.weights[row, way] = n, weights[n]
        found.ages[row, way, :n] = ages_of(moves, laws, n)


def _likely_ages(moves: _Moves, laws: list[np.ndarray], n: int) -> np.ndarray:
    """Return ages of a way of n steps, each the most likely one before the next."""
    state = int(np.argmax(np.where(moves.ages == n, laws[n], -1.0)))
    found = np.zeros(n, np.int64)
    for j in reversed(range(n)):
        state = moves.likely_before(state, np.where(moves.ages > j, laws[j], 0.0))
        found[j] = moves.ages[state]
    return found


def _mean_ages(moves: _Moves, laws: list[np.ndarray], n: int) -> np.ndarray:
    """Return the possible ages of a way of n steps that are nearest to the mean ages."""
    ages = moves.ages
    arrives = np.where(ages == n, 1.0, 0.0)
    costs = []
    for j in reversed(range(n)):
        arrives = np.where(ages > j, moves.before(arrives), 0.0)
        weights = np.where(ages > j, laws[j], 0.0) * arrives
        mean = weights @ ages / weights.sum()
        costs.append(np.where(weights > 0.0, (ages - mean) ** 2, np.inf))
    costs = [*reversed(costs), np.where((ages == n) & (laws[n] > 0.0), 0.0, np.inf)]
    steps = []
    total = costs[0]
    for cost in costs[1:]:
        least, best = moves.cheapest_before(total)
        total = cost + least
        steps.append(best)
    state = int(np.argmin(total))
    found = np.zeros(n, np.int64)
    for j in reversed(range(n)):
        state = int(steps[j][state])
        found[j] = ages[state]
    return found


def _known_laws(chain: Chain, moves: _Moves, observed: Observed) -> list[np.ndarray]:
    """Return the law of the channel's present state for each row of `Waits`, or zeros."""
    usual = moves.usual(chain.start)
    nothing = np.zeros(chain.size)
    given = [np.where(chain.ages == age, usual, 0.0) for age in range(chain.longest + 1)]
    if observed == "never":
        return [usual, *[nothing] * len(given)]
    if observed == "now":
        return [nothing, *given]
    return [chain.start, *(moves.after(law) for law in given)]


class _Moves:
    """The transitions of a chain as a list of edges, in the order of their ends."""

    def __init__(self, chain: Chain):
        rows, places = np.nonzero(chain.transitions)
        chances = chain.transitions[rows, places]
        ends = places if chain.successors is None else chain.successors[rows, places]
        order = np.argsort(ends, kind="stable")[(ends < 0).sum() :]  # -1 is the end of a trace
        self.ages = chain.ages
        self._from = rows[order]
        self._to = ends[order]
        self._chances = chances[order]
        self._first = np.searchsorted(self._to, np.arange(chain.size + 1))

    def after(self, law: np.ndarray) -> np.ndarray:
        """Return the law one step later."""
        moved = law[self._from] * self._chances
        return np.bincount(self._to, moved, minlength=len(law))

    def likely_before(self, state: int, law: np.ndarray) -> int:
        """Return the most likely state before `state`, if `law` is that of the step before."""
        part = slice(self._first[state], self._first[state + 1])
        return int(self._from[part][np.argmax(law[self._from[part]] * self._chances[part])])

    def before(self, values: np.ndarray) -> np.ndarray:
        """Return the expected value one step later, from each state."""
        expected = values[self._to] * self._chances
        return np.bincount(self._from, expected, minlength=len(values))

    def cheapest_before(self, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the least cost of the states that lead to each state, and the first with it."""
        least = np.full(len(costs), np.inf)
        found = np.zeros(len(costs), np.int64)
        here = np.flatnonzero(np.diff(self._first))
        edges = costs[self._from]
        least[here] = np.minimum.reduceat(edges, self._first[here])
        cheapest = np.flatnonzero(edges == least[self._to])
        ends, first = np.unique(self._to[cheapest], return_index=True)
        found[ends] = self._from[cheapest[first]]
        return least, found

    def usual(self, start: np.ndarray) -> np.ndarray:
        """Return the law of the state at an unknown step of an episode."""
        law = start
        total = np.zeros(len(start))
        for _ in range(_STEPS):
            total += law
            law = self.after(law)
        return total / _STEPS


_AgesOf = Callable[[_Moves, list[np.ndarray], int], np.ndarray]
"""A function that returns the ages of a way, from the laws of its steps and their number."""
