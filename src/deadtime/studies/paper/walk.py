"""The value of a prediction in the random walk with momentum: the mode, the mean, or the law.

The paper says that a point estimate, "e.g. ML or MAP", of the walk's future is x = 0. That is the
mean. At long delays the law has two peaks at ±Z, so the most likely x is ±Z. Acting on the mode is
then right about |x|, and acting on the mean is not. A forward model rolled step by step gives a
third point: each step's most likely successor, which runs away from 0 and ends at |x| + m. None of
the three is best everywhere: only the whole law is never worse. All lines are exact; the points are
trained agents.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deadtime._support.pictures import COLORS, MARKERS, save_picture
from deadtime.envs.walk_settings import WalkSettings
from deadtime.runs import statistics
from deadtime.runs.figures import NAMES, new_figure
from deadtime.runs.result import Results
from deadtime.runs.returns import mean_return
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.studies.experiment import Experiment

if TYPE_CHECKING:
    from jaxtyping import Float

DELAYS = (0, 2, 4, 6, 8, 10, 15, 20, 25)
PREDICTORS = {
    "mean": "#D55E00",
    "mode": "#CC79A7",
    "rolled mode": "#0072B2",
    "whole law": "#009E73",
}
_LEARNERS = ("delayed", "distribution")


def law_after(walk: WalkSettings, steps: int) -> Float[np.ndarray, "x y"]:
    """Return the law of the position `steps` later: a row for each position -length … length."""
    x = np.arange(-walk.length, walk.length + 1)
    away = np.where(x == 0, 0.5, walk.momentum)
    right = np.where(x < 0, 1 - away, away)
    kernel = np.diag(right[:-1], 1) + np.diag(1 - right[1:], -1)
    kernel[0, 0] = 1 - right[0]
    kernel[-1, -1] = right[-1]
    return np.linalg.matrix_power(kernel, steps)


def goes_far(
    walk: WalkSettings, delay: int, laws: Float[np.ndarray, "x y"], predictor: str
) -> np.ndarray:
    """Return whether the action for |x| > near is chosen, for each position."""
    x = np.arange(-walk.length, walk.length + 1)
    if predictor == "mode":
        return np.abs(x[laws.argmax(axis=1)]) > walk.near
    if predictor == "rolled mode":
        return np.abs(x) + delay > walk.near
    if predictor == "mean":
        return np.abs(laws @ x) > walk.near
    return laws[:, np.abs(x) > walk.near].sum(axis=1) > 0.5


def exact_return(walk: WalkSettings, delay: int, predictor: str) -> float:
    """Return the expected return of acting on a prediction.

    The warm-up's random actions are right half the time.
    """
    x = np.arange(-walk.length, walk.length + 1)
    laws = law_after(walk, delay)
    far = goes_far(walk, delay, laws, predictor)
    ends_far = laws[:, np.abs(x) > walk.near].sum(axis=1)
    pays = np.where(far, ends_far, 1 - ends_far)
    now = np.eye(len(x))[walk.length]
    step = law_after(walk, 1)
    earned = 0.5 * min(delay, walk.length)
    for _ in range(walk.length - delay):
        earned += float(now @ pays)
        now = now @ step
    return earned


def _draw(results: Results, root: Path) -> Path:
    """Draw the law of the position, and the return of each prediction against the delay."""
    walk = WalkSettings()
    figure, (left, right) = new_figure(11, 4.4, 1, 2)
    x = np.arange(-walk.length, walk.length + 1)
    law = law_after(walk, 20)[walk.length]
    seen = law > 1e-9
    left.bar(x[seen], law[seen], width=1.6, color="#999999")
    left.axvspan(
        -walk.near - 0.5, walk.near + 0.5, color="#F0E442", alpha=0.35, lw=0, label="action 0 pays"
    )
    left.axvline(0, color=PREDICTORS["mean"], lw=2, label="mean")
    for side in (-1, 1):
        left.axvline(
            side * abs(x[law.argmax()]),
            color=PREDICTORS["mode"],
            lw=2,
            ls="--",
            label="mode" if side > 0 else None,
        )
    left.set(xlabel="x", ylabel="probability", title="Law of x twenty steps after x = 0")
    left.legend(frameon=False, fontsize=9)
    delays = range(0, 26)
    for predictor, color in PREDICTORS.items():
        right.plot(
            delays,
            [exact_return(walk, m, predictor) for m in delays],
            color=color,
            label=f"acting on the {predictor}, exact",
        )
    for agent in _LEARNERS:
        found = [mean_return(results[agent, m]) for m in DELAYS]
        spread = [[e.value - e.low for e in found], [e.high - e.value for e in found]]
        right.errorbar(
            DELAYS,
            [e.value for e in found],
            spread,
            color=COLORS[agent],
            marker=MARKERS[agent],
            ls="",
            ms=5,
            label=f"{NAMES[agent]}, trained",
        )
    right.set(
        xlabel="delay m (steps)",
        ylabel=f"return (of {walk.length})",
        title="What each prediction earns",
    )
    right.grid(alpha=0.25)
    right.legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"Walk with momentum {walk.momentum:g}, "
        f"{statistics.seeds_shown(len(results['delayed', 0].seeds), '')}: "
        "deadtime reproduce point-estimates"
    )
    return save_picture(figure, root / "figures" / "point-estimates.png")


def _table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return a row for each delay: exact returns by prediction, and those of trained agents."""
    rows = []
    for m in DELAYS:
        row: dict[str, Any] = {"delay": m} | {
            name: exact_return(WalkSettings(), m, name) for name in PREDICTORS
        }
        for agent in _LEARNERS:
            row |= mean_return(results[agent, m]).columns(agent)
        rows.append(row)
    return rows


POINT_ESTIMATES = Experiment(
    "point-estimates",
    "Random walk with momentum: mode, mean and whole law",
    {
        (agent, m): TabularSpec("walk", agent, m, episodes=20_000)
        for agent in _LEARNERS
        for m in DELAYS
    },
    range(20),
    _draw,
    _table,
)
