"""Figures and tables of the paper's tabular experiments, and the values that each varies."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from deadtime._support.pictures import COLORS, MARKERS, save_picture
from deadtime.runs import statistics
from deadtime.runs.ceiling import mean_ceiling
from deadtime.runs.figures import (
    NAMES,
    draw_estimates,
    heat_map,
    learning_curves,
    new_figure,
    return_against_delay,
    shared_legend,
)
from deadtime.runs.result import Result, Results
from deadtime.runs.returns import columns, difference, difference_columns, mean_return
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runtime.views import VIEWS
from deadtime.studies.paper import published

AGENTS = ("delayed", "augmented", "oblivious", "shifted", "distribution", "mbs")
_EPISODES = (1.0, math.inf)
"""The least and the largest number of episodes of a run."""


def tabular(result: Result) -> TabularSpec:
    """Return the spec of a tabular result."""
    spec = result.spec
    assert isinstance(spec, TabularSpec)
    return spec


def estimates(results: Results, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a row for each run: its key, greedy and training return, seeds, episodes, seconds."""
    rows = []
    for key, result in results.items():
        row = dict(zip(names, key, strict=True)) | columns(result, "return")
        row |= {"seeds": len(result.seeds), "episodes": tabular(result).episodes}
        rows.append(row | {"seconds": sum(result.record.seconds)})
    return rows


def _best(
    root: Path, results: Results, keys: Iterable[tuple[str, float, int]]
) -> dict[int, tuple[float, bool]]:
    """Return the optimum of each delay, or a bound, and whether it is exact."""
    found = {}
    for key in keys:
        result = results[key]
        best = mean_ceiling(root, tabular(result), result.seeds)
        found[result.spec.delay] = (best.value, best.exact)
    return found


NOISES = (0.0, 0.05, 0.1, 0.2)
DELAYS = (0, 5, 15, 25)


