"""The policy of a recurrent run: layers, an LSTM and the memory of an episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from deadtime.runtime.lstm_cell import Lstm, Memory
from deadtime.runtime.policy import NO_FIT, Policy

if TYPE_CHECKING:
    from jaxtyping import Float


class RecurrentPolicy(Policy):
    """A policy that acts on all observations since `reset`; it never looks at the queue."""

    agent = "recurrent"
    _memory: Memory

    def __init__(self, arrays: Mapping[str, np.ndarray], delay: int):
        """Build the policy from the arrays of one seed's record."""
        self.delay = delay
        part = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
        layers = sum(name.startswith("layer/") for name in part) // 2
        self._layers = [(part[f"layer/{i}/weight"], part[f"layer/{i}/bias"]) for i in range(layers)]
        norms = sum(name.startswith("norm/") for name in part) // 2
        self._lstm = Lstm(
            part["lstm/input"],
            part["lstm/output"],
            part["lstm/bias"],
            [(part[f"norm/{i}/gain"], part[f"norm/{i}/shift"]) for i in range(norms)],
        )
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
            raise ValueError(NO_FIT)
        self.reset()

    def reset(self) -> None:
        """Start an episode with an empty memory."""
        self._memory = self._lstm.empty()

    def act(self, observation: Any, pending_actions: Any = ()) -> int:
        """Return the likeliest action, which is executed after the pending ones.

        The policy remembers the observation.
        """
        return int(np.argmax(self.see(observation)))

    def see(self, observation: Any) -> Float[np.ndarray, " A"]:
        """Take in an observation; return the policy's logits."""
        x = self.predicted_observation(observation)
        for weight, bias in self._layers[:-1]:
            x = np.tanh(weight @ x + bias)
        self._memory = self._lstm.step(self._memory, x)
        weight, bias = self._layers[-1]
        return (weight @ self._memory.output + bias)[:-1]

    def predicted_observation(self, observation: Any, pending_actions: Any = ()) -> Float[np.ndarray, " D"]:
        """Return the present observation: this policy has no forward model."""
        obs = np.asarray(observation)
        numbers = obs.shape == (self._numbers,) and obs.dtype.kind in "iuf"
        if not numbers or not np.isfinite(obs).all():
            raise ValueError(
                f"an observation is {self._numbers} finite numbers; got {observation!r}: pass what the environment gave"
            )
        return obs.astype(np.float32)
