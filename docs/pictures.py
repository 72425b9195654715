"""Draw the pictures of the site into docs/pictures, for light and for dark pages.

    python docs/pictures.py          # the SVG files
    python docs/pictures.py ghosts   # the GIFs as well: episodes of recorded policies

`return-against-delay` and `knowing-and-waiting` read CSV files in results/paper/figures, which
`deadtime reproduce summary` and `random-delay` write from the records. The other pictures are
explanations.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from deadtime.delays.waits import OBSERVED
from deadtime.studies.random_delay.laws import COLUMN_TITLES, LAWS

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
NUMBERS = ROOT / "results" / "paper" / "figures"
SCORES = NUMBERS / "summary-best.csv"
GHOSTS = {
    "ghost-works": "acrobot-delayed-m15-best-8069a087bb09",
    "ghost-fails": "noisy-cartpole-delayed-m25-best-87f254bb4605",
}
ENVIRONMENTS = {
    "noisy-maze": "Noisy Maze",
    "noisy-cartpole": "Noisy CartPole",
    "acrobot": "Acrobot",
}
AGENTS = ("delayed", "augmented", "oblivious")
DELAYS = (0, 5, 15, 25)
TASKS = {"mazes": "Mazes", "cartpole": "Noisy CartPole", "pendulum": "Pendulum (SAC)"}
"""The tasks of the study of random delays."""


@dataclass(frozen=True)
class Colours:
    """The colours of one theme; the agents have the same hues in both."""

    paper: str
    ink: str
    faint: str
    first: str
    second: str
    third: str

    @property
    def agents(self) -> dict[str, str]:
        """The colour of each agent."""
        return dict(zip(AGENTS, (self.first, self.second, self.third), strict=True))


LIGHT = Colours("#ffffff", "#1f2328", "#b8bec6", "#0072B2", "#C75B00", "#7A7A7A")
DARK = Colours("#131416", "#cfd3d8", "#4a4f57", "#56B4E9", "#F0A04B", "#A5A5A5")


def box(
    axes: Axes, at: tuple[float, float], text: str, face: str, ink: str, width: float = 0.8
) -> None:
    """Draw a rounded box around a short text; `at` is its middle."""
    x, y = at
    shape = "round,pad=0,rounding_size=0.08"
    corner = (x - width / 2, y - 0.24)
    edge = ink if face == "none" else face
    axes.add_patch(FancyBboxPatch(corner, width, 0.48, shape, facecolor=face, edgecolor=edge))
    axes.text(x, y - 0.015, text, ha="center", va="center", color=ink, fontsize=10)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """Draw an arrow."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.3, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=style)


def bare(figure: Figure, width: float, height: float) -> Axes:
    """Return axes without frame or ticks, one inch a unit."""
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return axes


def timeline(colours: Colours) -> Figure:
    """Draw which action is chosen and which is executed at each step, for delay 3."""
    delay, steps = 3, 7
    figure = Figure(figsize=(7.4, 2.5))
    axes = bare(figure, 7.4, 2.5)
    left = 1.6
    for name, y in (("step t", 2.22), ("chosen", 1.6), ("executed", 0.55)):
        axes.text(0.1, y, name, color=colours.ink, va="center", fontsize=10.5)
    for t in range(steps):
        x = left + 0.86 * t
        axes.text(x, 2.22, str(t), color=colours.ink, ha="center", va="center", fontsize=10.5)
        box(axes, (x, 1.6), f"$a_{t}$", colours.first, colours.paper, 0.62)
        if t < delay:
            box(axes, (x, 0.55), "warm-up", "none", colours.ink, 0.76)
        else:
            box(axes, (x, 0.55), f"$a_{t - delay}$", colours.first, colours.paper, 0.62)
            arrow(axes, (x - delay * 0.86, 1.34), (x, 0.83), colours.ink)
    note = "delay = 3: the action chosen at step t is executed at step t + 3"
    axes.text(left - 0.35, 0.07, note, color=colours.ink, va="center", fontsize=10)
    return figure


VIEWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("oblivious", ("state",)),
    ("augmented", ("state", "queue")),
    ("delayed", ("prediction",)),
    ("distribution", ("law",)),
    ("recurrent", ("history", "state")),
)


def views(colours: Colours) -> Figure:
    """Draw what each view shows the agent at step t."""
    height = 0.62 * len(VIEWS) + 0.75
    figure = Figure(figsize=(7.4, height))
    axes = bare(figure, 7.4, height)
    columns = {
        "history": (2.0, "past states", "$s_0 … s_{t-1}$"),
        "state": (3.1, "state", "$s_t$"),
        "queue": (4.2, "queue", "$a_{t-3}\\, a_{t-2}\\, a_{t-1}$"),
        "prediction": (5.4, "predicted state", "$\\hat s_{t+3}$"),
        "law": (6.6, "predicted law", "$P(s_{t+3})$"),
    }
    for x, title, _ in columns.values():
        axes.text(x, height - 0.25, title, color=colours.ink, ha="center", fontsize=9.5)
    for row, (view, seen) in enumerate(VIEWS):
        y = height - 0.75 - 0.62 * row
        axes.text(0.1, y, view, color=colours.ink, va="center", fontsize=10.5)
        for name, (x, _, symbol) in columns.items():
            if name in seen:
                box(axes, (x, y), symbol, colours.first, colours.paper, 1.04)
            else:
                axes.plot(x, y, ".", color=colours.faint, markersize=4)
    return figure


