"""`deadtime sweep`: run every environment, agent and delay that a TOML file names."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from deadtime.cli.option_types import EngineGroup, EngineOptions, Flag, LimitGroup, Limits


@dataclass(frozen=True)
class Sweep:
    """Run every environment, agent and delay that a TOML file names.

    Recorded runs are not done again, so the same command resumes a sweep.
    """

    file: tyro.conf.Positional[Path]
    """Keys: environments, agents, delays, seeds, presets. Tables: overrides, env_kwargs."""
    out: Annotated[
        str,
        tyro.conf.arg(metavar="PATH|URL", help_behavior_hint="(default: FILE without .toml)"),
    ] = ""
    """Folder of records, or a URL such as s3://BUCKET/FOLDER."""
    tensorboard: Flag = False
    """Also write TensorBoard event files, to `tensorboard` in the folder of records."""
    allow_import: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(
            metavar="MODULE",
            help="Module that the file may import, for environments named gym:MODULE:ID. Repeat "
            "it for several.",
            help_behavior_hint="",
        ),
    ] = ()
    where: EngineGroup = field(default_factory=EngineOptions)
    limits: LimitGroup = field(default_factory=Limits)

    def run(self) -> int:
        """Check the whole file, do the missing runs, and print the returns."""
        from deadtime._support.terminal import console  # noqa: PLC0415  (help needs none of these)
        from deadtime.runs import folder_report, sweep_file, tensorboard  # noqa: PLC0415
        from deadtime.runs.runner import train_missing  # noqa: PLC0415
        from deadtime.runs.store import opened  # noqa: PLC0415
        from deadtime.runs.sweep_text import keep_copy  # noqa: PLC0415

        if self.file.suffix != ".toml":
            rule = "a sweep is described by a file NAME.toml"
            raise ValueError(f"{rule}; got {self.file}: rename it")
        runs = sweep_file.read(self.file, self.allow_import)
        place = self.out or str(self.file.with_suffix(""))
        with opened(place) as (out, store):
            keep = partial(keep_copy, self.file, out)
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
            console().print(f"one page with figures: deadtime report {place}", soft_wrap=True)
        return 1 if lost else 0
