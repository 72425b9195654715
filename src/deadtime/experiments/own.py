"""A user's own records as experiments: whatever a folder holds that no experiment of the paper asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.table import Table

from deadtime.experiments import records, statistics
from deadtime.experiments.figures import NAMES, new_figure, return_against_delay
from deadtime.experiments.runner import Experiment, Results
from deadtime.pictures import save_picture
from deadtime.training.result import Result, Spec, from_canonical

_APART = ("agent", "delay")
_LEARNER = ("changes", "learner")
"""What a record says of how its agent learns; agents with other settings may stand in one figure."""


def experiments(root: Path, but: frozenset[str] = frozenset()) -> list[Experiment]:
    """One for each environment and its settings, from the records in a folder except those named."""
    runs: dict[str, dict[tuple[str, int], list[tuple[Spec, list[int]]]]] = {}
    for folder in sorted(root.iterdir()):
        if folder.name.startswith(".") or folder.name in but or not (folder / "run.json").exists():
            continue
        record = records.read(folder)
        spec, said = from_canonical(record.spec), {k: v for k, v in record.spec.items() if k not in _APART}
        about = json.dumps({k: v for k, v in said.items() if k not in _LEARNER}, sort_keys=True)
        runs.setdefault(about, {}).setdefault((spec.agent, spec.delay), []).append((spec, record.seeds))
    return [made for said, group in sorted(runs.items()) for made in _made(json.loads(said), group)]


def _made(said: dict[str, Any], group: Mapping[tuple[str, int], list[tuple[Spec, list[int]]]]) -> list[Experiment]:
    """One experiment or, where an agent has several settings at one delay, one for each of those."""
    if all(len(those) == 1 for those in group.values()):
        return [_experiment(said, {key: those[0] for key, those in group.items()})]
    apart: dict[str, dict[tuple[str, int], tuple[Spec, list[int]]]] = {}
    for key, those in group.items():
        for spec, seeds in those:
            learner = {name: value for name, value in spec.canonical().items() if name in _LEARNER}
            apart.setdefault(json.dumps(learner, sort_keys=True), {})[key] = spec, seeds
    return [_experiment(said | json.loads(learner), runs) for learner, runs in sorted(apart.items())]


def _experiment(said: dict[str, Any], runs: Mapping[tuple[str, int], tuple[Spec, list[int]]]) -> Experiment:
    title = said["env"]
    for name, value in said.items():
        if isinstance(value, dict):
            title += "".join(f", {key.replace('_', ' ')} {number}" for key, number in sorted(value.items()))
        elif name not in ("env", "kind"):
            title += f", {name.replace('_', ' ')} {value}"
    ordered = sorted(runs, key=lambda key: ([*NAMES].index(key[0]), key[1]))
    seeds = sorted({seed for _, those in runs.values() for seed in those})
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")

    def draw(results: Results, root: Path) -> Path:
        figure, axes = new_figure(6.4, 4.2)
        return_against_delay(axes, {key: result.scores for key, result in results.items()}, {})
        used = len(next(iter(results.values())).seeds)
        axes.set_title(f"{fill(title, 70)}\n{used} seeds, 95% intervals", fontsize=10)
        return save_picture(figure, root / "figures" / f"{slug}.png")

    return Experiment(slug, title, {key: runs[key][0] for key in ordered}, seeds, draw, _table)


def _table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Returns, and how the first agent compares to each on the same seeds."""
    rows, first = [], next(iter(results))[0]
    for (agent, m), result in results.items():
        row: dict[str, Any] = {"agent": agent, "delay": m}
        for label, values in (("greedy", result.scores), ("training", result.training_scores)):
            found = statistics.mean(values)
            row |= {label: found.value, f"{label}_low": found.low, f"{label}_high": found.high}
        against: Result | None = results.get((first, m))
        less = statistics.difference(against.scores, result.scores) if against is not None else None
        row |= {f"{first}_minus_this": "" if less is None else less.value}
        row |= {"difference_low": "" if less is None else less.low, "difference_high": "" if less is None else less.high}
        rows.append(row | {"seeds": len(result.seeds), "diverged": len(result.diverged)})
    return rows


def printed(experiment: Experiment, results: Results) -> Table:
    """Its greedy returns, for a terminal."""
    agents, delays = (list(dict.fromkeys(key[i] for key in results)) for i in (0, 1))
    seeds = len(next(iter(results.values())).seeds)
    table = Table("delay", *agents, title=f"{experiment.title}: mean greedy return, {seeds} seeds, 95% intervals")
    for m in sorted(delays):
        cells = (str(statistics.mean(results[agent, m].scores)) if (agent, m) in results else "" for agent in agents)
        table.add_row(str(m), *cells)
    return table
