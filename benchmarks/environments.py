"""What a delay costs per step, and what the functional environments gain: ratios, each pair timed in turn in one run."""

import platform
from statistics import median
from time import perf_counter

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from deadtime import ActionDelay, VectorActionDelay
from deadtime.envs.cartpole import CartPole
from deadtime.envs.functional import delayed

ROUNDS = 7


def scalar_seconds(env: gym.Env, steps: int = 20_000) -> float:
    """Seconds a step; resets are not counted."""
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
    """Seconds a step of the whole batch; its automatic resets are part of it."""
    actions = np.random.default_rng(0).integers(0, 2, (steps, envs.num_envs))
    envs.reset(seed=0)
    begin = perf_counter()
    for action in actions:
        envs.step(action)
    return (perf_counter() - begin) / steps


def functional_seconds(envs: int, delay: int, steps: int = 2000) -> float:
    """Seconds a step of a batch of noisy CartPoles; the automatic resets are part of it."""
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
    begin = perf_counter()
    jax.block_until_ready(run(states, jax.random.key(2)))
    return (perf_counter() - begin) / steps


def compare(name: str, first, second, wanted: str) -> None:
    """Print the median over rounds of first / second, the two timed one after the other in each round."""
    pairs = [(first(), second()) for _ in range(ROUNDS)]
    ratio = median(a / b for a, b in pairs)
    mine, theirs = median(a for a, _ in pairs), median(b for _, b in pairs)
    print(
        f"| {name} | {mine * 1e6:,.1f} µs | {theirs * 1e6:,.1f} µs | {ratio:.2f} | {wanted} |",
        flush=True,
    )


def sync(count: int, name: str = "CartPole-v1") -> gym.vector.VectorEnv:
    return gym.vector.SyncVectorEnv([lambda: gym.make(name)] * count)


def main() -> None:
    print(
        f"jax {jax.__version__} on {jax.default_backend()}, gymnasium {gym.__version__}, Python {platform.python_version()}\n"
    )
    print("\n| what | first | second | ratio | aim |\n|---|---|---|---|---|")
    for delay in (5, 25):
        compare(
            f"`ActionDelay` m={delay} / bare CartPole, one step",
            lambda delay=delay: scalar_seconds(ActionDelay(gym.make("CartPole-v1"), delay)),
            lambda: scalar_seconds(gym.make("CartPole-v1")),
            "≤ 1.3",
        )
    for delay in (5, 25):
        compare(
            f"`VectorActionDelay` m={delay} / bare `SyncVectorEnv`, 64 CartPoles",
            lambda delay=delay: vector_seconds(VectorActionDelay(sync(64), delay), 500),
            lambda: vector_seconds(sync(64), 500),
            "≤ 1.3",
        )
    compare(
        "`SyncVectorEnv` / functional, 1,024 noisy CartPoles with m=5",
        lambda: vector_seconds(VectorActionDelay(sync(1024, "deadtime/NoisyCartPole-v1"), 5), 30),
        lambda: functional_seconds(1024, 5),
        "≥ 50",
    )


if __name__ == "__main__":
    main()