def draw_convergence(results: Results, root: Path) -> Path:
    """Draw learning curves: a row for each noise, a column for each delay."""
    shown = [agent for agent in AGENTS if not VIEWS[agent].solves_offline]
    figure, axes = new_figure(12, 9.5, len(NOISES), len(DELAYS), sharex=True, sharey=True)
    for (i, p), (j, m) in product(enumerate(NOISES), enumerate(DELAYS)):
        curves = {agent: results[agent, p, m] for agent in shown}
        learning_curves(axes[i, j], curves, _best(root, results, [("delayed", p, m)])[m])
        axes[i, j].set_title(
            f"{'Maze' if p == 0 else f'Noisy Maze, p = {p:g}'}, m = {m}", fontsize=10
        )
    for j in range(len(DELAYS)):
        axes[-1, j].set_xlabel("episode")
    for i in range(len(NOISES)):
        axes[i, 0].set_ylabel("training return")
    handles = {
        label: line
        for a in axes.flat
        for line, label in zip(*a.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=7, frameon=False
    )
    figure.suptitle(
        f"10×10 mazes, {statistics.seeds_shown(len(results['delayed', 0.0, 0].seeds))}: deadtime "
        "reproduce convergence"
    )
    return save_picture(figure, root / "figures" / "convergence.png")


def convergence_table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return final returns beside the optimum, Delayed-Q's and the paper's."""
    rows = estimates(results, ("agent", "noise", "delay"))
    for row, result in zip(rows, results.values(), strict=True):
        p = row["noise"]
        m = row["delay"]
        best, exact = _best(root, results, [("delayed", p, m)])[m]
        less = difference(results["delayed", p, m], result)
        row.update(difference_columns("delayed_minus_this", less))
        row |= {"optimum": best, "optimum_is": "exact" if exact else "upper bound"}
        # The paper does not say the noise of its row on noisy mazes.
        theirs = published.TABLE["noisy-maze" if p else "maze"].get((row["agent"], m))
        row["paper"] = "" if theirs is None else theirs.mean
    return rows


SWEPT = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 25)


def draw_sweep(results: Results, root: Path) -> Path:
    """Draw the return against the delay, without and with noise."""
    figure, axes = new_figure(11, 4.6, 1, 2, sharey=True)
    for axis, p in zip(axes, (0.0, 0.1), strict=True):
        shown = {(agent, m): results[agent, p, m] for agent in AGENTS for m in SWEPT}
        return_against_delay(axis, shown, _best(root, results, [("delayed", p, m) for m in SWEPT]))
        axis.set_title("Maze" if p == 0 else f"Noisy Maze, p = {p:g}")
    axes[0].set_ylabel("greedy return after 5,000 episodes")
    axes[1].set_ylabel("")
    shared_legend(figure, axes)
    figure.suptitle(
        f"10×10 mazes, {statistics.seeds_shown(len(results['delayed', 0.0, 0].seeds))}: deadtime "
        "reproduce delay-sweep"
    )
    return save_picture(figure, root / "figures" / "delay-sweep.png")


MAP_NOISES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
MAP_DELAYS = (0, 5, 10, 15, 20, 25)


def draw_heat_map(results: Results, root: Path) -> Path:
    """Draw Delayed-Q's median return over delay and noise."""
    figure, axes = new_figure(6.4, 4.6)
    values = np.array(
        [[np.median(results["delayed", p, m].scores) for m in MAP_DELAYS] for p in MAP_NOISES]
    )
    image = heat_map(axes, values, [f"{p:g}" for p in MAP_NOISES], [str(m) for m in MAP_DELAYS])
    axes.set(xlabel="delay m (steps)", ylabel="noise p")
    seeds = len(results["delayed", 0.0, 0].seeds)
    axes.set_title(
        "Delayed-Q, median greedy return after 5,000 episodes\n"
        f"10×10 mazes, {statistics.seeds_shown(seeds, '')}: deadtime reproduce heatmap-maze",
        fontsize=10,
    )
    figure.colorbar(image, ax=axes)
    return save_picture(figure, root / "figures" / "heatmap-maze.png")


SIZES = (5, 10, 15, 20)
SIZED = ("delayed", "augmented", "oblivious", "mbs")


def draw_sizes(results: Results, root: Path) -> Path:
    """Draw the return against the size of the maze."""
    figure, axes = new_figure(11, 4.6, 1, 2, sharey=True)
    for axis, p in zip(axes, (0.0, 0.1), strict=True):
        for agent in SIZED:
            found = [mean_return(results[agent, p, n]) for n in SIZES]
            style = {"label": NAMES[agent], "marker": MARKERS[agent], "ms": 4}
            draw_estimates(axis, SIZES, found, COLORS[agent], **style)
        best = [
            mean_ceiling(
                root,
                tabular(results["delayed", p, n]),
                results["delayed", p, n].seeds,
                5 if n <= 10 else 2,
            )
            for n in SIZES
        ]
        if p == 0:
            axis.plot(SIZES, [b.value for b in best], color="black", lw=1.2, label="exact optimum")
        else:
            axis.plot(
                SIZES,
                [b.value for b in best],
                color="black",
                lw=1.2,
                ls="--",
                label="upper bound on it",
            )
        axis.set(
            title="Maze" if p == 0 else f"Noisy Maze, p = {p:g}",
            xlabel="size N (N² cells)",
            xticks=SIZES,
        )
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, fontsize=8)
    axes[0].set_ylabel("greedy return after 5,000 episodes")
    figure.suptitle(
        f"delay 5, {statistics.seeds_shown(len(results['delayed', 0.0, 10].seeds))}: deadtime "
        "reproduce maze-size"
    )
    return save_picture(figure, root / "figures" / "maze-size.png")


GROWTH = {
    "delayed": (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 20, 25),
    "augmented": (0, 1, 2, 3, 4, 5, 6),
}
BUDGET = 200_000


def growth(results: Results) -> dict[str, tuple[float, float]]:
    """Fit the mean number of episodes against m: exponential for Augmented-Q, else linear."""
    means = {a: [np.mean(results[a, m].record.episodes) for m in ms] for a, ms in GROWTH.items()}
    slope, start = np.polyfit(GROWTH["augmented"], np.log(means["augmented"]), 1)
    gain, base = np.polyfit(GROWTH["delayed"], means["delayed"], 1)
    return {
        "augmented": (float(np.exp(start)), float(np.exp(slope))),
        "delayed": (float(base), float(gain)),
    }


