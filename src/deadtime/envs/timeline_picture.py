"""The timeline of a delay process as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deadtime.delays.parse import DelayLike
from deadtime.delays.timeline import timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_timeline(
    delay: DelayLike,
    axes: Axes | None = None,
    steps: int = 24,
    seed: int = 0,
    colour: str = "C0",
    faint: str = "0.65",
) -> Axes:
    """Draw which action each of the first `steps` steps executes; return the axes.

    The upper row has the chosen actions by their step, the lower row the executed ones with their
    ages. A line joins each choice with its executions. Actions that are never executed within the
    picture, and those from before the episode, are drawn in the colour `faint`.
    """
    if axes is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415  (the core does not need it)

        _, axes = plt.subplots(figsize=(7, 1.5))
    drawn = timeline(delay, steps, seed)
    at = np.arange(steps)
    for step, made, age in zip(at, drawn.made, drawn.ages, strict=True):
        axes.plot([made, step], [1, 0], color=colour if made >= 0 else faint, lw=1, zorder=1)
        axes.annotate(str(age), (step, 0), (0, -13), textcoords="offset points", ha="center",
                      va="center", fontsize=7.5)  # fmt: skip
    used = np.isin(at, drawn.made)
    warm = np.unique(drawn.made[drawn.made < 0])
    axes.scatter(at[used], np.ones(used.sum()), s=22, color=colour, zorder=2)
    axes.scatter(at[~used], np.ones((~used).sum()), s=20, facecolor="none", edgecolor=faint)
    axes.scatter(warm, np.ones(len(warm)), s=22, color=faint, zorder=2)
    axes.scatter(at, np.zeros(steps), s=22, color=np.where(drawn.made >= 0, colour, faint).tolist())
    first = float(min(0, drawn.made.min()))
    for height, label in ((1.0, "chosen"), (0.0, "executed"), (-0.42, "age")):
        axes.text(first - 0.9, height, label, ha="right", va="center", fontsize=8.5)
    axes.set(xlim=(first - 0.6, steps - 0.4), ylim=(-0.65, 1.25))
    axes.axis("off")
    return axes
