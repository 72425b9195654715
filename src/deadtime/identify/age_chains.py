"""Laws of ages that can be estimated, each with its transitions and its update from counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from deadtime.delays import Categorical, DelayProcess, PerEpisode, RandomWalk

_LEAST = 5e-3
"""Probabilities below this are left out of an estimated process."""
_LEAST_MOVE = 0.05
"""The least probability of a move; ages that move less count as held for an episode."""


@dataclass(frozen=True)
class Counts:
    """Expected numbers of moves between ages, (K + 1, K + 1), and of first ages, (K + 1,)."""

    moves: np.ndarray
    first: np.ndarray


@dataclass(frozen=True)
class AgeChain(ABC):
    """A Markov chain on the ages 0 … K with a law to estimate."""

    law: np.ndarray

    @abstractmethod
    def transitions(self) -> np.ndarray:
        """Return the probability of each next age, by age."""

    @abstractmethod
    def updated(self, counts: Counts) -> AgeChain:
        """Return the chain that makes the counts most likely."""

    @abstractmethod
    def process(self) -> DelayProcess:
        """Return the chain as a delay process."""

    def start(self) -> np.ndarray:
        """Return the law of the first age."""
        return self.law

    def pruned(self, least: float) -> AgeChain:
        """Return the chain without outcomes less probable than `least`."""
        return replace(self, law=_normal(np.where(self.law < least, 0.0, self.law)))

    @property
    def numbers(self) -> int:
        """The number of free parameters, for the penalty of a richer law."""
        return max(int((self.law > _LEAST).sum()) - 1, 1)


@dataclass(frozen=True)
class Anew(AgeChain):
    """Ages drawn anew at each step."""

    law: np.ndarray

    def transitions(self) -> np.ndarray:
        """Return the law in each row."""
        return np.tile(self.law, (len(self.law), 1))

    def updated(self, counts: Counts) -> AgeChain:
        """Return the chain with the frequencies of ages as its law."""
        return Anew(_normal(counts.moves.sum(0) + counts.first))

    def process(self) -> DelayProcess:
        """Return the law with `in_order=False`."""
        return Categorical(_kept(self.law), in_order=False)


@dataclass(frozen=True)
class NewestArrival(AgeChain):
    """Ages of independent latencies, where the newest arrival counts: z' = min(z + 1, D)."""

    law: np.ndarray

    def transitions(self) -> np.ndarray:
        """Return P(D = j) for ages j up to the present age k; age k + 1 has the rest."""
        size = len(self.law)
        matrix = np.tril(np.tile(self.law, (size, 1)))
        longer = 1 - np.minimum(self.law.cumsum(), 1.0)
        rows = np.arange(size - 1)
        matrix[rows, rows + 1] = longer[:-1]
        return matrix / np.maximum(matrix.sum(1, keepdims=True), 1e-300)

    def start(self) -> np.ndarray:
        """Return the stationary law of ages: P(z ≥ k) is the product of P(D ≥ j) for j ≤ k."""
        tails = self.law[::-1].cumsum()[::-1]
        at_least = np.append(np.concatenate([[1.0], tails[1:]]).cumprod(), 0.0)
        return _normal(np.maximum(at_least[:-1] - at_least[1:], 0.0))

    def updated(self, counts: Counts) -> AgeChain:
        """Return the chain with the observed hazards; a move to an older age censors a latency."""
        size = len(self.law)
        to_newer = np.tril(counts.moves)
        held = counts.moves[np.arange(size - 1), np.arange(1, size)]
        events = to_newer.sum(0)
        # A latency that ends at j, or is censored after age z, was at risk at all i up to that.
        at_risk = events[::-1].cumsum()[::-1]
        at_risk[:-1] += held[::-1].cumsum()[::-1]
        hazard = np.divide(events, at_risk, out=np.zeros(size), where=at_risk > 1e-9)
        hazard[-1] = 1.0
        alive = np.concatenate([[1.0], np.cumprod(1 - hazard)[:-1]])
        return NewestArrival(_normal(hazard * alive))

    def process(self) -> DelayProcess:
        """Return the law of latencies, up to the longest age that a log has shown.

        A log shows nothing of longer latencies: a newer action arrives before such a message.
        """
        longest = int(np.flatnonzero(self.start() >= _LEAST)[-1])
        return Categorical(_kept(np.append(self.law[:longest], self.law[longest:].sum())))


@dataclass(frozen=True)
class OneAge(AgeChain):
    """One age for a whole episode."""

    law: np.ndarray

    def transitions(self) -> np.ndarray:
        """Return the identity."""
        return np.eye(len(self.law))

    def updated(self, counts: Counts) -> AgeChain:
        """Return the chain whose start law is the frequencies of first ages."""
        return OneAge(_normal(counts.first))

    def process(self) -> DelayProcess:
        """Return the process that draws an age for each episode."""
        return PerEpisode(Categorical(_kept(self.law), in_order=False))


@dataclass(frozen=True)
class Drifting(AgeChain):
    """Ages that move by at most one, with equal probability up and down."""

    law: np.ndarray
    move: float

    def transitions(self) -> np.ndarray:
        """Return the walk between the shortest and the longest age."""
        low, high = self._range()
        size = len(self.law)
        matrix = np.eye(size)
        for age in range(low, high + 1):
            for other in (age - 1, age + 1):
                if low <= other <= high:
                    matrix[age, other] = self.move / 2
                    matrix[age, age] -= self.move / 2
        return matrix

    def _range(self) -> tuple[int, int]:
        kept = np.flatnonzero(self.law > 2 * _LEAST)
        return int(kept[0]), int(kept[-1])

    def start(self) -> np.ndarray:
        """Return the uniform law on the range."""
        low, high = self._range()
        ages = np.arange(len(self.law))
        return _normal(((ages >= low) & (ages <= high)).astype(float))

    def updated(self, counts: Counts) -> AgeChain:
        """Return the chain with the observed share of moves among those that were possible."""
        low, high = self._range()
        inside = counts.moves[low : high + 1, low : high + 1]
        moved = np.trace(inside, 1) + np.trace(inside, -1)
        tried = inside.sum() - (inside[0].sum() + inside[-1].sum()) / 2
        move = float(np.clip(moved / max(tried, 1e-9), _LEAST_MOVE, 1.0))
        return Drifting(_normal(counts.moves.sum(0) + counts.first), move)

    def process(self) -> DelayProcess:
        """Return the random walk."""
        low, high = self._range()
        return RandomWalk(low, high, round(self.move, 3))

    @property
    def numbers(self) -> int:
        """Three free parameters: both ends of the range and the probability of a move."""
        return 3


def _normal(weights: np.ndarray) -> np.ndarray:
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))


def _kept(law: np.ndarray) -> tuple[float, ...]:
    """Return the law without improbable outcomes, rounded."""
    kept = np.where(law >= _LEAST, law, 0.0)
    rounded = np.round(kept / kept.sum(), 4)
    most = rounded.argmax()
    rounded[most] = round(rounded[most] + 1 - rounded.sum(), 4)
    last = int(np.flatnonzero(rounded)[-1])
    return tuple(float(one) for one in rounded[: last + 1])
