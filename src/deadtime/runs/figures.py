"""Drawings of results into given axes; callers write the titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from deadtime._support.pictures import COLORS, MARKERS
from deadtime.runs import statistics
from deadtime.runs.result import Result
from deadtime.runs.returns import SCORES, Score, mean_return
from deadtime.runtime.views import VIEWS

if TYPE_CHECKING:
    from jaxtyping import Float

NAMES = {
    "delayed": "Delayed-Q",
    "augmented": "Augmented-Q",
    "projected": "Projected-Q",
    "oblivious": "Oblivious-Q",
    "shifted": "Shifted-Q",
    "distribution": "Distribution-Q",
    "mbs": "MBS",
    "recurrent": "A2C-LSTM",
}
"""The names of built-in agents in figures; a user's agents have their registered names."""
_OTHER_COLORS = ("#8c564b", "#17becf", "#bcbd22", "#7f7f7f")


def name_of(agent: str) -> str:
    """Return the name of an agent in figures and tables."""
    return NAMES.get(agent, agent)


def order_of(agent: str) -> tuple[int, str]:
    """Return the sort key of an agent in figures: built-in agents first, then others by name."""
    known = [*NAMES]
    return (known.index(agent) if agent in known else len(known)), agent


def color_of(agent: str) -> str:
    """Return an agent's colour; a user's agents share four colours, in order of name."""
    if agent in COLORS:
        return COLORS[agent]
    others = sorted({*VIEWS, agent} - {*COLORS})
    return _OTHER_COLORS[others.index(agent) % len(_OTHER_COLORS)]


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **how: Any
) -> tuple[Figure, Any]:
    """Return a figure and its axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **how)


def return_against_delay(
    axes: Axes,
    results: Mapping[tuple[str, int], Result],
    best: Mapping[int, tuple[float, bool]] | None = None,
    score: Score = SCORES,
) -> None:
    """Draw each agent's mean return and interval against the delay.

    `results` are by agent and delay. `best` has the optimum of each delay, and whether it is exact
    or an upper bound.
    """
    for agent in dict.fromkeys(agent for agent, _ in results):
        delays = sorted(m for other, m in results if other == agent)
        found = [mean_return(one, score(one)) for one in (results[agent, m] for m in delays)]
        _line(axes, agent, delays, found)
    _optimum(axes, best or {})
    axes.set(xlabel="delay m (steps)", ylabel="return")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)


def draw_estimates(
    axes: Axes, x: Sequence[float], found: Sequence[statistics.Estimate], color: str, **style: Any
) -> None:
    """Draw a line through values, on a band of their intervals."""
    axes.plot(x, [e.value for e in found], color=color, **style)
    low = [e.low for e in found]
    axes.fill_between(x, low, [e.high for e in found], color=color, alpha=0.18, lw=0)


def _line(axes: Axes, agent: str, x: Sequence[float], found: list[statistics.Estimate]) -> None:
    """Draw an agent's line of means on the band of their intervals."""
    color = color_of(agent)
    marker = MARKERS.get(agent, "*")
    draw_estimates(axes, x, found, color, label=name_of(agent), marker=marker, ms=4)
    if len(x) == 1:  # the band has no width
        axes.vlines(x, found[0].low, found[0].high, color=color, lw=1)


def _optimum(axes: Axes, best: Mapping[int, tuple[float, bool]]) -> None:
    """Draw the optimum: solid where exact, dashed where it is a shorter delay's optimum."""
    delays = sorted(best)
    exact = [m for m in delays if best[m][1]]
    bounds = [m for m in delays if not best[m][1]]
    if exact:
        axes.plot(exact, [best[m][0] for m in exact], color="black", lw=1.2, label="exact optimum")
    if bounds:
        x = [*exact[-1:], *bounds]
        axes.plot(
            x, [best[m][0] for m in x], color="black", lw=1.2, ls="--", label="upper bound on it"
        )


def learning_curve(axes: Axes, result: Result, color: str, label: str, unit: float = 1) -> None:
    """Draw the mean training return and its interval against episodes, or steps in `unit`s.

    Returns are NaN where no episode ended.
    """
    points, returns = result.curve
    found = []
    x = []
    for block in np.array_split(np.arange(len(points)), min(25, len(points))):
        there = ~np.isnan(returns[:, block])
        seeds = there.any(axis=1)
        if seeds.any():
            sums = np.where(there, returns[:, block], 0.0).sum(axis=1)
            means = sums[seeds] / there.sum(axis=1)[seeds]
            found.append(mean_return(result, means))
            x.append(points[block[-1]] / unit)
    draw_estimates(axes, x, found, color, label=label, lw=1.5)


def learning_curves(
    axes: Axes,
    results: Mapping[str, Result],
    best: tuple[float, bool] | None = None,
    unit: float = 1,
) -> None:
    """Draw the learning curve of each agent, and the exact optimum or a bound on it."""
    for agent, result in results.items():
        learning_curve(axes, result, color_of(agent), name_of(agent), unit)
    if best is not None:
        axes.axhline(
            best[0],
            color="black",
            lw=1,
            ls="-" if best[1] else "--",
            label="exact optimum" if best[1] else "upper bound on it",
        )
    axes.grid(alpha=0.25)


def heat_map(
    axes: Axes,
    values: Float[np.ndarray, "rows columns"],
    rows: list[str],
    columns: list[str],
    span: tuple[float, float] = (-1, 1),
    digits: str = ".2f",
) -> AxesImage:
    """Draw a table of numbers whose cells are coloured over `span`."""
    image = axes.imshow(
        values, origin="lower", aspect="auto", cmap="cividis", vmin=span[0], vmax=span[1]
    )
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    dark = span[0] + 0.6 * (span[1] - span[0])
    for (i, j), value in np.ndenumerate(values):
        axes.text(
            j,
            i,
            f"{value:{digits}}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if value < dark else "black",
        )
    return image


def shared_legend(figure: Figure, axes: np.ndarray) -> None:
    """Replace the legends of all axes by one of the figure."""
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        handles |= {
            label: line for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        if axis.get_legend():
            axis.get_legend().remove()
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=len(handles),
        frameon=False,
        fontsize=9,
    )
