"""`deadtime identify`: estimate the delay of a system from a log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from deadtime.cli.option_types import NO_DEFAULT, File, Flag, Number

if TYPE_CHECKING:
    from deadtime.identify import Identification

_Names = Annotated[
    str, tyro.conf.arg(metavar="NAME,NAME,...", help_behavior_hint="(default: usual names)")
]
_Name = Annotated[str, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: usual names)")]
_Pair = Annotated[str, tyro.conf.arg(metavar="NAME,NAME", **NO_DEFAULT)]
_Actions = Annotated[
    bool | None,
    tyro.conf.arg(
        metavar="True|False", help_behavior_hint="(default: one column of whole numbers is)"
    ),
]


@dataclass(frozen=True)
class Identify:
    """Estimate the delay of a system from a log.

    Each row of the log has the observation of a step and the action that was chosen from it. The
    answer is the sum of action and observation delay, or why the log does not show it.
    """

    log: tyro.conf.Positional[Path]
    """CSV, NPZ or Parquet file."""
    observations: _Names = ""
    """Columns of the observation, or arrays of an NPZ file. Usual names: observations, obs0."""
    actions: _Names = ""
    """Columns of the action. Usual names: actions, action, action0."""
    episode: _Name = ""
    """Column that numbers the episodes. Usual names: episode; or done, terminated, truncated."""
    time: _Name = ""
    """Column of the time of each row, in seconds. Usual names: time, timestamp."""
    step: Number = None
    """Duration of a step in seconds, if the log has no times."""
    discrete: _Actions = None
    """Whether actions are numbered, not quantities."""
    max_delay: int = 20
    """Longest delay that is considered, in steps."""
    level: float = 0.9
    """Probability of intervals: 0.9, 0.95 or 0.99."""
    action_stamps: _Pair = ""
    """Columns of the times at which an action was chosen and executed: splits the delay."""
    observation_stamps: _Pair = ""
    """Columns of the times at which an observation was sampled and received."""
    plot: File = None
    """Draw the posterior and the cross-correlation as PNG or SVG; needs matplotlib."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        """Estimate and print; exit with 1 if the log does not show the delay."""
        from deadtime.identify import identify_delay  # noqa: PLC0415  (help needs none of these)
        from deadtime.identify.read_log import Columns, read_table  # noqa: PLC0415

        if self.plot is not None:
            from deadtime.cli.identified_plot import check_plot  # noqa: PLC0415

            check_plot(self.plot)
        columns = Columns(
            _names(self.observations),
            _names(self.actions),
            self.episode,
            self.time,
            _names(self.action_stamps),
            _names(self.observation_stamps),
        )
        table = read_table(self.log, columns)
        found = identify_delay(
            table.observations,
            table.actions,
            episodes=table.episodes,
            times=table.times,
            step=self.step,
            discrete=self.discrete,
            action_stamps=table.action_stamps,
            observation_stamps=table.observation_stamps,
            max_delay=self.max_delay,
            level=self.level,
        )
        if self.plot is not None:
            from deadtime.cli.identified_plot import draw  # noqa: PLC0415

            draw(found, self.plot)
        if self.json:
            print(json.dumps(found.to_json()))
        else:
            _print(found)
        return 0 if found.identifiable else 1


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _print(found: Identification) -> None:
    """Print the answer, and the table of delays that are possible."""
    from rich.table import Table  # noqa: PLC0415  (help needs neither)

    from deadtime._support.terminal import console  # noqa: PLC0415

    screen = console()
    screen.print(found.headline, soft_wrap=True)
    if found.table and found.model:
        head = "share of steps" if found.varies else "probability"
        table = Table("delay (steps)", head, "cross-correlation")
        for delay, probability, correlation in found.table:
            table.add_row(str(delay), f"{probability:.3f}", f"{correlation:.3f}")
        screen.print(table)
    for line in found.details:
        screen.print(line, soft_wrap=True)
