"""`deadtime reproduce`: run experiments, of the paper and our own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import tyro

from deadtime.cli.option_types import (
    EngineGroup,
    EngineOptions,
    Flag,
    Integer,
    LimitGroup,
    Limits,
    Number,
    Place,
    name_type,
)
from deadtime.learn.presets import PRESETS

if TYPE_CHECKING:
    from rich.table import Table

    from deadtime.runs.store import Store
    from deadtime.runs.wanted import Runs
    from deadtime.studies.experiment import Experiment


@dataclass(frozen=True)
class Reproduce:
    """Run experiments, of the paper and our own, and draw their figures.

    The numbers behind each figure are written as CSV. Recorded runs are not done again.
    """

    ids: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="[ID ...]", help_behavior_hint="(default: list them and stop)"),
    ] = ()
    """Experiments to run; `all` is every one but Atari."""
    list: Flag = False
    """List the experiments with their runs, estimated time and recorded share, and stop."""
    seeds: Integer = None
    """Number of seeds, if not that of the experiment."""
    preset: Annotated[
        str | None,
        name_type("PRESET", PRESETS),
        tyro.conf.arg(help_behavior_hint="(default: both)"),
    ] = None
    """Settings of an experiment that has both: paper (the authors') or best (our own)."""
    next: Integer = None
    """Do only this many of the missing runs, the most important first; 0 only draws figures."""
    minutes: Number = None
    """Do the missing runs that fit into this time, the most important first, and stop then."""
    smoke: Flag = False
    """Test that everything runs: one tiny run of each, recorded in a folder of its own, `smoke`."""
    out: Place = "results/paper"
    """Folder or URL (s3://BUCKET/FOLDER, say) of records; figures go to `figures` inside it."""
    tensorboard: Flag = False
    """Also write TensorBoard event files, to `tensorboard` in the folder of records."""
    where: EngineGroup = field(default_factory=EngineOptions)
    limits: LimitGroup = field(default_factory=Limits)

    def run(self) -> int:
        """Run the experiments, draw their figures, and write their numbers."""
        from deadtime._support.terminal import console  # noqa: PLC0415  (help needs none of these)
        from deadtime.runs.store import copied, opened  # noqa: PLC0415
        from deadtime.studies.registry import ALL, chosen  # noqa: PLC0415

        experiments = chosen(self.ids or (ALL,), self.preset, self.smoke)
        if self.list or not self.ids:
            with copied(self.out) as out:
                console().print(_listed(out))
            return 0
        with opened(self.out) as (out, store):
            return self._run(experiments, out, store)

    def _run(self, experiments: Sequence[Experiment], out: Path, store: Store | None) -> int:
        from deadtime._support.checks import check_count  # noqa: PLC0415
        from deadtime._support.files import folder_in  # noqa: PLC0415  (help needs none of these)
        from deadtime.runs import tensorboard  # noqa: PLC0415
        from deadtime.runs.runner import How, Keep, train_missing  # noqa: PLC0415
        from deadtime.runs.units import KEPT_POLICY_BYTES  # noqa: PLC0415

        if self.smoke:
            experiments = [experiment.tiny() for experiment in experiments]
            out = folder_in(out, "smoke")
        if self.seeds is not None:
            check_count("seeds", self.seeds)
            experiments = [experiment.with_seeds(self.seeds) for experiment in experiments]
        runs = self._runs(experiments, out)
        first = {experiment.seeds[0] for experiment in experiments if experiment.runs}
        keep = Keep(tuple(sorted(first)), KEPT_POLICY_BYTES)
        how = How(together=True) if self.smoke else How(keep)
        how = replace(how, figures=len(experiments))
        if self.minutes is not None:
            how = replace(how, until=monotonic() + 60 * self.minutes)
        lost = train_missing(runs, out, self.where, None if self.smoke else store, how=how)
        for experiment in experiments:
            if experiment.answers is not None and self.next is None:
                experiment.answers.make(out)
            if self.tensorboard:
                tensorboard.write_all((spec for spec, _ in experiment.wanted), out)
            _show(experiment, out, out if store is None else store.url)
        if store is None and not self.smoke:
            _pack(out)
        return 1 if lost else 0

    def _runs(self, experiments: Sequence[Experiment], out: Path) -> Runs:
        """Return the runs to do: all, or the first ones that are missing."""
        if self.next is None and self.minutes is None:
            return [pair for experiment in experiments for pair in experiment.wanted]
        if self.next is not None and self.next < 0:
            rule = "next is how many runs to do, 0 or more"
            raise ValueError(f"{rule}; got {self.next}: 0 only shows what is recorded")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            rule = "minutes is a time above 0"
            raise ValueError(f"{rule}; got {self.minutes}: leave it out for no limit")
        from deadtime.runs.estimates import fitting  # noqa: PLC0415  (help needs none of it)

        first = [pair for experiment in experiments for pair in experiment.next(self.next, out)]
        once = {(spec.name, *seeds): (spec, seeds) for spec, seeds in first}
        chosen = [*once.values()][: self.next]
        return chosen if self.minutes is None else fitting(chosen, 60 * self.minutes)


def _show(experiment: Experiment, out: Path, place: str | Path) -> None:
    """Draw the figure of an experiment, write its numbers, and print where they are."""
    from deadtime._support.files import folder_in, whole  # noqa: PLC0415  (not for help)
    from deadtime.studies.experiment import csv_text, found  # noqa: PLC0415

    results = found(experiment, out)
    if results is None:
        print(f"{experiment.name}: not drawn, since no seed is recorded for all its runs yet")
        return
    folder_in(out, "figures")
    picture = experiment.draw(results, out)
    rows = experiment.table(results, out)
    path = out / "figures" / f"{experiment.name}.csv"
    with whole(path) as part:
        part.write_text(csv_text(rows), encoding="utf-8")
    print(f"{place}/{picture.relative_to(out)}\n{place}/{path.relative_to(out)}")


def _pack(out: Path) -> None:
    """Move the records into packs, unless another process adds to them."""
    from deadtime._support.terminal import console  # noqa: PLC0415  (help needs none of these)
    from deadtime.runs import packs  # noqa: PLC0415
    from deadtime.runs.driven import is_driven  # noqa: PLC0415

    if is_driven(out):
        busy = f"another process works in {out}, so its records stay in folders"
        console(stderr=True).print(f"{busy}: the next `reproduce` there packs them", soft_wrap=True)
        return
    packs.pack(out)


def _listed(root: Path) -> Table:
    """Return a table of the experiments: their runs, how long they take here, what is recorded."""
    from rich.box import SIMPLE  # noqa: PLC0415  (help needs none of these)
    from rich.table import Column, Table  # noqa: PLC0415

    from deadtime.runs.estimates import time_needed  # noqa: PLC0415
    from deadtime.runs.wanted import count, missing  # noqa: PLC0415
    from deadtime.studies.registry import EXPERIMENTS  # noqa: PLC0415

    name = Column("name", no_wrap=True)
    table = Table(name, "title", "runs", "time", "recorded", box=SIMPLE)
    for experiment in EXPERIMENTS.values():
        wanted = experiment.wanted
        left = count(missing(wanted, root))
        done = f"{100 * (count(wanted) - left) // count(wanted)}%" if wanted else "exact"
        runs = str(count(wanted))
        table.add_row(experiment.name, experiment.title, runs, time_needed(wanted, figures=1), done)
    return table
