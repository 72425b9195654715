"""One step of a long short-term memory (LSTM), with or without layer normalisation, in NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Norm = tuple[np.ndarray, np.ndarray]
"""The gain and the shift of a layer normalisation."""


class Memory(NamedTuple):
    """The numbers that an LSTM carries from step to step."""

    cell: np.ndarray
    output: np.ndarray


class Lstm(NamedTuple):
    """The weights of an LSTM; its gates are in the order input, forget, output, candidate.

    `norms` are of the input's part, the memory's part and the cell, or there are none.
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
        take, hold, show, candidate = np.split(of_input + of_output + self.bias, 4)
        cell = sigmoid(hold) * memory.cell + sigmoid(take) * np.tanh(candidate)
        return Memory(cell, sigmoid(show) * np.tanh(self._normal(2, cell)))

    def _normal(self, i: int, x: np.ndarray) -> np.ndarray:
        """Return `x` as the i-th norm gives it; unchanged if there are no norms."""
        return normalised(x, self.norms[i]) if self.norms else x


def normalised(x: np.ndarray, norm: Norm) -> np.ndarray:
    """Return `x` with zero mean and unit deviation, times the gain of `norm` plus its shift."""
    gain, shift = norm
    return (x - x.mean()) / np.sqrt(x.var() + np.float32(1e-5)) * gain + shift


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return the logistic function of `x`."""
    return 0.5 + 0.5 * np.tanh(0.5 * x)
