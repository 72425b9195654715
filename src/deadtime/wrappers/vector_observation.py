"""Delayed observations of a Gymnasium vector environment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper

from deadtime.delays.convention import FixedDelay, check_memory
from deadtime.delays.nested import from_leaves, leaf_spaces, space_leaves
from deadtime.delays.parse import DelayLike, as_process
from deadtime.wrappers.age_streams import AgeStreams
from deadtime.wrappers.augmented_observation import (
    beneath,
    check_outermost,
    check_rewards,
    second_observation_delay,
)
from deadtime.wrappers.episodes import Episodes, Step, own_seeds
from deadtime.wrappers.scalar import OBSERVATIONS

_KEPT = spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box


class VectorObservationDelay(FixedDelay, VectorWrapper):
    """`ObservationDelay` on each environment of a batch.

    ``info["observation_age"]`` has shape (num_envs,).
    """

    def __init__(self, env: VectorEnv, delay: DelayLike, rewards: str = "step"):
        """Wrap a vector environment; at delay 0 the observations are the present ones."""
        self._episodes = Episodes(env, "ObservationDelay")
        check_outermost(env, "VectorObservationDelay")
        super().__init__(env)
        for leaf in leaf_spaces(env.single_observation_space):
            if not isinstance(leaf, _KEPT):
                raise ValueError(
                    "VectorObservationDelay keeps Discrete, MultiDiscrete, MultiBinary, Box, Dict "
                    f"and Tuple; got {leaf}: put ObservationDelay on each environment instead"
                )
        self.process = as_process(delay)
        for other in beneath(env, VectorObservationDelay):
            raise second_observation_delay(other.process, self.process)
        self._delay = self.process.longest
        self._pays_late = check_rewards(rewards)
        self._length = self._delay + 1
        leaves = leaf_spaces(env.observation_space)
        size = sum(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape or ()) for leaf in leaves)
        check_memory("a history of observations", self._delay, self._length * size)
        self._history: list[np.ndarray] | None = None
        self._row = 0
        count = env.num_envs
        self._ages = AgeStreams(self.process, OBSERVATIONS, count)
        self._steps = np.zeros(count, np.int64)
        self._age = np.zeros(count, np.int64)
        self._owed = np.zeros((self._length, count))
        self._unpaid = np.zeros(count, np.int64)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; environments that restart show the new observation, the others repeat theirs."""
        started = self._episodes.at_reset(options)
        obs, info = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._episodes.reset(started, options)
        if self._history is None:
            leaves = [np.asarray(leaf) for _, leaf in space_leaves(self.env.observation_space, obs)]
            self._history = [np.zeros((self._length, *leaf.shape), leaf.dtype) for leaf in leaves]
        self._start(started, own_seeds(seed, self.num_envs))
        return self._record(obs), {**info, **self._age_info()}

    def step(self, actions: object) -> Step:
        """Step at once, but show earlier observations of the same episodes."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        started = self._episodes.at_step(terminated, truncated)
        stepped = np.ones_like(started) if self._episodes.same_step else ~started
        ended = terminated | truncated
        self._ages.advance(stepped, ended)
        self._steps = self._steps + stepped
        self._age = np.minimum(self._ages.now, self._steps)
        if self._pays_late:
            reward = self._paid(reward, stepped, ended)
        if self._episodes.same_step and started.any():
            info = {**info, "final_obs": self._final(info["final_obs"], started)}
            info["final_info"] = {**info.get("final_info", {}), **self._age_info(started)}
        if started.any():
            self._start(started)
        self._row = (self._row + 1) % self._length
        return self._record(obs), reward, terminated, truncated, {**info, **self._age_info()}

    def _start(self, started: np.ndarray, seeds: list[int | None] | None = None) -> None:
        self._ages.start(started, seeds)
        self._steps[started] = 0
        self._age[started] = 0
        self._unpaid[started] = 0

    def _record(self, obs: object) -> Any:
        assert self._history is not None  # made by the first reset
        space = self.env.observation_space
        for log, (_, leaf) in zip(self._history, space_leaves(space, obs), strict=True):
            log[self._row] = leaf
        rows, envs = (self._row - self._age) % self._length, np.arange(self.num_envs)
        return from_leaves(space, iter([log[rows, envs] for log in self._history]))

    def _paid(self, reward: np.ndarray, stepped: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Return the rewards paid now: those of the observation shown, or all at the end."""
        self._owed = np.concatenate([self._owed[1:], np.asarray(reward, np.float64)[None]])
        unpaid = self._unpaid + stepped
        left = np.where(ended, 0, np.minimum(unpaid, self._age))
        place = np.arange(self._length)[:, None] - self._length  # -1 is the newest reward
        due = (place >= -unpaid) & (place < -left)
        self._unpaid = left
        return np.where(due, self._owed, 0.0).sum(0)

    def _final(self, final_obs: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Return the delayed view of each ended episode's last step."""
        assert self._history is not None  # made by the first reset
        shown = final_obs.copy()
        for i in np.flatnonzero(ended & (self._age > 0)):
            row = (self._row + 1 - self._age[i]) % self._length
            leaves = iter([log[row, i].copy() for log in self._history])
            shown[i] = from_leaves(self.env.observation_space, leaves)
        return shown

    def _age_info(self, mask: np.ndarray | None = None) -> dict[str, Any]:
        known = np.ones(self.num_envs, bool) if mask is None else mask.copy()
        return {"observation_age": self._age.copy(), "_observation_age": known}
