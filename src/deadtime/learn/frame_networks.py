"""Networks on frames: the torso of the Nature DQN, and Q on top of it.

Convolutions are written as matrix products over patches. Mapped over runs with different weights,
products become one batched product. Convolutions would become grouped ones, which are slow on GPUs.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt8

from deadtime.learn.a2c import Norm
from deadtime.learn.networks import new_orthogonal
from deadtime.learn.settings import PixelQ
from deadtime.runtime.frame_layers import CONVOLUTIONS, MOST_ACTIONS, torso_outputs


class Torso(eqx.Module):
    """Three convolutions with ReLU, flattened; `weights[i]` has shape (size² · in, out)."""

    weights: list[Array]
    biases: list[Array]

    def __call__(self, frames: UInt8[Array, "4 84 84"]) -> Float[Array, " n"]:
        """Return the flattened features of frames."""
        x: Array = jnp.moveaxis(frames, 0, -1)
        for (size, stride), weight, bias in zip(
            CONVOLUTIONS, self.weights, self.biases, strict=True
        ):
            x = patches(x, size, stride)
            x = jax.nn.relu(x.astype(jnp.float32) @ weight + bias)
        return x.ravel()


def patches(x: Array, size: int, stride: int) -> Array:
    """Return the patches of an image (height, width, channels): (rows, columns, size² · channels).

    The stride must divide the size.
    """
    height, width, channels = x.shape
    x = x.reshape(height // stride, stride, width // stride, stride, channels)
    x = jnp.swapaxes(x, 1, 2).reshape(height // stride, width // stride, stride * stride * channels)
    steps = size // stride
    rows, columns = x.shape[0] - steps + 1, x.shape[1] - steps + 1
    return jnp.concatenate(
        [x[i : i + rows, j : j + columns] for i in range(steps) for j in range(steps)], axis=-1
    )


def new_torso(key: Array, channels: tuple[int, ...]) -> Torso:
    """Return a new torso: orthogonal weights of gain √2; the first layer's divide frames by 255."""
    weights, into = [], 4
    for i, ((size, _), out) in enumerate(zip(CONVOLUTIONS, channels, strict=True)):
        weight = new_orthogonal(jax.random.fold_in(key, i), size * size * into, out, 2.0**0.5)
        weights.append(weight / 255.0 if i == 0 else weight)
        into = out
    return Torso(weights, [jnp.zeros(out) for out in channels])


class QNetwork(eqx.Module):
    """A torso, a hidden layer that also takes the queue, and Q: directly or dueling."""

    torso: Torso
    hidden: Float[Array, "H n"]
    hidden_bias: Float[Array, " H"]
    norm: Norm | None
    out: Float[Array, "A+1 H"]
    """One row for each action and, if dueling, one for the value."""
    out_bias: Float[Array, " A+1"]

    def __call__(
        self, frames: UInt8[Array, "4 84 84"], queue: Float[Array, " q"], actions: Int[Array, ""]
    ) -> Float[Array, " A"]:
        """Return the values of the game's actions; those that it lacks have -∞."""
        x = self.hidden @ jnp.concatenate([self.torso(frames), queue]) + self.hidden_bias
        x = jax.nn.relu(x if self.norm is None else self.norm(x))
        scores = self.out @ x + self.out_bias
        known = jnp.arange(MOST_ACTIONS) < actions
        if len(scores) > MOST_ACTIONS:
            advantages = jnp.where(known, scores[:-1], 0.0)
            scores = scores[-1] + advantages - advantages.sum() / actions
        return jnp.where(known, scores, -jnp.inf)


def new_q(key: Array, settings: PixelQ, queue_inputs: int) -> QNetwork:
    """Return a new network: He's normal hidden weights, small last ones, zero biases."""
    key_torso, key_hidden, key_out, key_queue = jax.random.split(key, 4)
    seen, hidden = torso_outputs(settings.channels), settings.hidden
    scale = (2.0 / seen) ** 0.5
    of_frames = jax.random.normal(key_hidden, (hidden, seen))
    of_queue = jax.random.normal(key_queue, (hidden, queue_inputs))
    norm = Norm(jnp.ones(hidden), jnp.zeros(hidden)) if settings.layer_norm else None
    out = jax.random.normal(key_out, (MOST_ACTIONS + settings.dueling, hidden)) * 0.1 / hidden**0.5
    return QNetwork(
        new_torso(key_torso, settings.channels),
        scale * jnp.concatenate([of_frames, of_queue], axis=1),
        jnp.zeros(hidden),
        norm,
        out,
        jnp.zeros(len(out)),
    )


def named_arrays(net: PyTree) -> dict[str, np.ndarray]:
    """Return the arrays of a network by their paths."""
    return {
        jax.tree_util.keystr(path): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(net)
    }


def one_hot_queue(
    queue: Int[Array, " C"], delay: int | Array, sees: bool | Array
) -> Float[Array, " n"]:
    """Return the last `delay` actions of the queue as one-hot rows; zeros if it is not seen."""
    pending = (jnp.arange(len(queue)) >= len(queue) - delay) & sees
    return (jax.nn.one_hot(queue, MOST_ACTIONS) * pending[:, None]).ravel()
