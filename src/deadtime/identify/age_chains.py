"""Laws of ages that can be estimated, each with its transitions and its update from counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from deadtime.delays import (
    Categorical,
    Constant,
    DelayProcess,
    GilbertElliott,
    PerEpisode,
    RandomWalk,
)

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
        low, high = kept_range(self.law)
        size = len(self.law)
        matrix = np.eye(size)
        for age in range(low, high + 1):
            for other in (age - 1, age + 1):
                if low <= other <= high:
                    matrix[age, other] = self.move / 2
                    matrix[age, age] -= self.move / 2
        return matrix

    def start(self) -> np.ndarray:
        """Return the uniform law on the range."""
        low, high = kept_range(self.law)
        ages = np.arange(len(self.law))
        return _normal(((ages >= low) & (ages <= high)).astype(float))

    def updated(self, counts: Counts) -> AgeChain:
        """Return the chain with the observed share of moves among those that were possible."""
        low, high = kept_range(self.law)
        inside = counts.moves[low : high + 1, low : high + 1]
        moved = np.trace(inside, 1) + np.trace(inside, -1)
        tried = inside.sum() - (inside[0].sum() + inside[-1].sum()) / 2
        move = float(np.clip(moved / max(tried, 1e-9), _LEAST_MOVE, 1.0))
        return Drifting(_normal(counts.moves.sum(0) + counts.first), move)

    def process(self) -> DelayProcess:
        """Return the random walk."""
        low, high = kept_range(self.law)
        return RandomWalk(low, high, round(self.move, 3))

    @property
    def numbers(self) -> int:
        """Three free parameters: both ends of the range and the probability of a move."""
        return 3


@dataclass(frozen=True)
class Bursts(AgeChain):
    """A short age, and bad phases in which the age grows by one a step up to the longest.

    A good phase becomes bad with the probability `to_bad`, a bad one good with `to_good`. The phase
    is good if and only if the age is the shortest, so the ages alone are a Markov chain.
    """

    law: np.ndarray
    to_bad: float
    to_good: float

    @classmethod
    def of(cls, law: np.ndarray) -> Bursts:
        """Return a first guess: phases of five steps, as frequent as the law says."""
        shortest = law[np.flatnonzero(law > 2 * _LEAST)[0]]
        return cls(law, _chance(0.2 * (1 - shortest) / max(shortest, _LEAST)), 0.2)

    def transitions(self) -> np.ndarray:
        """Return the moves: stay or grow from the shortest age; grow or fall back from others."""
        low, high = kept_range(self.law)
        matrix = np.eye(len(self.law))
        for age in range(low, high + 1):
            leaves = self.to_bad if age == low else 1 - self.to_good
            matrix[age, age] = 0.0
            matrix[age, low] += 1 - leaves
            matrix[age, min(age + 1, high)] += leaves
        return matrix

    def start(self) -> np.ndarray:
        """Return the stationary law: ages of a bad phase are geometric, cut at the longest."""
        low, high = kept_range(self.law)
        found = np.zeros(len(self.law))
        found[low] = self.to_good
        bad = self.to_bad
        for age in range(low + 1, high + 1):
            found[age] = bad if age == high else bad * self.to_good
            bad *= 1 - self.to_good
        return _normal(found)

    def updated(self, counts: Counts) -> AgeChain:
        """Return the chain with the observed shares of phases that began and ended."""
        low, high = kept_range(self.law)
        ages = np.arange(low + 1, high + 1)
        begun = counts.moves[low, min(low + 1, high)]
        ended = counts.moves[ages, low].sum()
        going = counts.moves[ages, np.minimum(ages + 1, high)].sum()
        law = _normal(counts.moves.sum(0) + counts.first)
        to_bad = begun / max(begun + counts.moves[low, low], 1e-9)
        return Bursts(law, _chance(to_bad), _chance(ended / max(ended + going, 1e-9)))

    def process(self) -> DelayProcess:
        """Return the channel with good and bad phases."""
        low, high = kept_range(self.law)
        chances = round(self.to_bad, 4), round(self.to_good, 4)
        return GilbertElliott(Constant(low), Constant(high), *chances)

    @property
    def numbers(self) -> int:
        """Four free parameters: both ages and both probabilities."""
        return 4


def kept_range(law: np.ndarray) -> tuple[int, int]:
    """Return the shortest and the longest age that are not improbable."""
    kept = np.flatnonzero(law > 2 * _LEAST)
    return int(kept[0]), int(kept[-1])


def _chance(value: float) -> float:
    """Return a probability, neither 0 nor 1."""
    return float(np.clip(value, _LEAST, 1 - _LEAST))


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
