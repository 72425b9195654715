"""Forward models of network policies: their interface, the learned models, the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from deadtime.runtime.array_checks import NO_FIT, single
from deadtime.runtime.dense_layers import layers_of
from deadtime.runtime.manifest import Manifest


class ForwardModel(Protocol):
    """A model that predicts the observation after the pending actions."""

    def roll(self, observation: np.ndarray, queue: np.ndarray) -> np.ndarray:
        """Return the observation predicted after the actions of `queue`, oldest first.

        Both observations are float32 arrays. `queue` has shape (m,) for numbered actions, and
        (m, n) for actions of a box with n numbers.
        """


class RolledModel:
    """A learned forward model of one step, which rolls through the pending actions.

    A "learned" model maps s and the action's numbers to s'. A "change" model maps the normalised s
    and the action (one-hot if actions are numbered) to the normalised change of s. Here a "change"
    model works in units of the normalised s throughout, so the last layer includes the scale of a
    change.
    """

    def __init__(self, manifest: Manifest, arrays: Mapping[str, np.ndarray]):
        """Build the model, or raise if its arrays do not fit each other and the observation."""
        (numbers,) = manifest.observation_shape
        changes = manifest.model == "change"
        self.one_hot = changes and manifest.actions > 0
        """Whether an action is a one-hot vector."""
        width = manifest.actions if self.one_hot else len(manifest.low) or 1
        arrays = single(arrays, "model/", "inputs/", "changes/")
        layers = layers_of(arrays, "model", numbers + width)
        names = ("inputs/mean", "inputs/deviation", "changes/mean", "changes/deviation")
        scales = [arrays[name] for name in names]
        good = len(layers[-1][1]) == numbers
        if not good or any(scale.shape != (numbers,) for scale in scales):
            raise ValueError(NO_FIT)
        mean, deviation, change, spread = scales
        self.scale = (mean, deviation) if changes else None
        """The mean and the deviation of observations, if the model predicts changes."""
        if changes:
            with np.errstate(all="ignore"):
                unit = spread / deviation
                weight, bias = layers[-1]
                shift = change / deviation
                layers[-1] = weight * unit[:, None], bias * unit + shift
        self.layers = layers
        """The layers, in units of the scale."""
        *hidden, last = layers
        self._weights = [_carrying(*layer) for layer in hidden] + [np.column_stack(last)]

    def roll(self, observation: np.ndarray, queue: np.ndarray) -> np.ndarray:
        """Return the observation predicted after the actions of `queue`."""
        return self.roller()(observation, queue)

    def roller(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return `roll` with arrays of its own, which each call reuses."""
        return _Roller(self._weights, self.scale, self.one_hot).roll


class _Roller:
    """The arrays of intermediate results of a `RolledModel`.

    At usual sizes the number of NumPy calls decides the speed. So a layer is one product that
    includes its bias.
    """

    def __init__(
        self,
        weights: list[np.ndarray],
        scale: tuple[np.ndarray, np.ndarray] | None,
        one_hot: bool,
    ):
        """`scale` is the mean and the deviation of observations if the model predicts changes."""
        self._first, *rest = weights
        self._scale = scale
        self._one_hot = one_hot
        numbers = len(weights[-1])
        self._inputs = np.zeros(self._first.shape[1], np.float32)
        self._inputs[-1] = 1.0
        self._state = self._inputs[:numbers]
        self._shown = self._inputs[numbers:-1]
        self._outputs = np.empty(len(self._first), np.float32)
        floors = [np.zeros(weight.shape[1], np.float32) for weight in rest]
        results = [np.empty(len(weight), np.float32) for weight in rest]
        self._later = list(zip(rest, floors, results, strict=True))
        self._predicted = np.empty(numbers, np.float32)

    def roll(self, observation: np.ndarray, queue: np.ndarray) -> np.ndarray:
        """Return the observation predicted after the actions of `queue`."""
        if len(queue) == 0:
            return observation
        state = self._state
        predicted = self._predicted
        if self._scale is None:
            state[:] = observation
            self._follow(queue)
            predicted[:] = state
            return predicted
        mean, deviation = self._scale
        np.subtract(observation, mean, out=state)
        np.divide(state, deviation, out=state)
        self._follow(queue)
        np.multiply(deviation, state, out=predicted)
        return np.add(mean, predicted, out=predicted)

    def _follow(self, queue: np.ndarray) -> None:
        """Apply the actions of `queue` to the state."""
        first, inputs, outputs, later = self._first, self._inputs, self._outputs, self._later
        state, shown = self._state, self._shown
        one_hot, changes = self._one_hot, self._scale is not None
        maximum, add = np.maximum, np.add
        whole = 0 if queue.ndim == 1 else slice(None)
        for action in queue.tolist() if queue.ndim == 1 else queue:
            place = action if one_hot else whole
            shown[place] = 1.0 if one_hot else action
            x = first.dot(inputs, out=outputs)
            for weight, floor, result in later:
                maximum(x, floor, out=x)
                x = weight.dot(x, out=result)
            if changes:
                add(state, x, out=state)
            else:
                state[:] = x
            shown[place] = 0.0


def roller_of(model: ForwardModel) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return the function `roll` of a model, in the form that reuses its arrays if there is one."""
    return model.roller() if isinstance(model, RolledModel) else model.roll


def _carrying(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return a layer as one matrix whose last input is 1, and whose last output is 1 as well."""
    carried = np.zeros((len(bias) + 1, weight.shape[1] + 1), np.float32)
    carried[:-1, :-1] = weight
    carried[:-1, -1] = bias
    carried[-1, -1] = 1.0
    return carried


FORWARD_MODELS: dict[str, Callable[[Manifest, Mapping[str, np.ndarray]], ForwardModel]] = {
    "learned": RolledModel,
    "change": RolledModel,
}
"""Constructors of forward models by `Manifest.model`; each takes a manifest and arrays.

Add your own kind with `FORWARD_MODELS["mine"] = MyModel`. Arrays whose names begin with "model/"
are stacked over the members; a constructor gets the arrays of one member.
"""


def models_of(manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> list[ForwardModel]:
    """Return the forward models of a policy, or raise if they can't be built."""
    if not manifest.predicts or manifest.encoder == "frames":
        return []
    if manifest.model == "simulator":
        rule = "a policy that predicts with the simulator can't act without its environment"
        raise ValueError(f"{rule}; got model='simulator': train it with model learned or change")
    if manifest.model not in FORWARD_MODELS or manifest.members < 1:
        raise ValueError(
            f"an agent that predicts has 1 or more forward models of kind "
            f"{' or '.join(FORWARD_MODELS)}; got {manifest.members} of kind {manifest.model!r}: "
            "train it again"
        )
    make = FORWARD_MODELS[manifest.model]
    return [make(manifest, _own(arrays, member)) for member in range(manifest.members)]


def _own(arrays: Mapping[str, np.ndarray], member: int) -> dict[str, np.ndarray]:
    """Return the arrays, with only one member of the stacked models."""
    stacked = {name: array[member] for name, array in arrays.items() if name.startswith("model/")}
    return {**arrays, **stacked}
