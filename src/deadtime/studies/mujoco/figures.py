"""The figure of a table of MuJoCo runs: return against delay, and learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from deadtime._support.pictures import save_picture
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.figures import (
    color_of,
    draw_estimates,
    new_figure,
    return_against_delay,
    shared_legend,
)
from deadtime.runs.folder_report import seeds_of
from deadtime.runs.result import Result, Results
from deadtime.runs.returns import mean_return

NAMES = {
    "projected": "projected (BPQL's rule)",
    "augmented": "augmented",
    "delayed": "delayed (predicted state)",
    "oblivious": "oblivious",
}


def draw(
    name: str, wanted: Mapping[tuple[str, str, int], DeepSpec], results: Results, root: Path
) -> Path:
    """Draw a row of panels for each task: return against delay, and a curve at each delay.

    Tasks and delays without any record are left out, and named below the title.
    """
    tasks = [task for task, _, _ in wanted if any(task == env for env, _, _ in results)]
    tasks = list(dict.fromkeys(tasks))
    delays = sorted({m for _, _, m in results if m})
    size = 3.2 * (1 + len(delays)), 2.9 * len(tasks) + 1.0
    figure, axes = new_figure(*size, len(tasks), 1 + len(delays), squeeze=False)
    for row, task in zip(axes, tasks, strict=True):
        mine = {(agent, m): one for (env, agent, m), one in results.items() if env == task}
        _against_delay(row[0], task, mine)
        for axis, m in zip(row[1:], delays, strict=True):
            _curves(axis, m, mine)
    shared_legend(figure, axes)
    steps = next(iter(wanted.values())).length
    about = f"SAC, {steps:,} steps, one update a step, mean action, {seeds_of(results)}"
    about += _not_run(wanted, tasks, delays)
    figure.suptitle(f"{about}\ndeadtime reproduce {name}", fontsize=10)
    return save_picture(figure, root / "figures" / f"{name}.png")


def _not_run(
    wanted: Mapping[tuple[str, str, int], DeepSpec], tasks: Sequence[str], delays: Sequence[int]
) -> str:
    """Return a line that names the tasks and delays without a record; empty if all have one."""
    left = [task for task in dict.fromkeys(task for task, _, _ in wanted) if task not in tasks]
    left += [f"m = {m}" for m in sorted({m for _, _, m in wanted if m} - {*delays})]
    return f"\nnot run: {', '.join(left)}" if left else ""


def _against_delay(axis: Axes, task: str, mine: dict[tuple[str, int], Result]) -> None:
    """Draw the final return of each agent against the delay."""
    return_against_delay(axis, mine)
    for line in axis.get_lines():
        label = str(line.get_label())
        line.set_label(NAMES.get(label.removesuffix("-Q").lower(), label))
    axis.set_title(task, fontsize=10)


def _curves(axis: Axes, m: int, mine: dict[tuple[str, int], Result]) -> None:
    """Draw the evaluations during training under one delay, and without a delay in grey."""
    shown: dict[Any, Result] = {agent: one for (agent, delay), one in mine.items() if delay == m}
    for agent, result in shown.items():
        _curve(axis, result, color_of(agent), NAMES.get(agent, agent))
    undelayed = [one for (_, delay), one in mine.items() if delay == 0]
    if undelayed:
        _curve(axis, undelayed[0], "#999999", "without a delay")
    axis.set_title(f"m = {m}" + ("" if shown else " (not run)"), fontsize=10)
    axis.set(xlabel="thousand steps", ylabel="greedy return")
    axis.grid(alpha=0.25)


def _curve(axis: Axes, result: Result, color: str, label: str) -> None:
    """Draw the mean of the evaluations over seeds, and its interval."""
    steps, returns = result.evaluations
    found = [mean_return(result, column) for column in np.asarray(returns, float).T]
    x = [float(step) / 1000 for step in steps]
    draw_estimates(axis, x, found, color, label=label, lw=1.5)
