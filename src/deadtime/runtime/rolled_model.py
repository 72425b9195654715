"""A learned forward model that is rolled through the pending actions with NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deadtime.runtime.dense_layers import Layers


class Scales(NamedTuple):
    """The means and standard deviations of observations and of their changes in one step."""

    mean: np.ndarray
    deviation: np.ndarray
    change: np.ndarray
    spread: np.ndarray


class RolledModel:
    """A forward model of one step, prepared for many steps in a row.

    A "learned" model maps (s, the action as a number) to s'. A "change" model maps s in units of
    its usual deviation and a one-hot action to the change of s, in units of the usual change. It
    works in units of s throughout, so the units of a change are folded into the last layer.
    """

    def __init__(self, layers: Layers, scales: Scales, kind: str):
        """`layers` and `scales` fit each other (see `layers_fit`)."""
        self._scales = scales
        self._changes = kind == "change"
        if self._changes:
            unit = scales.spread / scales.deviation
            weight, bias = layers[-1]
            folded = weight * unit[:, None], bias * unit + scales.change / scales.deviation
            layers = [*layers[:-1], folded]
        *hidden, last = layers
        self._weights = [_carrying(*layer) for layer in hidden] + [np.column_stack(last)]

    def roll(self, obs: np.ndarray, queue: np.ndarray) -> np.ndarray:
        """Return the observation predicted after the actions of `queue`.

        At usual sizes the time goes into the number of NumPy calls. So a layer is one product,
        which includes its bias, and all results are written to arrays that are allocated once a roll.
        """
        if len(queue) == 0:
            return obs
        mean, deviation, *_ = self._scales
        numbers = len(mean)
        first, *rest = self._weights
        inputs = np.zeros(first.shape[1], np.float32)
        inputs[-1] = 1.0
        state = inputs[:numbers]
        state[:] = (obs - mean) / deviation if self._changes else obs
        outputs = np.empty(len(first), np.float32)
        floors = [np.zeros(weight.shape[1], np.float32) for weight in rest]
        results = [np.empty(len(weight), np.float32) for weight in rest]
        later = list(zip(rest, floors, results, strict=True))
        maximum = np.maximum
        for action in queue.tolist():
            place = numbers + action if self._changes else numbers
            inputs[place] = 1.0 if self._changes else action
            x = first.dot(inputs, out=outputs)
            for weight, floor, result in later:
                maximum(x, floor, out=x)
                x = weight.dot(x, out=result)
            inputs[place] = 0.0
            if self._changes:
                state += x
            else:
                state[:] = x
        return mean + deviation * state if self._changes else state.copy()


def _carrying(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return a layer as one matrix whose last input is 1, and whose last output is 1 as well."""
    carried = np.zeros((len(bias) + 1, weight.shape[1] + 1), np.float32)
    carried[:-1, :-1] = weight
    carried[:-1, -1] = bias
    carried[-1, -1] = 1.0
    return carried
