"""The convolutions of the Nature network (Mnih et al. 2015) in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deadtime.runtime.array_checks import check_layers, size_of
from deadtime.runtime.dense_layers import Layers

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8

FRAMES = (4, 84, 84)
"""The shape of an observation: the last 4 frames, oldest first, 84 by 84 bytes each."""
CONVOLUTIONS = ((8, 4), (4, 2), (3, 1))
"""The size and the stride of each convolution."""
MOST_ACTIONS = 18
"""The number of actions of an Atari console. Networks for any game have an output for each."""


def torso_outputs(channels: Sequence[int]) -> int:
    """Return the number of outputs of the convolutions."""
    return 7 * 7 * channels[-1]


def torso_of(arrays: Mapping[str, np.ndarray]) -> Layers:
    """Return the weight, of shape (inputs, outputs), and the bias of each convolution.

    Raise if the shapes do not fit each other.
    """
    names = [(f".torso.weights[{i}]", f".torso.biases[{i}]") for i in range(len(CONVOLUTIONS))]
    shapes: dict[str, tuple[int, ...]] = {}
    inputs = FRAMES[0]
    for (weight, bias), (size, _) in zip(names, CONVOLUTIONS, strict=True):
        outputs = size_of(arrays, weight, 1)
        shapes |= {weight: (size * size * inputs, outputs), bias: (outputs,)}
        inputs = outputs
    check_layers(arrays, shapes)
    return [(arrays[weight], arrays[bias]) for weight, bias in names]


def look(torso: Layers, frames: UInt8[np.ndarray, "4 84 84"]) -> Float[np.ndarray, " n"]:
    """Return the outputs of the convolutions for one observation."""
    x = np.moveaxis(frames, 0, -1)
    for (size, stride), (weight, bias) in zip(CONVOLUTIONS, torso, strict=True):
        x = patches(x, size, stride).astype(np.float32, copy=False) @ weight
        np.add(x, bias, out=x)
        np.maximum(x, np.float32(0.0), out=x)
    return x.ravel()


def patches(x: np.ndarray, size: int, stride: int) -> np.ndarray:
    """Return all patches of `size` by `size` pixels; `stride` must divide `size`.

    `x` has shape (height, width, channels), and the result (rows, columns, size² · channels). A
    patch is stored in blocks of `stride` by `stride` pixels, in the order of the trained networks.
    """
    height, width, channels = x.shape
    x = x.reshape(height // stride, stride, width // stride, stride, channels)
    x = x.swapaxes(1, 2).reshape(height // stride, width // stride, stride * stride * channels)
    steps = size // stride
    rows = x.shape[0] - steps + 1
    columns = x.shape[1] - steps + 1
    blocks = [x[i : i + rows, j : j + columns] for i in range(steps) for j in range(steps)]
    return np.concatenate(blocks, axis=-1)
