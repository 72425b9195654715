"""Progress of long work: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import floor, log10
from time import monotonic

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from deadtime._support.terminal import console

LINE_EVERY_SECONDS = 30.0
_UNITS = (("s", 1), ("min", 60), ("h", 3600))


def about(seconds: float) -> str:
    """Return an estimated time in words, rounded."""
    if seconds < 10:
        return "a few seconds"
    name, size = next((n, s) for n, s in reversed(_UNITS) if seconds >= 0.95 * s)
    number = seconds / size
    digit = 10.0 ** floor(log10(number))
    step = digit / 2 if number < 2 * digit else digit
    return f"about {round(number / step) * step:,g} {name}"


@contextmanager
def bar(title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show the progress of `total` units, and yield a function that adds a number of done units.

    Call that function with 0 while no unit is done, so that lines are written on time.
    """
    if not sys.stderr.isatty():
        yield Lines(title, total, unit).add
        return
    name = TextColumn("{task.description}", markup=False)
    counted = TextColumn("{task.completed:,}/{task.total:,} {task.fields[unit]}")
    columns = (name, BarColumn(), counted, TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total, unit=unit)
        yield lambda n: progress.advance(task, n)


class Lines:
    """Progress as lines on standard error, the first after `LINE_EVERY_SECONDS`."""

    def __init__(
        self, title: str, total: int, unit: str, clock: Callable[[], float] = monotonic
    ) -> None:
        """Start with nothing done."""
        self._title = title
        self._total = total
        self._unit = unit
        self._clock = clock
        self._done = 0
        self._first: tuple[float, int] | None = None
        """The time and the count of the first progress; the time before it was start-up."""
        self._written = clock()

    def add(self, n: int) -> None:
        """Count `n` more units, and write a line if it is time for one."""
        self._done += n
        now = self._clock()
        if self._first is None and self._done:
            self._first = now, self._done
        if now - self._written >= LINE_EVERY_SECONDS and self._done < self._total:
            self._written = now
            console(stderr=True).print(self._line(now), soft_wrap=True)

    def _line(self, now: float) -> str:
        share = self._done / self._total
        line = f"{self._title}: {self._done:,}/{self._total:,} {self._unit} ({share:.0%})"
        if self._first is None or self._done <= self._first[1]:
            return line
        since, before = self._first
        left = (self._total - self._done) * (now - since) / (self._done - before)
        return f"{line}, {about(left)} left"
