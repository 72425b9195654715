"""The paper's Atari experiments as data, with their figures and tables.

A run takes minutes of a GPU, so the table is filled in parts, in the order of `RUNS`:
`deadtime reproduce summary-atari --next N`. Its figure shows what is recorded so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from deadtime._support.pictures import COLORS, save_picture
from deadtime.learn.settings import PIXEL_MODELS
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.figures import (
    NAMES,
    learning_curve,
    learning_curves,
    new_figure,
    return_against_delay,
    shared_legend,
)
from deadtime.runs.folder_report import seeds_of
from deadtime.runs.result import Result, Results
from deadtime.runs.returns import difference, difference_columns, mean_return
from deadtime.studies.experiment import Experiment
from deadtime.studies.paper import published

FIRST = ("atari:MsPacman", "atari:RoadRunner")
GAMES = (*FIRST, *(env for env in published.TABLE if env.startswith("atari:") and env not in FIRST))
SEEDS = range(5)
RNN_DELAY = 15
RNN = (("recurrent", 0), *((agent, RNN_DELAY) for agent in ("recurrent", *published.AGENTS)))
"""The recurrent baseline without a delay, and all agents under the delay of the comparison."""
_STEPS = 1_000_000
_SCORE = attrgetter("training_scores")
"""The paper's score: the mean return of the last 5% of training episodes."""


def atari(env: str, agent: str, delay: int, sticky: float = 0.0, steps: int = _STEPS) -> DeepSpec:
    """Return a run on a game with the authors' protocol."""
    return DeepSpec(env, agent, delay, "paper", steps, {"sticky": sticky})


