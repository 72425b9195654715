"""The trainer: it trains groups of runs in chunks, and writes checkpoints between chunks.

A loop makes groups of the runs that it trains together, and a group can advance, save and resume.
The trainer does the rest for every loop: threads, progress, checkpoints, interrupts and outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing
from pathlib import Path
from threading import Event
from time import monotonic, perf_counter
from typing import Any, Protocol

from deadtime._support.timeouts import StepTimeoutError
from deadtime.learn.outcome import Outcome

Progress = Callable[[int], None]
Finished = tuple[Any, Outcome]
_WRITING_PART = 0.05
"""The largest part of the time that writing checkpoints takes."""


class Group(Protocol):
    """Runs that are trained together, and their progress."""

    length: int
    """The number of steps of the longest run."""
    done: int
    """The number of steps that each run has made."""

    @property
    def pairs(self) -> Sequence[tuple[Any, int]]:
        """The specs and seeds of the runs."""

    @property
    def name(self) -> str:
        """The name of the group's checkpoint."""

    @property
    def write_every_seconds(self) -> float:
        """The least time between two checkpoints; at 0 or less, one follows every advance."""

    def device(self) -> AbstractContextManager[Any]:
        """Return the context in which the group is trained."""

    def begin(self) -> None:
        """Start the runs."""

    def resume(self, path: Path) -> float:
        """Continue from a checkpoint; return its seconds of training."""

    def advance(self) -> int:
        """Train for a short time; return the number of steps of all runs."""

    def save(self, path: Path, seconds: float) -> None:
        """Write a checkpoint, if any step was made."""

    def outcomes(self, seconds: float, keep_policies: bool, stop: Event) -> list[Finished]:
        """Evaluate the runs; return the outcome of each, or nothing if it was stopped."""

    def close(self) -> None:
        """Close the environments and processes of the group."""


def train_groups(
    groups: Sequence[Group],
    workers: int,
    progress: Progress,
    keep_policies: bool = True,
    checkpoints: Path | None = None,
    stopped: Event | None = None,
) -> Iterator[Finished]:
    """Train groups on threads, and yield the outcomes of each as it is done.

    `progress` is called with the number of new steps. When `stopped` is set, groups write
    checkpoints and end. The caller deletes checkpoints, after it has recorded the outcomes.
    """
    stop = Event()
    with ThreadPoolExecutor(workers) as pool:
        futures = [
            pool.submit(train_group, group, progress, stop, keep_policies, checkpoints)
            for group in groups
        ]
        try:
            for future in _as_they_end(futures, stop, stopped):
                yield from future.result()
        finally:
            stop.set()
            for future in futures:
                future.cancel()


def _as_they_end(
    futures: Sequence[Future[list[Finished]]], stop: Event, stopped: Event | None
) -> Iterator[Future[list[Finished]]]:
    """Yield futures as they end; waits are short, so that an interrupt is noticed."""
    left = {*futures}
    while left:
        done, left = wait(left, 0.2, FIRST_COMPLETED)
        if stopped is not None and stopped.is_set():
            stop.set()
        yield from done


def train_group(
    group: Group, progress: Progress, stop: Event, keep_policies: bool, checkpoints: Path | None
) -> list[Finished]:
    """Train a group; return its outcomes. If stopped, write a checkpoint and return none."""
    path = None if checkpoints is None else checkpoints / f"{group.name}.safetensors"
    with group.device(), closing(group):
        began = perf_counter()
        if path is not None and path.exists():
            began -= group.resume(path)
            progress(sum(min(group.done, spec.length) for spec, _ in group.pairs))
        else:
            group.begin()

        def write() -> None:
            if path is not None:
                group.save(path, perf_counter() - began)

        try:
            if not _advanced(group, progress, stop, write):
                return []
            seconds = perf_counter() - began
            outcomes = group.outcomes(seconds, keep_policies, stop)
        except (StepTimeoutError, ValueError):  # a corrected environment can resume
            write()
            raise
        if stop.is_set():
            write()
            return []
        return outcomes


def _advanced(group: Group, progress: Progress, stop: Event, write: Callable[[], None]) -> bool:
    """Train a group to its end and return True; if stopped, write a checkpoint, return False."""
    written = monotonic()
    wait = group.write_every_seconds
    while group.done < group.length:
        if stop.is_set():
            write()
            return False
        progress(group.advance())
        began = monotonic()
        if began - written > wait and group.done < group.length:
            write()
            written = monotonic()
            if wait > 0:
                wait = max(group.write_every_seconds, (written - began) / _WRITING_PART)
    return True
