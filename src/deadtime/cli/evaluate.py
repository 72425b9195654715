"""`deadtime evaluate`: evaluate recorded policies on new episodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a recorded training on new episodes, under its own delay or another."""

    record: tyro.conf.Positional[Path]
    """The folder that `deadtime train` printed, or results/paper/NAME of a study's record."""
    delay: int | None = None
    """Default: the one it was trained for."""
    episodes: int = 100
    """For each seed."""
    seed: int = 1_000_000
    """Seed of the first episode; each next episode has the next seed."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        """Evaluate every seed whose policy was kept, and print."""
        from deadtime._support.terminal import counted  # noqa: PLC0415  (help needs none of these)
        from deadtime.learn.evaluate import evaluate  # noqa: PLC0415
        from deadtime.runs import records, statistics  # noqa: PLC0415
        from deadtime.runs.limits import return_limits  # noqa: PLC0415
        from deadtime.runs.result import Result  # noqa: PLC0415

        result = Result(records.read(self.record, policies=True))
        spec = result.spec
        seeds = sorted(result.replayed)
        delay = spec.delay if self.delay is None else self.delay
        scores = []
        for seed in seeds:
            policy = result.policy(seed).at_delay(delay)
            env = spec.family.gymnasium_form(spec.environment(seed), delay, policy)
            returns = evaluate(policy, env, episodes=self.episodes, seed=self.seed)
            scores.append(float(returns.mean()))
        found = statistics.mean(scores, return_limits(spec))
        if self.json:
            delays = {"trained_delay": spec.delay, "delay": delay}
            print(
                json.dumps(delays | {"seeds": seeds, "scores": scores, "return": found.to_json()})
            )
        else:
            about = f"{spec.env} {spec.agent} of delay {spec.delay}, under delay {delay}"
            rest = len(result.seeds) - len(seeds)
            others = f" (the record keeps no policy of the other {rest})" if rest else ""
            print(f"{about}: return {found} over {counted(len(seeds), 'seed')}{others}")
        return 0
