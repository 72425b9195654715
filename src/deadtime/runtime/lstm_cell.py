"""An LSTM cell in NumPy, with or without layer normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from deadtime.runtime.array_checks import check_layers, size_of

Norm = tuple[np.ndarray, np.ndarray]
"""The gain and the shift of a layer normalisation."""


class Memory(NamedTuple):
    """The state that an LSTM carries from step to step."""

    cell: np.ndarray
    output: np.ndarray


class Lstm(NamedTuple):
    """The weights of an LSTM, with gates in the order input, forget, output, candidate.

    `norms` has the normalisations of the input's part, the memory's part and the cell, or none.
    """

    from_input: np.ndarray
    from_output: np.ndarray
    bias: np.ndarray
    norms: list[Norm]

    def empty(self) -> Memory:
        """Return the memory at the start of an episode."""
        units = len(self.bias) // 4
        return Memory(np.zeros(units, np.float32), np.zeros(units, np.float32))

    def step(self, memory: Memory, x: np.ndarray) -> Memory:
        """Return the memory after the inputs `x`."""
        of_input = self._normal(0, self.from_input @ x)
        of_output = self._normal(1, self.from_output @ memory.output)
        take, hold, show, candidate = (of_input + of_output + self.bias).reshape(4, -1)
        cell = sigmoid(hold) * memory.cell + sigmoid(take) * np.tanh(candidate)
        return Memory(cell, sigmoid(show) * np.tanh(self._normal(2, cell)))

    def _normal(self, i: int, x: np.ndarray) -> np.ndarray:
        """Return `x` after the i-th normalisation, or unchanged if there is none."""
        return normalised(x, self.norms[i]) if self.norms else x


class LstmNames(NamedTuple):
    """The names of an LSTM's arrays; `gain` and `shift` contain a place for a number."""

    from_input: str
    from_output: str
    bias: str
    gain: str
    shift: str


def lstm_of(arrays: Mapping[str, np.ndarray], names: LstmNames, inputs: int) -> Lstm:
    """Return the LSTM with these array names, or raise if the shapes do not fit `inputs`."""
    units = size_of(arrays, names.from_output, 1)
    shapes: dict[str, tuple[int, ...]] = {
        names.from_input: (4 * units, inputs),
        names.from_output: (4 * units, units),
        names.bias: (4 * units,),
    }
    norms = [(names.gain.format(i), names.shift.format(i)) for i in range(3)]
    if not any(name in arrays for norm in norms for name in norm):
        norms = []
    for norm, size in zip(norms, (4 * units, 4 * units, units), strict=False):
        shapes |= dict.fromkeys(norm, (size,))
    check_layers(arrays, shapes)
    return Lstm(
        arrays[names.from_input],
        arrays[names.from_output],
        arrays[names.bias],
        [(arrays[gain], arrays[shift]) for gain, shift in norms],
    )


def normalised(x: np.ndarray, norm: Norm) -> np.ndarray:
    """Return `x` with zero mean and unit deviation, times the gain of `norm` plus its shift."""
    gain, shift = norm
    return (x - x.mean()) / np.sqrt(x.var() + np.float32(1e-5)) * gain + shift


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return the logistic function of `x`."""
    return 0.5 + 0.5 * np.tanh(0.5 * x)
