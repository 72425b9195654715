"""`deadtime.compare`: several agents under several delays on the same seeds, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from deadtime._support.files import printable
from deadtime._support.pictures import put_title, save_picture
from deadtime._support.terminal import counted
from deadtime.delays import Delay, as_delay
from deadtime.envs.families import environment_name
from deadtime.envs.gym_given import Given
from deadtime.runs import records, statistics
from deadtime.runs.ceiling import Ceiling, mean_ceiling
from deadtime.runs.delay_lists import delays_of
from deadtime.runs.figures import new_figure, return_against_delay
from deadtime.runs.limits import return_limits
from deadtime.runs.result import Result
from deadtime.runs.runner import How, train_missing
from deadtime.runs.specs import Spec, make_spec
from deadtime.runs.statistics import Estimate
from deadtime.runs.tabular_specs import TabularSpec, check_seeds
from deadtime.runs.wanted import Runs, count, missing
from deadtime.runs.where import Where

__all__ = ["Comparison", "compare"]

AGENTS = ("delayed", "augmented", "oblivious")
DELAYS = (0, 5, 15)


def compare(
    env: Given,
    agents: str | Sequence[str] = AGENTS,
    delays: Delay | str | Sequence[Delay | str] = DELAYS,
    seeds: int | Sequence[int] = 5,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    out: str | Path = "runs",
    where: Where | None = None,
    **options: object,
) -> Comparison:
    """Train each agent under each delay on the same seeds, and compare their returns.

    A delay is a number of steps or a process, such as ``Uniform(1, 3)`` or ``"uniform:1-3"``. The
    first agent is compared with each of the others. `env`, `options` and `env_kwargs` are those of
    `deadtime.train`. Records are kept in the folder `out`, and a run that is recorded there is not
    trained again. The command `deadtime compare` takes the same arguments and prints the result.
    """
    wanted = Comparison(
        environment_name(env),
        (agents,) if isinstance(agents, str) else tuple(agents),
        delays_of(delays),
        check_seeds(seeds),
        options,
        env_kwargs or {},
    )
    return wanted.train(Path(out), where or Where())


@dataclass(frozen=True)
class Comparison:
    """The returns of several agents under several delays; `print` shows them as a table."""

    env: str
    agents: tuple[str, ...]
    """The agents; the first is compared with each of the others."""
    delays: tuple[Delay, ...]
    seeds: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    """The settings of all runs, as they were given."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """The environment's own arguments, as they were given."""
    results: Mapping[tuple[str, Delay], Result] = field(default_factory=dict)
    """The training results by agent and delay."""
    optima: Mapping[Delay, Ceiling] = field(default_factory=dict)
    """The optimal return by delay, or a bound on it, where the environment is finite."""
    trained: int = 0
    """The number of runs that were trained now; the others had been recorded before."""

    def __post_init__(self) -> None:
        """Raise if agents or delays are empty or repeated."""
        named = (self.agents, self.delays)
        if any(not each or len({*each}) < len(each) for each in named):
            rule = "name each agent and delay once, at least one"
            raise ValueError(f"{rule}; got {self.agents} and {self.delays}: repeat none")

    def train(self, out: Path, where: Where) -> Comparison:
        """Train what is not recorded in `out` yet, and return the comparison with its results."""
        specs = {
            (agent, delay): make_spec(self.env, agent, delay, self.options, self.env_kwargs)
            for delay, agent in product(self.delays, self.agents)
        }
        wanted: Runs = [(spec, self.seeds) for spec in specs.values()]
        trained = count(missing(wanted, out))
        where = where if where.engine else replace(where, engine="inline")
        lost = train_missing(wanted, out, where, how=How(alone=False))
        if lost:
            raise OSError(
                f"{counted(lost, 'run')} failed, for the reasons above: "
                "run the same command to retry only these"
            )
        records_of = {key: records.read(out / spec.name) for key, spec in specs.items()}
        rows = list(self.seeds)
        results = {key: Result(record.rows(rows)) for key, record in records_of.items()}
        first = {delay: specs[self.agents[0], delay] for delay in self.delays}
        found = {delay: _optimum(out, spec, self.seeds) for delay, spec in first.items()}
        optima = {delay: best for delay, best in found.items() if best is not None}
        return replace(self, results=results, optima=optima, trained=trained)

    def mean(self, agent: str, delay: Delay | str) -> Estimate:
        """Return an agent's mean greedy return, with its 95% interval from three seeds on."""
        return statistics.mean(self.results[agent, as_delay(delay)].scores, self._limits)

    def difference(self, agent: str, delay: Delay | str) -> Estimate:
        """Return how much more the first agent earns than `agent`, paired by seed."""
        delay = as_delay(delay)
        first = self.results[self.agents[0], delay]
        other = self.results[agent, delay]
        return statistics.difference(first.scores, other.scores, self._limits)

    def to_json(self) -> dict[str, Any]:
        """Return all numbers as `deadtime compare --json` prints them."""
        count_of_seeds = self.seeds == tuple(range(len(self.seeds)))
        given = self.options | ({"env_kwargs": dict(self.env_kwargs)} if self.env_kwargs else {})
        return {
            "env": self.env,
            **given,
            "seeds": len(self.seeds) if count_of_seeds else list(self.seeds),
            "trained": self.trained,
            "delays": [self._numbers(delay) for delay in self.delays],
        }

    @property
    def head(self) -> tuple[str, ...]:
        """The titles of the table's columns."""
        columns = ("delay", "agent", "return")
        return (*columns, f"{self.agents[0]} minus it") if len(self.agents) > 1 else columns

    def rows(self, delay: Delay) -> list[tuple[str, ...]]:
        """Return the table's rows of one delay: the optimum where it is known, then each agent."""
        rows: list[tuple[str, ...]] = []
        if delay in self.optima:
            best = self.optima[delay]
            bound = "" if best.exact else "≤ "
            rows.append((str(delay), "optimum", f"{bound}{best.value:.3f}"))
        for agent in self.agents:
            cells = [str(self.mean(agent, delay))]
            if agent != self.agents[0]:
                cells.append(str(self.difference(agent, delay)))
            rows.append((str(delay), agent, *cells))
        return rows

    def notes(self) -> list[str]:
        """Return the notes below the table: agents that diverged or never learned, and seeds."""
        lines = []
        for delay, agent in product(self.delays, self.agents):
            about = f"{agent} at delay {delay}"
            result = self.results[agent, delay]
            if result.diverged:
                lines.append(f"{about} diverged (its mean counts it): {result.diverged}")
            if result.untrained:
                seeds = result.untrained
                lines.append(f"{about} was never updated, train longer: seeds {seeds}")
        paired = "; differences are paired by seed" if len(self.agents) > 1 else ""
        return [*lines, f"mean greedy return over {self._over_seeds}{paired}"]

    def __repr__(self) -> str:
        """Return the table and its notes as text."""
        rows = [self.head, *(row for delay in self.delays for row in self.rows(delay))]
        columns = range(len(self.head))
        cells = [[*row, *[""] * (len(self.head) - len(row))] for row in rows]
        widths = [max(len(row[column]) for row in cells) for column in columns]
        table = [
            "  ".join(row[column].ljust(widths[column]) for column in columns) for row in cells
        ]
        lines = [f"Comparison({self._title})", *(row.rstrip() for row in table), *self.notes()]
        return "\n".join(printable(line) for line in lines)

    def draw(self, path: str | Path) -> Path:
        """Draw the returns against the delay into a PNG, and return its path."""
        figure, axes = new_figure(6.4, 4.2)
        constant = [delay for delay in self.delays if isinstance(delay, int)]
        place: dict[Delay, int] = {delay: delay for delay in constant}
        if len(constant) < len(self.delays):  # a process has no place among numbers
            place = {delay: at for at, delay in enumerate(self.delays)}
        results = {(agent, place[delay]): one for (agent, delay), one in self.results.items()}
        best = {place[delay]: (one.value, one.exact) for delay, one in self.optima.items()}
        return_against_delay(axes, results, best)
        if len(constant) < len(self.delays):
            labels = [printable(str(delay)) for delay in self.delays]
            axes.set_xticks(range(len(labels)), labels)
            axes.set_xlabel("delay")
        put_title(axes, f"{self._title}, {self._over_seeds}")
        return save_picture(figure, Path(path))

    def _numbers(self, delay: Delay) -> dict[str, Any]:
        """Return the numbers of one delay: returns, paired differences and the optimum."""
        row: dict[str, Any] = {"delay": delay if isinstance(delay, int) else str(delay)}
        for agent in self.agents:
            result = self.results[agent, delay]
            row[agent] = self.mean(agent, delay).to_json()
            if result.diverged:
                row[agent]["diverged"] = result.diverged
            if result.untrained:
                row[agent]["never_updated"] = result.untrained
            if agent != self.agents[0]:
                row[agent]["difference"] = self.difference(agent, delay).to_json()
        best = self.optima.get(delay)
        optimum = None if best is None else {"value": best.value, "exact": best.exact}
        return row | {"optimum": optimum}

    @property
    def _limits(self) -> statistics.Limits:
        """The least and the largest return of an episode."""
        return return_limits(next(iter(self.results.values())).spec)

    @property
    def _title(self) -> str:
        """The environment and the settings of all runs."""
        given = {**self.env_kwargs, **self.options}
        return self.env + "".join(f", {name} {value}" for name, value in given.items())

    @property
    def _over_seeds(self) -> str:
        """The number of seeds, and the kind of intervals where there are any."""
        return statistics.seeds_shown(len(self.seeds))


def _optimum(out: Path, spec: Spec, seeds: Sequence[int]) -> Ceiling | None:
    """Return the optimum of a finite environment, unless it is too large to solve."""
    if not isinstance(spec, TabularSpec):
        return None
    try:
        return mean_ceiling(out, spec, seeds)
    except MemoryError:  # the returns are shown without an optimum
        return None
