"""`deadtime evaluate`: evaluate recorded policies on new episodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from deadtime.cli.option_types import Flag


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a recorded agent on new episodes, also at another delay."""

    record: tyro.conf.Positional[Path]
    """Folder of the record: `deadtime train` prints it."""
    delay: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="STEPS|PROCESS",
            help="Steps between choosing an action and executing it, or a delay that varies, such "
            "as uniform:2-6.",
            help_behavior_hint="(default: that of training)",
        ),
    ] = None
    episodes: int = 100
    """Episodes of each seed."""
    seed: int = 1_000_000
    """Seed of the first episode; each next episode has the next seed."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        """Evaluate every seed whose policy is recorded, and print the mean return."""
        from deadtime._support.terminal import counted  # noqa: PLC0415  (help needs none of these)
        from deadtime.delays import as_delay, as_process  # noqa: PLC0415
        from deadtime.learn.evaluate import evaluate  # noqa: PLC0415
        from deadtime.runs import records, statistics  # noqa: PLC0415
        from deadtime.runs.limits import return_limits  # noqa: PLC0415
        from deadtime.runs.result import Result  # noqa: PLC0415

        result = Result(records.read(self.record, policies=True))
        spec = result.spec
        seeds = sorted(result.replayed)
        trained = as_process(getattr(spec, "channel", spec.delay))
        process = trained if self.delay is None else as_process(self.delay)
        scores = []
        for seed in seeds:
            policy = result.policy(seed).at_delay(as_delay(process))
            env = spec.family.gymnasium_form(spec.environment(seed), as_delay(process), policy)
            returns = evaluate(policy, env, episodes=self.episodes, seed=self.seed)
            scores.append(float(returns.mean()))
        found = statistics.mean(scores, return_limits(spec))
        if self.json:
            delays = {
                name: one.to_json() if one.constant is None else one.constant
                for name, one in (("trained_delay", trained), ("delay", process))
            }
            print(
                json.dumps(delays | {"seeds": seeds, "scores": scores, "return": found.to_json()})
            )
        else:
            about = f"{spec.agent} in {spec.env}, trained at delay {trained}"
            print(f"{about}, evaluated at delay {process}")
            rest = len(result.seeds) - len(seeds)
            others = f"; {counted(rest, 'seed')} without a recorded policy" if rest else ""
            print(f"mean return {found} over {counted(len(seeds), 'seed')}{others}")
        return 0
