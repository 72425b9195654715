"""A loop at a fixed rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deadtime._support.checks import check_count


@dataclass(frozen=True)
class Timing:
    """The timing of a loop at a fixed rate, in seconds."""

    steps: int
    """The number of steps that began."""
    overruns: int
    """The number of steps whose work took longer than the period."""
    skipped: int
    """The number of steps that never began, because the one before took too long."""
    work_mean: float
    work_longest: float
    """The mean and the longest time of a step's work."""
    late_mean: float
    late_longest: float
    """How much later than planned a step began: the mean and the longest time."""


class FixedRate:
    """A loop at a fixed rate, which reports overruns.

    Step t begins at the start of the loop plus t · `period`, so delays do not add up. Steps whose
    time has passed are skipped.
    """

    def __init__(
        self,
        period: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        """`clock` returns the time in seconds, and `sleep` waits for a number of seconds."""
        if isinstance(period, bool) or not isinstance(period, int | float) or not 0 < period < 1e9:
            rule = "period is the duration of a step in seconds, above 0"
            raise ValueError(f"{rule}; got {period!r}: pass, for example, 0.02")
        self.period = float(period)
        self._clock = clock
        self._sleep = sleep
        self._clear()

    def _clear(self) -> None:
        self._steps = 0
        self._overruns = 0
        self._skipped = 0
        self._work = 0.0
        self._work_longest = 0.0
        self._late = 0.0
        self._late_longest = 0.0

    def steps(self, number: int | None = None) -> Iterator[int]:
        """Yield the number of each step when it begins, up to `number` of them.

        ``for t in FixedRate(0.02).steps(500): …`` takes ten seconds. Skipped steps count.
        """
        if number is not None:
            check_count("steps", number)
        self._clear()
        start = self._clock()
        step = 0
        while number is None or step < number:
            began = self._wait(start + step * self.period)
            yield step
            ended = self._clock()
            self._worked(ended - began)
            step += 1
            missed = max(int((ended - start) / self.period) - step, 0)
            self._skipped += missed
            step += missed

    def _wait(self, planned: float) -> float:
        """Wait for a time, and return the time then."""
        now = self._clock()
        while now < planned:
            self._sleep(planned - now)
            now = self._clock()
        self._steps += 1
        self._late += now - planned
        self._late_longest = max(self._late_longest, now - planned)
        return now

    def _worked(self, seconds: float) -> None:
        """Count the work of a step."""
        self._overruns += seconds > self.period
        self._work += seconds
        self._work_longest = max(self._work_longest, seconds)

    @property
    def timing(self) -> Timing:
        """The timing of the loop so far."""
        count = max(self._steps, 1)
        return Timing(
            self._steps,
            self._overruns,
            self._skipped,
            self._work / count,
            self._work_longest,
            self._late / count,
            self._late_longest,
        )
