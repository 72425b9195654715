"""The cost of the delay buffers for batched arrays, in microseconds a step of the whole batch.

A step pushes the actions and resets one environment in a hundred by a mask. PyTorch is called step
by step, and JAX is compiled as one scan. Each number is the median over rounds. The devices are the
first GPU if there is one, else the CPU. On a GPU the first round also checks that no value is
copied to the host: a copy would raise.

One line of JSON is printed. Needs PyTorch, JAX and `pip install deadtime`.
"""

import argparse
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from statistics import median
from time import perf_counter

import jax
import jax.numpy as jnp
import torch

from deadtime.delays import Delay, Uniform
from deadtime.integrations import jax_arrays, torch_arrays

DELAYS = (0, 4, 16, Uniform(1, 4))
ROUNDS = 7
KERNELS = torch.cuda.is_available()
DEVICE = "cuda" if KERNELS else "cpu"


@contextmanager
def no_copy_to_the_host() -> Iterator[None]:
    """Raise if PyTorch or JAX copies a value from a GPU to the host."""
    if KERNELS:
        torch.cuda.set_sync_debug_mode("error")
    with jax.transfer_guard_device_to_host("disallow"):
        yield
    if KERNELS:
        torch.cuda.set_sync_debug_mode("default")


def torch_seconds(delay: Delay, envs: int, width: int, steps: int) -> float:
    """Return the seconds of a step."""
    actions = torch.randn(16, envs, width, device=DEVICE)
    masks = torch.rand(16, envs, device=DEVICE) < 0.01
    buffer = torch_arrays.ActionBuffer(delay, actions[0])

    def run() -> None:
        for t in range(steps):
            buffer.push(actions[t % 16])
            buffer.reset(masks[t % 16])

    def seconds() -> float:
        begin = perf_counter()
        run()
        if KERNELS:
            torch.cuda.synchronize()
        return (perf_counter() - begin) / steps

    with no_copy_to_the_host():
        run()
    if KERNELS:
        torch.cuda.synchronize()
    return median(seconds() for _ in range(ROUNDS))


def jax_seconds(delay: Delay, envs: int, width: int, steps: int) -> float:
    """Return the seconds of a step, without compilation."""
    actions = jax.random.normal(jax.random.key(0), (16, envs, width))
    masks = jax.random.uniform(jax.random.key(1), (16, envs)) < 0.01
    buffer = jax_arrays.ActionBuffer(delay)

    @jax.jit
    def many(state, key, actions, masks):
        def step(carry, t):
            state, total = carry
            pushed, again = jax.random.split(jax.random.fold_in(key, t))
            executed, state = buffer.push(state, actions[t % 16], pushed)
            state = buffer.reset(state, masks[t % 16], again)
            return (state, total + executed), None

        zero = jnp.zeros((envs, width))
        return jax.lax.scan(step, (state, zero), jnp.arange(steps))[0]

    state = buffer.init(actions[0], jax.random.key(2))
    given = state, jax.random.key(3), actions, masks

    def seconds() -> float:
        begin = perf_counter()
        jax.block_until_ready(many(*given))
        return (perf_counter() - begin) / steps

    with no_copy_to_the_host():
        jax.block_until_ready(many(*given))
    return median(seconds() for _ in range(ROUNDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8192)
    parser.add_argument("--width", type=int, default=12, help="numbers in an action")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--machine", default=platform.machine(), help="its name in the record")
    arguments = parser.parse_args()
    size = arguments.envs, arguments.width, arguments.steps
    times = {
        str(delay): {
            "torch": round(1e6 * torch_seconds(delay, *size), 1),
            "jax": round(1e6 * jax_seconds(delay, *size), 1),
        }
        for delay in DELAYS
    }
    found = {
        "machine": arguments.machine,
        "torch_device": torch.cuda.get_device_name() if KERNELS else "cpu",
        "jax_device": jax.devices()[0].device_kind,
        "versions": {"torch": torch.__version__, "jax": jax.__version__},
        "date": datetime.now(UTC).date().isoformat(),
        "envs": arguments.envs,
        "width": arguments.width,
        "steps": arguments.steps,
        "microseconds_a_step": times,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
