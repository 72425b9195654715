"""Progress bars of long work, where there is a screen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from deadtime._support.terminal import console


@contextmanager
def bar(about: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show a bar where there is a screen, and give the function that advances it."""
    counted = TextColumn("{task.completed:,}/{task.total:,} {task.fields[unit]}")
    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), counted, TimeRemainingColumn())
    shown = sys.stderr.isatty()
    with Progress(
        *columns, console=console(stderr=True), transient=True, disable=not shown
    ) as progress:
        task = progress.add_task(about, total=total, unit=unit)
        yield lambda n: progress.advance(task, n)
