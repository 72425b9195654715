"""The paper's stationarity table (App. C.4) beside the exact values: nothing is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deadtime._support.pictures import save_picture
from deadtime.runs.figures import new_figure
from deadtime.runs.result import Results
from deadtime.studies.experiment import Experiment
from deadtime.studies.paper.stationary_policies import PAPER, exact_rows

_LOOKS = {
    "stationary": ("stationary, in the paper", "#D55E00", "x"),
    "non-stationary Markov": ("non-stationary Markov, in the paper", "#0072B2", "x"),
    "best Markov deterministic, 10 - m decisions": (
        "best Markov over its 10 − m decisions, exact",
        "#009E73",
        "s-",
    ),
    "best over all policies": ("best over all policies, exact", "black", "o-"),
}


def _draw(results: Results, root: Path) -> Path:
    """Draw the return against the delay: the paper's estimates as crosses, the exact values as
    lines.
    """
    figure, axes = new_figure(7, 4)
    rows: dict[str, Any] = PAPER | exact_rows()
    for name, (label, color, style) in _LOOKS.items():
        axes.plot(
            range(6),
            rows[name],
            style,
            color=color,
            ms=7 if style == "x" else 4,
            lw=1.2,
            label=label,
        )
    axes.set(xlabel="delay m (steps)", ylabel="discounted return", xticks=range(6))
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    figure.suptitle(
        "Two-state MDP, p = 0.8, γ = 0.5, horizon 10\ndeadtime reproduce stationarity", fontsize=10
    )
    return save_picture(figure, root / "figures" / "stationarity.png")


def _table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return a row for each kind of policy, with a column for each delay."""
    named = {f"paper: {name}": values for name, values in PAPER.items()} | {
        f"exact: {n}": v for n, v in exact_rows().items()
    }
    return [
        {"policies": name} | {f"m={m}": float(value) for m, value in enumerate(values)}
        for name, values in named.items()
    ]


STATIONARITY = Experiment(
    "stationarity",
    "What stationary and non-stationary policies can earn under delay",
    {},
    range(1),
    _draw,
    _table,
)
