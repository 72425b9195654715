"""Engines: a sweep of independent runs in this process, in processes of this machine and on Ray, in turns.

    python benchmarks/engines.py [RUNS]

First few long runs, where what counts is how many cores work; then RUNS (1,000) that hardly train, where what counts is what
an engine costs a run. Each line is a ratio, or a time, measured in one go on the same machine.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.engines import ENGINES
from deadtime.runs.runner import train_missing
from deadtime.runs.specs import Spec
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runs.where import Where

LONG = DeepSpec("cartpole", "delayed", 3, "paper", 80_000)
TINY = [
    TabularSpec("maze", "delayed", 1, 5, {"size": 3, "maze_seed": seed}, evaluation_episodes=1)
    for seed in range(1000)
]


def seconds(runs: Sequence[tuple[Spec, Sequence[int]]], engine: str) -> float:
    """How long a sweep takes, processes and a cluster of its own included."""
    with tempfile.TemporaryDirectory() as folder:
        begin = perf_counter()
        assert train_missing(runs, Path(folder), Where(engine)) == 0
        return perf_counter() - begin


def main() -> None:
    """Print what was measured."""
    import ray

    many = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    ray.init(
        include_dashboard=False, log_to_driver=False, configure_logging=False
    )  # a cluster that stands, as on a real one
    long = [(LONG, range(8))]
    for engine in ENGINES:
        seconds([(LONG, [0, 1])], engine)  # whatever is compiled is kept on disk
    took = [{engine: seconds(long, engine) for engine in ENGINES} for _ in range(2)]
    ratio = median(one["inline"] / one["local"] for one in took)
    print(
        f"8 runs of {LONG.steps:,} steps: inline took {ratio:.2f} times as long as local",
        flush=True,
    )
    ratio = median(one["ray"] / one["local"] for one in took)
    print(f"the same: ray took {ratio:.2f} times as long as local", flush=True)
    small = [(spec, [0]) for spec in TINY[:many]]
    for engine in ENGINES:
        took_all = seconds(small, engine)
        print(
            f"{many:,} runs that hardly train, {engine}: {1e3 * took_all / many:.1f} ms each in all",
            flush=True,
        )


if __name__ == "__main__":
    main()