class Returns(NamedTuple):
    """The mean return at each delay, and its 95% interval."""

    mean: list[float]
    low: list[float]
    high: list[float]


def returns(environment: str, agent: str) -> Returns:
    """Read the greedy returns of an agent at each delay."""
    with SCORES.open() as file:
        found = {
            int(row["delay"]): row
            for row in csv.DictReader(file)
            if (row["environment"], row["agent"]) == (environment, agent)
        }
    columns = ("greedy", "greedy_low", "greedy_high")
    return Returns(*([float(found[delay][name]) for delay in DELAYS] for name in columns))


def return_against_delay(colours: Colours) -> Figure:
    """Draw the greedy return of three agents against the delay, with 95% intervals."""
    figure = Figure(figsize=(8.4, 2.9), layout="constrained")
    panels = figure.subplots(1, len(ENVIRONMENTS))
    for axes, (environment, title) in zip(panels, ENVIRONMENTS.items(), strict=True):
        for agent, colour in colours.agents.items():
            scores = returns(environment, agent)
            axes.fill_between(DELAYS, scores.low, scores.high, color=colour, alpha=0.22, lw=0)
            axes.plot(DELAYS, scores.mean, "o-", color=colour, ms=4, label=f"{agent.title()}-Q")
        axes.set_title(title, fontsize=11)
        axes.set(xlabel="delay in steps", xticks=DELAYS)
    panels[0].set_ylabel("return")
    panels[1].legend(frameon=False, fontsize=8.5, loc="center", bbox_to_anchor=(0.42, 0.5))
    return figure


def knowing_and_waiting(colours: Colours) -> Figure:
    """Draw how much more `projected` earns than with a receiver that waits, with 95% intervals."""
    figure = Figure(figsize=(8.4, 3.1), layout="constrained")
    for axes, (task, title) in zip(figure.subplots(1, len(TASKS)), TASKS.items(), strict=True):
        with (NUMBERS / f"random-delay-{task}.csv").open() as file:
            found = [row for row in csv.DictReader(file) if row["agent"] == "projected"]
        axes.axhline(0, color=colours.ink, lw=1)
        for place, (column, marker, colour) in enumerate(
            zip(OBSERVED, "os^", (colours.first, colours.second, colours.third), strict=True)
        ):
            mine = {row["law"]: row for row in found if row["column"] == column}
            gain, low, high = (
                [float(mine[law][name]) for law in LAWS]
                for name in ("minus_waiting", "difference_low", "difference_high")
            )
            x = [at + 0.2 * (place - 1) for at in range(len(LAWS))]
            axes.vlines(x, low, high, color=colour, lw=1.4)
            axes.plot(x, gain, marker, color=colour, ms=5, label=COLUMN_TITLES[column])
        axes.set_title(title, fontsize=11)
        axes.set_xticks(range(len(LAWS)), LAWS, fontsize=8.5)
    figure.axes[0].set_ylabel("gain over waiting")
    figure.axes[1].legend(frameon=False, fontsize=8.5, loc="lower right")
    return figure


DRAWN: dict[str, Callable[[Colours], Figure]] = {
    "timeline": timeline,
    "views": views,
    "return-against-delay": return_against_delay,
    "knowing-and-waiting": knowing_and_waiting,
}


def style(colours: Colours) -> dict[str, object]:
    """Return Matplotlib's settings for a theme: text stays text, and files do not vary."""
    ink = {f"{part}.color": colours.ink for part in ("text", "xtick", "ytick")}
    return ink | {
        "axes.edgecolor": colours.faint,
        "axes.labelcolor": colours.ink,
        "axes.titlecolor": colours.ink,
        "axes.facecolor": colours.paper,
        "figure.facecolor": colours.paper,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "deadtime",
        "font.family": "sans-serif",
    }


def draw(folder: Path) -> None:
    """Write each picture twice."""
    for name, picture in DRAWN.items():
        for ending, colours in (("", LIGHT), ("-dark", DARK)):
            with mpl.rc_context(style(colours)):
                figure = picture(colours)
                path = folder / f"{name}{ending}.svg"
                figure.savefig(path, metadata={"Date": None})


def ghosts(folder: Path) -> None:
    """Write episodes of recorded policies, with their predictions as ghosts."""
    records = ROOT / "results" / "paper"
    for name, record in GHOSTS.items():
        words = ["watch", str(records / record), "--out", str(folder / f"{name}.gif")]
        subprocess.run([sys.executable, "-m", "deadtime", *words], check=True)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    draw(PICTURES)
    if "ghosts" in sys.argv[1:]:
        ghosts(PICTURES)
