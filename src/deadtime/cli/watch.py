"""`deadtime watch`: draw an episode of a recorded agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Watch:
    """Draw an episode of a recorded agent as a GIF.

    The pending actions are drawn as arrows. For an agent that predicts (delayed, distribution,
    mbs), the state that it expects after them is drawn too, except in gym: environments.
    """

    record: tyro.conf.Positional[Path]
    """Folder of the record: `deadtime train` prints it; a study's is results/paper/NAME."""
    seed: Annotated[
        int | None,
        tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the first with a policy)"),
    ] = None
    """Seed of the run whose policy acts."""
    episode: int = 0
    """Seed of the warm-up and the noise."""
    out: Path = Path("watch.gif")
    """GIF to write."""

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
