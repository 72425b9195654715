"""`deadtime train`: train one agent and record it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from deadtime.cli.options import Limits, Options


@dataclass(frozen=True)
class Train:
    """Train one agent under a delay and record it.

    Seeds that are recorded already are not trained again.
    """

    env: str
    """maze, noisy-maze, walk, cartpole, noisy-cartpole, acrobot, noisy-acrobot, gymnax:NAME, gym:ID
    or atari:NAME."""
    settings: tyro.conf.OmitArgPrefixes[Options]
    agent: str = "delayed"
    """Everywhere: delayed, augmented, oblivious; shifted, except on Atari. In maze and walk also
    distribution and mbs. In cartpole, acrobot, gymnax:NAME and atari:NAME also recurrent."""
    delay: int = 0
    """Steps between choosing an action and its execution."""
    seeds: int = 1
    """How many runs, seed 0 first; in mazes seed i is also maze i. Intervals need at least 3."""
    out: Path = Path("runs")
    """Where records are kept."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to the folder `tensorboard` among them."""
    json: bool = False
    """Print one JSON object."""
    limits: tyro.conf.OmitArgPrefixes[Limits] = field(default_factory=Limits)

    def run(self) -> int:
        """Train and print."""
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
