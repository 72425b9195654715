"""Estimates of how long runs take."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from deadtime._support.ending import uninterrupted
from deadtime._support.machine import cores
from deadtime._support.progress import about
from deadtime.learn import tabular_q
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runs.units import SEEDS_A_UNIT
from deadtime.runs.wanted import Runs
from deadtime.runtime.views import VIEWS

TABULAR_STEPS_A_SECOND = {"delayed": 25e6, "augmented": 3e6, "mbs": 3e6, "distribution": 0.7e6}
"""Steps per second of each agent on one core, with episodes of full length. Other agents count as
`delayed`."""
GPU_SECONDS_A_STEP = {"paper": (1.4e-4, 1.2e-7), "best": (5.5e-4, 9e-7)}
"""Seconds of a step of all runs that share a program on a GPU: a fixed part, and one per run."""
GPU_SECONDS_A_TURN = (1.6e-3, 1.0e-5)
"""Seconds of a turn of runs on numbers that share a GPU while their environments are outside: a
fixed part, and one per environment. Measured with SAC on HalfCheetah, 16 cores, 32 to 128 runs."""
ATARI_SECONDS_A_TURN = 2.5e-3
"""Seconds of a turn of Atari runs that share a GPU: choosing, and what one process does between."""
ATARI_CORE_SECONDS = 1.1e-3, 7e-4
"""Seconds of one core for a step of a game, four frames, and for each further one to look ahead."""
ATARI_EPISODE = 2_000
"""Steps of the longest episode of an evaluation, about."""
STARTED_IN_SECONDS = {"tabular": 1.2, "deep": 3.5}
"""Seconds until a process has imported what it needs."""
COMPILED_IN_SECONDS = {"tabular": 12.0, "compiled": 8.0, "host": 4.5, "atari": 60.0}
"""Seconds to compile tabular learning, once, or one program of deep agents, by its loop.

