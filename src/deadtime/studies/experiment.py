"""Experiments as data: runs, seeds, and the functions that draw and tabulate their results."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from deadtime._support.pictures import mark_picture
from deadtime.runs import records
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.record import Record
from deadtime.runs.result import Result, Results
from deadtime.runs.specs import Spec
from deadtime.runs.wanted import Runs, missing
from deadtime.studies.answers import Answers

SMOKE = "smoke test: hardly trained"
"""The text on figures of `Experiment.tiny`."""
_TINY_PART = 6


@dataclass(frozen=True)
class Experiment:
    """An experiment: its runs as data, its figure and its table."""

    id: str
    title: str
    runs: Mapping[Any, Spec]
    seeds: Sequence[int]
    draw: Callable[[Results, Path], Path]
    """The function that draws the figure into the folder of records."""
    table: Callable[[Results, Path], list[dict[str, Any]]]
    """The function that returns the numbers behind the figure, as a list of rows."""
    part: str = ""
    """The part of the experiment, if it has several: a preset, or some of the environments."""
    score: Callable[[Result], np.ndarray] = attrgetter("scores")
    """The score that is compared, one entry for each seed."""
    in_part: bool = False
    """Whether it is shown with whatever is recorded; otherwise only with the seeds that all its
    runs have."""
    spec_by_spec: bool = False
    """Whether `next` completes one spec first, with all seeds; otherwise one seed of all specs."""
    subject: Sequence[Any] = ()
    """The runs, by key, of which at least one must be recorded to show it; empty: all runs."""
    answers: Answers | None = None
    """The cases, if they are no runs. The experiment is shown with the answers of the folder."""

    @property
    def name(self) -> str:
        """Return the name of the experiment's files."""
        return f"{self.id}-{self.part}" if self.part else self.id

    def tiny(self) -> Experiment:
        """Return the experiment with one seed that hardly learns, to see that everything runs.

        The figure says so, unless it shows exact numbers only. If the experiment is shown in part
        (`in_part`), it has only the first runs.
        """

        def draw(results: Results, root: Path) -> Path:
            return mark_picture(self.draw(results, root), SMOKE)

        chosen = islice(self.runs.items(), _TINY_PART if self.in_part else None)
        little = {key: _little(spec) for key, spec in chosen}
        drawn = draw if self.runs else self.draw
        return replace(self, runs=little, seeds=self.seeds[:1], draw=drawn)

    def with_seeds(self, number: int) -> Experiment:
        """Return the experiment with `number` seeds, counted from its first seed."""
        return replace(self, seeds=range(self.seeds[0], self.seeds[0] + number))

    @property
    def wanted(self) -> Runs:
        """Return the specs with their seeds; a spec that several keys share is listed once."""
        once = {spec.name: spec for spec in self.runs.values()}
        return [(spec, self.seeds) for spec in once.values()]

    def next(self, number: int | None, root: Path) -> Runs:
        """Return the first `number` runs that are not recorded, or all (see `spec_by_spec`)."""
        pairs = [(spec, [seed]) for seed in self.seeds for spec, _ in self.wanted]
        if self.spec_by_spec:
            pairs = [(spec, [seed]) for spec, _ in self.wanted for seed in self.seeds]
        return [(spec, seeds) for spec, seeds in pairs if missing([(spec, seeds)], root)][:number]


def _little(spec: Spec) -> Spec:
    """Return a spec that trains as little as possible."""
    if isinstance(spec, DeepSpec) and spec.frames:
        tiny: dict[str, Any] = {"channels": (2, 2, 2), "hidden": 8}
        if "learning_starts" in vars(spec.learner):
            tiny |= {"learning_starts": 40, "buffer_size": 100}
        settings = spec.settings | {"max_episode_steps": 30}
        short = replace(spec, steps=60, envs=2, evaluation_episodes=1, settings=settings)
        return replace(short, changes=spec.changes | tiny)
    if isinstance(spec, DeepSpec):
        small: dict[str, Any] = {"hidden": (8, 8), "batch_size": 16}
        if "random_steps" in vars(spec.learner):
            small |= {"random_steps": 20, "buffer_size": 150}
        every = spec.evaluate_every and 75
        short = replace(spec, steps=150, evaluation_episodes=1, evaluate_every=every)
        return replace(short, changes=spec.changes | small)
    return replace(spec, episodes=min(spec.episodes, 30), evaluation_episodes=2)


def found(experiment: Experiment, root: Path) -> Results | None:
    """Return the results of an experiment from records alone, or None if there are none.

    The results have the seeds that all runs share, unless the experiment is shown in part.
    """
    if experiment.answers is not None and not experiment.answers.kept(root):
        return None
    names = dict.fromkeys(spec.name for spec in experiment.runs.values())
    there = [name for name in names if records.exists(root / name)]
    if len(there) < len(names) and not experiment.in_part:
        return None
    known = {name: records.read(root / name) for name in there}
    if not experiment.in_part:
        seeds = [n for n in experiment.seeds if all(n in one.seeds for one in known.values())]
        rows = {name: record.rows(seeds) for name, record in known.items()}
        results = {key: Result(rows[spec.name]) for key, spec in experiment.runs.items()}
        return results if seeds else None
    partial = {
        key: Result(known[spec.name].rows(seeds))
        for key, spec in experiment.runs.items()
        if spec.name in known and (seeds := _recorded(known[spec.name], experiment))
    }
    return partial if {*(experiment.subject or partial)} & {*partial} else None


def _recorded(record: Record, experiment: Experiment) -> list[int]:
    """Return the seeds of a record that an experiment asks for."""
    return [seed for seed in record.seeds if seed in experiment.seeds]


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    return text.getvalue()
