"""What `deadtime reproduce` does: run an experiment of the paper, draw it and write its numbers."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from deadtime.envs import nearest
from deadtime.experiments import physical, tabular
from deadtime.experiments.runner import Experiment, run, run_deep_ones
from deadtime.experiments.specs import check_count
from deadtime.pictures import whole

EXPERIMENTS: dict[str, Experiment] = {one.id: one for one in (*tabular.EXPERIMENTS, *physical.EXPERIMENTS)}


@dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper, draw their figures and write their numbers; what is recorded is not run again."""

    ids: tyro.conf.Positional[tuple[str, ...]] = ()
    """Which; `--list` shows them all."""
    list: bool = False
    """Show the experiments and stop."""
    seeds: int | None = None
    """Fewer or more seeds than the experiment asks for."""
    out: Path = Path("results")
    """Where records are kept; figures and tables go to its folder `figures`."""

    def run(self) -> int:
        """Run, draw, write."""
        if self.list or not self.ids:
            table = Table("id", "title", "runs", "seeds")
            for experiment in EXPERIMENTS.values():
                table.add_row(experiment.id, experiment.title, str(len(experiment.runs)), str(len(experiment.seeds)))
            Console().print(table)
            return 0
        for name in self.ids:
            if name not in EXPERIMENTS:
                raise ValueError(
                    f"no experiment is called {name!r}{nearest(name, EXPERIMENTS)}: `deadtime reproduce --list` shows them"
                )
        if self.seeds is not None:
            check_count("seeds", self.seeds)
        run_deep_ones([EXPERIMENTS[name] for name in self.ids], self.out, self.seeds)
        for name in self.ids:
            experiment = EXPERIMENTS[name]
            results = run(experiment, self.out, self.seeds)
            picture = experiment.draw(results, self.out)
            rows = experiment.table(results, self.out)
            path = self.out / "figures" / f"{name}.csv"
            with whole(path) as part:
                part.write_text(_csv(rows))
            print(f"{picture}\n{path}")
        return 0


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows)
    return text.getvalue()
