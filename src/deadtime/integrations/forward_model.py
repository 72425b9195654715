"""A forward model in PyTorch that is learned while an agent trains (extra `sb3` or `torchrl`)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from safetensors.numpy import load_file, save_file

from deadtime._support.extras import extras_needed
from deadtime.integrations.action_encoding import ActionEncoding

with extras_needed("sb3"):
    import torch
    from torch import nn

__all__ = ["ForwardModel"]

_SMALL = 1e-6


class _Scale:
    """The running mean and deviation of vectors."""

    def __init__(self, size: int):
        self.count = np.zeros(1, np.float32)
        self.mean = np.zeros(size, np.float32)
        self.square = np.zeros(size, np.float32)

    def add(self, x: np.ndarray) -> None:
        self.count += 1
        before = x - self.mean
        self.mean += before / self.count
        self.square += (before * (x - self.mean) - self.square) / self.count

    @property
    def deviation(self) -> np.ndarray:
        deviation = np.sqrt(self.square)
        return np.where(deviation > _SMALL, deviation, np.float32(1.0))

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        parts = {"count": self.count, "mean": self.mean, "square": self.square}
        return {f"{name}/{key}": part for key, part in parts.items()}


class ForwardModel:
    """A network that predicts the change of the observation that an action causes.

    Called with an observation and an action, it returns the next observation, as
    `deadtime.PredictObservation` asks. Train it with `add` and `update`. It runs on the CPU. Its
    random numbers are its own: they change no other random numbers.
    """

    def __init__(
        self,
        env: gym.Env,
        hidden: tuple[int, ...] = (64, 64),
        learning_rate: float = 1e-3,
        batch_size: int = 128,
        buffer_size: int = 50_000,
        seed: int = 0,
    ):
        """Make a model for the observations (a Box of one axis) and actions of `env`."""
        box = env.observation_space
        if not isinstance(box, spaces.Box) or len(box.shape) != 1:
            raise ValueError(
                f"a forward model predicts vectors of numbers; got observations {box}: use "
                "AugmentObservation, which needs no model"
            )
        self._encoding = ActionEncoding(env.action_space)
        self._batch_size = batch_size
        size, width = box.shape[0], self._encoding.size
        widths = (size + width, *hidden, size)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = [nn.Linear(*pair) for pair in pairwise(widths)]
        self._network = nn.Sequential()
        for layer in layers:
            self._network.append(layer)
            self._network.append(nn.ReLU())
        del self._network[-1]
        # the arrays share the memory of the weights, which the optimizer changes in place
        self._layers = [
            (layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in layers
        ]
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=learning_rate)
        self._rng = np.random.default_rng(seed)
        self._inputs, self._changes = _Scale(size), _Scale(size)
        self._seen = np.zeros((buffer_size, size), np.float32)
        self._acted = np.zeros((buffer_size, width), np.float32)
        self._changed = np.zeros((buffer_size, size), np.float32)
        self._count = 0

    def __call__(
        self, observation: np.ndarray, action: int | np.integer | np.ndarray
    ) -> np.ndarray:
        """Return the predicted next observation."""
        seen = np.asarray(observation, np.float32)
        scaled = (seen - self._inputs.mean) / self._inputs.deviation
        x = np.concatenate([scaled, self._encoding(action)])
        for weight, bias in self._layers[:-1]:
            x = np.maximum(weight @ x + bias, 0.0)
        weight, bias = self._layers[-1]
        change = self._changes.mean + self._changes.deviation * (weight @ x + bias)
        return seen + change if self._count else seen

    def add(
        self, observation: np.ndarray, action: int | np.integer | np.ndarray, following: np.ndarray
    ) -> None:
        """Add a transition to learn from."""
        place = self._count % len(self._seen)
        seen = np.asarray(observation, np.float32)
        change = np.asarray(following, np.float32) - seen
        self._seen[place] = seen
        self._acted[place] = self._encoding(action)
        self._changed[place] = change
        self._inputs.add(seen)
        self._changes.add(change)
        self._count += 1

    def update(self) -> float | None:
        """Make one step of gradient descent; return the loss, or None with too few transitions."""
        if self._count < self._batch_size:
            return None
        rows = self._rng.integers(0, min(self._count, len(self._seen)), self._batch_size)
        scaled = (self._seen[rows] - self._inputs.mean) / self._inputs.deviation
        inputs = torch.from_numpy(np.concatenate([scaled, self._acted[rows]], axis=1))
        wanted = (self._changed[rows] - self._changes.mean) / self._changes.deviation
        loss = nn.functional.mse_loss(self._network(inputs), torch.from_numpy(wanted))
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return loss.item()

    def save(self, path: str | Path) -> None:
        """Write the weights and scales to a safetensors file; transitions are left out."""
        save_file({name: part.copy() for name, part in self._arrays().items()}, path)

    def load(self, path: str | Path) -> None:
        """Read the weights and scales of a model of the same sizes."""
        own, found = self._arrays(), load_file(path)
        sizes = {name: part.shape for name, part in found.items()}
        if sizes != {name: part.shape for name, part in own.items()}:
            raise ValueError(
                f"a forward model is loaded into one of the same sizes; got {sizes}: make it with "
                "the environment and the hidden layers of the saved one"
            )
        for name, part in own.items():
            part[...] = found[name]
        self._count = max(self._count, int(found["inputs/count"][0] > 0))

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {**self._inputs.arrays("inputs"), **self._changes.arrays("changes")}
        for i, (weight, bias) in enumerate(self._layers):
            arrays |= {f"layer{i}/weight": weight, f"layer{i}/bias": bias}
        return arrays
