"""Run what experiments need and is not recorded yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from deadtime.experiments import records
from deadtime.experiments.deep_specs import DeepSpec
from deadtime.experiments.driven import alone
from deadtime.experiments.records import Record
from deadtime.experiments.specs import TabularSpec
from deadtime.experiments.store import Store
from deadtime.machine import cores
from deadtime.pictures import mark_picture
from deadtime.terminal import console
from deadtime.training.result import Result, Spec, record_together, train_recorded
from deadtime.training.tabular import check_workers

Results = dict[Any, Result]
Runs = Sequence[tuple[Spec, Sequence[int]]]

TABULAR_STEPS_A_SECOND = {"delayed": 25e6, "augmented": 3e6, "mbs": 3e6, "distribution": 0.7e6}
"""By agent, on one core, every episode counted as long as it may be; other agents as delayed."""
STEPS_A_SECOND = {"paper": 20_000, "best": 2_500, "atari": 45, "atari-gpu": 3_000}
"""Steps of deep agents, by preset, on one core; on a GPU only those of Atari."""
GPU_SECONDS_A_STEP = {"paper": (1.4e-4, 1.2e-7), "best": (5.5e-4, 9e-7)}
"""Seconds of a step of all runs that share a program on a GPU: a fixed part, and one for each."""
COMPILED_IN_SECONDS = 15
STARTED_IN_SECONDS = 5
# The rates are rounded from the records in `results`: the sum of `seconds` in their run.json, by
# device, preset and environment. `test_estimates_agree_with_the_records` compares the two. On a GPU
# a step is a chain of small kernels: its time hardly depends on how many runs share it. Preset best
# on CartPole was recorded on an H200 that also trained Atari: 600 runs took 939 s, and 222 s when
# they had it alone. Its rate lies between the two.
SMOKE = "smoke test: hardly trained"
"""What figures of `Experiment.tiny` carry."""
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
        """Return the experiment with one seed that hardly learns, to see that everything runs.

        Its figure says so, unless it shows exact numbers alone. It has only a part of an experiment
        that is shown in part.
        """

        def draw(results: Results, root: Path) -> Path:
            return mark_picture(self.draw(results, root), SMOKE)

        chosen = islice(self.runs.items(), _TINY_PART if self.in_part else None)
        little = {key: _little(spec) for key, spec in chosen}
        drawn = draw if self.runs else self.draw
        return replace(self, runs=little, seeds=self.seeds[:1], draw=drawn)

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
    """Count the runs, a spec and a seed each."""
    return sum(len(seeds) for _, seeds in runs)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 run, 2 runs."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def time_needed(runs: Runs, gpus: int | None = None, together: bool = False) -> str:
    """Say about how long runs take here, or on so many GPUs.

    `together` is for runs that share programs on a CPU too.
    """
    if gpus is None and any(isinstance(spec, DeepSpec) for spec, _ in runs):
        import jax  # noqa: PLC0415  (it takes a while to load)

        gpus = int(jax.default_backend() == "gpu")
    seconds = seconds_needed(runs, gpus or 0, together)
    if seconds < 30:
        return "under a minute"
    unit, name = (3600, "h") if seconds >= 3600 else (60, "min") if seconds >= 60 else (1, "s")
    number = seconds / unit
    return f"about {number:,.0f} {name}" if number >= 10 else f"about {number:.2g} {name}"


def seconds_needed(runs: Runs, gpus: int, together: bool = False) -> float:
    """Estimate the seconds that runs take on this machine's cores and so many GPUs."""
    alone, compiled = [0.0], set()
    shared = _seconds_of_groups(runs) if gpus else [0.0]
    for spec, seeds in runs:
        if isinstance(spec, TabularSpec):
            part = 1 if spec.until_return is None else 1 / 20  # most stop long before
            rate = TABULAR_STEPS_A_SECOND.get(spec.agent, TABULAR_STEPS_A_SECOND["delayed"])
            longest = spec.environment(0).finite().max_steps
            alone += [part * spec.episodes * longest / rate] * len(seeds)
        elif gpus and spec.atari:
            shared.append(len(seeds) * spec.length / STEPS_A_SECOND["atari-gpu"])
        elif not gpus or spec.outside:
            own = () if together else (spec.agent, spec.delay)
            kind = spec.env.removeprefix("noisy-"), spec.preset, *own
            each = spec.length / STEPS_A_SECOND["atari" if spec.atari else spec.preset]
            first = each + COMPILED_IN_SECONDS * (kind not in compiled)
            alone += [first, *[each] * (len(seeds) - 1)]
            compiled.add(kind)
    on_gpus = max(*shared, sum(shared) / (gpus or 1))
    return STARTED_IN_SECONDS + on_gpus + max(*alone, sum(alone) / cores())


def _seconds_of_groups(runs: Runs) -> list[float]:
    """Estimate the seconds that each group of runs takes which shares a program on a GPU."""
    from deadtime.training import deep  # noqa: PLC0415  (JAX takes a while to load)

    specs = [(one, seeds) for one, seeds in runs if isinstance(one, DeepSpec) and not one.outside]
    inside = [(spec, seed) for spec, seeds in specs for seed in seeds]
    seconds = [0.0]
    for _, pairs in deep.groups_of(inside, "gpu"):
        first, each = GPU_SECONDS_A_STEP[pairs[0][0].preset]
        longest = max(spec.length for spec, _ in pairs)
        seconds.append(COMPILED_IN_SECONDS + longest * (first + each * len(pairs)))
    return seconds


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
    console(stderr=True).print(f"{counted(count(left), 'run')} to do, {time_needed(left, together=True)}")
    record_together([(spec, seeds) for spec, seeds in left if isinstance(spec, DeepSpec)], root, True)
    for spec, seeds in left:
        if isinstance(spec, TabularSpec):
            train_recorded(spec, seeds, root, keep_policies=False, progress=lambda n: None)
