"""SAC under every view on MuJoCo's robots, at equal budgets: runs, tables and figures.

A run takes minutes of a GPU, so a table is filled in parts, in the order of its runs:
`deadtime reproduce mujoco --next N`. Chosen by us: the tasks and delays, 300,000 steps with one
update per step, the settings of SAC's preset, random actions as warm-up, and evaluation by the mean
action on 20 held-out episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deadtime.runs import statistics
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.result import Result, Results
from deadtime.runs.returns import mean_return
from deadtime.studies.experiment import Experiment
from deadtime.studies.mujoco import figures, published
from deadtime.studies.mujoco.random_returns import RANDOM

if TYPE_CHECKING:
    from jaxtyping import Float

AGENTS = ("projected", "augmented", "delayed", "oblivious")
TASKS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5")
DELAYS = (5, 10, 25)
SEEDS = range(5)
_STEPS = 300_000
_MILLION = 1_000_000
_EVALUATE_EVERY = 50_000
_EPISODES = 20

Key = tuple[str, str, int]
"""A task, an agent and a delay."""


def run(task: str, agent: str, delay: int, steps: int) -> DeepSpec:
    """Return a run of SAC; it is checked against its environment when it begins."""
    return DeepSpec(
        f"gym:{task}",
        agent,
        delay,
        steps=steps,
        evaluation_episodes=_EPISODES,
        evaluate_every=_EVALUATE_EVERY,
        action_kind="box",
        recorded=True,  # nothing is imported before a run begins
    )


def runs(tasks: Sequence[str], delays: Sequence[int], steps: int) -> dict[Key, DeepSpec]:
    """Return the runs of some tasks; without a delay all agents are one, so it is run once."""
    found: dict[Key, DeepSpec] = {}
    for task in tasks:
        undelayed = run(task, "augmented", 0, steps)
        found |= {(task, agent, 0): undelayed for agent in AGENTS}
        found |= {(task, agent, m): run(task, agent, m, steps) for m in delays for agent in AGENTS}
    return found


def _ordered() -> dict[Key, DeepSpec]:
    """Return the runs of the table, the first two tasks at short delays first."""
    every = runs(TASKS, DELAYS, _STEPS)
    late = {key for key in every if key[0] == TASKS[2] or key[2] > 10}
    return {key: every[key] for key in sorted(every, key=lambda key: key in late)}


def normalized(task: str, result: Result, undelayed: Result) -> Float[np.ndarray, " seeds"]:
    """Return (return - random) / (undelayed SAC - random) of each seed."""
    least = RANDOM[task]
    return (result.scores - least) / (float(undelayed.scores.mean()) - least)


def shares(results: Results) -> dict[Key, Float[np.ndarray, " seeds"]]:
    """Return the normalized returns of all cells whose undelayed run is recorded too."""
    return {
        (task, agent, m): normalized(task, result, results[task, agent, 0])
        for (task, agent, m), result in results.items()
        if (task, agent, 0) in results
    }


def _table(tasks: Sequence[str], results: Results, root: Path) -> list[dict[str, Any]]:
    """Return a row for each cell, then a row for each agent and delay over all tasks."""
    found = shares(results)
    rows = [_cell(key, result, found.get(key)) for key, result in results.items()]
    return rows + _over_tasks(tasks, found)


def _cell(key: Key, result: Result, share: np.ndarray | None) -> dict[str, Any]:
    task, agent, m = key
    row: dict[str, Any] = {"task": task, "agent": agent, "delay": m}
    row |= mean_return(result).columns("return")
    none = dict.fromkeys(("normalized", "normalized_low", "normalized_high"), "")
    row |= none if share is None else statistics.mean(share).columns("normalized")
    row |= {"iqm": "", "iqm_low": "", "iqm_high": "", "seeds": len(result.seeds)}
    row |= {"steps": result.spec.length, "diverged": len(result.diverged)}  # type: ignore[union-attr]
    beside = published.beside(task.rpartition("-")[0], agent, m)
    row["published"] = "; ".join(_words(one) for one in beside)
    return row


def _words(one: published.Published) -> str:
    steps = "" if one.steps is None else f"{one.steps:,} steps, "
    return (
        f"{one.value:g} ({one.method}, {one.version}, delay {one.delay}, {steps}"
        f"{one.source}; {one.note})"
    )


def _over_tasks(tasks: Sequence[str], found: Mapping[Key, np.ndarray]) -> list[dict[str, Any]]:
    """Return the mean and the interquartile mean over tasks, where every task is recorded."""
    cells = dict.fromkeys((agent, m) for _, agent, m in found)
    rows = []
    for agent, m in cells:
        mine = [found[task, agent, m] for task in tasks if (task, agent, m) in found]
        if len(mine) < len(tasks) or len(tasks) < 2:
            continue
        row: dict[str, Any] = {"task": f"all {len(tasks)} tasks", "agent": agent, "delay": m}
        row |= dict.fromkeys(("return", "return_low", "return_high"), "")
        row |= statistics.mean_over(mine).columns("normalized")
        row |= statistics.iqm(mine).columns("iqm")
        row |= {"seeds": min(len(one) for one in mine), "steps": "", "diverged": ""}
        rows.append(row | {"published": ""})
    return rows


def _experiment(name: str, title: str, found: dict[Key, DeepSpec]) -> Experiment:
    return Experiment(
        name,
        title,
        found,
        SEEDS,
        partial(figures.draw, name, found),
        partial(_table, list(dict.fromkeys(task for task, _, _ in found))),
        in_part=True,
        spec_by_spec=True,
    )


EXPERIMENTS = [
    _experiment("mujoco", "MuJoCo: SAC under every view, 300,000 steps", _ordered()),
    _experiment(
        "mujoco-million",
        "MuJoCo: HalfCheetah, a million steps",
        runs(TASKS[:1], (5, 10), _MILLION),
    ),
    _experiment("mujoco-ant", "MuJoCo: Ant, 300,000 steps", runs(("Ant-v5",), DELAYS, _STEPS)),
]
