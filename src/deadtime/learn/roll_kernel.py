"""A learned model's whole roll through the queue in one GPU kernel; step by step it would be three small kernels an action.

It is Pallas on Triton, which newer versions of JAX may drop: `neural.rolled` then goes step by step, to the same result but for
rounding.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jaxtyping import Array, Float, Int

from deadtime.learn.networks import MLP


def roll(
    net: MLP,
    affine: tuple[Array, Array, Array, Array],
    one_hot: bool,
    obs: Float[Array, " D"],
    queue: Int[Array, " C"],
    delay: Any,
) -> Float[Array, " D"]:
    """Where the model goes from `obs` through the last `delay` actions of the queue.

    One step reads x = a · s + b and the action, and gives s' = c · s + d · net(x), elementwise with `affine` = (a, b, c, d).
    """
    size, n = max(16, *(1 << (max(w.shape) - 1).bit_length() for w in net.weights)), len(obs)
    pad = lambda x: jnp.pad(x, [(0, size - k) for k in x.shape])  # noqa: E731
    layers = [pad(part) for layer in zip(net.weights, net.biases, strict=True) for part in layer]
    given = (
        jnp.reshape(delay, 1).astype(jnp.int32),
        queue.astype(jnp.int32),
        pad(obs),
        *map(pad, affine),
        *layers,
    )
    how: dict[str, Any] = {"interpret": True}
    if on_gpu():
        from jax.experimental.pallas import triton  # noqa: PLC0415

        how = {
            "compiler_params": triton.CompilerParams(num_warps=1 if size <= 32 else 4, num_stages=1)
        }
    shape = jax.ShapeDtypeStruct((size,), jnp.float32)
    return pallas.pallas_call(partial(_kernel, n, one_hot), out_shape=shape, **how)(*given)[:n]


def _kernel(n: int, one_hot: bool, delay: Any, queue: Any, obs: Any, *rest: Any) -> None:
    a, b, c, d, *layers = (ref[...] for ref in rest[:-1])
    out = rest[-1]
    place = jax.lax.broadcasted_iota(jnp.int32, out.shape, 0)

    def step(i: Array, state: Array) -> Array:
        action = queue[i]
        shown = (place == n + action) * 1.0 if one_hot else jnp.where(place == n, action * 1.0, 0.0)
        x = a * state + b + shown
        for k in range(0, len(layers), 2):
            x = jnp.sum(layers[k] * x[None, :], axis=1) + layers[k + 1]
            x = x if k == len(layers) - 2 else jnp.maximum(x, 0.0)
        return c * state + d * x

    room = queue.shape[0]
    out[...] = jax.lax.fori_loop(room - delay[0], room, step, obs[...])


def on_gpu() -> bool:
    """Whether what is compiled now is for a GPU."""
    chosen: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    return (jax.default_backend() if chosen is None else chosen.platform) == "gpu"


def available() -> bool:
    """Whether there is a GPU and this version of JAX can still compile it."""
    if not on_gpu():
        return False
    try:
        from jax.experimental.pallas import triton  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True
