"""`deadtime sweep`: run what a TOML file asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from deadtime.cli.options import Limits
from deadtime.runs.where import Where


@dataclass(frozen=True)
class Sweep:
    """Run every environment, agent and delay that a TOML file names.

    Every run is recorded; what is recorded is not run again.
    """

    file: tyro.conf.Positional[Path]
    """Its keys: environments, agents, delays, seeds, presets, and the table overrides."""
    out: Annotated[str, tyro.conf.arg(metavar="PATH|URL", help_behavior_hint="")] = ""
    """The folder where records are kept, or a URL such as s3://BUCKET/FOLDER; default: the file's
    name without .toml."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to its folder `tensorboard`."""
    allow_import: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A module that the file may have imported, as MODULE in gym:MODULE:ID; as often as needed."""
    where: tyro.conf.OmitArgPrefixes[Where] = field(default_factory=Where)
    limits: tyro.conf.OmitArgPrefixes[Limits] = field(default_factory=Limits)

    def run(self) -> int:
        """Check everything, then run."""
        from deadtime._support.terminal import console  # noqa: PLC0415  (help needs none of these)
        from deadtime.runs import folder_report, sweep_file, tensorboard  # noqa: PLC0415
        from deadtime.runs.runner import train_missing  # noqa: PLC0415
        from deadtime.runs.store import opened  # noqa: PLC0415

        if self.file.suffix != ".toml":
            rule = "a sweep is described by a file NAME.toml"
            raise ValueError(f"{rule}; got {self.file}: rename it")
        runs = sweep_file.read(self.file, self.allow_import)
        place = self.out or str(self.file.with_suffix(""))
        with opened(place) as (out, store):
            keep = partial(sweep_file.keep_copy, self.file, out)
            lost = train_missing(runs, out, self.where, store, keep)
            if self.tensorboard:
                tensorboard.write_all((spec for spec, _ in runs), out)
            unread = folder_report.refused(out)
            mine = folder_report.experiments(out, unread)
            for experiment, results in mine:
                console().print(folder_report.printed(experiment, results))
        for why in unread.values():
            console(stderr=True).print(f"not shown: {why}", soft_wrap=True)
        if mine:
            console().print(f"all of it on a page: deadtime report {place}", soft_wrap=True)
        return 1 if lost else 0
