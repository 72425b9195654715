"""What `deadtime reproduce` does: run an experiment of the paper, draw it and write its numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from deadtime.agents.presets import PRESETS
from deadtime.envs import nearest
from deadtime.experiments import physical, summary, tabular
from deadtime.experiments.runner import Experiment, recorded, run, run_deep_ones
from deadtime.experiments.specs import check_count
from deadtime.experiments.stationarity import STATIONARITY
from deadtime.pictures import whole
from deadtime.training.command import Whole, Word

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one for one in (*summary.EXPERIMENTS, STATIONARITY, *tabular.EXPERIMENTS, *physical.EXPERIMENTS)
}
ALL = "all"


def chosen(ids: Sequence[str], preset: str | None) -> list[Experiment]:
    """Those of the names given, or all; of one that exists under several presets, the one asked for or each."""
    known = dict.fromkeys(experiment.id for experiment in EXPERIMENTS.values())
    for name in ids:
        if name not in (*known, ALL):
            raise ValueError(f"no experiment is called {name!r}{nearest(name, known)}: `deadtime reproduce --list` shows them")
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"no preset is called {preset!r}{nearest(preset, PRESETS)}: choose one of {', '.join(PRESETS)}")
    asked = known if ALL in ids else ids
    return [e for e in EXPERIMENTS.values() if e.id in asked and (preset is None or e.preset in ("", preset))]


@dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper, draw their figures and write their numbers; what is recorded is not run again."""

    ids: tyro.conf.Positional[tuple[str, ...]] = ()
    """Which, or `all`; `--list` shows them."""
    list: bool = False
    """Show the experiments and stop."""
    seeds: Whole = None
    """Fewer or more seeds than the experiment asks for."""
    preset: Word = None
    """paper or best, of an experiment that exists under both; without it, both."""
    smoke: bool = False
    """A tiny version of each, one seed that hardly learns, kept apart in the folder `smoke`: to see that everything runs."""
    out: Path = Path("results")
    """Where records are kept; figures and tables go to its folder `figures`."""

    def run(self) -> int:
        """Run, draw, write."""
        if self.list or not self.ids:
            table = Table("id", "title", "runs", "seeds", "recorded")
            for experiment in EXPERIMENTS.values():
                runs = len(experiment.runs) * len(experiment.seeds)
                done = f"{recorded(experiment, self.out) / runs:.0%}" if runs else "exact"
                table.add_row(experiment.id, experiment.title, str(runs), str(len(experiment.seeds)), done)
            Console().print(table)
            return 0
        if self.seeds is not None:
            check_count("seeds", self.seeds)
        experiments, out = chosen(self.ids, self.preset), self.out
        if self.smoke:
            experiments, out = [experiment.tiny() for experiment in experiments], out / "smoke"
        run_deep_ones(experiments, out, self.seeds, self.smoke)
        for experiment in experiments:
            results = run(experiment, out, self.seeds)
            picture = experiment.draw(results, out)
            rows = experiment.table(results, out)
            path = out / "figures" / f"{experiment.name}.csv"
            with whole(path) as part:
                part.write_text(csv_text(rows))
            print(f"{picture}\n{path}")
        return 0


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """As a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows)
    return text.getvalue()
