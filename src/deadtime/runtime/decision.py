"""A network policy's decision: queue, forward models, network and head, in reused arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deadtime.runtime.forward_models import ForwardModel, roller_of
from deadtime.runtime.lstm_cell import Memory
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.network import Network, NetworkStep
from deadtime.runtime.views import Shown, own_inputs


class InputLayout(NamedTuple):
    """The order of a network's inputs.

    The inputs are the observation, the known age, unused inputs and the pending actions.
    """

    width: int
    """The number of inputs of the first layer after the convolutions."""
    age_inputs: int
    """The number of inputs for the known age (see `Manifest.age_inputs`)."""
    sees_queue: bool
    queue_width: int
    """The number of inputs for one pending action."""
    one_hot: bool
    shown: Shown | None
    """Custom inputs; None for the order above."""


class Head(NamedTuple):
    """The meaning of a network's outputs (see `Manifest.head`)."""

    kind: str
    outputs: int
    """The number of values, logits or numbers of an action."""
    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    reach: np.ndarray


class Parts(NamedTuple):
    """The parts of a network policy, which never change."""

    network: Network
    models: list[ForwardModel]
    inputs: InputLayout
    head: Head


def input_layout_of(manifest: Manifest, network: Network) -> InputLayout:
    """Return the order of the network's inputs."""
    return InputLayout(
        network.inputs,
        manifest.age_inputs,
        manifest.sees == "queue",
        manifest.queue_width,
        manifest.encoder == "frames" or manifest.one_hot_queue,
        own_inputs(manifest.agent),
    )


def head_of(manifest: Manifest) -> Head:
    """Return the head of a policy."""
    low = np.array(manifest.low, np.float32)
    high = np.array(manifest.high, np.float32)
    ends = np.array(manifest.low), np.array(manifest.high)
    centre = ((ends[1] + ends[0]) / 2).astype(np.float32)
    reach = ((ends[1] - ends[0]) / 2).astype(np.float32)
    return Head(manifest.head, manifest.actions or len(low), low, high, centre, reach)


class Decision:
    """The arrays of intermediate results of a policy's decision, which each decision reuses."""

    def __init__(self, parts: Parts):
        """Allocate the arrays."""
        self._network = parts.network
        self._step = NetworkStep(parts.network)
        self._rolls = [roller_of(model) for model in parts.models]
        self._layout = parts.inputs
        self._head = parts.head
        self._inputs = np.zeros(parts.inputs.width, np.float32)
        self._total = np.zeros(len(parts.network.last[1]), np.float32)

    def outputs(
        self, observation: np.ndarray, queue: np.ndarray, memory: Memory | None, known: int = 0
    ) -> tuple[np.ndarray, Memory | None]:
        """Return the values, the logits or the bounded action, and the next memory.

        `known` is 1 + the age that the agent knows, 0 for none. The arguments are not checked. The
        next decision overwrites the returned arrays.
        """
        with np.errstate(all="ignore"):
            if len(self._rolls) < 2:
                if self._rolls:
                    observation = self._rolls[0](observation, queue)
                outputs, memory = self._step.outputs(self._shown(observation, queue, known), memory)
                return self._headed(outputs), memory
            total = self._total
            total.fill(0.0)
            for roll in self._rolls:
                x = self._shown(roll(observation, queue), queue, known)
                outputs, memory = self._step.outputs(x, memory)
                np.add(total, outputs, out=total)
            np.divide(total, np.float32(len(self._rolls)), out=total)
            return self._headed(total), memory

    def _shown(self, observation: np.ndarray, queue: np.ndarray, known: int) -> np.ndarray:
        """Return the inputs of the first layer.

        The pending actions fill the last inputs of the queue. Unused inputs are 0.
        """
        layout, x = self._layout, self._inputs
        if layout.shown is not None:
            x[:] = layout.shown.inputs(observation, queue, len(queue))
            return x
        seen = self._network.seen(observation)
        if len(seen) == layout.width:
            return seen
        x[: len(seen)] = seen
        start = len(seen) + layout.age_inputs
        if layout.age_inputs:
            x[len(seen) : start] = 0.0
            x[len(seen) + known] = 1.0
        if layout.sees_queue:
            first = layout.width - layout.queue_width * len(queue)
            if layout.one_hot:
                x[start:] = 0.0
                for place, action in enumerate(queue.tolist()):
                    x[first + layout.queue_width * place + action] = 1.0
            else:
                x[first:] = queue.reshape(-1)
        return x

    def _headed(self, outputs: np.ndarray) -> np.ndarray:
        """Return the values, the logits or the bounded action for the network's outputs."""
        head = self._head
        found = outputs[: head.outputs]
        if head.kind == "dueling":
            shift = outputs[-1] - np.add.reduce(found) / np.float32(head.outputs)
            return np.add(found, shift, out=found)
        if head.kind != "bounded":
            return found
        if np.isnan(np.add.reduce(found)) and np.isnan(found).any():
            rule = "the outputs of a network are numbers"
            raise ValueError(f"{rule}; got {found} for an action: train it again")
        np.tanh(found, out=found)
        np.multiply(head.reach, found, out=found)
        np.add(head.centre, found, out=found)
        np.maximum(found, head.low, out=found)  # rounding may leave the box
        return np.minimum(found, head.high, out=found)