def draw_growth(results: Results, root: Path) -> Path:
    """Draw the number of episodes needed against the delay, and the fitted growth."""
    figure, axes = new_figure(6.6, 4.6)
    fits = growth(results)
    for agent, delays in GROWTH.items():
        found = [statistics.mean(results[agent, m].record.episodes, _EPISODES) for m in delays]
        color = COLORS[agent]
        (base, gain) = fits[agent]
        spread = [[e.value - e.low for e in found], [e.high - e.value for e in found]]
        axes.errorbar(
            delays,
            [e.value for e in found],
            spread,
            color=color,
            marker=MARKERS[agent],
            ls="",
            ms=5,
            capsize=3,
            label=NAMES[agent],
        )
        x = np.linspace(min(delays), max(delays), 100)
        y, law = (
            (base * gain**x, f"{base:.0f} · {gain:.2f}$^m$")
            if agent == "augmented"
            else (base + gain * x, f"{base:.0f} + {gain:.1f} m")
        )
        axes.plot(x, y, color=color, lw=1, label=f"fit: {law}")
    axes.set(
        yscale="log",
        xlabel="delay m (steps)",
        ylabel="episodes until the mean of 20 returns is 0.5",
    )
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=9)
    axes.set_title(
        f"10×10 mazes, {statistics.seeds_shown(len(results['delayed', 0].seeds))}: deadtime "
        "reproduce complexity",
        fontsize=10,
    )
    return save_picture(figure, root / "figures" / "complexity.png")


def growth_table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return the mean number of episodes needed by each agent at each delay.

    A seed that did not reach the return counts with all its episodes.
    """
    rows = []
    for (agent, m), result in results.items():
        counts = np.array(result.record.episodes)
        found = statistics.mean(counts, _EPISODES)
        rows.append(
            {
                "agent": agent,
                "delay": m,
                "episodes": found.value,
                "low": found.low,
                "high": found.high,
            }
        )
        rows[-1] |= {"not_reached": result.record.status.count("complete"), "seeds": len(counts)}
    return rows


STEP_SIZES = (0.03, 0.1, 0.3, 1.0)
EPSILONS = (0.0, 0.01, 0.05, 0.2)


def _tuning_means(results: Results) -> np.ndarray:
    """Return the mean return of each setting over agents, delays, noises and mazes."""
    return np.array(
        [
            [
                np.mean([r.scores.mean() for k, r in results.items() if k[:2] == (s, e)])
                for e in EPSILONS
            ]
            for s in STEP_SIZES
        ]
    )


def draw_tuning(results: Results, root: Path) -> Path:
    """Draw the mean return of each setting."""
    figure, axes = new_figure(5.6, 4.2)
    found = next(iter(results.values()))
    heat_map(
        axes, _tuning_means(results), [f"{s:g}" for s in STEP_SIZES], [f"{e:g}" for e in EPSILONS]
    )
    axes.set(xlabel="ε", ylabel="step size")
    mazes = f"{len(found.seeds)} mazes from seed {found.seeds[0]}: deadtime reproduce tuning"
    axes.set_title(
        f"Mean greedy return of the paper's three agents at m = 5, 15\n{mazes}", fontsize=9
    )
    return save_picture(figure, root / "figures" / "tuning.png")


LAW_NOISES = (0.1, 0.2)
LAW_EPSILON = 0.05


def draw_whole_law(results: Results, root: Path) -> Path:
    """Draw the return against the delay for both predictions."""
    figure, axes = new_figure(9, 4.2, 1, 2, sharey=True)
    for axis, p in zip(axes, LAW_NOISES, strict=True):
        pairs = product(("delayed", "distribution"), DELAYS)
        shown = {(agent, m): results[agent, p, m] for agent, m in pairs}
        return_against_delay(axis, shown, _best(root, results, [("delayed", p, m) for m in DELAYS]))
        axis.set_title(f"Noisy Maze, p = {p:g}")
    for axis in axes[1:]:
        axis.set_ylabel("")
    seeds = len(results["delayed", LAW_NOISES[0], 0].seeds)
    figure.suptitle(
        f"10×10 mazes, ε = {LAW_EPSILON:g}, {statistics.seeds_shown(seeds)}: deadtime reproduce "
        "whole-law"
    )
    return save_picture(figure, root / "figures" / "whole-law.png")


def whole_law_table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return the numbers of the figure, with paired differences."""
    rows = estimates(results, ("agent", "noise", "delay"))
    for row in rows:
        at = row["noise"], row["delay"]
        gain = difference(results["distribution", *at], results["delayed", *at])
        row.update(difference_columns("law_minus_mode", gain))
    return rows
