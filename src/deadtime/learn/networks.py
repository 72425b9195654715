"""Small fully connected networks, initialised as for the inputs that are really used."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class MLP(eqx.Module):
    """Linear layers with ReLU between them; `weights[i]` has shape (out, in)."""

    weights: list[Array]
    biases: list[Array]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """One forward pass."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            x = jax.nn.relu(weight @ x + bias)
        return last[0] @ x + last[1]


def layer_arrays(part: str, net: Any) -> dict[str, Array]:
    """Return the arrays of a network by their names in a record."""
    arrays: dict[str, Array] = {}
    for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        arrays |= {f"{part}/{i}/weight": weight, f"{part}/{i}/bias": bias}
    return arrays


def new_mlp(key: Array, widths: tuple[int, ...], used_inputs: Any) -> MLP:
    """Glorot's uniform weights and zero biases; `used_inputs` of the inputs are ever other than 0, and set the first scale."""
    weights = []
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        limit = jnp.sqrt(6.0 / ((used_inputs if i == 0 else inputs) + outputs))
        weights.append(
            limit * jax.random.uniform(jax.random.fold_in(key, i), (outputs, inputs), minval=-1.0)
        )
    return MLP(weights, [jnp.zeros(width) for width in widths[1:]])


def new_orthogonal(
    key: Array, rows: int, columns: int, gain: float = 1.0
) -> Float[Array, "rows columns"]:
    """`gain` times a random matrix whose shorter side is orthonormal: the polar factor of a normal one.

    It is found by Newton and Schulz' iteration. LAPACK's factorisations, mapped over runs, can wait for one another forever
    in XLA's CPU threads.
    """
    tall = jax.random.normal(key, (max(rows, columns), min(rows, columns)))
    tall = jax.lax.fori_loop(
        0, 40, lambda _, w: 1.5 * w - 0.5 * w @ (w.T @ w), tall / jnp.sqrt(jnp.sum(tall**2))
    )
    return gain * (tall if rows >= columns else tall.T)
