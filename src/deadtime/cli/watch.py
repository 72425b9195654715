"""`deadtime watch`: draw an episode of a trained agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Watch:
    """Draw an episode of a trained agent as a GIF, with its pending actions.

    An agent that predicts (delayed, distribution, mbs) is also drawn where it expects to be when
    they are done, except in gym:ID, which draws itself.
    """

    record: tyro.conf.Positional[Path]
    """The folder that `deadtime train` printed, or results/paper/NAME of a study's record."""
    seed: int | None = None
    """Which of its seeds; default: the first whose policy was kept."""
    episode: int = 0
    """Decides the warm-up and the noise."""
    out: Path = Path("watch.gif")

    def run(self) -> int:
        """Run the episode and draw it."""
        from deadtime.runs import records  # noqa: PLC0415  (help needs none of these)
        from deadtime.runs.result import Result  # noqa: PLC0415
        from deadtime.runs.watch import watch  # noqa: PLC0415

        if self.out.suffix != ".gif":
            raise ValueError(f"watch writes a GIF; got {self.out}: end the name in .gif")
        if self.episode < 0:
            rule = f"episode is a whole number, 0 or more; got {self.episode}"
            raise ValueError(f"{rule}: each number gives one episode")
        result = Result(records.read(self.record, policies=True))
        seed = result.replayed[0] if self.seed is None else self.seed
        spec = result.spec
        environment = spec.environment(seed)
        policy = result.policy(seed)
        steps, earned = watch(spec.env, environment, policy, self.episode, self.out)
        print(f"{self.out}: {steps} steps, return {earned:.3f}")
        return 0
