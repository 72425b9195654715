"""The training, table and figure of `deadtime compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from rich.table import Table

from deadtime._support.pictures import put_title, save_picture
from deadtime._support.terminal import console, counted
from deadtime.cli.output import estimate
from deadtime.runs import records, statistics
from deadtime.runs.ceiling import mean_ceiling
from deadtime.runs.figures import new_figure, return_against_delay
from deadtime.runs.limits import return_limits
from deadtime.runs.result import Result
from deadtime.runs.runner import How, train_missing
from deadtime.runs.specs import make_spec
from deadtime.runs.tabular_specs import TabularSpec, check_seeds
from deadtime.runs.wanted import Runs, count, missing
from deadtime.runs.where import Where

_Results = Mapping[tuple[str, int], Result]
_Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A comparison that was asked for: each agent under each delay, on the same seeds."""

    env: str
    settings: dict[str, Any]
    agents: Sequence[str]
    delays: Sequence[int]
    seeds: int
    out: Path
    where: Where

    def __post_init__(self) -> None:
        """Raise if an agent or a delay is named twice, or none is."""
        named = (self.agents, self.delays)
        if any(not each or len({*each}) < len(each) for each in named):
            rule = "name each agent and delay once, at least one"
            raise ValueError(f"{rule}; got {self.agents} and {self.delays}: repeat none")

    def train(self) -> tuple[int, _Results]:
        """Train what is not recorded yet; return how many runs that were, and all results."""
        specs = {
            (agent, delay): make_spec(self.env, agent, delay, self.settings)
            for delay, agent in product(self.delays, self.agents)
        }
        seeds = check_seeds(self.seeds)
        wanted: Runs = [(spec, seeds) for spec in specs.values()]
        trained = count(missing(wanted, self.out))
        where = self.where if self.where.engine else replace(self.where, engine="inline")
        lost = train_missing(wanted, self.out, where, how=How(alone=False))
        if lost:
            raise OSError(
                f"{counted(lost, 'run')} failed, for the reasons above: the same command tries only these again"
            )
        recorded = {key: records.read(self.out / spec.name) for key, spec in specs.items()}
        return trained, {key: Result(record.rows(list(seeds))) for key, record in recorded.items()}

    def rows(self, results: _Results) -> list[_Row]:
        """Return the numbers of each delay: returns, paired differences and the optimum."""
        return [self._row(results, delay) for delay in self.delays]

    def _row(self, results: _Results, delay: int) -> _Row:
        first = results[self.agents[0], delay]
        row: _Row = {"delay": delay}
        limits = return_limits(first.spec)
        for agent in self.agents:
            result = results[agent, delay]
            row[agent] = statistics.mean(result.scores, limits).to_json()
            if result.diverged:
                row[agent]["diverged"] = result.diverged
            if result.untrained:
                row[agent]["never_updated"] = result.untrained
            if agent != self.agents[0]:
                less = statistics.difference(first.scores, result.scores, limits)
                row[agent]["difference"] = less.to_json()
        return row | {"optimum": self._optimum(first.spec)}

    def _optimum(self, spec: Any) -> _Row | None:
        """Return the optimum of a finite environment, unless it is too large to solve."""
        if not isinstance(spec, TabularSpec):
            return None
        try:
            best = mean_ceiling(self.out, spec, check_seeds(self.seeds))
        except MemoryError:  # which takes nothing from what was learned
            return None
        return {"value": best.value, "exact": best.delay == spec.delay}

    def print(self, rows: Sequence[_Row]) -> None:
        """Print a table, and notes below it."""
        first, *others = self.agents
        table = Table("delay", "agent", "return")
        if others:
            table.add_column(f"{first} minus it")
        for row in rows:
            delay = str(row["delay"])
            best = row["optimum"]
            if best is not None:
                bound = "" if best["exact"] else "≤ "
                table.add_row(delay, "optimum", f"{bound}{best['value']:.3f}")
            for agent in self.agents:
                cells = [estimate(row[agent])]
                if "difference" in row[agent]:
                    cells.append(estimate(row[agent]["difference"]))
                table.add_row(delay, agent, *cells)
            table.add_section()
        shown = console()
        shown.print(table)
        for row, agent in product(rows, self.agents):
            about = f"{agent} at delay {row['delay']}"
            if "diverged" in row[agent]:
                shown.print(f"{about} diverged (its mean counts it): {row[agent]['diverged']}")
            if "never_updated" in row[agent]:
                seeds = row[agent]["never_updated"]
                shown.print(f"{about} was never updated, train longer: seeds {seeds}")
        paired = "; differences are paired by seed" if others else ""
        shown.print(f"mean greedy return over {self._over_seeds(rows)}{paired}")

    def draw(self, results: _Results, rows: Sequence[_Row], path: Path) -> None:
        """Draw the returns against the delay into a PNG."""
        optima = {row["delay"]: row["optimum"] for row in rows if row["optimum"]}
        best = {delay: (one["value"], one["exact"]) for delay, one in optima.items()}
        figure, axes = new_figure(6.4, 4.2)
        scores = {key: result.scores for key, result in results.items()}
        limits = return_limits(next(iter(results.values())).spec)
        return_against_delay(axes, scores, best, limits)
        given = "".join(f", {name} {value}" for name, value in self.settings.items())
        put_title(axes, f"{self.env}{given}, {self._over_seeds(rows)}")
        save_picture(figure, path)

    def _over_seeds(self, rows: Sequence[_Row]) -> str:
        """Return the number of seeds in words, with the kind of intervals where there are any."""
        intervals = any(row[agent]["low"] is not None for row in rows for agent in self.agents)
        return counted(self.seeds, "seed") + ", 95% intervals" * intervals
