"""A learned forward model that is rolled through the pending actions with NumPy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from deadtime.runtime.array_forms import NO_FIT, single
from deadtime.runtime.dense_layers import layers_of
from deadtime.runtime.manifest import Manifest


class RolledModel:
    """A forward model of one step, prepared for many steps in a row.

    A "learned" model maps (s, the action as numbers) to s'. A "change" model maps s in units of
    its usual deviation and the action, a numbered one as a one-hot vector, to the change of s, in
    units of the usual change. It works in units of s throughout, so the units of a change are
    folded into the last layer.
    """

    def __init__(self, manifest: Manifest, arrays: Mapping[str, np.ndarray]):
        """Build the model, or raise if its arrays do not fit each other and the observation."""
        (numbers,) = manifest.observation_shape
        self._changes = manifest.model == "change"
        self._one_hot = self._changes and manifest.actions > 0
        width = manifest.actions if self._one_hot else len(manifest.low) or 1
        arrays = single(arrays, "model/", "inputs/", "changes/")
        layers = layers_of(arrays, "model", numbers + width)
        names = ("inputs/mean", "inputs/deviation", "changes/mean", "changes/deviation")
        scales = [arrays[name] for name in names]
        good = len(layers[-1][1]) == numbers
        if not good or any(scale.shape != (numbers,) for scale in scales):
            raise ValueError(NO_FIT)
        self._mean, self._deviation, change, spread = scales
        if self._changes:
            with np.errstate(all="ignore"):
                unit = spread / self._deviation
                weight, bias = layers[-1]
                shift = change / self._deviation
                layers[-1] = weight * unit[:, None], bias * unit + shift
        *hidden, last = layers
        self._weights = [_carrying(*layer) for layer in hidden] + [np.column_stack(last)]

    def roll(self, observation: np.ndarray, queue: np.ndarray) -> np.ndarray:
        """Return the observation predicted after the actions of `queue`.

        At usual sizes the time goes into the number of NumPy calls. So a layer is one product,
        which includes its bias, and all results are written to arrays that are allocated once a
        roll.
        """
        if len(queue) == 0:
            return observation
        numbers = len(self._mean)
        first, *rest = self._weights
        inputs = np.zeros(first.shape[1], np.float32)
        inputs[-1] = 1.0
        state = inputs[:numbers]
        shown = inputs[numbers:-1]
        state[:] = (observation - self._mean) / self._deviation if self._changes else observation
        outputs = np.empty(len(first), np.float32)
        floors = [np.zeros(weight.shape[1], np.float32) for weight in rest]
        results = [np.empty(len(weight), np.float32) for weight in rest]
        later = list(zip(rest, floors, results, strict=True))
        maximum = np.maximum
        one_hot = self._one_hot
        whole = 0 if queue.ndim == 1 else slice(None)
        for action in queue.tolist():
            place = action if one_hot else whole
            shown[place] = 1.0 if one_hot else action
            x = first.dot(inputs, out=outputs)
            for weight, floor, result in later:
                maximum(x, floor, out=x)
                x = weight.dot(x, out=result)
            if self._changes:
                state += x
            else:
                state[:] = x
            shown[place] = 0.0
        return self._mean + self._deviation * state if self._changes else state.copy()


def _carrying(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return a layer as one matrix whose last input is 1, and whose last output is 1 as well."""
    carried = np.zeros((len(bias) + 1, weight.shape[1] + 1), np.float32)
    carried[:-1, :-1] = weight
    carried[:-1, -1] = bias
    carried[-1, -1] = 1.0
    return carried
