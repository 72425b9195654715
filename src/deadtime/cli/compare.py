"""`deadtime compare`: train several agents under several delays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from deadtime.cli.options import File, Limits, Options
from deadtime.runs.where import Where

if TYPE_CHECKING:
    from deadtime.runs.comparison import Comparison


@dataclass(frozen=True)
class Compare:
    """Train several agents under several delays on the same seeds; print returns.

    Intervals and paired differences stand beside them. Records keep scores and curves, but no
    policies.
    """

    env: str
    """maze, noisy-maze, walk, cartpole, noisy-cartpole, acrobot, noisy-acrobot, gymnax:NAME, gym:ID
    or atari:NAME."""
    settings: tyro.conf.OmitArgPrefixes[Options]
    agents: tuple[str, ...] = ("delayed", "augmented", "oblivious")
    """Which agents; the first is compared with each of the others."""
    delays: tuple[int, ...] = (0, 5, 15)
    """Steps between choosing an action and its execution, one or more numbers."""
    seeds: int = 5
    """How many runs of each agent under each delay, seed 0 first. Intervals need at least 3."""
    out: Path = Path("runs")
    """Where records are kept."""
    figure: File = None
    """Also draw the returns against the delay into this PNG."""
    json: bool = False
    """Print one JSON object."""
    where: tyro.conf.OmitArgPrefixes[Where] = field(default_factory=Where)
    limits: tyro.conf.OmitArgPrefixes[Limits] = field(default_factory=Limits)

    def run(self) -> int:
        """Train what is not recorded yet, and print."""
        from deadtime._support.pictures import check_picture  # noqa: PLC0415  (not for help)
        from deadtime.runs.comparison import Comparison  # noqa: PLC0415
        from deadtime.runs.store import local_folder  # noqa: PLC0415
        from deadtime.runs.tabular_specs import check_seeds  # noqa: PLC0415

        local_folder(self.out)
        check_picture(self.figure)
        options = self.settings.given()
        env_kwargs = self.settings.environment()
        seeds = check_seeds(self.seeds)
        wanted = Comparison(self.env, self.agents, self.delays, seeds, options, env_kwargs)
        comparison = wanted.train(self.out, self.where)
        if self.json:
            print(json.dumps(comparison.to_json()))
        else:
            _show(comparison)
        if self.figure is not None:
            comparison.draw(self.figure)
        return 0


def _show(comparison: Comparison) -> None:
    """Print a comparison as a table, with notes below it."""
    from rich.table import Table  # noqa: PLC0415  (not for help)

    from deadtime._support.terminal import console  # noqa: PLC0415
    from deadtime.cli.output import nothing_trained  # noqa: PLC0415

    table = Table(*comparison.head)
    for delay in comparison.delays:
        for row in comparison.rows(delay):
            table.add_row(*row)
        table.add_section()
    shown = console()
    shown.print(table)
    for line in comparison.notes():
        shown.print(line)
    if not comparison.trained:
        shown.print(nothing_trained(len(comparison.results) * len(comparison.seeds), "run"))
