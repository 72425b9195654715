"""Atari: the pool of emulators beside ale-py's vector environment, look-ahead, and training.

    python benchmarks/atari.py [SECONDS]

Each line is a rate or a ratio of rates measured in turns in one run, on all cores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from statistics import median
from time import perf_counter

import jax
import numpy as np
from ale_py.vector_env import AtariVectorEnv

from deadtime.envs.atari import AtariPool, Game
from deadtime.learn import Group, groups_of
from deadtime.runs import make_spec

CORES = os.cpu_count() or 1
LANES = 4 * CORES
GAME = "MsPacman"
DELAYS = (1, 5, 15, 25)


def rate(
    step: Callable[[np.ndarray], object],
    seconds: float,
    rng: np.random.Generator,
    lanes: int = LANES,
) -> float:
    """Return the agent steps a second of random actions."""
    steps = 0
    begin = perf_counter()
    while perf_counter() - begin < seconds:
        step(rng.integers(0, 9, lanes))
        steps += lanes
    return steps / (perf_counter() - begin)


def playing(seconds: float) -> float:
    """Time our pool and ale-py's in turns; return ale-py's rate."""
    rng = np.random.default_rng(0)
    theirs = AtariVectorEnv("ms_pacman", LANES, num_threads=CORES, repeat_action_probability=0.0)
    theirs.reset(seed=0)
    with closing(AtariPool([Game(GAME, sticky=0.0, seed=i) for i in range(LANES)])) as pool:
        pool.reset()
        pairs = [(rate(pool.step, seconds, rng), rate(theirs.step, seconds, rng)) for _ in range(3)]
    ratio = median(ours / other for ours, other in pairs)
    other = median(other for _, other in pairs)
    what = f"pool / ale-py's vector environment, {LANES} games on {CORES} cores"
    print(f"{what}: {ratio:.2f} ({other:,.0f} steps/s)", flush=True)
    return other


def looking(seconds: float) -> None:
    """Print the emulator steps a decision, without stickiness."""
    rng = np.random.default_rng(0)
    for delay in DELAYS:
        with closing(
            AtariPool([Game(GAME, delay, 0.0, "fresh", seed=i) for i in range(LANES)])
        ) as pool:
            pool.reset()
            decisions = 0
            before = pool.emulated
            begin = perf_counter()
            while perf_counter() - begin < seconds:
                pool.step(rng.integers(0, 9, LANES))
                decisions += LANES
            took = perf_counter() - begin
            each = (pool.emulated - before) / decisions
        print(
            f"look-ahead, m = {delay}: {each:.2f} emulator steps a decision, "
            f"{decisions / took:,.0f} decisions/s",
            flush=True,
        )


def training(seconds: float, runs: int, agent: str, peer: float) -> None:
    """Print the agent steps a second of several runs at once, an update every 4 of them."""
    settings = {"preset": "paper", "learning_starts": 2000, "buffer_size": 20_000}
    spec = make_spec(f"atari:{GAME}", agent, 5, settings)
    groups = groups_of([(spec, seed) for seed in range(runs)], jax.default_backend())
    for group in groups:
        group.begin()

    def play(group: Group, until: Callable[[], bool]) -> int:
        first = group.done
        while not until():
            group.advance()
        return len(group.pairs) * (group.done - first)

    with ThreadPoolExecutor(len(groups)) as threads:
        for group in groups:
            play(group, lambda group=group: group.done >= 2400)
        begin = perf_counter()
        made = sum(
            threads.map(lambda group: play(group, lambda: perf_counter() - begin > seconds), groups)
        )
        rate = made / (perf_counter() - begin)
    for group in groups:
        group.close()
    print(
        f"training, {runs} {agent} runs of {spec.envs} games: {rate:,.0f} steps/s, "
        f"{rate / peer:.2f} of ale-py's alone",
        flush=True,
    )


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    print(f"{jax.devices()[0].device_kind}, {CORES} cores", flush=True)
    peer = playing(seconds)
    looking(seconds / 2)
    for runs in (1, 4, 8, 16) if jax.default_backend() == "gpu" else (1,):
        training(seconds, runs, "oblivious", peer)
    training(seconds, 8 if jax.default_backend() == "gpu" else 1, "delayed", peer)


if __name__ == "__main__":
    main()
