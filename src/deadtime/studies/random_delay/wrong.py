"""Agents that are trained under one delay and played under another, without being told.

All delays have the longest age 6, so that queues have one length.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from deadtime._support.pictures import save_picture
from deadtime.delays import Delay, Uniform
from deadtime.runs import statistics
from deadtime.runs.figures import NAMES, heat_map, new_figure
from deadtime.runs.result import Result, Results
from deadtime.runs.returns import difference_columns, mean_return
from deadtime.studies.experiment import Experiment
from deadtime.studies.random_delay.laws import LAWS
from deadtime.studies.random_delay.tasks import NOISE, SIZE, maze
from deadtime.studies.random_delay.trained import SEEDS

AGENTS = ("projected", "delayed", "distribution", "augmented", "oblivious")
DELAYS: dict[str, Delay] = {
    "constant": 6,
    "late": Uniform(4, 6),
    "wide": LAWS["wide"],
    "bursty": LAWS["bursty"],
    "drifting": LAWS["drifting"],
}
"""The delays of training and of play."""


def _others(trained: str) -> list[str]:
    """Return the names of the delays under which an agent is played beside its own."""
    return [name for name in DELAYS if name != trained]


def _scores(result: Result, trained: str, played: str) -> np.ndarray:
    """Return the score of each seed under the delay `played`."""
    if trained == played:
        return result.scores
    return result.record.others[:, _others(trained).index(played)].astype(float)


def _draw(results: Results, root: Path) -> Path:
    """Draw one map for each agent: the return by the delay of training and of play."""
    figure, panels = new_figure(15, 3.9, 1, len(AGENTS))
    names = [*DELAYS]
    for axes, agent in zip(panels, AGENTS, strict=True):
        values = [
            [_scores(results[agent, trained], trained, played).mean() for played in names]
            for trained in names
        ]
        heat_map(axes, np.array(values), names, names)
        axes.set(xlabel="played under", title=NAMES[agent])
        axes.tick_params(axis="x", rotation=35)
    panels[0].set_ylabel("trained under")
    seeds = len(next(iter(results.values())).seeds)
    figure.suptitle(
        f"Mean greedy return, {SIZE}×{SIZE} mazes, noise {NOISE:g}, "
        f"{statistics.seeds_shown(seeds, '')}: deadtime reproduce wrong-delay",
        fontsize=10,
    )
    return save_picture(figure, root / "figures" / "wrong-delay.png")


def _table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return the numbers of the figure, and the loss against training under the right delay."""
    rows = []
    for (agent, trained), played in product(results, DELAYS):
        result, right = results[agent, trained], results[agent, played]
        scores = _scores(result, trained, played)
        row: dict[str, Any] = {"agent": agent, "trained_under": trained, "played_under": played}
        row |= mean_return(result, scores).columns("return")
        loss = statistics.difference(scores, right.scores)
        rows.append(row | difference_columns("minus_right_delay", loss))
    return rows


WRONG = Experiment(
    "wrong-delay",
    "Trained under one delay, played under another: mazes",
    {
        (agent, trained): maze(
            agent,
            delay,
            wrong_delays=tuple(DELAYS[name] for name in _others(trained)),
        )
        for agent, (trained, delay) in product(AGENTS, DELAYS.items())
    },
    SEEDS,
    _draw,
    _table,
)
