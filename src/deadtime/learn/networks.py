"""Small fully connected networks, and random orthogonal weights."""

from __future__ import annotations

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

_NARROW = 64
"""The largest number of outputs of a layer that is multiplied by `@` (see `_product`)."""


class MLP(eqx.Module):
    """Linear layers with ReLU between them; `weights[i]` has shape (out, in)."""

    weights: list[Array]
    biases: list[Array]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """Return the outputs for one input."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            x = jax.nn.relu(_product(weight, x) + bias)
        return _product(last[0], x) + last[1]


def _product(weight: Float[Array, "outputs inputs"], x: Float[Array, " inputs"]) -> Array:
    """Return `weight @ x`.

    Mapped over a batch, `@` and its gradient transpose matrices, which takes a seventh of an update
    of wide layers on a CPU core. Narrow layers keep the rounding of earlier results.
    """
    if len(weight) <= _NARROW:
        return weight @ x
    return jnp.tensordot(x, weight, ((0,), (1,)))


def layer_arrays(part: str, net: PyTree) -> dict[str, Array]:
    """Return the arrays of a network by their names in a record."""
    arrays: dict[str, Array] = {}
    for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        arrays |= {f"{part}/{i}/weight": weight, f"{part}/{i}/bias": bias}
    return arrays


def new_mlp(key: Array, widths: tuple[int, ...], used_inputs: int | Array) -> MLP:
    """Return a new network: Glorot's uniform weights and zero biases.

    The scale of the first layer follows from `used_inputs`, the number of inputs that can differ
    from 0.
    """
    weights = []
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        limit = jnp.sqrt(6.0 / ((used_inputs if i == 0 else inputs) + outputs))
        part = jax.random.uniform(jax.random.fold_in(key, i), (outputs, inputs), minval=-1.0)
        weights.append(limit * part)
    return MLP(weights, [jnp.zeros(width) for width in widths[1:]])


def new_orthogonal(
    key: Array, rows: int, columns: int, gain: float = 1.0
) -> Float[Array, "rows columns"]:
    """Return `gain` times a random matrix whose shorter side is orthonormal.

    It is the polar factor of a normal matrix, by the iteration of Newton and Schulz.
    Factorizations of LAPACK, mapped over runs, can block one another forever in XLA's CPU threads.
    """

    def step(_: int | Array, w: Array) -> Array:
        return 1.5 * w - 0.5 * w @ (w.T @ w)

    tall = jax.random.normal(key, (max(rows, columns), min(rows, columns)))
    tall = jax.lax.fori_loop(0, 40, step, tall / jnp.sqrt(jnp.sum(tall**2)))
    return gain * (tall if rows >= columns else tall.T)
