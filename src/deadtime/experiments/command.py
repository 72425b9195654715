"""What `deadtime reproduce` does: run an experiment of the paper, draw it and write its numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro
from rich.box import SIMPLE
from rich.table import Column, Table

from deadtime.agents.presets import PRESETS
from deadtime.envs import nearest
from deadtime.experiments import atari, events, physical, summary, tabular
from deadtime.experiments.runner import Experiment, Where, count, found, missing, time_needed, train_missing, train_tiny
from deadtime.experiments.specs import check_count
from deadtime.experiments.stationarity import STATIONARITY
from deadtime.experiments.store import Store, copied, opened
from deadtime.files import folder_in, whole
from deadtime.terminal import console
from deadtime.training.options import Limits, Place, Whole, Word

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (*summary.EXPERIMENTS, STATIONARITY, *tabular.EXPERIMENTS, *physical.EXPERIMENTS, *atari.EXPERIMENTS)
}
ALL = "all"


def chosen(ids: Sequence[str], preset: str | None, smoke: bool = False) -> list[Experiment]:
    """Those of the names given, or all; of one that exists under several presets, the one asked for or each.

    `all` are those that can be done in one go, but for a smoke test, which takes every one.
    """
    known = dict.fromkeys(name for experiment in EXPERIMENTS.values() for name in (experiment.id, experiment.name))
    for name in ids:
        if name not in (*known, ALL):
            raise ValueError(f"no experiment is called {name!r}{nearest(name, known)}: `deadtime reproduce --list` shows them")
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"no preset is called {preset!r}{nearest(preset, PRESETS)}: choose one of {', '.join(PRESETS)}")
    whole = [name for e in EXPERIMENTS.values() if smoke or not e.in_part for name in (e.id, e.name)]
    asked = {*whole, *ids} if ALL in ids else {*ids}
    other = {*PRESETS} - {preset} if preset is not None else set()
    found = [e for e in EXPERIMENTS.values() if {e.id, e.name} & asked and e.part not in other]
    if not found:
        raise ValueError(f"{', '.join(ids)} is not of preset {preset}: leave one of them out")
    return found


@dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper, draw their figures and write their numbers; what is recorded is not run again."""

    ids: tyro.conf.Positional[tuple[str, ...]] = ()
    """Which, or `all` but Atari; `--list` shows them."""
    list: bool = False
    """Show the experiments and stop."""
    seeds: Whole = None
    """Fewer or more seeds than the experiment asks for."""
    preset: Word = None
    """paper or best, of an experiment that exists under both; without it, both."""
    next: Whole = None
    """Run only so many of what is missing, first things first, and show what there is then; 0 only shows."""
    smoke: bool = False
    """A tiny version of each, one seed that hardly learns, kept apart in the folder `smoke`: to see that everything runs."""
    out: Place = "results"
    """The folder where records are kept, or a URL such as s3://BUCKET/FOLDER; figures and tables go to its `figures`."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to its folder `tensorboard`."""
    where: tyro.conf.OmitArgPrefixes[Where] = field(default_factory=Where)
    limits: tyro.conf.OmitArgPrefixes[Limits] = field(default_factory=Limits)

    def run(self) -> int:
        """Run, draw, write."""
        experiments = chosen(self.ids or (ALL,), self.preset, self.smoke)
        if self.list or not self.ids:
            with copied(self.out) as out:
                console().print(_listed(out))
            return 0
        with opened(self.out) as (out, store):
            return self._run(experiments, out, store)

    def _run(self, experiments: Sequence[Experiment], out: Path, store: Store | None) -> int:
        if self.smoke:
            experiments, out = [experiment.tiny() for experiment in experiments], folder_in(out, "smoke")
        if self.seeds is not None:
            check_count("seeds", self.seeds)
            experiments = [experiment.with_seeds(self.seeds) for experiment in experiments]
        runs = [pair for experiment in experiments for pair in experiment.wanted]
        if self.next is not None:
            if self.next < 0:
                raise ValueError(f"next is how many runs to do, 0 or more; got {self.next}: 0 only shows what is recorded")
            first = [pair for experiment in experiments for pair in experiment.next(self.next, out)]
            runs = [*{(spec.name, *seeds): (spec, seeds) for spec, seeds in first}.values()][: self.next]
        lost = 0
        if self.smoke:
            train_tiny(runs, out)
        else:
            lost = train_missing(runs, out, self.where, store)
        for experiment in experiments:
            if self.tensorboard:
                events.write_all((spec for spec, _ in experiment.wanted), out)
            results = found(experiment, out)
            if results is None:
                print(f"{experiment.name}: no seed of all its runs yet")
                continue
            folder_in(out, "figures")
            picture = experiment.draw(results, out)
            rows = experiment.table(results, out)
            path = out / "figures" / f"{experiment.name}.csv"
            with whole(path) as part:
                part.write_text(csv_text(rows), encoding="utf-8")
            where = out if store is None else store.url
            print(f"{where}/{picture.relative_to(out)}\n{where}/{path.relative_to(out)}")
        return 1 if lost else 0


def _listed(root: Path) -> Table:
    """What there is, about how long it takes here, and what is recorded."""
    table = Table(Column("name", no_wrap=True), "title", "runs", "time", "recorded", box=SIMPLE)
    for experiment in EXPERIMENTS.values():
        wanted, left = experiment.wanted, missing(experiment.wanted, root)
        done = f"{100 * (count(wanted) - count(left)) // count(wanted)}%" if wanted else "exact"
        table.add_row(experiment.name, experiment.title, str(count(wanted)), time_needed(wanted), done)
    return table


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """As a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows)
    return text.getvalue()
