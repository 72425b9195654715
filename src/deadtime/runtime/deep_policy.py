"""The policy of a deep run: a Q-network and, for some agents, learned forward models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from deadtime.runtime.dense_layers import forward, layers_fit, layers_of
from deadtime.runtime.policy import NO_FIT, Policy, check_sees
from deadtime.runtime.rolled_model import RolledModel, Scales

if TYPE_CHECKING:
    from jaxtyping import Float

_KINDS = ("learned", "change")
"""The forward models that a policy can roll."""


class DeepPolicy(Policy):
    """A policy that acts on an observation of numbers and its pending actions."""

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        agent: str,
        sees: str,
        delay: int,
        capacity: int,
        *,
        model: str = "learned",
        members: int = 1,
        one_hot_queue: bool = False,
    ):
        """Build the policy from the arrays of one seed's record.

        `sees` says what the Q-network is shown (see `policy.SEES`), and `capacity` how many pending
        actions it has inputs for. `model` is the kind of its `members` forward models.
        """
        self._predicts = check_sees(sees)
        if self._predicts and model == "simulator":
            raise ValueError(
                "this agent predicts with the simulator, so it can't act without its environment: "
                "train one with the model learned or change"
            )
        if self._predicts and (model not in _KINDS or members < 1):
            raise ValueError(
                "an agent that predicts has 1 forward model or more "
                f"of kind {' or '.join(_KINDS)}; "
                f"got {members} of kind {model!r}: train it again"
            )
        self.agent = agent
        self.delay = delay
        self.sees_queue = sees == "queue"
        self._one_hot_queue = one_hot_queue
        self._room = capacity
        self._q = layers_of(arrays, "q")
        self.num_actions = len(self._q[-1][1])
        self._inputs = self._q[0][0].shape[1]
        scales = Scales(
            *(
                np.ascontiguousarray(arrays[f"{part}/{name}"], np.float32)
                for part in ("inputs", "changes")
                for name in ("mean", "deviation")
            )
        )
        self._numbers = len(scales.mean)
        self.observation_shape = scales.mean.shape
        self._check(scales)
        self._models = [self._model_of(arrays, i, scales, model) for i in range(members if self._predicts else 0)]

    def _check(self, scales: Scales) -> None:
        """Raise if the layers of Q do not fit each other, the observation and the queue."""
        seen = self._inputs
        if self.sees_queue:
            per_action = self.num_actions if self._one_hot_queue else 1
            seen = self._numbers + per_action * self._room
        good = self._numbers <= seen and self.num_actions > 0
        good = good and all(scale.shape == (self._numbers,) for scale in scales)
        good = good and (self._room >= self.delay or not self.sees_queue)
        if not good or not layers_fit(self._q, seen, self.num_actions):
            raise ValueError(NO_FIT)

    def _model_of(self, arrays: Mapping[str, np.ndarray], member: int, scales: Scales, kind: str) -> RolledModel:
        """Return one of the forward models, or raise if its layers do not fit."""
        layers = layers_of(arrays, "model", member)
        inputs = self._numbers + (self.num_actions if kind == "change" else 1)
        if not layers_fit(layers, inputs, self._numbers):
            raise ValueError(NO_FIT)
        with np.errstate(all="ignore"):
            return RolledModel(layers, scales, kind)

    def act(self, observation: Any, pending_actions: Any = ()) -> int:
        """Return the action to choose now, which is executed after the pending ones."""
        return int(np.argmax(self.q_values(observation, pending_actions)))

    def q_values(self, observation: Any, pending_actions: Any = ()) -> Float[np.ndarray, " A"]:
        """Return the value of each action, averaged over the predictions."""
        obs, queue = self._checked(observation, pending_actions)
        with np.errstate(all="ignore"):
            if self.sees_queue:
                return forward(self._q, self._with_queue(obs, queue))
            if not self._models:
                return forward(self._q, self._padded(obs))
            total = np.zeros(self.num_actions, np.float32)
            for model in self._models:
                total += forward(self._q, self._padded(model.roll(obs, queue)))
            return total / len(self._models)

    def predicted_observation(self, observation: Any, pending_actions: Any = ()) -> Float[np.ndarray, " D"]:
        """Return the observation predicted for the next action's execution.

        A policy without a forward model returns the present observation.
        """
        obs, queue = self._checked(observation, pending_actions)
        if not self._models:
            return obs
        with np.errstate(all="ignore"):
            return np.mean([model.roll(obs, queue) for model in self._models], axis=0)

    def _padded(self, obs: np.ndarray) -> np.ndarray:
        """Return `obs` with zeros for the queue, of which Q may have inputs that are never used."""
        if self._inputs == self._numbers:
            return obs
        return np.concatenate([obs, np.zeros(self._inputs - self._numbers, np.float32)])

    def _with_queue(self, obs: np.ndarray, queue: np.ndarray) -> np.ndarray:
        """Return `obs` followed by the pending actions, which fill the end of the queue's room."""
        per_action = self.num_actions if self._one_hot_queue else 1
        x = np.zeros(self._inputs, np.float32)
        x[: self._numbers] = obs
        first = self._numbers + per_action * (self._room - len(queue))
        if self._one_hot_queue:
            x[first + per_action * np.arange(len(queue)) + queue] = 1.0
        else:
            x[first:] = queue
        return x

    def _checked(self, observation: Any, pending_actions: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the observation and the queue as arrays, or raise if they do not fit."""
        obs = np.asarray(observation)
        queue = np.asarray(pending_actions)
        numbers = obs.shape == (self._numbers,) and obs.dtype.kind in "iuf"
        if not numbers or not np.isfinite(obs).all():
            raise ValueError(
                f"an observation is {self._numbers} finite numbers; got {observation!r}: pass what the environment gave"
            )
        if queue.size == 0:
            queue = np.zeros(0, np.int64)
        whole = queue.shape == (self.delay,) and queue.dtype.kind in "iu"
        if not whole or ((queue < 0) | (queue >= self.num_actions)).any():
            raise ValueError(
                f"pending_actions are the {self.delay} chosen last, oldest first, "
                f"each from 0 to {self.num_actions - 1}; got {pending_actions!r}: "
                "pass info['pending_actions'], or use policy.at_delay(m) for another delay"
            )
        return obs.astype(np.float32), queue.astype(np.int64)
