"""Exact values against the spread of the latency: the value of knowing the age, and of waiting.

Latencies are uniform on m - d … m + d steps, so their mean stays and their spread grows. The
receiver executes the newest action that has arrived. Three agents see the age of a step before they
choose, one step later, or never. The fourth faces a receiver that waits until each action is m + d
steps old, so that its delay is constant. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deadtime._support.pictures import save_picture
from deadtime.delays import Uniform
from deadtime.envs.maze_layout import carve, model
from deadtime.planning import MDP, bounds, solve
from deadtime.planning.examples import two_state
from deadtime.planning.process import initial_law
from deadtime.runs.figures import new_figure, shared_legend
from deadtime.runs.result import Results
from deadtime.studies.experiment import Experiment

_CHAIN = 7
_SLIP = 0.1
_MAZES = range(3)
_LOOKS: dict[str, dict[str, Any]] = {
    "seen_now": {"label": "age seen before choosing", "color": "#0072B2", "marker": "o"},
    "seen_later": {"label": "age seen one step later", "color": "#56B4E9", "marker": "s", "lw": 4},
    "never_seen": {"label": "age never seen (best policy found)", "color": "black", "ls": "--"},
    "waiting": {
        "label": "receiver waits for the longest latency",
        "color": "#D55E00",
        "marker": "D",
    },
}


@dataclass(frozen=True)
class Case:
    """A problem, its start and its latencies.

    Latencies are uniform on mean - d … mean + d, for each d up to `mean`.
    """

    name: str
    problems: Callable[[], list[MDP]]
    start: int | None
    """The first state; None: each with the same probability."""
    mean: int
    per_step: bool
    """Whether values are shown as rewards per step, (1 - γ) times the discounted return."""


def centre_chain(gamma: float) -> MDP:
    """Return a row of 7 cells in which an action steps left or right.

    Being in the middle cell pays 1. With probability 0.1 the step goes the other way. The ends stop
    it.
    """
    P = np.zeros((_CHAIN, 2, _CHAIN))
    r = np.zeros((_CHAIN, 2))
    r[_CHAIN // 2] = 1
    for s in range(_CHAIN):
        for action, step in enumerate((-1, 1)):
            for move, p in ((step, 1 - _SLIP), (-step, _SLIP)):
                P[s, action, min(max(s + move, 0), _CHAIN - 1)] += p
    return MDP(P, r, gamma)


def _mazes() -> list[MDP]:
    """Return small mazes with different seeds."""
    return [MDP(*model(carve(3, seed), 0.1), 0.95) for seed in _MAZES]


CASES = (
    Case("two-state, p = 0.8", lambda: [two_state(0.8, 0.99)], None, 3, True),
    Case("chain of 7 cells", lambda: [centre_chain(0.99)], _CHAIN // 2, 3, True),
    Case("3×3 mazes, noise 0.1", _mazes, 0, 2, False),
)


def values(mdp: MDP, start: int | None, process: Uniform) -> dict[str, float]:
    """Return the exact values of the four agents; the pending actions of the start are random."""
    longest = process.longest
    law = np.full(mdp.states, 1 / mdp.states) if start is None else np.eye(mdp.states)[start]
    queue = np.full((longest, mdp.actions), 1 / mdp.actions)
    first = initial_law(mdp, longest, law, queue).ravel()
    unseen = bounds(mdp, process, law, queue)
    waiting = float(solve(mdp, longest).values.ravel() @ first)
    if process.low == process.high:
        later = waiting
    else:
        later = float(solve(mdp, process, observed="hindsight").values[-1].ravel() @ first)
    return {
        "seen_now": unseen.upper,
        "seen_later": later,
        "never_seen": unseen.lower,
        "waiting": waiting,
    }


@cache
def exact_rows() -> list[dict[str, Any]]:
    """Return the values of all cases, a row for each case and spread."""
    rows = []
    for case in CASES:
        problems = case.problems()
        scale = 1 - problems[0].gamma if case.per_step else 1.0
        for spread in range(case.mean + 1):
            process = Uniform(case.mean - spread, case.mean + spread)
            found = [values(mdp, case.start, process) for mdp in problems]
            row: dict[str, Any] = {
                "problem": case.name,
                "value": "reward per step" if case.per_step else "discounted return",
                "shortest_latency": process.low,
                "longest_latency": process.high,
                "mean_age": process.mean_age,
            }
            row |= {key: scale * float(np.mean([one[key] for one in found])) for key in _LOOKS}
            rows.append(row)
    return rows


def _draw(results: Results, root: Path) -> Path:
    """Draw one panel for each problem: value against the range of the latency."""
    figure, panels = new_figure(10.5, 4.2, 1, len(CASES))
    for axes, case in zip(panels, CASES, strict=True):
        rows = [row for row in exact_rows() if row["problem"] == case.name]
        for key, look in _LOOKS.items():
            axes.plot(range(len(rows)), [row[key] for row in rows], **look)
        ranges = [f"{row['shortest_latency']}–{row['longest_latency']}" for row in rows]
        ranges[0] = str(rows[0]["shortest_latency"])
        axes.set_xticks(range(len(rows)), ranges)
        axes.set_title(case.name, fontsize=10)
        axes.set(xlabel="latency (steps)", ylabel=rows[0]["value"])
        axes.grid(alpha=0.25)
    figure.suptitle("deadtime reproduce random-delay-exact", fontsize=9)
    shared_legend(figure, panels)
    return save_picture(figure, root / "figures" / "random-delay-exact.png")


def _table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return the numbers of the figure."""
    return exact_rows()


EXACT = Experiment(
    "random-delay-exact",
    "What knowing the age of an action and what waiting is worth, when the latency varies",
    {},
    range(1),
    _draw,
    _table,
)
