"""`deadtime compare`: train several agents at several delays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from deadtime.cli.option_types import EngineGroup, EngineOptions, File, Flag, LimitGroup, Limits
from deadtime.cli.options import (
    AGENT,
    AGENTS_HELP,
    ENVIRONMENT,
    ENVIRONMENT_HELP,
    OptionGroup,
)

if TYPE_CHECKING:
    from deadtime.runs.comparison import Comparison


@dataclass(frozen=True)
class Compare:
    """Train several agents at several delays and compare their returns.

    All agents train on the same seeds. The table shows mean returns with 95% intervals, and the
    differences between the first agent and each other one, paired by seed. Recorded runs are not
    trained again. Records keep scores and learning curves, but no policies.
    """

    env: Annotated[str, ENVIRONMENT, tyro.conf.arg(help=ENVIRONMENT_HELP)]
    settings: OptionGroup
    agents: Annotated[
        tuple[Annotated[str, AGENT], ...],
        tyro.conf.arg(
            metavar="AGENT ...",
            help=f"Agents; the first is compared with each other one. {AGENTS_HELP}",
        ),
    ] = ("delayed", "augmented", "oblivious")
    delays: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="STEPS|PROCESS ...",
            help="Delays: steps between choosing an action and executing it, or a range such as "
            "0-12. A delay may vary, such as uniform:2-6, except on frames.",
        ),
    ] = ("0", "5", "15")
    seeds: int = 5
    """Number of runs of each agent at each delay: seeds 0, 1, … Intervals need 3 or more."""
    out: Path = Path("runs")
    """Folder of records."""
    figure: File = None
    """Also draw return against delay into this PNG."""
    json: Flag = False
    """Print one JSON object."""
    where: EngineGroup = field(default_factory=EngineOptions)
    limits: LimitGroup = field(default_factory=Limits)

    def run(self) -> int:
        """Train the missing runs, and print the comparison."""
        from deadtime._support.pictures import check_picture  # noqa: PLC0415  (not for help)
        from deadtime.runs.comparison import Comparison  # noqa: PLC0415
        from deadtime.runs.delay_lists import delays_of  # noqa: PLC0415
        from deadtime.runs.store import local_folder  # noqa: PLC0415
        from deadtime.runs.tabular_specs import check_seeds  # noqa: PLC0415

        local_folder(self.out)
        check_picture(self.figure)
        options = self.settings.given()
        env_kwargs = self.settings.environment()
        seeds = check_seeds(self.seeds)
        delays = delays_of(self.delays)
        wanted = Comparison(self.env, self.agents, delays, seeds, options, env_kwargs)
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
