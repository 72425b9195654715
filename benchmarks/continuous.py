"""Continuous control on HalfCheetah-v5: SAC and the pool of processes beside others' of their kind.

    python benchmarks/continuous.py [learners | pools | runs] [SECONDS]

- `learners`: steps a second of our SAC, sbx's and Stable-Baselines3's, each in a process of its own
  on one core. They have two layers of 256, batches of 256 and one update a step. Seconds are of the
  processor, so other programs on the machine change little.
- `pools`: steps a second of 64 environments in our pool, in EnvPool and in `AsyncVectorEnv`: on all
  cores of this process, if they are kept busy (processor time), and by the clock.
- `runs`: run-steps a second of 1 to 128 runs that are trained together, and what bounds them. This
  is for a GPU.

Without a word it is `runs` on a GPU, otherwise the other two. A rate is a median over rounds, in
which the sides take turns. Peers that are not installed are left out:
`pip install sbx-rl stable-baselines3 envpool`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import gymnasium as gym
import jax
import numpy as np

from deadtime.envs import Lane, family_of, make
from deadtime.learn import groups_of
from deadtime.runs import make_spec

TASK = "HalfCheetah-v5"
ENV = f"gym:{TASK}"
ROUNDS = 7
SERVE = "serve"
"""The word with which this file starts its own processes."""
RUNS = tuple(map(int, os.environ.get("RUNS", "1 32 64 128").split()))
ENVIRONMENTS = 64
RANDOM_STEPS = 300
"""The steps before the first update; they are not timed."""
FEW_STEPS = 150
PEERS = {"sbx": "sbx", "Stable-Baselines3": "stable_baselines3"}

Rate = Callable[[], float]
"""A function that times one round and returns its rate."""


def spec_of(agent: str, delay: int) -> Any:
    """Return a run with SAC's settings, long enough for every round."""
    return make_spec(ENV, agent, delay, {"steps": 100_000, "random_steps": RANDOM_STEPS})


def cores() -> int:
    """Return the number of cores of this process."""
    return len(os.sched_getaffinity(0))


# SAC on one core


def ours(agent: str, delay: int) -> Rate:
    """Return the rate of our SAC after its random steps."""
    (group,) = groups_of([(spec_of(agent, delay), 0)], "cpu")
    context = group.device()
    context.__enter__()  # for as long as this process lives
    group.begin()

    def steps(count: int) -> None:
        until = group.done + count
        while group.done < until:
            group._step()
        jax.block_until_ready(group._state)

    steps(RANDOM_STEPS + FEW_STEPS)
    return lambda: timed(steps)


def peer(module: str) -> Rate:
    """Return the rate of another library's SAC after its random steps."""
    if module == "sbx":
        from sbx import SAC
    else:
        import torch
        from stable_baselines3 import SAC

        torch.set_num_threads(1)
    how = {"learning_starts": RANDOM_STEPS, "batch_size": 256, "buffer_size": 100_000}
    model = SAC("MlpPolicy", gym.make(TASK), train_freq=1, gradient_steps=1, **how)
    model.learn(RANDOM_STEPS + FEW_STEPS)
    return lambda: timed(partial(model.learn, reset_num_timesteps=False))


def timed(steps: Callable[[int], object]) -> float:
    """Return the steps a second of the processor."""
    begin = process_time()
    steps(FEW_STEPS)
    return FEW_STEPS / (process_time() - begin)


SIDES: dict[str, Callable[[], Rate]] = {
    "deadtime, m = 0": partial(ours, "augmented", 0),
    "deadtime, projected, m = 5": partial(ours, "projected", 5),
    **{name: partial(peer, module) for name, module in PEERS.items() if find_spec(module)},
}


def serve(name: str, core: int) -> None:
    """Print the rate of a round for each line of the input, on one core."""
    os.sched_setaffinity(0, {core})
    rate = SIDES[name]()
    for _ in sys.stdin:
        print(rate(), flush=True)


