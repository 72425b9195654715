"""What a deep run learned, as something that acts: NumPy arrays and one compiled function, nothing of the training code."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from jaxtyping import Float

from deadtime.agents.policy import Policy
from deadtime.agents.presets import DoubleQ
from deadtime.agents.views import View


class DeepPolicy(Policy):
    """Acts on an observation and its pending actions, through its forward model if it has one."""

    def __init__(self, arrays: dict[str, np.ndarray], view: View, settings: DoubleQ, delay: int, capacity: int):
        """`arrays` are those of one seed's record; `capacity` is the queue's room in the program that trained them."""
        if settings.model == "simulator" and view.predicts:
            raise ValueError(
                "this agent was trained with the simulator as its model, which it can't take along: train a learned one"
            )
        self.delay, self.agent, self.sees_queue = delay, view.name, view.sees == "queue"
        self._settings = settings
        self._q = _network(arrays, "q", 0)
        self.num_actions = len(self._q[-1])
        self._models = [_network(arrays, "model", i) for i in range(settings.members)] if view.predicts else []
        self._scales = tuple(
            np.ascontiguousarray(arrays[f"{part}/{name}"], np.float32)
            for part in ("inputs", "changes")
            for name in ("mean", "deviation")
        )
        self._inputs = self._q[0].shape[1]
        self.observation_shape = self._scales[0].shape
        self._numbers = len(self._scales[0])
        self._room = capacity
        self._one_hot = settings.model == "change"
        self._check()

    def _check(self) -> None:
        """Raise if the layers do not fit each other: compiled code checks no index, and would read outside them."""
        n, actions, sees_queue = self._numbers, self.num_actions, self.sees_queue
        seen = n + (actions if self._settings.one_hot_queue else 1) * self._room if sees_queue else self._inputs
        into = n + (actions if self._one_hot else 1)
        good = n <= seen and actions > 0 and all(scale.shape == (n,) for scale in self._scales)
        good = good and (self._room >= self.delay or not sees_queue)
        if not good or not _fit(self._q, seen, actions) or not all(_fit(model, into, n) for model in self._models):
            raise ValueError("the layers of a policy fit each other and its environment; these do not: train it again")

    def act(self, observation: Any, pending_actions: Any = ()) -> int:
        """Return the action to choose now, which is executed after the pending ones."""
        return int(np.argmax(self.q_values(observation, pending_actions)))

    def q_values(self, observation: Any, pending_actions: Any = ()) -> Float[np.ndarray, " A"]:
        """Return the value of each action, averaged over the predictions."""
        obs, queue = self._checked(observation, pending_actions)
        if self.sees_queue:
            return _forward(self._q, self._with_queue(obs, queue))
        if not self._models:
            return _forward(self._q, self._padded(obs))
        total = np.zeros(self.num_actions, np.float32)
        for model in self._models:
            ahead = _roll(model, self._scales, self._one_hot, self.num_actions, obs, queue)
            total += _forward(self._q, self._padded(ahead))
        return total / len(self._models)

    def predicted_observation(self, observation: Any, pending_actions: Any = ()) -> Float[np.ndarray, " D"]:
        """Return the observation predicted for the next action's execution; without a model, the present one."""
        obs, queue = self._checked(observation, pending_actions)
        if not self._models:
            return obs
        ahead = [_roll(model, self._scales, self._one_hot, self.num_actions, obs, queue) for model in self._models]
        return np.mean(ahead, axis=0)

    def _padded(self, obs: np.ndarray) -> np.ndarray:
        """A network that was trained beside others may have inputs for a queue that this agent never sees."""
        if self._inputs == self._numbers:
            return obs
        return np.concatenate([obs, np.zeros(self._inputs - self._numbers, np.float32)])

    def _with_queue(self, obs: np.ndarray, queue: np.ndarray) -> np.ndarray:
        x, per_action = np.zeros(self._inputs, np.float32), self.num_actions if self._settings.one_hot_queue else 1
        x[: self._numbers] = obs
        first = self._numbers + per_action * (self._room - len(queue))
        if self._settings.one_hot_queue:
            x[first + per_action * np.arange(len(queue)) + queue] = 1.0
        else:
            x[first:] = queue
        return x

    def _checked(self, observation: Any, pending_actions: Any) -> tuple[np.ndarray, np.ndarray]:
        obs, queue = np.asarray(observation), np.asarray(pending_actions)
        if obs.shape != (self._numbers,) or obs.dtype.kind not in "iuf" or not np.isfinite(obs).all():
            raise ValueError(
                f"an observation is {self._numbers} finite numbers; got {observation!r}: pass what the environment gave"
            )
        if queue.size == 0:
            queue = np.zeros(0, np.int64)
        outside = queue.dtype.kind not in "iu" or ((queue < 0) | (queue >= self.num_actions)).any()
        if queue.shape != (self.delay,) or outside:
            raise ValueError(
                f"pending_actions are the {self.delay} chosen last, oldest first, each from 0 to {self.num_actions - 1}; "
                f"got {pending_actions!r}: pass info['pending_actions'], or use policy.at_delay(m) for another delay"
            )
        return obs.astype(np.float32), queue.astype(np.int64)


