"""Delays stated by their ages: a random walk, an age held for an episode, an age that is redrawn
after some steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deadtime.delays.chain import Chain, check_size
from deadtime.delays.constant import number_or_process
from deadtime.delays.process import (
    DelayProcess,
    check_probability,
    check_range,
    check_steps,
    set_fields,
    span,
    split_text,
)


@dataclass(frozen=True)
class RandomWalk(DelayProcess):
    """Ages that drift: at each step the age moves with probability `move`, up or down by one with
    equal probability.

    A move past `low` or `high` is not made, so the age stays. The stationary law is uniform on
    `low` … `high`. The channel is in order: when the age grows the last action is held, when it
    shrinks one action is skipped.
    """

    low: int
    high: int
    move: float = 0.5
    kind: ClassVar[str] = "walk"

    def __post_init__(self) -> None:
        """Check the bounds and the probability."""
        low, high = check_range(self.low, self.high)
        set_fields(self, low=low, high=high, move=check_probability(self.move, "move", True))

    @property
    def longest(self) -> int:
        """The longest age: `high`."""
        return self.high

    def make_chain(self) -> Chain:
        """Return the chain of the ages; each has three successors: one less, itself, one more."""
        size = self.high - self.low + 1
        check_size(size, 3)
        ages = np.arange(self.low, self.high + 1)
        places = np.arange(size)
        down, up = np.maximum(places - 1, 0), np.minimum(places + 1, size - 1)
        law = np.array([self.move / 2, 1 - self.move, self.move / 2])
        successors = np.stack([down, places, up], axis=1)
        return Chain(ages, np.tile(law, (size, 1)), np.full(size, 1 / size), successors)

    @classmethod
    def from_text(cls, text: str) -> RandomWalk:
        """Parse ``0-8`` or ``0-8,move=0.3``."""
        first, named = split_text(text)
        return cls(*span(first, "walk:0-8"), **named)

    def __str__(self) -> str:
        """Return the text form."""
        return f"walk:{self.low}-{self.high}" + ("" if self.move == 0.5 else f",move={self.move}")


@dataclass(frozen=True)
class PerEpisode(DelayProcess):
    """One age for a whole episode, drawn from the stationary law of the ages of `process`."""

    process: DelayProcess
    kind: ClassVar[str] = "episode"

    def __post_init__(self) -> None:
        """Convert a number to a constant delay."""
        set_fields(self, process=number_or_process(self.process))

    @property
    def longest(self) -> int:
        """The longest age that an episode may have."""
        return self.process.longest

    def make_chain(self) -> Chain:
        """Return the chain that stays where it starts."""
        law = self.process.age_law
        ages = np.flatnonzero(law)
        places = np.arange(len(ages))[:, None]
        return Chain(ages, np.ones((len(ages), 1)), law[ages] / law.sum(), places)


@dataclass(frozen=True)
class Held(DelayProcess):
    """Ages drawn anew from `low` … `high` every `period` steps, each draw skipped with probability
    `hold`.

    Between two draws the age stays. The channel is not in order: a draw can go back to an older
    item.
    """

    low: int
    high: int
    hold: float = 0.0
    period: int = 1
    kind: ClassVar[str] = "held"

    def __post_init__(self) -> None:
        """Check the bounds, the probability and the period."""
        low, high = check_range(self.low, self.high)
        hold = check_probability(self.hold, "hold")
        if hold == 1:
            raise ValueError(
                "hold is below 1, since with 1 no age is ever drawn; got 1: use "
                "PerEpisode(process) for one age per episode"
            )
        set_fields(
            self, low=low, high=high, hold=hold, period=check_steps(self.period, "period", 1)
        )

    @property
    def longest(self) -> int:
        """The longest age: `high`."""
        return self.high

    def make_chain(self) -> Chain:
        """Return the chain of (steps until the next draw, age); the phase of the first draw is
        uniform.
        """
        count = self.high - self.low + 1
        check_size(self.period * count, count)
        drawn = np.full((count, count), (1 - self.hold) / count) + self.hold * np.eye(count)
        anywhere = np.broadcast_to(np.arange(count), (count, count))
        last = (self.period - 1) * count
        successors, transitions = [anywhere + last], [drawn]
        stay = np.eye(count)
        for phase in range(1, self.period):  # phase steps are left until the draw
            successors.append(anywhere + (phase - 1) * count)
            transitions.append(stay)
        ages = np.tile(np.arange(self.low, self.high + 1), self.period)
        start = np.full(len(ages), 1 / len(ages))
        return Chain(ages, np.concatenate(transitions), start, np.concatenate(successors))

    @classmethod
    def from_text(cls, text: str) -> Held:
        """Parse ``0-3,hold=0.2,period=4``."""
        first, named = split_text(text)
        return cls(*span(first, "held:0-3"), **named)

    def __str__(self) -> str:
        """Return the text form."""
        return f"held:{self.low}-{self.high},hold={self.hold},period={self.period}"
