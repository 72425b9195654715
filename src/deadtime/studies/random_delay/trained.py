"""Agents that are trained under delays that vary: what knowing the age and what waiting is worth.

Each task has one figure and one table (see `tasks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from deadtime._support.pictures import COLORS, MARKERS, save_picture
from deadtime.runs.ceiling import Ceiling, mean_ceiling
from deadtime.runs.figures import NAMES, new_figure, shared_legend
from deadtime.runs.folder_report import seeds_of
from deadtime.runs.result import Results
from deadtime.runs.returns import columns, difference, difference_columns, mean_return
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.studies.experiment import Experiment
from deadtime.studies.random_delay.laws import COLUMN_TITLES, COLUMNS
from deadtime.studies.random_delay.tasks import TASKS, Task

SEEDS = range(10)


def experiment_of(task: Task) -> Experiment:
    """Return the experiment of a task."""
    return Experiment(
        "random-delay",
        f"Agents trained under delays that vary: {task.title}",
        task.runs(),
        SEEDS,
        partial(_draw, task),
        partial(_table, task),
        part=task.name,
        in_part=task.in_part,
        spec_by_spec=task.in_part,
        subject=[key for key in task.runs() if key[1] == "now"] if task.in_part else (),
    )


def _best(results: Results, root: Path, law: str, column: str, agent: str) -> Ceiling | None:
    """Return the optimum for a run, where it can be computed."""
    result = results.get((law, column, agent))
    if result is None or not isinstance(result.spec, TabularSpec):
        return None
    return mean_ceiling(root, result.spec, result.seeds)


def _draw(task: Task, results: Results, root: Path) -> Path:
    """Draw each law that is recorded: the return of each agent against what it faces.

    Where optima are known, upper panels magnify the returns near them.
    """
    laws = [
        law for law in task.laws if any((law, "now", agent) in results for agent in task.agents)
    ]
    heights = (3, 2) if task.magnified else (1,)
    figure, panels = new_figure(
        3.25 * len(laws) + 0.6,
        6.4 if task.magnified else 4.4,
        len(heights),
        len(laws),
        sharex=True,
        sharey="row",
        height_ratios=heights,
        squeeze=False,
    )
    for column, law in enumerate(laws):
        best = [_best(results, root, law, name, task.agents[0]) for name in COLUMNS]
        for axes in panels[:, column]:
            _draw_returns(axes, results, law, task.agents)
            _draw_best(axes, best)
            axes.grid(alpha=0.25, axis="y")
        values = [one.value for one in best if one is not None]
        if values and task.magnified:
            low, high = min(values) - task.magnified, max(values) + 0.1 * task.magnified
            panels[0, column].set_ylim(low, high)
        process = task.laws[law]
        about = f"{law}, mean age {process.mean_age:.1f}, longest {process.longest}"
        panels[0, column].set_title(about, fontsize=10)
        titles = [COLUMN_TITLES[name] for name in COLUMNS]
        panels[-1, column].set_xticks(range(len(titles)), titles, rotation=35, ha="right", size=8)
    panels[0, 0].set_ylabel("greedy return, magnified" if task.magnified else "greedy return")
    panels[-1, 0].set_ylabel("greedy return")
    shared_legend(figure, panels)
    figure.suptitle(
        f"{task.title}, {seeds_of(results)}: deadtime reproduce random-delay", fontsize=10
    )
    return save_picture(figure, root / "figures" / f"random-delay-{task.name}.png")


def _draw_returns(axes: Axes, results: Results, law: str, agents: Sequence[str]) -> None:
    """Draw the mean return and interval of each agent in each column that is recorded."""
    for number, agent in enumerate(agents):
        shift = 0.13 * (number - (len(agents) - 1) / 2)
        places = [x for x, column in enumerate(COLUMNS) if (law, column, agent) in results]
        found = [mean_return(results[law, COLUMNS[x], agent]) for x in places]
        axes.errorbar(
            [x + shift for x in places],
            [e.value for e in found],
            [[e.value - e.low for e in found], [e.high - e.value for e in found]],
            color=COLORS[agent],
            marker=MARKERS[agent],
            ls="",
            ms=5,
            capsize=2,
            label=NAMES[agent],
        )


def _draw_best(axes: Axes, best: Sequence[Ceiling | None]) -> None:
    """Draw the optimum of each column: solid where it is exact, dotted where it is a bound."""
    labels = {True: "exact optimum", False: "upper bound on it"}
    for x, one in enumerate(best):
        if one is not None:
            style: dict[str, Any] = {"color": "black", "lw": 1.5, "ls": "-" if one.exact else ":"}
            label = labels.pop(one.exact, None)
            axes.plot([x - 0.4, x + 0.4], [one.value] * 2, label=label, **style)


def _table(task: Task, results: Results, root: Path) -> list[dict[str, Any]]:
    """Return a row for each run: its return, the optimum, and the difference from waiting."""
    rows = []
    for (law, column, agent), result in results.items():
        best = _best(results, root, law, column, agent)
        waiting = results.get((law, "buffered", agent))
        less = None if waiting is None else difference(result, waiting)
        row: dict[str, Any] = {
            "law": law,
            "mean_age": task.laws[law].mean_age,
            "longest_age": task.laws[law].longest,
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
