"""Fully connected layers as NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from deadtime.runtime.array_checks import check_layers, size_of

Layer = tuple[np.ndarray, np.ndarray]
"""The weight, of shape (outputs, inputs), and the bias of a layer."""
Layers = list[Layer]
"""Layers in the order in which they are applied."""


def layers_of(
    arrays: Mapping[str, np.ndarray],
    part: str,
    inputs: int,
    remembered: int = 0,
) -> Layers:
    """Return the layers `part/0/weight`, `part/0/bias`, `part/1/weight`, … of a record.

    The first layer has `inputs` inputs. Each other layer takes the outputs of the layer before. If
    a memory precedes the last layer, that layer has `remembered` inputs. Raise if shapes differ.
    """
    names = [(f"{part}/{i}/weight", f"{part}/{i}/bias") for i in range(_count(arrays, part))]
    shapes: dict[str, tuple[int, ...]] = {}
    for weight, bias in names:
        if remembered and bias == names[-1][1]:
            inputs = remembered
        outputs = size_of(arrays, bias, 0)
        shapes |= {bias: (outputs,), weight: (outputs, inputs)}
        inputs = outputs
    check_layers(arrays, shapes)
    return [(arrays[weight], arrays[bias]) for weight, bias in names]


def outputs_of(arrays: Mapping[str, np.ndarray], part: str) -> int:
    """Return the number of outputs of the last layer."""
    return len(arrays[f"{part}/{_count(arrays, part) - 1}/bias"])


def _count(arrays: Mapping[str, np.ndarray], part: str) -> int:
    """Return the number of layers."""
    names = sum(name.startswith(f"{part}/") for name in arrays)
    return (names + 1) // 2
