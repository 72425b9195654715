"""Fully connected networks with ReLU between their layers, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Layers = list[tuple[np.ndarray, np.ndarray]]
"""The weight, of shape (outputs, inputs), and the bias of each layer."""


def layers_of(arrays: Mapping[str, np.ndarray], part: str, member: int | None = None) -> Layers:
    """Return the layers that a record names `part/0/weight`, `part/0/bias`, `part/1/weight`, …

    Networks stacked on a first axis are told apart by `member`.
    """
    count = 1 + max(int(name.split("/")[1]) for name in arrays if name.startswith(f"{part}/"))
    return [
        (
            _taken(arrays[f"{part}/{i}/weight"], member),
            _taken(arrays[f"{part}/{i}/bias"], member),
        )
        for i in range(count)
    ]


def _taken(array: np.ndarray, member: int | None) -> np.ndarray:
    return np.ascontiguousarray(array if member is None else array[member], np.float32)


def layers_fit(layers: Layers, inputs: int, outputs: int) -> bool:
    """Return whether each layer takes what the one before gives, from `inputs` to `outputs`."""
    for weight, bias in layers:
        if weight.shape != (len(bias), inputs) or bias.ndim != 1:
            return False
        inputs = len(bias)
    return inputs == outputs


def forward(layers: Layers, x: np.ndarray) -> np.ndarray:
    """Return the outputs of the network for one vector of inputs."""
    *hidden, (last, last_bias) = layers
    for weight, bias in hidden:
        x = np.maximum(weight.dot(x) + bias, np.float32(0.0))
    return last.dot(x) + last_bias
