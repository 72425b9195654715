"""Engines: a sweep of independent runs in this process, in local processes and on Ray, in turns.

    python benchmarks/engines.py [RUNS]

First come a few long runs, which show how many cores work. Then come RUNS (1,000) runs that hardly
train, which show what an engine costs a run. Each line is a ratio, or a time, measured in one go on
the same machine.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from deadtime.runs import ENGINES, Where, make_spec, train_missing

LONG = make_spec("cartpole", "delayed", 3, {"preset": "paper", "steps": 80_000})
TINY = {"size": 3, "episodes": 5, "evaluation_episodes": 1}


def seconds(runs: Sequence[tuple], engine: str) -> float:
    """Return the seconds of a sweep, with the start of its processes or cluster."""
    with tempfile.TemporaryDirectory() as folder:
        begin = perf_counter()
        assert train_missing(runs, Path(folder), Where(engine)) == 0
        return perf_counter() - begin


def main() -> None:
    """Measure, and print the results."""
    import ray

    many = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    # As on a real cluster, Ray runs before the sweep starts.
    ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    long = [(LONG, range(8))]
    for engine in ENGINES:
        seconds([(LONG, [0, 1])], engine)  # compiled programs are kept on disk
    took = [{engine: seconds(long, engine) for engine in ENGINES} for _ in range(2)]
    ratio = median(one["inline"] / one["local"] for one in took)
    print(
        f"8 runs of {LONG.length:,} steps: inline took {ratio:.2f} times as long as local",
        flush=True,
    )
    ratio = median(one["ray"] / one["local"] for one in took)
    print(f"the same: ray took {ratio:.2f} times as long as local", flush=True)
    settings = (TINY | {"maze_seed": seed} for seed in range(many))
    small = [(make_spec("maze", "delayed", 1, given), [0]) for given in settings]
    for engine in ENGINES:
        took_all = seconds(small, engine)
        print(
            f"{many:,} runs that hardly train, {engine}: "
            f"{1e3 * took_all / many:.1f} ms each in all",
            flush=True,
        )


if __name__ == "__main__":
    main()