class Child:
    """One side in a process of its own."""

    def __init__(self, name: str, core: int):
        """Start the process."""
        command = [sys.executable, __file__, SERVE, name, str(core)]
        env = {**os.environ, "NPROC": "1", "JAX_PLATFORMS": "cpu"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)

    def rate(self) -> float:
        """Let it time one round, and return the rate."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def learners(seconds: float) -> None:
    """Compare SAC on one core; rounds have a number of steps, so `seconds` is not used."""
    with ExitStack() as stack:
        core = min(os.sched_getaffinity(0))
        sides = {name: stack.enter_context(closing(Child(name, core))) for name in SIDES}
        report(in_turn({name: side.rate for name, side in sides.items()}), "sbx")


# pools


def pools(seconds: float) -> None:
    """Compare 64 environments with random actions on all cores of this process."""
    actions = np.random.default_rng(0).uniform(-1, 1, (64, ENVIRONMENTS, 6)).astype(np.float32)

    def rate(step: Callable[[np.ndarray], object]) -> float:
        done = 0
        used = processor_seconds()
        begin = perf_counter()
        while perf_counter() - begin < seconds:
            step(actions[done % len(actions)])
            done += 1
        waited[len(waited)] = done * ENVIRONMENTS / (perf_counter() - begin)
        return done * ENVIRONMENTS * cores() / (processor_seconds() - used)

    waited: dict[int, float] = {}

    with ExitStack() as stack:
        sides = {}
        for m in (0, 5):
            lanes = [Lane(make(ENV), m, seed) for seed in range(ENVIRONMENTS)]
            pool = family_of(ENV).pool(lanes, ENV)
            stack.enter_context(closing(pool)).reset()
            sides[f"pool, m = {m}"] = partial(rate, pool.step)
        if find_spec("envpool"):
            import envpool

            threads = cores()
            theirs = envpool.make_gymnasium(TASK, num_envs=ENVIRONMENTS, num_threads=threads)
            theirs.reset()
            sides["EnvPool"] = partial(rate, theirs.step)
        one = partial(gym.make, TASK)
        others = stack.enter_context(closing(gym.vector.AsyncVectorEnv([one] * ENVIRONMENTS)))
        others.reset(seed=0)
        sides["AsyncVectorEnv"] = partial(rate, others.step)
        rates = in_turn(sides)
        report(rates, *(name for name in ("EnvPool", "AsyncVectorEnv") if name in sides))
        clock = list(waited.values())
        for i, name in enumerate(sides):
            print(f"by the clock, {name}: {median(clock[i :: len(sides)]):,.0f} steps/s")


def processor_seconds() -> float:
    """Return the processor time of this process and of all processes below it (Linux)."""
    parents, ticks = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            parents[int(file.parent.name)] = int(fields[1])
            ticks[int(file.parent.name)] = int(fields[11]) + int(fields[12])

    def below(one: int) -> bool:
        while one in parents and one != os.getpid():
            one = parents[one]
        return one == os.getpid()

    return sum(ticks[one] for one in parents if below(one)) / os.sysconf("SC_CLK_TCK")


def in_turn(sides: dict[str, Rate]) -> dict[str, list[float]]:
    """Return the rates of each side, timed in turn."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, rate in sides.items():
            rates[name].append(rate())
    return rates


def report(rates: dict[str, list[float]], *beside: str) -> None:
    """Print the median rates, and the medians of the ratios to some sides."""
    for name, mine in rates.items():
        pairs = {other: zip(mine, rates[other], strict=True) for other in beside if other in rates}
        ratios = (
            f"{median(a / b for a, b in each):.2f} of {other}'s" for other, each in pairs.items()
        )
        print(f"{name}: {median(mine):,.0f} steps/s; {', '.join(ratios)}", flush=True)


# runs on a GPU


def runs(seconds: float) -> None:
    """Print the rates of runs that are trained together, at m = 5."""
    spec = spec_of("projected", 5)
    for count in RUNS:
        (group,) = groups_of([(spec, seed) for seed in range(count)], "gpu")
        with closing(group):
            group.begin()
            while group.done <= RANDOM_STEPS:
                group._step()
            rate = median(together(group, seconds / 5) for _ in range(5))
            parts = alone(group)
        turn = 1e3 * count / rate
        rest = turn - parts["choose"] - max(parts["learn"], parts["environments"])
        bound = max([*parts, "rest"], key={**parts, "rest": rest}.__getitem__)
        each = ", ".join(f"{name} {ms:.2f} ms" for name, ms in parts.items())
        print(
            f"{count} runs: {rate:,.0f} run-steps/s, {turn:.2f} ms a turn; alone: {each}; "
            f"rest of a turn {rest:.2f} ms; bound by: {bound}",
            flush=True,
        )


def together(group: Any, seconds: float) -> float:
    """Return the run-steps a second."""
    jax.block_until_ready(group._state)
    first = group.done
    begin = perf_counter()
    while perf_counter() - begin < seconds:
        group._step()
    jax.block_until_ready(group._state)
    return len(group.pairs) * (group.done - first) / (perf_counter() - begin)


def alone(group: Any, repeats: int = 50) -> dict[str, float]:
    """Return the milliseconds of each part of a turn when nothing else runs.

    Learning and environments run side by side in a turn. The rest of it is the host's.
    """
    learner, pool = group._learner, group._pool
    about, turn = (group.program, group._setups), group._turn
    played = turn.chosen.reshape(-1, *group.program.action_shape)
    found: dict[str, list[float]] = {"choose": [], "learn": [], "environments": []}

    def choose() -> None:
        now = *about, group._state, group._seen, group.done
        actions, group._state = learner.choose(*now, turn)
        np.asarray(actions)

    def learn() -> None:
        group._state = learner.learn(*about, group._state, turn, group._index)
        jax.block_until_ready(group._state)

    def play() -> None:
        pool.send(played)
        pool.receive()

    for _ in range(repeats):
        for part, each in zip((choose, learn, play), found.values(), strict=True):
            begin = perf_counter()
            part()
            each.append(1e3 * (perf_counter() - begin))
    return {name: median(each) for name, each in found.items()}


def main() -> None:
    """Run what the words ask for."""
    words = sys.argv[1:]
    if words[:1] == [SERVE]:
        serve(words[1], int(words[2]))
        return
    parts = {one.__name__: one for one in (learners, pools, runs)}
    usual = ["runs"] if jax.default_backend() == "gpu" else ["learners", "pools"]
    chosen = [word for word in words if word in parts] or usual
    seconds = next((float(word) for word in words if word not in parts), 5.0)
    print(f"{jax.devices()[0].device_kind}, {cores()} cores, {TASK}", flush=True)
    for part in chosen:
        print(part, flush=True)
        parts[part](seconds)


if __name__ == "__main__":
    main()
