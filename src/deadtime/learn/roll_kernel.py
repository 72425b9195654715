"""The prediction of a learned model through the whole queue, in one GPU kernel.

Without it each pending action takes three small kernels. The kernel is written in Pallas on Triton,
which newer versions of JAX may drop. `forward_model.rolled` then takes single steps, with the same
result except for rounding.
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
    delay: int | Array,
) -> Float[Array, " D"]:
    """Return the prediction after the last `delay` actions of the queue.

    One step has the input x = a · s + b and the action, and the output s' = c · s + d · net(x),
    elementwise with `affine` = (a, b, c, d).
    """
    n = len(obs)
    size = max(16, *(1 << (max(w.shape) - 1).bit_length() for w in net.weights))
    pad = lambda x: jnp.pad(x, [(0, size - k) for k in x.shape])  # noqa: E731
    layers = [pad(part) for layer in zip(net.weights, net.biases, strict=True) for part in layer]
    given = (
        jnp.reshape(delay, 1).astype(jnp.int32),
        queue.astype(jnp.int32),
        pad(obs),
        *map(pad, affine),
        *layers,
    )
    options: dict[str, Any] = {"interpret": True}
    if on_gpu():
        from jax.experimental.pallas import triton  # noqa: PLC0415

        warps = 1 if size <= 32 else 4
        options = {"compiler_params": triton.CompilerParams(num_warps=warps, num_stages=1)}
    shape = jax.ShapeDtypeStruct((size,), jnp.float32)
    return pallas.pallas_call(partial(_kernel, n, one_hot), out_shape=shape, **options)(*given)[:n]


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
    """Return whether programs are compiled for a GPU now."""
    chosen: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    return (jax.default_backend() if chosen is None else chosen.platform) == "gpu"


def available() -> bool:
    """Return whether there is a GPU, and this version of JAX can compile the kernel for it."""
    if not on_gpu():
        return False
    try:
        from jax.experimental.pallas import triton  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True
