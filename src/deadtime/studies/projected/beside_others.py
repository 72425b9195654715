"""Projected-Q beside the other agents on CartPole and Acrobot, with and without noise.

Noise changes masses and lengths, and the preset is `best`, as in the paper's experiments of the
same environments: their records count here too. Nothing was tuned for Projected-Q. Runs are in
order of importance, and what is not recorded is shown as "not run".
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from deadtime._support.pictures import save_picture
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.figures import name_of, new_figure, return_against_delay, shared_legend
from deadtime.runs.folder_report import seeds_of
from deadtime.runs.result import Results
from deadtime.runs.returns import columns, difference, difference_columns
from deadtime.studies.experiment import Experiment

ENVS = {
    "noisy-cartpole": "Noisy CartPole",
    "acrobot": "Acrobot",
    "noisy-acrobot": "Noisy Acrobot",
    "cartpole": "CartPole",
}
AGENTS = ("projected", "augmented", "delayed", "oblivious")
DELAYS = (0, 5, 10, 15, 20, 25)
_PAPER_DELAYS = (0, 5, 15, 25)
_SEEDS = range(10)
_NOT_RUN = "not run"


def _spec(env: str, agent: str, delay: int) -> DeepSpec:
    """Return a run; it is the paper's run where that has the same environment, agent and delay.

    Without a delay the projection is Q itself, and Projected-Q is the agent that sees the queue.
    """
    if delay == 0 and agent == "projected":
        agent = "augmented"
    settings = {"perturb": "masses+lengths"} if "noisy" in env else {}
    return DeepSpec(env, agent, delay, settings=settings)


def _cells() -> list[tuple[str, int]]:
    """Return environments and delays, those of the paper first; CartPole has no others."""
    every = [*product(ENVS, _PAPER_DELAYS), *product(ENVS, DELAYS)]
    left_out = {("cartpole", m) for m in {*DELAYS} - {*_PAPER_DELAYS}}
    return [cell for cell in dict.fromkeys(every) if cell not in left_out]


RUNS = {(env, agent, m): _spec(env, agent, m) for env, m in _cells() for agent in AGENTS}
"""The runs, by environment, agent and delay."""


def _table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return a row for each run, with the paired difference from Projected-Q."""
    empty = dict.fromkeys(columns(next(iter(results.values()))), _NOT_RUN)
    nothing = difference_columns("projected_minus_this", None)
    rows = []
    for (env, agent, m), spec in RUNS.items():
        row: dict[str, Any] = {"environment": env, "agent": agent, "delay": m}
        row |= empty | nothing | {"seeds": 0, "diverged": 0, "steps": spec.length}
        result = results.get((env, agent, m))
        if result is not None:
            first = results.get((env, "projected", m))
            less = None if first is None else difference(first, result)
            row |= columns(result) | difference_columns("projected_minus_this", less)
            row |= {"seeds": len(result.seeds), "diverged": len(result.diverged)}
            row["steps"] = result.spec.length  # type: ignore[union-attr]
        rows.append(row)
    return rows


def _draw(results: Results, root: Path) -> Path:
    """Draw greedy returns against the delay: a panel for each environment."""
    figure, axes = new_figure(10, 7.4, 2, 2)
    for axis, (env, title) in zip(axes.flat, ENVS.items(), strict=True):
        shown = {
            (agent, m): results[env, agent, m]
            for agent, m in product(AGENTS, DELAYS)
            if (env, agent, m) in results
        }
        if shown:
            return_against_delay(axis, shown)
        axis.set_ylim((-510, -40) if "acrobot" in env else (0, 510))
        absent = [agent for agent in AGENTS if agent not in {agent for agent, _ in shown}]
        also = f" ({', '.join(map(name_of, absent))}: {_NOT_RUN})" if absent else ""
        axis.set_title(title + also, fontsize=10)
        axis.set(xlabel="delay m (steps)", ylabel="greedy return")
    shared_legend(figure, axes)
    lost = sum(len(result.diverged) for result in results.values())
    also = f" ({lost} runs diverged, counted as they were then)" if lost else ""
    about = f"Preset best: {seeds_of(results)}, 95% intervals{also}"
    figure.suptitle(f"{about}\ndeadtime reproduce projected", fontsize=10)
    return save_picture(figure, root / "figures" / "projected.png")


PROJECTED = Experiment(
    "projected",
    "CartPole and Acrobot: Projected-Q beside the other agents",
    RUNS,
    _SEEDS,
    _draw,
    _table,
    in_part=True,
    subject=[(env, agent, m) for env, agent, m in RUNS if agent == "projected" and m],
)
