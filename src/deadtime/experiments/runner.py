"""Run what experiments need and is not recorded yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from deadtime.experiments import records
from deadtime.experiments.deep_specs import DeepSpec
from deadtime.experiments.records import Record
from deadtime.training.result import Result, Spec, record_together, train_recorded

Results = dict[Any, Result]


@dataclass(frozen=True)
class Experiment:
    """Runs as data, and what becomes of their results."""

    id: str
    title: str
    runs: Mapping[Any, Spec]
    seeds: Sequence[int]
    draw: Callable[[Results, Path], Path]
    """Draws the figure into the folder of records."""
    table: Callable[[Results, Path], list[dict[str, Any]]]
    """The numbers behind it, a row a line."""
    preset: str = ""
    """Which one its runs have, where the experiment exists under several."""

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.id}-{self.preset}" if self.preset else self.id

    def tiny(self) -> Experiment:
        """The same with one seed that hardly learns, to see that everything runs."""
        little = {key: _little(spec) for key, spec in self.runs.items()}
        return replace(self, runs=little, seeds=self.seeds[:1])

    def wanted(self, seeds: int | None) -> Sequence[int]:
        """Its seeds or, if a number is given, as many from its first on."""
        return self.seeds if seeds is None else range(self.seeds[0], self.seeds[0] + seeds)


def _little(spec: Spec) -> Spec:
    if isinstance(spec, DeepSpec):
        return replace(spec, steps=150, evaluation_episodes=1)
    return replace(spec, episodes=min(spec.episodes, 30), evaluation_episodes=2)


def recorded(experiment: Experiment, root: Path) -> int:
    """How many of its runs are recorded, by what the records say of themselves."""
    found = 0
    for spec in {spec.name: spec for spec in experiment.runs.values()}.values():
        folder = root / spec.name
        known = {*records.read(folder).seeds} if records.exists(folder) else set()
        found += len(known & {*experiment.seeds}) * sum(other == spec for other in experiment.runs.values())
    return found


def found(experiment: Experiment, root: Path) -> Results | None:
    """Its results from records alone, with the seeds that all its runs have; nothing if there is no such seed."""
    known: dict[str, Record] = {}
    for spec in experiment.runs.values():
        if spec.name not in known:
            if not records.exists(root / spec.name):
                return None
            known[spec.name] = records.read(root / spec.name)
    seeds = [seed for seed in experiment.seeds if all(seed in record.seeds for record in known.values())]
    return {key: Result(known[spec.name].rows(seeds)) for key, spec in experiment.runs.items()} if seeds else None


def run_deep_ones(experiments: Sequence[Experiment], root: Path, seeds: int | None = None, together: bool = False) -> None:
    """Train and record the deep runs of all of them together: those of several experiments can share a program."""
    deep = [
        (spec, experiment.wanted(seeds))
        for experiment in experiments
        for spec in experiment.runs.values()
        if isinstance(spec, DeepSpec)
    ]
    record_together(deep, root, together)


def run(experiment: Experiment, root: Path, seeds: int | None = None) -> Results:
    """The results of every run, from records where they are there."""
    console, found = Console(stderr=True), {}
    for number, (key, spec) in enumerate(experiment.runs.items(), 1):
        if not isinstance(spec, DeepSpec):
            console.print(f"{experiment.id} {number}/{len(experiment.runs)}: {spec.name}", highlight=False)
        found[key] = train_recorded(spec, experiment.wanted(seeds), root, keep_policies=False)[0]
    return found
