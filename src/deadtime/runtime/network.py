"""The network of a policy: convolutions, layers, a memory and a last layer.

The arrays of a network on numbers are `q/0/weight`, `q/0/bias`, `q/1/weight`, … if its outputs are
values, else `layer/0/weight`, … A memory has the arrays `lstm/input`, `lstm/output`, `lstm/bias`,
and with layer normalisation `norm/0/gain`, `norm/0/shift`, … The last layer follows the memory. The
other layers have ReLU activations, or tanh if there is a memory.

The arrays of a network on frames are `.torso.weights[0]`, `.torso.biases[0]`, …, `.hidden`,
`.hidden_bias`, `.out`, `.out_bias`. A memory has the arrays `.lstm.from_input`, `.lstm.from_output`
and `.lstm.bias`. Layer normalisations are `.norm.gain` and `.norm.shift`, and
`.lstm.norms[0].gain`, … in a memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from deadtime.runtime.array_checks import NO_FIT, check_layers, single, size_of
from deadtime.runtime.dense_layers import Layer, Layers, layers_of
from deadtime.runtime.frame_layers import MOST_ACTIONS, look, torso_of, torso_outputs
from deadtime.runtime.lstm_cell import Lstm, LstmNames, LstmStep, Memory, Norm, lstm_of, normalise
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.views import own_inputs

_NUMBERS = LstmNames("lstm/input", "lstm/output", "lstm/bias", "norm/{}/gain", "norm/{}/shift")
_FRAMES = LstmNames(
    ".lstm.from_input",
    ".lstm.from_output",
    ".lstm.bias",
    ".lstm.norms[{}].gain",
    ".lstm.norms[{}].shift",
)


class Network(NamedTuple):
    """A network that maps an observation to the outputs of its last layer."""

    torso: Layers
    """The convolutions; empty in a network on numbers."""
    layers: Layers
    norm: Norm | None
    """The normalisation of the layers' outputs, if any."""
    lstm: Lstm | None
    last: Layer

    @property
    def inputs(self) -> int:
        """The number of inputs of the first layer after the convolutions."""
        first, _ = self.layers[0] if self.layers else self.last
        return first.shape[1]

    @property
    def is_tanh(self) -> bool:
        """Whether layers have tanh activations: those on numbers that precede a memory."""
        return self.lstm is not None and not self.torso

    def seen(self, observation: np.ndarray) -> np.ndarray:
        """Return the inputs that the first layer gets from an observation."""
        return look(self.torso, observation) if self.torso else observation


class NetworkStep:
    """The arrays of intermediate results of a network, which each step reuses."""

    def __init__(self, network: Network):
        """Allocate the arrays."""
        self._norm = network.norm
        self._layers = [_with_outputs(layer) for layer in network.layers]
        floors = [np.zeros(len(bias), np.float32) for _, bias in network.layers]
        self._floors = [None if network.is_tanh else floor for floor in floors]
        self._lstm = LstmStep(network.lstm) if network.lstm else None
        self._last = _with_outputs(network.last)

    def outputs(self, x: np.ndarray, memory: Memory | None) -> tuple[np.ndarray, Memory | None]:
        """Return the outputs for inputs `x` of the first layer, and the next memory."""
        for (weight, bias, out), floor in zip(self._layers, self._floors, strict=True):
            np.add(weight.dot(x, out=out), bias, out=out)
            normalise(out, self._norm)
            if floor is None:
                np.tanh(out, out=out)
            else:
                np.maximum(out, floor, out=out)
            x = out
        if self._lstm is not None and memory is not None:
            memory = self._lstm.step(memory, x)
            x = memory.output
        weight, bias, out = self._last
        return np.add(weight.dot(x, out=out), bias, out=out), memory


def _with_outputs(layer: Layer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weight, the bias and an array for the outputs of a layer."""
    weight, bias = layer
    return weight, bias, np.empty(len(bias), np.float32)


def network_of(manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> Network:
    """Return the network of a policy, or raise if the arrays do not fit the manifest."""
    build = _of_frames if manifest.encoder == "frames" else _of_numbers
    return build(manifest, arrays)


def _of_numbers(manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> Network:
    part = "q" if manifest.head in ("values", "dueling") else "layer"
    arrays = single(arrays, f"{part}/", "lstm/", "norm/")
    (numbers,) = manifest.observation_shape
    inputs = numbers + manifest.age_inputs + manifest.queue_width * manifest.capacity
    if shown := own_inputs(manifest.agent):
        inputs = shown.size(numbers, manifest.actions or len(manifest.low))
    elif manifest.sees != "queue":  # inputs for a queue may exist, but are not used
        inputs = max(size_of(arrays, f"{part}/0/weight", 1), numbers)
    lstm = None
    if manifest.memory:
        lstm = lstm_of(arrays, _NUMBERS, size_of(arrays, "lstm/input", 1))
    *layers, last = layers_of(arrays, part, inputs, len(lstm.bias) // 4 if lstm else 0)
    if lstm and lstm.from_input.shape[1] != (len(layers[-1][1]) if layers else inputs):
        raise ValueError(NO_FIT)
    wanted = (manifest.actions or len(manifest.low)) + (manifest.head == "dueling")
    given = len(last[1])
    if given < wanted or (part == "q" and given > wanted):
        raise ValueError(NO_FIT)
    return Network([], layers, None, lstm, last)


def _of_frames(manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> Network:
    torso = torso_of(arrays)
    hidden = size_of(arrays, ".hidden", 0)
    inputs = torso_outputs([len(bias) for _, bias in torso])
    inputs += manifest.queue_width * manifest.capacity
    check_layers(arrays, {".hidden": (hidden, inputs), ".hidden_bias": (hidden,)})
    norm = None
    lstm = None
    width = hidden
    if manifest.memory:
        lstm = lstm_of(arrays, _FRAMES, hidden)
        width = len(lstm.bias) // 4
    elif ".norm.gain" in arrays or ".norm.shift" in arrays:
        check_layers(arrays, {".norm.gain": (hidden,), ".norm.shift": (hidden,)})
        norm = arrays[".norm.gain"], arrays[".norm.shift"]
    outputs = MOST_ACTIONS + (manifest.head != "values")
    check_layers(arrays, {".out": (outputs, width), ".out_bias": (outputs,)})
    layer = arrays[".hidden"], arrays[".hidden_bias"]
    return Network(torso, [layer], norm, lstm, (arrays[".out"], arrays[".out_bias"]))
