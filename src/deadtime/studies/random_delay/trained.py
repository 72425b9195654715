"""Agents that are trained under delays that vary: what knowing the age and what waiting is worth.

A task is data, so that another environment is one entry of `TASKS`. Each task has one figure and
one table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from deadtime._support.pictures import COLORS, MARKERS, save_picture
from deadtime.delays import Delay, DelayProcess
from deadtime.delays.waits import Observed
from deadtime.learn.settings import QLearning
from deadtime.runs import statistics
from deadtime.runs.ceiling import Ceiling, mean_ceiling
from deadtime.runs.figures import NAMES, new_figure, shared_legend
from deadtime.runs.result import Results
from deadtime.runs.returns import columns, difference, difference_columns, mean_return
from deadtime.runs.specs import Spec
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.studies.experiment import Experiment
from deadtime.studies.random_delay.laws import COLUMN_TITLES, COLUMNS, LAWS, faced

SEEDS = range(10)
_MAGNIFIED = 0.1
"""The range of returns below the smallest optimum that the upper panels show."""
SIZE, NOISE, EPISODES, EPSILON = 6, 0.1, 10_000, 0.05


def maze(agent: str, delay: Delay, observed: Observed = "now", **options: Any) -> TabularSpec:
    """Return a run of the study in mazes."""
    process = delay if isinstance(delay, DelayProcess) else None
    return TabularSpec(
        "maze",
        agent,
        delay.longest if isinstance(delay, DelayProcess) else delay,
        EPISODES,
        {"noise": NOISE, "size": SIZE},
        QLearning(epsilon=EPSILON),
        process=process,
        observed=observed,
        **options,
    )


@dataclass(frozen=True)
class Task:
    """A task of the study: its agents, and the function that makes a run."""

    name: str
    title: str
    agents: tuple[str, ...]
    spec: Callable[[str, Delay, Observed], Spec]


TASKS = (
    Task(
        "mazes",
        f"{SIZE}×{SIZE} mazes, noise {NOISE:g}",
        ("projected", "delayed", "distribution", "augmented", "oblivious"),
        maze,
    ),
)


def experiment_of(task: Task) -> Experiment:
    """Return the experiment of a task."""
    runs = {
        (law, column, agent): task.spec(agent, *faced(law, column))
        for law, column, agent in product(LAWS, COLUMNS, task.agents)
    }
    return Experiment(
        "random-delay",
        f"Agents trained under delays that vary: {task.title}",
        runs,
        SEEDS,
        partial(_draw, task),
        partial(_table, task),
        part=task.name,
    )


def _best(results: Results, root: Path, law: str, column: str, agent: str) -> Ceiling | None:
    """Return the optimum that a run could reach at best, where it can be computed."""
    result = results[law, column, agent]
    spec = result.spec
    if not isinstance(spec, TabularSpec):
        return None
    return mean_ceiling(root, spec, result.seeds)


def _draw(task: Task, results: Results, root: Path) -> Path:
    """Draw each law: the return of each agent against what it faces, magnified and as a whole."""
    figure, panels = new_figure(
        13, 6.4, 2, len(LAWS), sharex=True, sharey="row", height_ratios=(3, 2)
    )
    for column, law in enumerate(LAWS):
        best = [_best(results, root, law, name, task.agents[0]) for name in COLUMNS]
        for axes in panels[:, column]:
            _draw_returns(axes, results, law, task.agents)
            _draw_best(axes, best)
            axes.grid(alpha=0.25, axis="y")
        values = [one.value for one in best if one is not None]
        if values:
            panels[0, column].set_ylim(min(values) - _MAGNIFIED, max(values) + 0.1 * _MAGNIFIED)
        panels[0, column].set_title(f"{law}, mean age {LAWS[law].mean_age:.1f}", fontsize=10)
        titles = [COLUMN_TITLES[name] for name in COLUMNS]
        panels[1, column].set_xticks(range(len(titles)), titles, rotation=35, ha="right", size=8)
    panels[0, 0].set_ylabel("greedy return, magnified")
    panels[1, 0].set_ylabel("greedy return")
    shared_legend(figure, panels)
    seeds = len(next(iter(results.values())).seeds)
    figure.suptitle(
        f"{task.title}, {statistics.seeds_shown(seeds)}: deadtime reproduce random-delay",
        fontsize=10,
    )
    return save_picture(figure, root / "figures" / f"random-delay-{task.name}.png")


def _draw_returns(axes: Any, results: Results, law: str, agents: Sequence[str]) -> None:
    """Draw the mean return and interval of each agent in each column."""
    for number, agent in enumerate(agents):
        shift = 0.13 * (number - (len(agents) - 1) / 2)
        found = [mean_return(results[law, column, agent]) for column in COLUMNS]
        axes.errorbar(
            [x + shift for x in range(len(COLUMNS))],
            [e.value for e in found],
            [[e.value - e.low for e in found], [e.high - e.value for e in found]],
            color=COLORS[agent],
            marker=MARKERS[agent],
            ls="",
            ms=5,
            capsize=2,
            label=NAMES[agent],
        )


def _draw_best(axes: Any, best: Sequence[Ceiling | None]) -> None:
    """Draw the optimum of each column: solid where it is exact, dotted where it is a bound."""
    labels = {True: "exact optimum", False: "upper bound on it"}
    for x, one in enumerate(best):
        if one is not None:
            style = {"color": "black", "lw": 1.5, "ls": "-" if one.exact else ":"}
            label = labels.pop(one.exact, None)
            axes.plot([x - 0.4, x + 0.4], [one.value] * 2, label=label, **style)


def _table(task: Task, results: Results, root: Path) -> list[dict[str, Any]]:
    """Return a row for each run: its return, the optimum, and how much more than waiting it is."""
    rows = []
    for (law, column, agent), result in results.items():
        best = _best(results, root, law, column, agent)
        less = difference(result, results[law, "buffered", agent])
        row: dict[str, Any] = {
            "law": law,
            "mean_age": LAWS[law].mean_age,
            "longest_age": LAWS[law].longest,
            "column": column,
            "agent": agent,
        }
        row |= columns(result, "return") | {"seeds": len(result.seeds)}
        row |= difference_columns("minus_waiting", less)
        if best is not None:
            row |= {"optimum": best.value, "optimum_is": "exact" if best.exact else "upper bound"}
        rows.append(row)
    return rows


TRAINED = [experiment_of(task) for task in TASKS]
