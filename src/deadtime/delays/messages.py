"""Delays stated by the latencies of messages, where the receiver uses the newest message that has
arrived.

**The chain.** Message t leaves at step t and has latency D_t. At step t the age is z_t = min{i ≥ 0
: D_{t-i} ≤ i}. If the latencies are independent with law D, then z_{t+1} = min(z_t + 1, D') with a
fresh D' of law D. Proof: z_t = k says that message t - k has arrived and that the k newer ones have
not, D_{t-i} > i for i < k. At step t + 1 each newer message j steps old, j ≤ k, arrives with
probability P(D = j | D ≥ j), independently. So P(z_{t+1} > j | z_t = k) is the product of the P(D >
i | D ≥ i) up to j, which is P(D > j), for j ≤ k; and z_{t+1} ≤ k + 1. Earlier ages say nothing more
about the newer messages.

**The stationary law.** Repeating the chain, P(z ≥ k) is the product of P(D ≥ j) over j = 1 … k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from deadtime.delays.chain import Chain, check_law, check_size
from deadtime.delays.constant import number_or_process
from deadtime.delays.process import (
    DelayProcess,
    check_flag,
    check_probability,
    check_range,
    check_steps,
    set_fields,
    span,
    split_text,
)


class _Messages(DelayProcess):
    """A process of independent latencies."""

    in_order: bool

    @property
    def latency_law(self) -> np.ndarray:
        """The probability of each latency 0, 1, … of a message."""
        raise NotImplementedError

    def make_chain(self) -> Chain:
        """Return the chain of the ages."""
        law = self.latency_law
        return newest_arrival(law) if self.in_order else drawn_anew(law)


@dataclass(frozen=True)
class Uniform(_Messages):
    """Latencies that are each of `low` … `high` steps, both included, with equal probability.

    With `in_order` the receiver uses the newest message that has arrived, so ages are shorter than
    latencies on average: the ages of Uniform(2, 6) have the mean 3.51. Without it, each step reads
    an age drawn anew from `low` … `high`.
    """

    low: int
    high: int
    in_order: bool = True
    kind: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        """Check the bounds."""
        low, high = check_range(self.low, self.high)
        in_order = check_flag(self.in_order, "in_order")
        set_fields(self, low=low, high=high, in_order=in_order)

    @property
    def longest(self) -> int:
        """The longest age: `high`."""
        return self.high

    @property
    def latency_law(self) -> np.ndarray:
        """The probability of each latency 0 … `high`."""
        check_size(self.high + 1, 1)
        law = np.zeros(self.high + 1)
        law[self.low :] = 1 / (self.high - self.low + 1)
        return law

    @classmethod
    def from_text(cls, text: str) -> Uniform:
        """Parse ``2-6`` or ``2-6,in_order=false``."""
        first, named = split_text(text)
        return cls(*span(first, "uniform:2-6"), **named)

    def __str__(self) -> str:
        """Return the text form."""
        return f"uniform:{self.low}-{self.high}" + ("" if self.in_order else ",in_order=false")


@dataclass(frozen=True)
class Categorical(_Messages):
    """Latencies with the given probabilities: a list for 0, 1, 2, … steps, or a dict from steps to
    probability.
    """

    probabilities: tuple[float, ...]
    in_order: bool = True
    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        """Check the law."""
        law = _law_of(self.probabilities)
        check_law(law, "the law of latencies", len(law))
        last = int(np.flatnonzero(law)[-1])
        set_fields(
            self,
            probabilities=tuple(law[: last + 1].tolist()),
            in_order=check_flag(self.in_order, "in_order"),
        )

    @property
    def longest(self) -> int:
        """The longest age: the longest latency of positive probability."""
        return len(self.probabilities) - 1

    @property
    def latency_law(self) -> np.ndarray:
        """The probability of each latency."""
        return np.array(self.probabilities)

    @classmethod
    def from_text(cls, text: str) -> Categorical:
        """Parse ``0/0.2/0.8``, the probabilities of 0, 1, 2 steps."""
        first, named = split_text(text)
        try:
            law = tuple(float(part) for part in first.split("/"))
        except ValueError:
            raise ValueError(
                f"a categorical delay lists the probabilities of 0, 1, … steps; got {first!r}: "
                "write, for example, categorical:0/0.2/0.8"
            ) from None
        return cls(law, **named)

    def __str__(self) -> str:
        """Return the text form."""
        law = "/".join(str(number) for number in self.probabilities)
        return f"categorical:{law}" + ("" if self.in_order else ",in_order=false")


@dataclass(frozen=True)
class GilbertElliott(DelayProcess):
    """A channel that is good or bad, with a law of latencies for each: a number, or a process of
    independent latencies.

    Between two steps a good channel becomes bad with probability `to_bad`, a bad one good with
    `to_good`. The channel's state *at delivery* decides when a message arrives. If the message is i
    steps old, it arrives now with probability P(D = i | D ≥ i), where D is a latency of the present
    state's law. So the ages follow z_{t+1} = min(z_t + 1, D_{t+1}) where D_{t+1} follows the law of
    the channel's state at step t + 1, and (channel, age) is a Markov chain. The longest age is the
    longest latency of both laws, unless the channel never stays in the state that has it.
    """

    good: DelayProcess
    bad: DelayProcess
    to_bad: float
    to_good: float
    kind: ClassVar[str] = "gilbert-elliott"

    def __post_init__(self) -> None:
        """Check the laws and the two probabilities."""
        for name in ("good", "bad"):
            law = number_or_process(getattr(self, name))
            stated = type(law).latency_law is not DelayProcess.latency_law
            nested = isinstance(law, GilbertElliott)  # its latencies are not independent
            if not stated or nested or not getattr(law, "in_order", True):
                raise ValueError(
                    f"{name} is a number of steps or a law of latencies in order; got {law!r}: "
                    "pass a number, Uniform or Categorical"
                )
            set_fields(self, **{name: law})
        for name in ("to_bad", "to_good"):
            set_fields(self, **{name: check_probability(getattr(self, name), name, positive=True)})
        if self.to_bad + self.to_good == 2:
            raise ValueError(
                "a channel that changes its state at each step has no random state; got to_bad=1, "
                "to_good=1: "
                "pass smaller probabilities"
            )

    @property
    def longest(self) -> int:
        """The longest age: the longest latency of both laws.

        If the channel never stays in the state with the longer ones, an age there is at most one
        more than an age in the other state.
        """
        good, bad = self.good.longest, self.bad.longest
        if good > bad and self.to_bad == 1:
            return bad + 1
        if bad > good and self.to_good == 1:
            return good + 1
        return max(good, bad)

    @property
    def channel_law(self) -> np.ndarray:
        """The stationary probabilities of the good and the bad state."""
        return np.array([self.to_good, self.to_bad]) / (self.to_good + self.to_bad)

    @property
    def latency_law(self) -> np.ndarray:
        """The law of a new message's latency under the channel's stationary law."""
        return self.channel_law @ self._laws()

    def _laws(self) -> np.ndarray:
        longest = max(self.good.longest, self.bad.longest)
        check_size(2 * (longest + 1), 1)
        laws = np.zeros((2, longest + 1))
        for row, process in zip(laws, (self.good, self.bad), strict=True):
            law = process.latency_law
            assert law is not None  # checked when the process was made
            row[: len(law)] = law
        return laws

    def make_chain(self) -> Chain:
        """Return the chain of (channel, age), good states first."""
        laws = self._laws()
        longest = laws.shape[1] - 1
        check_size(2 * (longest + 1), 2 * (longest + 1))
        switch = np.array([[1 - self.to_bad, self.to_bad], [self.to_good, 1 - self.to_good]])
        moves = [_capped(law) for law in laws]
        matrix = np.block([[switch[i, j] * moves[j] for j in range(2)] for i in range(2)])
        start = np.concatenate(self._stationary(switch, laws))
        ages = np.tile(np.arange(longest + 1), 2)
        return _reachable(ages, matrix, start)

    def _stationary(self, switch: np.ndarray, laws: np.ndarray) -> np.ndarray:
        """Return P(channel, age), shape (2, K + 1): P(c, z ≥ k + 1) follows from P(c, z ≥ k) by one
        step.
        """
        at_least = [self.channel_law]
        tails = laws[:, ::-1].cumsum(1)[:, ::-1]
        for k in range(1, laws.shape[1]):
            at_least.append((at_least[-1] @ switch) * tails[:, k])
        table = np.array([*at_least, np.zeros(2)]).T
        law = np.clip(table[:, :-1] - table[:, 1:], 0.0, None)
        return law / law.sum()


def _law_of(probabilities: ArrayLike) -> np.ndarray:
    if isinstance(probabilities, Mapping):
        if not probabilities:
            return np.zeros(0)
        steps = [check_steps(step, "a latency") for step in probabilities]
        check_size(max(steps) + 1, 1)
        law = np.zeros(max(steps) + 1)
        law[steps] = list(probabilities.values())
        return law
    try:
        return np.array(probabilities, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise ValueError(
            f"the law of latencies is a list of probabilities; got {probabilities!r}: "
            "pass, for example, Categorical([0, 0.2, 0.8])"
        ) from None


def _capped(law: np.ndarray) -> np.ndarray:
    """Return the transitions of z' = min(z + 1, D) on the ages 0 … K, shape (K + 1, K + 1)."""
    size = len(law)
    matrix = np.tril(np.broadcast_to(law, (size, size)))
    tail = 1 - law.cumsum()  # P(D > z)
    tail[-1] = 0.0
    rows = np.arange(size - 1)
    matrix[rows, rows + 1] = np.clip(tail[:-1], 0.0, None)
    return matrix / matrix.sum(1, keepdims=True)