def _network(arrays: dict[str, np.ndarray], part: str, member: int) -> tuple[np.ndarray, ...]:
    """Weights and biases in turn, contiguous for compiled code."""
    layers = 1 + max(int(name.split("/")[1]) for name in arrays if name.startswith(f"{part}/"))
    chosen = []
    for i in range(layers):
        for kind in ("weight", "bias"):
            array = arrays[f"{part}/{i}/{kind}"]
            chosen.append(np.ascontiguousarray(array[member] if part == "model" else array, np.float32))
    return tuple(chosen)


def _fit(network: tuple[np.ndarray, ...], inputs: int, outputs: int) -> bool:
    """Whether each layer takes what the one before gives, from `inputs` to `outputs`."""
    for weight, bias in zip(network[::2], network[1::2], strict=True):
        if weight.shape != (len(bias), inputs) or bias.ndim != 1:
            return False
        inputs = len(bias)
    return inputs == outputs


@numba.njit(cache=True)
def _layer(weight, bias, x, last):  # type: ignore[no-untyped-def]
    out = np.empty(weight.shape[0], np.float32)
    for i in range(weight.shape[0]):
        total = bias[i]
        for j in range(weight.shape[1]):
            total += weight[i, j] * x[j]
        out[i] = total if last else max(total, np.float32(0.0))
    return out


def _forward(network: tuple[np.ndarray, ...], x: np.ndarray) -> np.ndarray:
    layers = len(network) // 2
    for i in range(layers):
        x = _layer(network[2 * i], network[2 * i + 1], x, i == layers - 1)
    return x


def _roll(network, scales, one_hot, actions, obs, queue):  # type: ignore[no-untyped-def]
    """The model's path through the queue; networks of two hidden layers, the usual ones, in one compiled call."""
    if len(network) == 6:
        return _roll_compiled(*network, *scales, one_hot, actions, obs, queue)
    for action in queue:
        units = (obs - scales[0]) / scales[1] if one_hot else obs
        shown = np.eye(actions, dtype=np.float32)[action] if one_hot else np.float32([action])
        out = _forward(network, np.concatenate([units, shown]))
        obs = obs + scales[2] + scales[3] * out if one_hot else out
    return obs


@numba.njit(cache=True)
def _roll_compiled(w0, b0, w1, b1, w2, b2, mean, deviation, change, spread, one_hot, actions, obs, queue):  # type: ignore[no-untyped-def]
    n = obs.shape[0]
    x = np.zeros(w0.shape[1], np.float32)
    now = obs.copy()
    for action in queue:
        for i in range(n):
            x[i] = (now[i] - mean[i]) / deviation[i] if one_hot else now[i]
        if one_hot:
            for a in range(actions):
                x[n + a] = 1.0 if a == action else 0.0
        else:
            x[n] = action
        out = _layer(w2, b2, _layer(w1, b1, _layer(w0, b0, x, False), False), True)
        for i in range(n):
            now[i] = now[i] + change[i] + spread[i] * out[i] if one_hot else out[i]
    return now
