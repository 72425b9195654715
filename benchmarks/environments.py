"""The cost of a delay per step, and the gain of functional environments.

Each ratio is the median over rounds; the two sides of a pair are timed in turn in one run.
"""

import platform
from statistics import median
from time import perf_counter

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from deadtime import ActionDelay, ObservationDelay, VectorActionDelay
from deadtime.delays import Uniform
from deadtime.envs import CartPole, delayed

ROUNDS = 7
RANDOM = Uniform(2, 6)


def scalar_seconds(env: gym.Env, steps: int = 20_000) -> float:
    """Return the seconds of a step; resets are not counted."""
    env.reset(seed=0)
    total = 0.0
    for t in range(steps):
        begin = perf_counter()
        _, _, terminated, truncated, _ = env.step(t & 1)
        total += perf_counter() - begin
        if terminated or truncated:
            env.reset()
    return total / steps


def vector_seconds(envs: gym.vector.VectorEnv, steps: int) -> float:
    """Return the seconds of a step of the whole batch, automatic resets included."""
    actions = np.random.default_rng(0).integers(0, 2, (steps, envs.num_envs))
    envs.reset(seed=0)
    begin = perf_counter()
    for action in actions:
        envs.step(action)
    return (perf_counter() - begin) / steps


def functional_run(envs: int, delay, steps: int = 2000):
    """Return a function that times a step of a batch of noisy CartPoles, resets included."""
    env = delayed(CartPole(noise=0.1), delay)
    actions = jnp.asarray(np.random.default_rng(0).integers(0, 2, (steps, envs)))

    @jax.jit
    def run(states, key):
        def step(states, now):
            t, action = now
            _, states, reward, *_ = jax.vmap(env.step)(
                jax.random.split(jax.random.fold_in(key, t), envs), states, action
            )
            return states, reward.sum()

        return jax.lax.scan(step, states, (jnp.arange(steps), actions))

    _, states = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), envs))
    jax.block_until_ready(run(states, jax.random.key(1)))

    def seconds() -> float:
        begin = perf_counter()
        jax.block_until_ready(run(states, jax.random.key(2)))
        return (perf_counter() - begin) / steps

    return seconds


def compare(name: str, first, second, wanted: str) -> None:
    """Print the median over rounds of first / second, timed one after the other in each."""
    pairs = [(first(), second()) for _ in range(ROUNDS)]
    ratio = median(a / b for a, b in pairs)
    mine = median(a for a, _ in pairs)
    theirs = median(b for _, b in pairs)
    print(
        f"| {name} | {mine * 1e6:,.1f} µs | {theirs * 1e6:,.1f} µs | {ratio:.2f} | {wanted} |",
        flush=True,
    )


def sync(count: int, name: str = "CartPole-v1") -> gym.vector.VectorEnv:
    return gym.vector.SyncVectorEnv([lambda: gym.make(name)] * count)


def bare() -> gym.Env:
    return gym.make("CartPole-v1")


def scalars() -> None:
    for delay, wanted in ((5, "≤ 1.3"), (25, "≤ 1.3"), (RANDOM, "≤ 2")):
        compare(
            f"`ActionDelay` {delay} / bare CartPole, one step",
            lambda delay=delay: scalar_seconds(ActionDelay(bare(), delay)),
            lambda: scalar_seconds(bare()),
            wanted,
        )
    compare(
        f"`ObservationDelay` {RANDOM} / bare CartPole, one step",
        lambda: scalar_seconds(ObservationDelay(bare(), RANDOM)),
        lambda: scalar_seconds(bare()),
        "≤ 2",
    )


def vectors() -> None:
    for delay, wanted in ((5, "≤ 1.3"), (25, "≤ 1.3"), (RANDOM, "≤ 1.4")):
        compare(
            f"`VectorActionDelay` {delay} / bare `SyncVectorEnv`, 64 CartPoles",
            lambda delay=delay: vector_seconds(VectorActionDelay(sync(64), delay), 500),
            lambda: vector_seconds(sync(64), 500),
            wanted,
        )


def functional() -> None:
    constant = functional_run(1024, 6)
    random = functional_run(1024, RANDOM)
    compare(
        f"functional {RANDOM} / functional 6, 1,024 noisy CartPoles", random, constant, "≤ 1.15"
    )
    five = functional_run(1024, 5)
    compare(
        "`SyncVectorEnv` / functional, 1,024 noisy CartPoles with m=5",
        lambda: vector_seconds(VectorActionDelay(sync(1024, "deadtime/NoisyCartPole-v1"), 5), 30),
        five,
        "≥ 50",
    )


def main() -> None:
    print(
        f"jax {jax.__version__} on {jax.default_backend()}, gymnasium {gym.__version__}, "
        f"Python {platform.python_version()}"
    )
    print("\n| what | first | second | ratio | aim |\n|---|---|---|---|---|")
    scalars()
    vectors()
    functional()


if __name__ == "__main__":
    main()
