"""Training under a delay that varies against a constant one with the same longest age, 25.

One core: `taskset -c 0 python benchmarks/random_delays.py`. Tabular agents learn a noisy 10×10
maze, deep Q noisy CartPole in the compiled loop, and the host loop Gymnasium's CartPole and
Pendulum. The two sides of a ratio are timed in turn in one run. Rates are environment steps a
second: medians of rounds, compilation not counted.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import jax
import numpy as np
from deep import Runs
from tabular import MAZE, STEP_COST, steps_of

from deadtime.delays import Constant, GilbertElliott, RandomWalk, Uniform
from deadtime.learn import QLearning, groups_of, new_agent, run_episodes
from deadtime.runs import make_spec
from deadtime.runtime import VIEWS

LONGEST = 25
PROCESSES = {
    "uniform:5-25": Uniform(5, LONGEST),
    "walk:0-25": RandomWalk(0, LONGEST),
    "bursts of 10 and 25": GilbertElliott(Constant(10), Constant(LONGEST), 0.05, 0.1),
}
ROUNDS = 7
AIM = 1.2


class Tabular:
    """A tabular run, to be timed by episodes."""

    def __init__(self, agent, delay, episodes):
        self.agent = new_agent(MAZE, VIEWS[agent], delay)
        self.streams = np.random.SeedSequence([0, 0]).generate_state(3, np.uint64)
        self.episodes = episodes
        self.rate()

    def rate(self):
        begin = perf_counter()
        self.agent, returns = run_episodes(
            MAZE, self.agent, QLearning(epsilon=0.05), self.streams, self.episodes, learn=True
        )
        return steps_of(returns.astype(float)) / (perf_counter() - begin)


class Hosted:
    """A run of the host loop, to be timed by bursts."""

    def __init__(self, env, agent, delay):
        options = {"steps": 10**6, "envs": 1, "hidden": [64, 64], "batch_size": 64}
        if "Pendulum" in env:
            options["random_steps"] = 100
        spec = make_spec(env, agent, delay, options)
        (self.group,) = groups_of([(spec, 0)], "cpu")
        self.group.begin()
        while self.group.done < 400:
            self.group.advance()

    def rate(self):
        begin = perf_counter()
        steps = self.group.advance() + self.group.advance()
        return steps / (perf_counter() - begin)


def compared(name, constant, varying):
    """Print how much more a step costs under the delay that varies."""
    pairs = [(constant.rate(), varying.rate()) for _ in range(ROUNDS)]
    first, second = (median(column) for column in zip(*pairs, strict=True))
    cost = median(one / other for one, other in pairs)
    print(
        f"| {name} | {first:,.0f} | {second:,.0f} | {cost:.2f} | ≤ {AIM} |",
        flush=True,
    )


def main():
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}; mazes of {STEP_COST} steps")
    for agent, episodes in (("delayed", 1500), ("projected", 700), ("augmented", 300)):
        for name, process in PROCESSES.items():
            sides = (Tabular(agent, delay, episodes) for delay in (LONGEST, process))
            compared(f"tabular, {agent}, {name}", *sides)
    for agent in ("delayed", "projected", "augmented"):
        for name, process in PROCESSES.items():
            sides = (Runs(agent, delay) for delay in (LONGEST, process))
            compared(f"compiled, {agent}, {name}", *sides)
    name, process = next(iter(PROCESSES.items()))
    for env, agent in (
        ("gym:CartPole-v1", "delayed"),
        ("gym:CartPole-v1", "projected"),
        ("gym:Pendulum-v1", "projected"),
    ):
        sides = (Hosted(env, agent, delay) for delay in (LONGEST, process))
        compared(f"host, {env.removeprefix('gym:')}, {agent}, {name}", *sides)


if __name__ == "__main__":
    main()