Those of "atari" are on a GPU."""
LOADED_IN_SECONDS = {"tabular": 0.0, "deep": 1.0}
"""Seconds to load a compiled program from the cache."""
DRAWN_IN_SECONDS = 0.8
"""Seconds to draw a figure and write its numbers."""
# `test_estimates_agree_with_the_records` compares estimates with the sum of `seconds` in the
# records' run.json, by device, preset and environment. On a GPU a step is a chain of small kernels:
# its time hardly depends on how many runs share it. Preset best on CartPole was recorded on an H200
# whose machine had other work: 600 runs took 634 s, and 222 s when they had it alone. The rates of
# Atari are those of docs/benchmarks.md.


def time_needed(runs: Runs, gpus: int | None = None, figures: int = 0) -> str:
    """Return the estimated time of runs in words, on this machine or on a number of GPUs."""
    gpus = _gpus(runs) if gpus is None else gpus
    return about(seconds_needed(runs, gpus, figures=figures))


def fitting(runs: Runs, seconds: float) -> Runs:
    """Return the first runs that take no longer than `seconds` here, and at least one."""
    gpus = _gpus(runs)
    counts = range(1, len(runs) + 1)
    most = bisect_right(counts, seconds, key=lambda n: seconds_needed(runs[:n], gpus))
    return runs[: max(most, 1)]


def _gpus(runs: Runs) -> int:
    """Return 1 if deep agents are trained on a GPU here, else 0."""
    if not any(isinstance(spec, DeepSpec) for spec, _ in runs):
        return 0
    with uninterrupted():
        import jax  # noqa: PLC0415  (it takes a while to load)

    return int(jax.default_backend() == "gpu")


def seconds_needed(
    runs: Runs,
    gpus: int,
    together: bool = False,
    figures: int = 0,
    workers: bool | None = None,
) -> float:
    """Estimate the seconds that runs take on this machine's cores and a number of GPUs.

    `together` is for runs that share programs on a CPU too, and `figures` is the number of figures
    that are drawn from the runs. `workers` tells whether other processes train them; by default
    they do if there is more than one unit.
    """
    drawing = DRAWN_IN_SECONDS * figures
    if not runs:
        return drawing
    kinds = {"tabular" if isinstance(spec, TabularSpec) else "deep" for spec, _ in runs}
    alone = [_tabular_compile_seconds() if "tabular" in kinds else 0.0]
    shared = _seconds_of_groups(runs) if gpus else [0.0]
    on_cores: list[tuple[DeepSpec, int]] = []
    units = 0
    for spec, seeds in runs:
        if isinstance(spec, TabularSpec):
            alone += [_tabular_seconds(spec)] * len(seeds)
            units += ceil(len(seeds) / SEEDS_A_UNIT)
        elif not gpus or not _shares_gpu(spec):
            on_cores.append((spec, len(seeds)))
            units += len(seeds)
    alone += _seconds_on_cores(on_cores, together)
    on_gpus = max(*shared, sum(shared) / (gpus or 1))
    start = max(STARTED_IN_SECONDS[kind] for kind in kinds)
    others = units > 1 and not together if workers is None else workers
    starts = 2 if others else 1  # the driver starts before its workers
    return starts * start + on_gpus + max(*alone, sum(alone) / cores()) + drawing


def _tabular_seconds(spec: TabularSpec) -> float:
    """Estimate the seconds of one seed of a tabular spec."""
    part = 1 if spec.until_return is None else 1 / 20  # most stop long before
    rate = TABULAR_STEPS_A_SECOND.get(spec.agent, TABULAR_STEPS_A_SECOND["delayed"])
    return part * spec.episodes * spec.environment(0).finite().max_steps / rate


def _tabular_compile_seconds() -> float:
    """Estimate the seconds to compile tabular learning, unless this machine has compiled it."""
    folder = os.environ.get("NUMBA_CACHE_DIR") or Path(tabular_q.__file__).parent
    found = any(Path(folder).rglob("tabular_q.*.nbi"))
    return (LOADED_IN_SECONDS if found else COMPILED_IN_SECONDS)["tabular"]


def _seconds_on_cores(specs: list[tuple[DeepSpec, int]], together: bool) -> list[float]:
    """Estimate the seconds of each deep run on one core, given specs and numbers of seeds.

    The first run of a program also compiles it, or loads it from the cache.
    """
    if not specs:
        return []
    with uninterrupted():
        from deadtime.learn import compiled_groups, host_programs, memory  # noqa: PLC0415  (JAX)
        from deadtime.runs.core_seconds import deep_seconds  # noqa: PLC0415

    known = set()
    found = []
    for spec, seeds in specs:
        programs = host_programs if spec.outside else compiled_groups
        program = programs.program_of(spec, "gpu" if together else "cpu")
        found += [deep_seconds(spec, program)] * seeds
        if program not in known:
            there = memory.has_compiled(program)
            new = COMPILED_IN_SECONDS[spec.family.loop]
            found[-1] += LOADED_IN_SECONDS["deep"] if there else new
            known.add(program)
    return found


def _shares_gpu(spec: DeepSpec) -> bool:
    """Return whether runs of a spec are trained beside each other on a GPU."""
    with uninterrupted():
        from deadtime.learn.host_programs import trains_together  # noqa: PLC0415  (JAX)

    return not spec.outside or trains_together(spec, "gpu")


def _seconds_of_groups(runs: Runs) -> list[float]:
    """Estimate the seconds of each part of runs that is trained at a time on a GPU."""
    with uninterrupted():
        from deadtime.learn import compiled_groups, host_groups  # noqa: PLC0415  (JAX)

    specs = [(spec, seeds) for spec, seeds in runs if isinstance(spec, DeepSpec)]
    pairs = [(spec, seed) for spec, seeds in specs if _shares_gpu(spec) for seed in seeds]
    seconds = [0.0]
    inside = [pair for pair in pairs if not pair[0].outside]
    for _, part in compiled_groups.parts_of(inside, "gpu"):
        first, each = GPU_SECONDS_A_STEP[part[0][0].preset]
        longest = max(spec.length for spec, _ in part)
        seconds.append(COMPILED_IN_SECONDS["compiled"] + longest * (first + each * len(part)))
    first, each = GPU_SECONDS_A_TURN
    outside = [pair for pair in pairs if pair[0].outside and not pair[0].frames]
    for _, group in host_groups.programs_of(outside, "gpu"):
        spec = group[0][0]
        turn = first + each * spec.envs * len(group)
        seconds.append(COMPILED_IN_SECONDS["host"] + spec.length / spec.envs * turn)
    frames = [pair for pair in pairs if pair[0].frames]
    seconds += [
        _atari_seconds([spec for spec, _ in p]) for p in host_groups.parts_of(frames, "gpu")
    ]
    return seconds


def _atari_seconds(specs: Sequence[DeepSpec]) -> float:
    """Estimate the seconds of Atari runs that are trained at a time on a GPU and all cores."""
    first = specs[0]
    step, further = ATARI_CORE_SECONDS
    game = sum(step + further * _further_steps(spec) for spec in specs) / cores()
    turns = first.length / first.envs
    seconds = turns * (ATARI_SECONDS_A_TURN + first.envs * game)
    episodes = max(spec.evaluation_episodes for spec in specs)
    seconds += ATARI_EPISODE * (ATARI_SECONDS_A_TURN + episodes * game)
    return COMPILED_IN_SECONDS["atari"] + seconds


def _further_steps(spec: DeepSpec) -> int:
    """Return the emulator steps of a decision that only look ahead.

    Without sticky actions there are none, since what is predicted comes true. With them, the queue
    is played again at each decision, unless its path is kept.
    """
    if not VIEWS[spec.agent].predicts or not spec.environment(0).sticky:
        return 0
    return 1 if spec.learner.model == "kept" else spec.delay
