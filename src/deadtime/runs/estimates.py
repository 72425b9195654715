"""Estimates of how long runs take."""

from __future__ import annotations

from deadtime._support.ending import uninterrupted
from deadtime._support.machine import cores
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runs.wanted import Runs

TABULAR_STEPS_A_SECOND = {"delayed": 25e6, "augmented": 3e6, "mbs": 3e6, "distribution": 0.7e6}
"""By agent, on one core, every episode counted as long as it may be; other agents as delayed."""
STEPS_A_SECOND = {"paper": 12_000, "best": 2_500, "atari": 45, "atari-gpu": 3_000}
"""Steps of deep agents, by preset, on one core; on a GPU only those of Atari."""
GPU_SECONDS_A_STEP = {"paper": (1.4e-4, 1.2e-7), "best": (5.5e-4, 9e-7)}
"""Seconds of a step of all runs that share a program on a GPU: a fixed part, and one for each."""
COMPILED_IN_SECONDS = 15
STARTED_IN_SECONDS = 5
# The rates are rounded from the records in `results`: the sum of `seconds` in their run.json, by
# device, preset and environment. `test_estimates_agree_with_the_records` compares the two. On a GPU
# a step is a chain of small kernels: its time hardly depends on how many runs share it. Preset best
# on CartPole was recorded on an H200 whose machine had other work: 600 runs took 634 s, and 222 s
# when they had it alone. Preset paper on a CPU was recorded with the simulator as the model and
# every core busy: 5,200 steps a second, where a core that is left alone and learns its model does
# 22,000 (docs/benchmarks.md). Both rates lie between the two.


def time_needed(runs: Runs, gpus: int | None = None, together: bool = False) -> str:
    """Say about how long runs take here, or on so many GPUs.

    `together` is for runs that share programs on a CPU too.
    """
    if gpus is None and any(isinstance(spec, DeepSpec) for spec, _ in runs):
        with uninterrupted():
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
        elif gpus and spec.family.frames:
            shared.append(len(seeds) * spec.length / STEPS_A_SECOND["atari-gpu"])
        elif not gpus or spec.outside:
            own = () if together else (spec.agent, spec.delay)
            kind = spec.family.name, spec.preset, *own
            each = spec.length / STEPS_A_SECOND["atari" if spec.family.frames else spec.preset]
            first = each + COMPILED_IN_SECONDS * (kind not in compiled)
            alone += [first, *[each] * (len(seeds) - 1)]
            compiled.add(kind)
    on_gpus = max(*shared, sum(shared) / (gpus or 1))
    return STARTED_IN_SECONDS + on_gpus + max(*alone, sum(alone) / cores())


def _seconds_of_groups(runs: Runs) -> list[float]:
    """Estimate the seconds that each group of runs takes which shares a program on a GPU."""
    with uninterrupted():
        from deadtime.learn import compiled_groups  # noqa: PLC0415  (JAX takes a while to load)

    specs = [(one, seeds) for one, seeds in runs if isinstance(one, DeepSpec) and not one.outside]
    inside = [(spec, seed) for spec, seeds in specs for seed in seeds]
    seconds = [0.0]
    for _, pairs in compiled_groups.parts_of(inside, "gpu"):
        first, each = GPU_SECONDS_A_STEP[pairs[0][0].preset]
        longest = max(spec.length for spec, _ in pairs)
        seconds.append(COMPILED_IN_SECONDS + longest * (first + each * len(pairs)))
    return seconds
