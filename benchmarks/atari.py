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
from deadtime.learn import host_loop
from deadtime.learn.host_loop import HostGroup
from deadtime.learn.host_turn import Turn
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
    groups = host_loop.groups_of([(spec, seed) for seed in range(runs)], jax.default_backend())
    for group in groups:
        group.begin()

    def play(group: HostGroup, until: Callable[[], bool]) -> int:
        first = group.done
        while not until():
            group.advance()
        jax.block_until_ready(group._state)
        return len(group.pairs) * (group.done - first)

    with ThreadPoolExecutor(len(groups)) as threads:
        for group in groups:
            play(group, lambda group=group: group.done >= 2400)
        begin = perf_counter()
        made = sum(
            threads.map(lambda group: play(group, lambda: perf_counter() - begin > seconds), groups)
        )
        rate = made / (perf_counter() - begin)
    parts = alone(groups[0])
    for group in groups:
        group.close()
    print(
        f"training, {runs} {agent} runs of {spec.envs} games: {rate:,.0f} steps/s, "
        f"{rate / peer:.2f} of ale-py's alone; "
        f"alone, a turn of the first of {len(groups)} groups would play {parts[0]:.1f} ms, "
        f"choose {parts[1]:.1f} ms, learn {parts[2]:.1f} ms",
        flush=True,
    )


def alone(group: HostGroup, repeats: int = 20) -> list[float]:
    """Return the milliseconds of each part of a turn when nothing else runs."""
    learner = group._learner
    pool = group._pool

    def choose() -> np.ndarray:
        return np.asarray(
            learner.choose(group.program, group._setups, group._state, group._seen, group.done)[0]
        )

    def learn() -> None:
        index = group.done // group.program.lanes
        turn = Turn(group._seen, group._seen.executed, group._looked(pool.receive()))
        group._state = learner.learn(group.program, group._setups, group._state, turn, index)
        jax.block_until_ready(group._state)

    actions = choose().ravel()
    found = []
    for part in (lambda: pool.step(actions), choose, learn):
        begin = perf_counter()
        for _ in range(repeats):
            part()
        found.append(1e3 * (perf_counter() - begin) / repeats)
    return found


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
