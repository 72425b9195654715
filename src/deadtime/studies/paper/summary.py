"""The paper's summary: Delayed-Q against both baselines in six environments at three delays.

The mazes have one setting, our own, for both presets; CartPole and Acrobot follow the preset. So
the two are counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deadtime._support.pictures import COLORS, save_picture
from deadtime.learn.presets import PRESETS
from deadtime.runs import statistics
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.figures import NAMES, new_figure, return_against_delay, shared_legend
from deadtime.runs.result import Results
from deadtime.runs.returns import columns, difference, difference_columns
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.studies.experiment import Experiment
from deadtime.studies.paper import published
from deadtime.studies.paper.physical import physical
from deadtime.studies.paper.physical_figures import ENVS, mean_score, score_of
from deadtime.studies.paper.tabular import maze

MAZES = {"maze": "Maze", "noisy-maze": "Noisy Maze"}
DELAYS = (0, *published.DELAYS)
SEEDS = range(10)
LIMITS = {"maze": (-1.05, 1.05), "cartpole": (0, 510), "acrobot": (-510, -40)}


def _spec(preset: str, env: str, agent: str, delay: int) -> TabularSpec | DeepSpec:
    """Return a run of the summary.

    Mazes have one setting for both presets. The noise of Noisy Maze is 0.1 here; the paper does not
    state its own.
    """
    return (
        maze(agent, delay, 0.1 if "noisy" in env else 0.0)
        if env in MAZES
        else physical(env, agent, delay, preset)
    )


def _table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return a row for each run: our return, the paper's, a verdict, and the paired difference."""
    rows = []
    for (preset, env, agent, m), result in results.items():
        row: dict[str, Any] = {"preset": preset, "environment": env, "agent": agent, "delay": m}
        row |= columns(result)
        row |= {"seeds": len(result.seeds), "diverged": len(result.diverged)}
        first = results[preset, env, "delayed", m]
        less = difference(first, result, partial(score_of, preset))
        row |= difference_columns("delayed_minus_this", less)
        theirs = published.TABLE[env].get((agent, m))
        row |= {"paper": "", "paper_spread": "", "verdict": ""}
        if theirs is not None:
            row |= {"paper": theirs.mean, "paper_spread": theirs.spread}
            row["verdict"] = published.verdict(mean_score(preset, result), theirs)
        rows.append(row)
    return rows


def won(results: Results) -> dict[tuple[str, int], bool]:
    """Return whether our Delayed-Q has the best mean score, by environment and delay."""
    found = {}
    for preset, env, _, m in results:
        if m:
            means = [
                float(score_of(preset, results[preset, env, agent, m]).mean())
                for agent in published.AGENTS
            ]
            found[env, m] = means[0] > max(means[1:])
    return found


class Standing(NamedTuple):
    """A comparison of Delayed-Q with the other agents, and with its returns in the paper."""

    won: int
    won_in_the_paper: int
    of: int
    verdicts: Counter[str]
    """The number of times its return lies above the paper's, agrees with it, and lies below it."""
    beats: dict[str, statistics.Estimate]
    """By other agent: the share of runs that beat its run of the same seed; ties count half."""


def standing(preset: str, results: Results, envs: Collection[str]) -> Standing:
    """Return how Delayed-Q stands in the comparisons of `results` on the environments `envs`."""
    cells = {at: best for at, best in won(results).items() if at[0] in envs}
    scores = {
        agent: [score_of(preset, results[preset, env, agent, m]) for env, m in cells]
        for agent in published.AGENTS
    }
    verdicts = Counter(
        published.verdict(
            mean_score(preset, results[preset, env, "delayed", m]),
            published.TABLE[env]["delayed", m],
        )
        for env, m in cells
    )
    beats = {
        agent: statistics.improvement(scores["delayed"], scores[agent])
        for agent in published.AGENTS[1:]
    }
    won_in_the_paper = sum(published.wins(*at) for at in cells)
    return Standing(sum(cells.values()), won_in_the_paper, len(cells), verdicts, beats)


_SCORES = {
    "paper": "return of the last tenth of training, as in the paper.",
    "best": "greedy return beside the paper's training return; CartPole is trained on a shaped "
    "reward.",
}


def _draw(results: Results, root: Path) -> Path:
    """Draw the return against the delay in the six environments, the paper's values as crosses."""
    preset = next(iter(results))[0]
    seeds = len(next(iter(results.values())).seeds)
    figure, axes = new_figure(13, 7.4, 2, 3)
    for axis, (env, title) in zip(axes.T.flat, (MAZES | ENVS).items(), strict=True):
        pairs = product(published.AGENTS, DELAYS)
        shown = {(agent, m): results[preset, env, agent, m] for agent, m in pairs}
        return_against_delay(axis, shown, score=partial(score_of, preset))
        for agent in published.AGENTS:
            at = [m for m in published.DELAYS if (agent, m) in published.TABLE[env]]
            value, spread = zip(*(published.TABLE[env][agent, m] for m in at), strict=True)
            how: dict[str, Any] = {
                "fmt": "x",
                "color": COLORS[agent],
                "ms": 5,
                "lw": 0.8,
                "capsize": 2,
            }
            axis.errorbar(
                np.array(at) + 0.5, value, spread, label=f"{NAMES[agent]} in the paper", **how
            )
        axis.set_ylim(LIMITS[env.removeprefix("noisy-")])
        axis.set_title(title, fontsize=10)
        axis.set(
            xlabel="delay m (steps)",
            ylabel=("training return" if preset == "paper" else "greedy return"),
        )
    shared_legend(figure, axes)
    mazes = standing(preset, results, MAZES)
    rest = standing(preset, results, ENVS)
    lines = [
        f"Delayed-Q has the best mean in {mazes.won} of {mazes.of} maze cells (our settings) "
        f"and in {rest.won} of {rest.of} cells of CartPole and Acrobot (preset {preset}); in the "
        "paper in all.",
        f"CartPole and Acrobot: {_SCORES[preset]} {statistics.seeds_shown(seeds)}. "
        f"deadtime reproduce summary --preset {preset}",
    ]
    figure.suptitle("\n".join(lines), fontsize=10)
    return save_picture(figure, root / "figures" / f"summary-{preset}.png")


EXPERIMENTS = [
    Experiment(
        "summary",
        f"Six environments beside the paper's table, preset {preset}",
        {
            (preset, env, agent, m): _spec(preset, env, agent, m)
            for env, m, agent in product((*MAZES, *ENVS), DELAYS, published.AGENTS)
        },
        SEEDS,
        _draw,
        _table,
        preset,
        partial(score_of, preset),
    )
    for preset in PRESETS
]
