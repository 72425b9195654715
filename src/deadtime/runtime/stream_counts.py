"""Counts of what a controller received and did."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from deadtime.delays import Categorical


@dataclass(frozen=True)
class Statistics:
    """The counts of a controller since it was made."""

    steps: int
    """The number of decisions."""
    fresh: int
    """Observations that were newer than all before."""
    repeated: int
    """Observations with the time stamp of the newest one; they are ignored."""
    reordered: int
    """Observations older than the newest one; they are ignored."""
    dropped: int
    """Gaps in the time stamps, in steps: observations that never came, or came too late."""
    nan: int
    """Observations with numbers that are not finite. Each gives the safe action, unless a good one
    came in the same step."""
    invalid: int
    """Observations of another shape or type, or with an impossible time stamp."""
    missing: int
    """Decisions without a new observation."""
    late: int
    """Decisions from an observation that was older than usual."""
    timeouts: int
    """Decisions for which even the newest observation was older than `timeout` allows."""
    failures: int
    """Decisions for which the policy raised or had no finite output."""
    skipped: int
    """Steps of the clock in which the loop made no decision: the last action was held."""
    ages: tuple[int, ...]
    """How many decisions were made from an observation of age 0, 1, …"""
    jitter_mean: float
    """The mean absolute deviation of the time between two decisions from the period."""
    jitter_max: float
    """The largest absolute deviation."""

    @property
    def age_law(self) -> Categorical:
        """The measured law of the observations' ages, as a process of independent ages."""
        total = sum(self.ages)
        if not total:
            raise ValueError(
                "a law of ages needs decisions from observations; got none: run the loop first"
            )
        return Categorical(tuple(count / total for count in self.ages), in_order=False)


@dataclass
class Counts:
    """The counts of a running controller, which grow with its steps."""

    ages: np.ndarray
    steps: int = 0
    fresh: int = 0
    repeated: int = 0
    reordered: int = 0
    dropped: int = 0
    nan: int = 0
    invalid: int = 0
    missing: int = 0
    late: int = 0
    timeouts: int = 0
    failures: int = 0
    skipped: int = 0
    intervals: int = 0
    deviation: float = field(default=0.0)
    """The sum of absolute deviations from the period."""
    largest: float = 0.0

    def interval(self, deviation: float) -> None:
        """Count the time between two decisions, which differs from the period by `deviation`."""
        self.intervals += 1
        self.deviation += abs(deviation)
        self.largest = max(self.largest, abs(deviation))

    def statistics(self) -> Statistics:
        """Return the counts so far."""
        used = int(np.flatnonzero(self.ages)[-1]) + 1 if self.ages.any() else 0
        return Statistics(
            steps=self.steps,
            fresh=self.fresh,
            repeated=self.repeated,
            reordered=self.reordered,
            dropped=self.dropped,
            nan=self.nan,
            invalid=self.invalid,
            missing=self.missing,
            late=self.late,
            timeouts=self.timeouts,
            failures=self.failures,
            skipped=self.skipped,
            ages=tuple(self.ages[:used].tolist()),
            jitter_mean=self.deviation / self.intervals if self.intervals else 0.0,
            jitter_max=self.largest,
        )
