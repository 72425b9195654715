"""`deadtime train`: train one agent and record it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from deadtime.cli.option_types import Flag, LimitGroup, Limits
from deadtime.cli.options import (
    AGENT,
    AGENTS_HELP,
    ENVIRONMENT,
    ENVIRONMENT_HELP,
    OptionGroup,
)


@dataclass(frozen=True)
class Train:
    """Train one agent under a delay and record it.

    Recorded seeds are not trained again.
    """

    env: Annotated[str, ENVIRONMENT, tyro.conf.arg(help=ENVIRONMENT_HELP)]
    settings: OptionGroup
    agent: Annotated[str, AGENT, tyro.conf.arg(help=f"Agent: {AGENTS_HELP}")] = "delayed"
    delay: Annotated[
        str,
        tyro.conf.arg(
            metavar="STEPS|PROCESS",
            help="Steps between choosing an action and executing it. The delay may vary, such as "
            "uniform:2-6 or walk:0-8, except on frames.",
        ),
    ] = "0"
    seeds: int = 1
    """Number of runs: seeds 0, 1, … Intervals need 3 or more."""
    out: Path = Path("runs")
    """Folder of records."""
    tensorboard: Flag = False
    """Also write TensorBoard event files, to `tensorboard` in the folder of records."""
    json: Flag = False
    """Print one JSON object."""
    limits: LimitGroup = field(default_factory=Limits)

    def run(self) -> int:
        """Train the missing seeds, and print the result."""
        from deadtime._support.terminal import console  # noqa: PLC0415  (help needs none of these)
        from deadtime.cli.output import nothing_trained, settings_table, summary  # noqa: PLC0415
        from deadtime.runs import records, tensorboard  # noqa: PLC0415
        from deadtime.runs.runner import train_recorded  # noqa: PLC0415
        from deadtime.runs.specs import make_spec  # noqa: PLC0415
        from deadtime.runs.store import local_folder  # noqa: PLC0415
        from deadtime.runs.tabular_specs import check_seeds  # noqa: PLC0415

        local_folder(self.out)
        spec = make_spec(
            self.env,
            self.agent,
            self.delay,
            self.settings.given(),
            self.settings.environment(),
        )
        seeds = check_seeds(self.seeds)
        folder = self.out / spec.name
        known = records.read(folder).policy_seeds if records.exists(folder) else []
        trained = len({*seeds} - {*known})
        result, _ = train_recorded(spec, seeds, self.out)
        if self.tensorboard:
            tensorboard.write_all([spec], self.out)
        found = summary(result) | {"record": str(folder)}
        if self.json:
            print(json.dumps(found | {"trained": trained}))
            return 0
        shown = console()
        shown.print(
            settings_table({name: value for name, value in found.items() if name != "record"})
        )
        simulated = getattr(spec.learner, "model", "") == "simulator"
        shown.print(f"record: {folder}", soft_wrap=True)
        if spec.family.can_draw(spec.environment(0)) and not simulated:
            shown.print(f"see it act: deadtime watch {folder}", soft_wrap=True)
        if not trained:
            shown.print(nothing_trained(len(seeds), "seed"))
        return 0