def _ordered() -> dict[tuple[float, int, str, str, int], DeepSpec]:
    """Return the runs by (stickiness, steps, game, agent, delay), the most important first.

    With sticky actions, Delayed-Q runs through its queue at every decision. A million steps then
    take half an hour of a GPU. So runs with half a million steps come first, and those with a
    million come after the paper's table.
    """
    first = ((0.0, _STEPS), (0.25, _STEPS // 2))
    middle = [(*kind, FIRST[0], agent, 15) for kind, agent in product(first, published.AGENTS)]
    rest = [
        (0.0, _STEPS, env, agent, m)
        for env, m, agent in product(GAMES, published.DELAYS, published.AGENTS)
    ]
    last = [(0.25, _STEPS, FIRST[0], agent, 15) for agent in published.AGENTS]
    return {
        key: atari(*key[2:], sticky=key[0], steps=key[1])
        for key in dict.fromkeys([*middle, *rest, *last])
    }


RUNS = _ordered()


def _title(env: str) -> str:
    """Return the name of a game."""
    return env.removeprefix("atari:")


def won(results: Results) -> dict[tuple[str, int], bool]:
    """Return whether Delayed-Q has the best mean, by game and delay.

    Only cells with records of all three agents count, on the seeds that they share.
    """
    found = {}
    for sticky, steps, env, _, m in results:
        three = [results.get((sticky, steps, env, agent, m)) for agent in published.AGENTS]
        if sticky or any(one is None for one in three):
            continue
        seeds = set.intersection(*({*one.seeds} for one in three if one is not None))
        if seeds:
            means = [
                float(_SCORE(Result(one.record.rows(sorted(seeds)))).mean())
                for one in three
                if one is not None
            ]
            found[env, m] = means[0] > max(means[1:])
    return found


_FIRST_OF: dict[str, str] = {
    **dict.fromkeys(NAMES, "delayed"),
    **dict.fromkeys(PIXEL_MODELS, PIXEL_MODELS[0]),
}
"""The agent or look-ahead to which each agent or look-ahead is compared."""


def _usual(spec: DeepSpec) -> DeepSpec:
    """Return the run that is compared with the paper's."""
    return atari(spec.env, spec.agent, spec.delay)


def _rows(results: Results, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a row for each run: our return, the paper's, and the difference from a first run.

    The first run is that of Delayed-Q, or of the usual look-ahead.
    """
    rows = []
    for key, result in results.items():
        row: dict[str, Any] = dict(zip(names, key, strict=True))
        training = mean_return(result, _SCORE(result))
        row |= training.columns("training") | mean_return(result).columns("greedy")
        first = results.get(tuple(_FIRST_OF.get(part, part) for part in key))
        less = difference(first, result, _SCORE) if first is not None else None
        row |= difference_columns("first_minus_this", less)
        spec = result.spec
        assert isinstance(spec, DeepSpec)
        row |= {"paper": "", "paper_spread": "", "verdict": ""}
        theirs = published.TABLE.get(spec.env, {}).get((spec.agent, spec.delay))
        if theirs is not None and spec == _usual(spec):
            row |= {"paper": theirs.mean, "paper_spread": theirs.spread}
            row["verdict"] = published.verdict(training, theirs)
        notes = {"diverged": len(result.diverged), "never_updated": len(result.untrained)}
        rows.append(row | {"seeds": len(result.seeds), "steps": spec.length, **notes})
    return rows


def _draw_summary(results: Results, root: Path) -> Path:
    """Draw the return against the delay in each game, with the paper's values as crosses."""
    figure, axes = new_figure(14, 7, 2, 4)
    for axis, env in zip(axes.flat, GAMES, strict=True):
        shown = {
            (a, m): result
            for (sticky, _, game, a, m), result in results.items()
            if game == env and not sticky
        }
        if shown:
            return_against_delay(axis, shown, score=_SCORE)
        for agent in published.AGENTS:
            value, spread = zip(
                *(published.TABLE[env][agent, m] for m in published.DELAYS), strict=True
            )
            how: dict[str, Any] = {
                "fmt": "x",
                "color": COLORS[agent],
                "ms": 5,
                "lw": 0.8,
                "capsize": 2,
            }
            axis.errorbar(
                np.array(published.DELAYS) + 0.5,
                value,
                spread,
                label=f"{NAMES[agent]} in the paper",
                **how,
            )
        axis.set_title(_title(env) + ("" if shown else " (not run)"), fontsize=10)
        axis.set(xticks=published.DELAYS, xlabel="delay m (steps)", ylabel="training return")
        axis.grid(alpha=0.25)
        axis.set_ylim(bottom=0)
    shared_legend(figure, axes)
    ours = won(results)
    count = (
        f"Comparisons run: {len(ours)} of 24; Delayed-Q has the best mean in {sum(ours.values())}"
    )
    count += f" (in the paper: {sum(published.wins(*at) for at in ours)})"
    about = f"{count}; no sticky actions, preset paper, {seeds_of(results)}"
    figure.suptitle(f"{about}\ndeadtime reproduce summary-atari", fontsize=10)
    return save_picture(figure, root / "figures" / "summary-atari.png")


def _curves(axis: Axes, results: Mapping[str, Result]) -> None:
    """Draw learning curves over millions of steps."""
    learning_curves(axis, results, unit=1e6)
    axis.set_xlabel("million steps")


def _draw_convergence(results: Results, root: Path) -> Path:
    """Draw the training return on MsPacman: a panel for each delay."""
    figure, axes = new_figure(11, 3.8, 1, 3, sharey=True)
    for axis, m in zip(axes, published.DELAYS, strict=True):
        recorded = {agent: results[agent, m] for agent in published.AGENTS if (agent, m) in results}
        _curves(axis, recorded)
        value = published.TABLE[FIRST[0]]["delayed", m].mean
        axis.axhline(
            value, color=COLORS["delayed"], lw=1, ls=":", label="Delayed-Q's score in the paper"
        )
        axis.set_title(f"m = {m}" + ("" if recorded else " (not run)"), fontsize=10)
    axes[0].set_ylabel("training return")
    axes[0].set_ylim(bottom=0)
    shared_legend(figure, axes)
    about = f"MsPacman, no sticky actions, preset paper, {seeds_of(results)}"
    figure.suptitle(f"{about}\ndeadtime reproduce convergence-atari", fontsize=10)
    return save_picture(figure, root / "figures" / "convergence-atari.png")


def _draw_rnn(results: Results, root: Path) -> Path:
    """Draw the training return of the recurrent agent beside the others, and without a delay."""
    figure, axis = new_figure(6.4, 4.2)
    shown = [agent for agent, m in RNN if m and (agent, m) in results]
    _curves(axis, {agent: results[agent, RNN_DELAY] for agent in shown})
    if RNN[0] in results:
        name = f"{NAMES['recurrent']}, m = 0"
        learning_curve(axis, results[RNN[0]], "0.55", name, unit=1e6)
    axis.set_ylabel("training return")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=9)
    about = f"Frostbite, m = {RNN_DELAY}, no sticky actions, preset paper, {seeds_of(results)}"
    axis.set_title(f"{about}\ndeadtime reproduce rnn", fontsize=10)
    return save_picture(figure, root / "figures" / "rnn.png")


def _kept(model: str) -> DeepSpec:
    """Return a run with one way to look ahead."""
    return DeepSpec(FIRST[0], "delayed", 5, "paper", 300_000, {"sticky": 0.25}, {"model": model})


def _draw_kept(results: Results, root: Path) -> Path:
    """Draw the training return with either way to look ahead."""
    figure, axis = new_figure(6.4, 4.2)
    names = {"fresh": "a new path for every decision", "kept": "a path kept while it comes true"}
    colors = iter(COLORS.values())
    for (model,), result in results.items():
        learning_curve(axis, result, next(colors), names[model], unit=1e6)
    axis.grid(alpha=0.25)
    axis.set(xlabel="million steps", ylabel="training return")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=9)
    about = f"MsPacman, Delayed-Q, m = 5, sticky 0.25, preset paper, {seeds_of(results)}"
    axis.set_title(f"{about}\ndeadtime reproduce kept-paths", fontsize=10)
    return save_picture(figure, root / "figures" / "kept-paths.png")


EXPERIMENTS = [
    Experiment(
        "summary-atari",
        "Eight Atari games beside the paper's table",
        RUNS,
        SEEDS,
        _draw_summary,
        lambda results, root: _rows(results, ("sticky", "steps", "environment", "agent", "delay")),
        score=_SCORE,
        in_part=True,
    ),
    Experiment(
        "convergence-atari",
        "MsPacman: learning curves",
        {
            (agent, m): atari(FIRST[0], agent, m)
            for m, agent in product(published.DELAYS, published.AGENTS)
        },
        SEEDS,
        _draw_convergence,
        lambda results, root: _rows(results, ("agent", "delay")),
        score=_SCORE,
        in_part=True,
    ),
    Experiment(
        "kept-paths",
        "MsPacman with sticky actions: a new prediction for every decision, and one that is kept "
        "while "
        "it comes true",
        {(model,): _kept(model) for model in PIXEL_MODELS},
        SEEDS,
        _draw_kept,
        lambda results, root: _rows(results, ("model",)),
        score=_SCORE,
        in_part=True,
    ),
    Experiment(
        "rnn",
        "Frostbite: the recurrent policy beside the others",
        {(agent, m): atari("atari:Frostbite", agent, m) for agent, m in RNN},
        SEEDS,
        _draw_rnn,
        lambda results, root: _rows(results, ("agent", "delay")),
        score=_SCORE,
        in_part=True,
    ),
]