def newest_arrival(law: np.ndarray) -> Chain:
    """Return the chain z' = min(z + 1, D) of independent latencies with this law; every age from
    the shortest on occurs.
    """
    shortest = int(np.flatnonzero(law)[0])
    size = len(law) - shortest
    check_size(size, size)
    tails = law[::-1].cumsum()[::-1]
    at_least = np.cumprod(np.concatenate([[1.0], tails[shortest + 1 :] / tails[0]]))
    start = at_least - np.append(at_least[1:], 0.0)
    matrix = _capped(law[shortest:])
    return Chain(np.arange(shortest, len(law)), matrix, np.clip(start, 0, None) / start.sum())


def drawn_anew(law: np.ndarray) -> Chain:
    """Return the chain of ages that are drawn independently at each step."""
    ages = np.flatnonzero(law)
    check_size(len(ages), len(ages))
    drawn = law[ages] / law.sum()
    return Chain(ages, np.tile(drawn, (len(ages), 1)), drawn)


def _reachable(ages: np.ndarray, matrix: np.ndarray, start: np.ndarray) -> Chain:
    """Return the chain on the states that the start law can reach."""
    reached = start > 0
    while True:
        more = reached | (matrix[reached].sum(0) > 0)
        if (more == reached).all():
            break
        reached = more
    rows = matrix[np.ix_(reached, reached)]
    return Chain(ages[reached], rows / rows.sum(1, keepdims=True), start[reached])
