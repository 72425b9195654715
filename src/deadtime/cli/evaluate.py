"""`deadtime evaluate`: evaluate recorded policies on new episodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from deadtime.cli.option_types import File, Flag

if TYPE_CHECKING:
    from deadtime.runs.delay_cost import DelayCost
    from deadtime.runs.result import Result


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a recorded agent on new episodes, also at other delays."""

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
    delays: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="STEPS|RANGE|PROCESS ...",
            help="Several delays, to see what each of them costs: --delays 0-12 uniform:2-6.",
            help_behavior_hint="",
        ),
    ] = ()
    episodes: int = 100
    """Episodes of each seed."""
    seed: int = 1_000_000
    """Seed of the first episode; each next episode has the next seed."""
    plot: File = None
    """With --delays: also draw return against delay into this PNG."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        """Evaluate every seed whose policy is recorded, and print the mean return."""
        from deadtime._support.pictures import check_picture  # noqa: PLC0415  (not for help)
        from deadtime.runs import records  # noqa: PLC0415
        from deadtime.runs.delay_cost import delay_cost  # noqa: PLC0415
        from deadtime.runs.delay_lists import delays_of  # noqa: PLC0415
        from deadtime.runs.result import Result  # noqa: PLC0415

        if self.delays and self.delay is not None:
            rule = "--delay is for one delay and --delays for several"
            raise ValueError(f"{rule}; got both: leave one of them out")
        if self.plot is not None and not self.delays:
            rule = "--plot draws return against several delays"
            raise ValueError(f"{rule}; got no --delays: add, for example, --delays 0-12")
        check_picture(self.plot)
        result = Result(records.read(self.record, policies=True))
        if not self.delays:
            self._evaluate_one(result)
            return 0
        cost = delay_cost(result, delays_of(self.delays), self.episodes, self.seed)
        if self.json:
            print(json.dumps(_provenance(cost) | {"delays": cost.to_json()}))
        else:
            _show(cost)
        if self.plot is not None:
            cost.draw(self.plot)
        return 0

    def _evaluate_one(self, result: Result) -> None:
        """Print the mean return under one delay."""
        from deadtime.delays import as_delay  # noqa: PLC0415
        from deadtime.runs.delay_cost import delay_cost, plain  # noqa: PLC0415

        spec = result.spec
        trained = getattr(spec, "channel", spec.delay)
        delay = as_delay(trained if self.delay is None else self.delay)
        cost = delay_cost(result, [delay], self.episodes, self.seed)
        found = cost.estimate(delay)
        if self.json:
            found_here = {"delay": plain(delay), "scores": cost.scores[delay]}
            print(json.dumps(_provenance(cost) | found_here | {"return": found.to_json()}))
        else:
            about = f"{spec.agent} in {spec.env}, trained at delay {trained}"
            print(f"{about}, evaluated at delay {delay}")
            print(f"mean return {found} over {_seeds(cost)}")


def _provenance(cost: DelayCost) -> dict[str, object]:
    """Return the entries of the JSON output that are the same for all delays."""
    from deadtime.runs.delay_cost import plain  # noqa: PLC0415

    return {"trained_delay": plain(cost.trained), "seeds": sorted(cost.result.replayed)}


def _seeds(cost: DelayCost) -> str:
    """Return the number of seeds as text."""
    from deadtime._support.terminal import counted  # noqa: PLC0415

    count = len(cost.result.replayed)
    rest = len(cost.result.seeds) - count
    others = f"; {counted(rest, 'seed')} without a recorded policy" if rest else ""
    return f"{counted(count, 'seed')}{others}"


def _show(cost: DelayCost) -> None:
    """Print the returns as a table, and why there are none under some delays."""
    from rich.table import Table  # noqa: PLC0415

    from deadtime._support.terminal import console  # noqa: PLC0415

    spec = cost.result.spec
    table = Table("delay", "mean return")
    for delay in {**cost.scores, **cost.refused}:
        trained = " (trained)" if delay == cost.trained else ""
        found = str(cost.estimate(delay)) if delay in cost.scores else "not possible"
        table.add_row(f"{delay}{trained}", found)
    shown = console()
    shown.print(f"{spec.agent} in {spec.env}, trained at delay {cost.trained}, {_seeds(cost)}")
    shown.print(table)
    for reason in dict.fromkeys(cost.refused.values()):
        shown.print(f"not possible: {reason}", markup=False)
