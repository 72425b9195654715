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


def new_mlp(key: Array, widths: tuple[int, ...], used_inputs: Any) -> MLP:
    """Glorot's uniform weights and zero biases; `used_inputs` of the inputs are ever other than 0, and set the first scale."""
    weights = []
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        limit = jnp.sqrt(6.0 / ((used_inputs if i == 0 else inputs) + outputs))
        weights.append(limit * jax.random.uniform(jax.random.fold_in(key, i), (outputs, inputs), minval=-1.0))
    return MLP(weights, [jnp.zeros(width) for width in widths[1:]])
