"""What a recurrent run learned, as something that acts: NumPy arrays and a memory, nothing of the training code."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from deadtime.agents.policy import Policy


class RecurrentPolicy(Policy):
    """Acts on what it has seen since `reset`; it never looks at the queue."""

    agent = "recurrent"

    def __init__(self, arrays: dict[str, np.ndarray], delay: int):
        """`arrays` are those of one seed's record."""
        self.delay = delay
        part = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
        layers = sum(name.startswith("layer/") for name in part) // 2
        self._layers = [(part[f"layer/{i}/weight"], part[f"layer/{i}/bias"]) for i in range(layers)]
        self._gates = part["lstm/input"], part["lstm/output"], part["lstm/bias"]
        norms = sum(name.startswith("norm/") for name in part) // 2
        self._norms = [(part[f"norm/{i}/gain"], part[f"norm/{i}/shift"]) for i in range(norms)]
        self._numbers = self._layers[0][0].shape[1]
        self.observation_shape = (self._numbers,)
        self.num_actions = len(self._layers[-1][1]) - 1
        self.reset()
        self._check()

    def _check(self) -> None:
        """Raise if the layers do not fit each other."""
        try:
            good = self.see(np.zeros(self._numbers)).shape == (self.num_actions,) != (0,)
        except ValueError:
            good = False
        if not good:
            raise ValueError("the layers of a policy fit each other and its environment; these do not: train it again")
        self.reset()

    def reset(self) -> None:
        """Start an episode: forget what was seen."""
        self._cell = self._output = np.zeros(len(self._gates[2]) // 4, np.float32)

    def act(self, observation: Any, pending_actions: Any = ()) -> int:
        """Return the likeliest action, which is executed after the pending ones; the observation is remembered."""
        return int(np.argmax(self.see(observation)))

    def see(self, observation: Any) -> Float[np.ndarray, " A"]:
        """Take in an observation; return the policy's logits."""
        x = self.predicted_observation(observation)
        for weight, bias in self._layers[:-1]:
            x = np.tanh(weight @ x + bias)
        from_input, from_output, bias = self._gates
        gates = self._normal(0, from_input @ x) + self._normal(1, from_output @ self._output) + bias
        take, hold, show, candidate = np.split(gates, 4)
        self._cell = _sigmoid(hold) * self._cell + _sigmoid(take) * np.tanh(candidate)
        self._output = _sigmoid(show) * np.tanh(self._normal(2, self._cell))
        weight, bias = self._layers[-1]
        return (weight @ self._output + bias)[:-1]

    def predicted_observation(self, observation: Any, pending_actions: Any = ()) -> Float[np.ndarray, " D"]:
        """The present: it has no forward model."""
        obs = np.asarray(observation)
        if obs.shape != (self._numbers,) or obs.dtype.kind not in "iuf" or not np.isfinite(obs).all():
            raise ValueError(
                f"an observation is {self._numbers} finite numbers; got {observation!r}: pass what the environment gave"
            )
        return obs.astype(np.float32)

    def _normal(self, i: int, x: np.ndarray) -> np.ndarray:
        """Normalised as the i-th norm says, if there are any."""
        if not self._norms:
            return x
        gain, shift = self._norms[i]
        return (x - x.mean()) / np.sqrt(x.var() + np.float32(1e-5)) * gain + shift


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * x)
