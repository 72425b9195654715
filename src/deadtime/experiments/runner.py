"""Run what experiments need and is not recorded yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from deadtime.experiments import records
from deadtime.experiments.deep_specs import DeepSpec
from deadtime.experiments.records import Record
from deadtime.experiments.specs import TabularSpec
from deadtime.experiments.store import Store, alone
from deadtime.machine import cores
from deadtime.training.result import Result, Spec, record_together, train_recorded
from deadtime.training.tabular import check_workers

Results = dict[Any, Result]
Runs = Sequence[tuple[Spec, Sequence[int]]]

EPISODES_A_SECOND = {"delayed": 5_000, "distribution": 1_000}
STEPS_A_SECOND = {"paper": 20_000, "best": 2_500, "gpu": 500_000, "atari": 45, "atari-gpu": 6_000}
COMPILED_IN_SECONDS = 15
"""On one core, but for a GPU: rounded from what the records in `results` say, for an estimate before anything is run."""
_TINY_PART = 6


@dataclass(frozen=True)
class Where:
    """Where runs are done."""

    engine: str = ""
    """inline (this process), local (processes of this machine) or ray; default: local where there is more than one unit."""
    address: str = ""
    """ray: of a running cluster, `auto` for the one of this machine; default: one is started for this."""
    retries: int = 2
    """How often a unit of work that died or failed is tried again, from its last checkpoint."""


@dataclass(frozen=True)
class Experiment:
    """Runs as data, and what becomes of their results."""

    id: str
    title: str
    runs: Mapping[Any, Spec]
    seeds: Sequence[int]
    draw: Callable[[Results, Path], Path]
    """Draws the figure into the folder of records."""
    table: Callable[[Results, Path], list[dict[str, Any]]]
    """The numbers behind it, a row a line."""
    part: str = ""
    """Which part of the experiment this is, where it has several: a preset, or some of the environments."""
    score: Callable[[Result], np.ndarray] = attrgetter("scores")
    """What is compared, an entry a seed."""
    in_part: bool = False
    """Whether it is shown with what is recorded of it; else only with seeds that all its runs have."""

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.id}-{self.part}" if self.part else self.id

    def tiny(self) -> Experiment:
        """The same with one seed that hardly learns, to see that everything runs; of what is shown in part, a part."""
        chosen = islice(self.runs.items(), _TINY_PART if self.in_part else None)
        little = {key: _little(spec) for key, spec in chosen}
        return replace(self, runs=little, seeds=self.seeds[:1])

    def with_seeds(self, number: int) -> Experiment:
        """The same with so many seeds, from its first on."""
        return replace(self, seeds=range(self.seeds[0], self.seeds[0] + number))

    @property
    def wanted(self) -> Runs:
        """Every spec with its seeds; one that stands for several runs is there once."""
        return [(spec, self.seeds) for spec in {spec.name: spec for spec in self.runs.values()}.values()]

    def next(self, number: int, root: Path) -> Runs:
        """The first runs that are not recorded, so many: one seed of every spec before the next seed."""
        pairs = [(spec, [seed]) for seed in self.seeds for spec, _ in self.wanted]
        return [(spec, seeds) for spec, seeds in pairs if missing([(spec, seeds)], root)][:number]


def _little(spec: Spec) -> Spec:
    if isinstance(spec, DeepSpec) and spec.atari:
        tiny: dict[str, Any] = {"channels": (2, 2, 2), "hidden": 8}
        if "learning_starts" in vars(spec.learner):
            tiny |= {"learning_starts": 40, "replay_transitions": 100}
        settings = spec.settings | {"max_episode_steps": 30}
        return replace(spec, steps=60, envs=2, evaluation_episodes=1, settings=settings, changes=spec.changes | tiny)
    if isinstance(spec, DeepSpec):
        return replace(spec, steps=150, evaluation_episodes=1, changes=spec.changes | {"hidden": (8, 8), "batch": 16})
    return replace(spec, episodes=min(spec.episodes, 30), evaluation_episodes=2)


def missing(runs: Iterable[tuple[Spec, Sequence[int]]], root: Path) -> Runs:
    """Of each spec the seeds that are not recorded, by what the records say of themselves; every run once."""
    left: dict[str, tuple[Spec, list[int]]] = {}
    known: dict[str, set[int]] = {}
    for spec, seeds in runs:
        if spec.name not in known:
            known[spec.name] = {*records.read(root / spec.name).seeds} if records.exists(root / spec.name) else set()
        new = [seed for seed in seeds if seed not in known[spec.name]]
        known[spec.name] |= {*new}
        if new:
            left.setdefault(spec.name, (spec, []))[1].extend(new)
    return [*left.values()]


def count(runs: Runs) -> int:
    """How many they are, a spec and a seed each."""
    return sum(len(seeds) for _, seeds in runs)


def runs_of(runs: Runs) -> str:
    """The same in words."""
    return f"{count(runs):,} run{'s' * (count(runs) != 1)}"


def time_needed(runs: Runs, gpus: int | None = None, together: bool = False) -> str:
    """About how long they take here, or on so many GPUs, from rates that were measured elsewhere."""
    if gpus is None and any(isinstance(spec, DeepSpec) for spec, _ in runs):
        import jax  # noqa: PLC0415  (it takes a while to load)

        gpus = int(jax.default_backend() == "gpu")
    alone, shared, compiled = [0.0], 0.0, set()
    for spec, seeds in runs:
        if isinstance(spec, TabularSpec):
            work = spec.episodes // (1 if spec.until_return is None else 20)  # most stop long before
            alone += [work / EPISODES_A_SECOND.get(spec.agent, EPISODES_A_SECOND["delayed"])] * len(seeds)
            continue
        kind = spec.env.removeprefix("noisy-"), spec.preset, *(() if gpus or together else (spec.agent, spec.delay))
        compiling = COMPILED_IN_SECONDS * (kind not in compiled)
        compiled.add(kind)
        if gpus and spec.atari:
            shared += len(seeds) * spec.length / STEPS_A_SECOND["atari-gpu"]
        elif gpus and not spec.outside:
            shared += compiling + len(seeds) * spec.length / STEPS_A_SECOND["gpu"]
        else:
            each = spec.length / STEPS_A_SECOND["atari" if spec.atari else spec.preset]
            alone += [compiling + each, *[each] * (len(seeds) - 1)]
    seconds = shared / (gpus or 1) + max(*alone, sum(alone) / cores())
    unit, name = next((unit, name) for unit, name in ((3600, "h"), (60, "min"), (1, "s")) if seconds >= unit or unit == 1)
    return f"{seconds / unit:,.0f} {name}" if seconds >= 10 * unit else f"{seconds / unit:.2g} {name}"


def found(experiment: Experiment, root: Path) -> Results | None:
    """Its results from records alone, with the seeds that all its runs have; nothing if there is no such seed."""
    if experiment.in_part:
        there = {key: spec for key, spec in experiment.runs.items() if records.exists(root / spec.name)}
        recorded = {key: records.read(root / spec.name) for key, spec in there.items()}
        return {
            key: Result(record.rows([seed for seed in record.seeds if seed in experiment.seeds]))
            for key, record in recorded.items()
            if {*record.seeds} & {*experiment.seeds}
        } or None
    known: dict[str, Record] = {}
    for spec in experiment.runs.values():
        if spec.name not in known:
            if not records.exists(root / spec.name):
                return None
            known[spec.name] = records.read(root / spec.name)
    seeds = [seed for seed in experiment.seeds if all(seed in record.seeds for record in known.values())]
    return {key: Result(known[spec.name].rows(seeds)) for key, spec in experiment.runs.items()} if seeds else None


def train_missing(
    runs: Iterable[tuple[Spec, Sequence[int]]],
    root: Path,
    where: Where | None = None,
    store: Store | None = None,
    begin: Callable[[], None] = lambda: None,
) -> int:
    """Train and record what is not recorded yet, where it is to be done; returns how many runs could not be.

    `begin` is called when nothing is in the way of doing so.
    """
    from deadtime.experiments import driver  # noqa: PLC0415  (it is not needed to look at records)

    wanted, where = list(runs), where or Where()
    driver.check(where)
    if not missing(wanted, root) and not driver.said_failed(root, store):
        begin()
        return 0
    with alone(root) if store is None else store.driven(root):
        if store is not None:  # what another driver has put there until now
            store.pull(root)
        begin()
        driver.finish_writing(root, store)
        left = missing(wanted, root)
        for spec, seeds in left:
            if isinstance(spec, TabularSpec):
                check_workers(spec, len(seeds), keep_policies=False)
        return driver.run(left, root, where, store)


def train_tiny(runs: Iterable[tuple[Spec, Sequence[int]]], root: Path) -> None:
    """Train and record runs that hardly train, in this process: those that can share a program do, compiled with less care."""
    left = missing(runs, root)
    Console(stderr=True, emoji=False).print(f"{runs_of(left)} to do, about {time_needed(left, together=True)}", highlight=False)
    record_together([(spec, seeds) for spec, seeds in left if isinstance(spec, DeepSpec)], root, True)
    for spec, seeds in left:
        if isinstance(spec, TabularSpec):
            train_recorded(spec, seeds, root, keep_policies=False, progress=lambda n: None)
