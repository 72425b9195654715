"""Figures and tables of the CartPole and Acrobot experiments, and the values that each varies."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deadtime._support.pictures import COLORS, save_picture
from deadtime.learn.presets import PRESETS
from deadtime.runs import statistics
from deadtime.runs.figures import (
    draw_estimates,
    heat_map,
    learning_curves,
    new_figure,
    return_against_delay,
    shared_legend,
)
from deadtime.runs.result import Result, Results
from deadtime.runs.returns import columns, mean_return
from deadtime.studies.paper import published

ENVS = {
    "cartpole": "CartPole",
    "noisy-cartpole": "Noisy CartPole",
    "acrobot": "Acrobot",
    "noisy-acrobot": "Noisy Acrobot",
}
DELAYS = (0, *published.DELAYS)


def score_of(preset: str, result: Result) -> np.ndarray:
    """Return the score that a preset is judged by.

    For `paper` it is the return of the last tenth of training, as in the paper; for `best` it is
    the greedy return.
    """
    return result.training_scores if preset == "paper" else result.scores


def mean_score(preset: str, result: Result) -> statistics.Estimate:
    """Return the mean of the score that a preset is judged by, and its interval."""
    return mean_return(result, score_of(preset, result))


def rows_of(results: Results, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows of a table: returns, seeds, diverged seeds and steps of each run."""
    rows = []
    for key, result in results.items():
        row = dict(zip(names, key, strict=True)) | columns(result)
        row |= {"seeds": len(result.seeds), "diverged": len(result.diverged)}
        row["steps"] = result.spec.length  # type: ignore[union-attr]
        rows.append(row)
    return rows


def draw_curves(results: Results, root: Path) -> Path:
    """Draw the training return on Noisy CartPole: a panel for each delay."""
    figure, axes = new_figure(11, 3.8, 1, 3, sharey=True)
    for axis, m in zip(axes, DELAYS[1:], strict=True):
        shown = {agent: results["paper", "noisy-cartpole", agent, m] for agent in published.AGENTS}
        learning_curves(axis, shown, unit=1000)
        axis.axhline(
            published.TABLE["noisy-cartpole"]["delayed", m].mean,
            color=COLORS["delayed"],
            lw=1,
            ls=":",
            label="Delayed-Q in the paper",
        )
        axis.set_title(f"m = {m}", fontsize=10)
        axis.set(ylim=(0, 510), xlabel="thousand steps")
    axes[0].set_ylabel("training return")
    shared_legend(figure, axes)
    _title(figure, results, "convergence-physical", "Noisy CartPole, preset paper")
    return save_picture(figure, root / "figures" / "convergence-physical.png")


MISTAKES = ("double", "terminals")
_CAUSES = {
    (True, True): ("as it should be", "#0072B2", "o"),
    (False, True): ("plain maximum instead of double Q", "#D55E00", "s"),
    (True, False): ("no terminal transitions", "#E69F00", "D"),
    (False, False): ("both", "#CC79A7", "^"),
}


def draw_causes(results: Results, root: Path) -> Path:
    """Draw Delayed-Q's training return with each mistake of the authors' code, and the paper's."""
    figure, axes = new_figure(13, 3.9, 1, 4)
    for axis, env in zip(axes, ENVS, strict=True):
        for mistakes, (label, color, marker) in _CAUSES.items():
            found = [mean_score("paper", results[env, m, *mistakes]) for m in DELAYS[1:]]
            draw_estimates(axis, DELAYS[1:], found, color, label=label, marker=marker, ms=4)
        value, spread = zip(*(published.TABLE[env]["delayed", m] for m in DELAYS[1:]), strict=True)
        axis.errorbar(
            np.array(DELAYS[1:]) + 0.5,
            value,
            spread,
            fmt="kx",
            ms=5,
            lw=0.8,
            capsize=2,
            label="the paper",
        )
        _frame(axis, env, ENVS[env])
        axis.set(xlabel="delay m (steps)", ylabel="training return")
        axis.grid(alpha=0.25)
    shared_legend(figure, axes)
    _title(figure, results, "causes", "Delayed-Q, preset paper")
    return save_picture(figure, root / "figures" / "causes.png")


SWEPT_ENVS = ("noisy-cartpole", "noisy-acrobot")
SWEPT = (0, 1, 2, 3, 5, 7, 10, 15, 20, 25)


def draw_sweep(results: Results, root: Path) -> Path:
    """Draw the return against the delay."""
    return _panels(results, root, "delay-sweep-physical", SWEPT_ENVS, SWEPT)


PLAIN: dict[str, Any] = {"shaped": False, "centre": 1.0}


def draw_plain(results: Results, root: Path) -> Path:
    """Draw the return against the delay when trained on the plain reward."""
    return _panels(results, root, "plain-reward", GAP_ENVS, DELAYS)


def _panels(
    results: Results, root: Path, name: str, envs: Iterable[str], delays: tuple[int, ...]
) -> Path:
    """Draw greedy returns against the delay: a panel for each environment."""
    figure, axes = new_figure(10, 4.2, 1, 2)
    for axis, env in zip(axes, envs, strict=True):
        pairs = product(published.AGENTS, delays)
        shown = {(agent, m): results[env, agent, m] for agent, m in pairs}
        return_against_delay(axis, shown)
        _frame(axis, env, ENVS[env])
        axis.set_ylabel("greedy return")
    shared_legend(figure, axes)
    _title(figure, results, name, "preset best")
    return save_picture(figure, root / "figures" / f"{name}.png")


