"""Run what an experiment needs and is not recorded yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from deadtime.experiments.specs import TabularSpec
from deadtime.training.result import Result, train_recorded

Results = dict[Any, Result]


@dataclass(frozen=True)
class Experiment:
    """Runs as data, and what becomes of their results."""

    id: str
    title: str
    runs: dict[Any, TabularSpec]
    seeds: Sequence[int]
    draw: Callable[[Results, Path], Path]
    """Draws the figure into the folder of records."""
    table: Callable[[Results, Path], list[dict[str, Any]]]
    """The numbers behind it, a row a line."""


def run(experiment: Experiment, root: Path, seeds: int | None = None) -> Results:
    """The results of every run, from records where they are there; `seeds` counts on from the experiment's first."""
    first, console = experiment.seeds[0], Console(stderr=True)
    wanted = experiment.seeds if seeds is None else range(first, first + seeds)
    found: Results = {}
    for number, (key, spec) in enumerate(experiment.runs.items(), 1):
        console.print(f"{experiment.id} {number}/{len(experiment.runs)}: {spec.name}", highlight=False)
        found[key] = train_recorded(spec, wanted, root, keep_policies=False)[0]
    return found
