"""An LSTM cell in NumPy, with or without layer normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from deadtime.runtime.array_checks import check_layers, size_of

_HALF = np.float32(0.5)
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


class LstmStep:
    """The arrays of intermediate results of an LSTM, which each step reuses."""

    def __init__(self, lstm: Lstm):
        """Allocate the arrays."""
        gates = len(lstm.bias)
        units = gates // 4
        self._lstm = lstm
        self._norms: list[Norm | None] = [*lstm.norms] or [None] * 3
        self._gates = np.empty(gates, np.float32)
        self._of_output = np.empty(gates, np.float32)
        self._sigmoids = self._gates[: 3 * units]
        self._parts = self._gates.reshape(4, -1)
        self._shown = np.empty(units, np.float32)
        self._memory = Memory(np.empty(units, np.float32), np.empty(units, np.float32))

    def step(self, memory: Memory, x: np.ndarray) -> Memory:
        """Return the memory after the inputs `x`, in arrays that every step reuses."""
        lstm, gates, of_output = self._lstm, self._gates, self._of_output
        normalise(lstm.from_input.dot(x, out=gates), self._norms[0])
        normalise(lstm.from_output.dot(memory.output, out=of_output), self._norms[1])
        np.add(gates, of_output, out=gates)
        np.add(gates, lstm.bias, out=gates)
        sigmoid(self._sigmoids)
        take, hold, show, candidate = self._parts
        np.tanh(candidate, out=candidate)
        cell, output = self._memory
        np.multiply(hold, memory.cell, out=cell)
        np.multiply(take, candidate, out=take)
        np.add(cell, take, out=cell)
        self._shown[:] = cell
        normalise(self._shown, self._norms[2])
        np.tanh(self._shown, out=self._shown)
        np.multiply(show, self._shown, out=output)
        return self._memory


class LstmNames(NamedTuple):
    """The names of an LSTM's arrays; `gain` and `shift` contain a placeholder for a number."""

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


def normalise(x: np.ndarray, norm: Norm | None) -> None:
    """Give `x` zero mean and unit deviation, times the gain of `norm` plus its shift, in place."""
    if norm is None:
        return
    gain, shift = norm
    size = np.float32(len(x))
    np.subtract(x, np.add.reduce(x) / size, out=x)
    np.divide(x, np.sqrt(x.dot(x) / size + np.float32(1e-5)), out=x)
    np.multiply(x, gain, out=x)
    np.add(x, shift, out=x)


def sigmoid(x: np.ndarray) -> None:
    """Replace `x` by its logistic function."""
    np.multiply(x, _HALF, out=x)
    np.tanh(x, out=x)
    np.multiply(x, _HALF, out=x)
    np.add(x, _HALF, out=x)