MAP_NOISES = (0.0, 0.05, 0.1, 0.15, 0.2)
MAP_DELAYS = (0, 5, 10, 15, 20, 25)


def draw_map(results: Results, root: Path) -> Path:
    """Draw Delayed-Q's return over noise and delay."""
    figure, axes = new_figure(7, 4.4)
    values = np.array([[results[p, m].scores.mean() for m in MAP_DELAYS] for p in MAP_NOISES])
    heat_map(
        axes, values, [f"{p:g}" for p in MAP_NOISES], [str(m) for m in MAP_DELAYS], (0, 500), ".0f"
    )
    axes.set(xlabel="delay m (steps)", ylabel="noise (relative deviation of masses and lengths)")
    _title(
        figure,
        results,
        "heatmap-cartpole",
        "CartPole, Delayed-Q, preset best, greedy return",
        ", means",
    )
    return save_picture(figure, root / "figures" / "heatmap-cartpole.png")


GAP_ENVS = ("cartpole", "noisy-cartpole")
GAP_MODELS: dict[str, dict[str, Any]] = {
    "learned": {},
    "simulator": {"model": "simulator"},
    "simulator, 8 draws": {"model": "simulator", "members": 8},
}
_LOOKS = {
    "learned": ("learned model", "#0072B2", "o"),
    "simulator": ("the simulator, one draw", "#009E73", "s"),
    "simulator, 8 draws": ("the simulator, mean over 8 draws", "#CC79A7", "D"),
}


def draw_gap(results: Results, root: Path) -> Path:
    """Draw the return with the learned model and with the simulator."""
    figure, axes = new_figure(10, 6.6, 2, 2, sharex=True, sharey=True)
    for (i, preset), (j, env) in product(enumerate(PRESETS), enumerate(GAP_ENVS)):
        for model, (label, color, marker) in _LOOKS.items():
            if (preset, env, model, DELAYS[1]) not in results:
                continue
            found = [mean_score(preset, results[preset, env, model, m]) for m in DELAYS[1:]]
            ends = np.array([[e.value - e.low, e.high - e.value] for e in found]).T
            axes[i, j].errorbar(
                DELAYS[1:],
                [e.value for e in found],
                ends,
                color=color,
                marker=marker,
                label=label,
                capsize=3,
            )
        _frame(axes[i, j], env, f"{ENVS[env]}, preset {preset}")
        axes[i, j].set(
            xticks=DELAYS[1:],
            xlabel="delay m (steps)" if i else "",
            ylabel="" if j else ("training return", "greedy return")[i],
        )
        axes[i, j].grid(alpha=0.25)
    shared_legend(figure, axes)
    _title(figure, results, "model-gap", "Delayed-Q")
    return save_picture(figure, root / "figures" / "model-gap.png")


TESTED = tuple(range(5, 16))


def misspecified_table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return a row for each environment and evaluation delay."""
    rows = []
    for env, result in results.items():
        for delay, scores in zip(TESTED, result.record.others.T, strict=True):
            row = {"environment": env, "trained_delay": result.spec.delay, "delay": delay}
            row |= mean_return(result, scores).columns("greedy")
            rows.append(row | {"seeds": len(scores), "diverged": len(result.diverged)})
    return rows


def draw_misspecified(results: Results, root: Path) -> Path:
    """Draw the return of agents trained at m = 10 under delays of 5 to 15."""
    figure, axes = new_figure(7, 4)
    for (env, result), color in zip(results.items(), ("#0072B2", "#D55E00"), strict=True):
        found = [mean_return(result, scores) for scores in result.record.others.T]
        draw_estimates(axes, TESTED, found, color, label=ENVS[env], marker="o", ms=4)
    axes.axvline(10, color="black", lw=1, ls=":", label="trained at")
    axes.set(
        xlabel="delay in evaluation (steps)", ylabel="greedy return", ylim=(0, 510), xticks=TESTED
    )
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    _title(figure, results, "misspecification", "Delayed-Q trained at m = 10, preset best")
    return save_picture(figure, root / "figures" / "misspecification.png")


def _frame(axis: Axes, env: str, title: str) -> None:
    """Set the title of a panel, and the limits of returns."""
    axis.set_ylim((-510, -40) if "acrobot" in env else (0, 510))
    axis.set_title(title, fontsize=10)


def _title(
    figure: Figure, results: Results, command: str, about: str, shown: str = ", 95% intervals"
) -> None:
    """Set the title of a figure: seeds, diverged runs, and the command that draws it."""
    seeds = len(next(iter(results.values())).seeds)
    lost = sum(len(result.diverged) for result in results.values())
    also = f" ({lost} runs diverged, counted as they were then)" if lost else ""
    figure.suptitle(
        f"{about}: {statistics.seeds_shown(seeds, shown)}{also}\ndeadtime reproduce {command}",
        fontsize=10,
    )
