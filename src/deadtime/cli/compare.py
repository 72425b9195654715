"""`deadtime compare`: train several agents under several delays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from deadtime.cli.options import File, Limits, Options
from deadtime.runs.where import Where


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
        from deadtime._support.terminal import console  # noqa: PLC0415
        from deadtime.cli import comparison  # noqa: PLC0415
        from deadtime.cli.output import nothing_trained  # noqa: PLC0415
        from deadtime.runs.store import local_folder  # noqa: PLC0415

        local_folder(self.out)
        check_picture(self.figure)
        settings = self.settings.given()
        asked = comparison.Asked(
            self.env, settings, self.agents, self.delays, self.seeds, self.out, self.where
        )
        trained, results = asked.train()
        rows = asked.rows(results)
        if self.json:
            said = {"env": self.env, **settings, "seeds": self.seeds}
            print(json.dumps({**said, "trained": trained, "delays": rows}))
        else:
            asked.print(rows)
            if not trained:
                console().print(nothing_trained(len(results) * self.seeds, "run"))
        if self.figure is not None:
            asked.draw(results, rows, self.figure)
        return 0
