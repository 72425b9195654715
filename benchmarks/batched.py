"""The cost of the delay buffers for batched arrays, in microseconds a step of the whole batch.

A step pushes the actions and resets one environment in a hundred by a mask. The first column is the
delay, the others are PyTorch, called step by step, and JAX, compiled as one scan. Each number is
the median over rounds. The devices are the first GPU if there is one, else the CPU.
"""

import argparse
import platform
from statistics import median
from time import perf_counter

import jax
import jax.numpy as jnp
import torch

from deadtime.delays import Uniform
from deadtime.integrations import jax_arrays, torch_arrays

DELAYS = (0, 4, 16, Uniform(1, 4))
ROUNDS = 7


def torch_seconds(delay, envs: int, width: int, steps: int, device: str) -> float:
    """Return the seconds of a step."""
    actions = torch.randn(16, envs, width, device=device)
    masks = torch.rand(16, envs, device=device) < 0.01
    buffer = torch_arrays.ActionBuffer(delay, actions[0])

    def run() -> float:
        begin = perf_counter()
        for t in range(steps):
            buffer.push(actions[t % 16])
            buffer.reset(masks[t % 16])
        if device == "cuda":
            torch.cuda.synchronize()
        return (perf_counter() - begin) / steps

    run()
    return median(run() for _ in range(ROUNDS))


def jax_seconds(delay, envs: int, width: int, steps: int) -> float:
    """Return the seconds of a step, without compilation."""
    actions = jax.random.normal(jax.random.key(0), (16, envs, width))
    masks = jax.random.uniform(jax.random.key(1), (16, envs)) < 0.01
    buffer = jax_arrays.ActionBuffer(delay)

    @jax.jit
    def many(state, key):
        def step(carry, t):
            state, total = carry
            pushed, again = jax.random.split(jax.random.fold_in(key, t))
            executed, state = buffer.push(state, actions[t % 16], pushed)
            state = buffer.reset(state, masks[t % 16], again)
            return (state, total + executed), None

        zero = jnp.zeros((envs, width))
        return jax.lax.scan(step, (state, zero), jnp.arange(steps))[0]

    def run() -> float:
        state = buffer.init(actions[0], jax.random.key(2))
        jax.block_until_ready(state)
        begin = perf_counter()
        jax.block_until_ready(many(state, jax.random.key(3)))
        return (perf_counter() - begin) / steps

    run()
    return median(run() for _ in range(ROUNDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8192)
    parser.add_argument("--width", type=int, default=12, help="numbers in an action")
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = arguments.envs, arguments.width, arguments.steps
    print(f"{platform.machine()}, torch {torch.__version__} on {device}", end=", ")
    print(f"jax {jax.__version__} on {jax.devices()[0].platform}, {arguments.envs} environments")
    print("| delay | PyTorch | JAX |", "| --- | --- | --- |", sep="\n")
    for delay in DELAYS:
        times = (torch_seconds(delay, *size, device), jax_seconds(delay, *size))
        print(f"| {delay} | " + " | ".join(f"{1e6 * time:.0f} µs" for time in times) + " |")


if __name__ == "__main__":
    main()
