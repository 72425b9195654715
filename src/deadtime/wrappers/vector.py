"""Delay on a Gymnasium vector environment: `gym`'s three wrappers for many environments at once, in every autoreset mode.

An environment that starts a new episode gets a new queue and a new observation history at that moment:

- NEXT_STEP: the step after the end is a reset; the action given to it is ignored, and so is not queued;
- SAME_STEP: the step that ends an episode also starts the next; `final_obs` and `final_info` speak of the old one;
- DISABLED: the caller resets, all environments or those of ``options["reset_mask"]``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, iterate

from deadtime.delays.convention import (
    FixedDelay,
    PendingActions,
    WarmUp,
    Warmup,
    check_delay,
    check_memory,
    second_delay,
)
from deadtime.delays.nested import from_leaves, leaf_spaces, map_leaves, space_leaves
from deadtime.wrappers.augmented_observation import Augmentation, beneath, check_present

Step = tuple[Any, Any, Any, Any, dict[str, Any]]


class _Episodes:
    """Which environments start an episode with the present reset or step."""

    def __init__(self, env: Any, name: str):
        if not isinstance(env, VectorEnv):
            raise ValueError(
                f"Vector{name} wraps a gymnasium.vector.VectorEnv; got {env}: use {name}"
            )
        # metadata is the environment class's own dict, which another vector environment may have written since
        mode = getattr(env.unwrapped, "autoreset_mode", env.metadata.get("autoreset_mode"))
        if not isinstance(mode, AutoresetMode):
            raise ValueError(
                f"Vector{name} must know when episodes restart; metadata['autoreset_mode'] of {env} is {mode!r}: "
                "set it to one of gymnasium.vector.AutoresetMode"
            )
        self.same_step = mode == AutoresetMode.SAME_STEP
        self._next_step = mode == AutoresetMode.NEXT_STEP
        self._ended = np.zeros(env.num_envs, bool)

    def at_reset(self, options: dict[str, Any] | None) -> np.ndarray:
        mask = np.ones_like(self._ended)
        if options is not None and "reset_mask" in options:
            mask = np.array(options["reset_mask"])
        return mask

    def reset(self, started: np.ndarray, options: dict[str, Any] | None) -> None:
        if options is not None and "reset_mask" in options:
            raise ValueError(
                f"options['reset_mask'] says which environments to reset, but the one beneath does not take it; "
                f"got {options['reset_mask']}: reset all, or use SyncVectorEnv"
            )
        self._ended = self._ended & ~started

    def at_step(self, terminated: np.ndarray, truncated: np.ndarray) -> np.ndarray:
        before, self._ended = self._ended, np.logical_or(terminated, truncated)
        if self.same_step:
            return self._ended
        return before if self._next_step else np.zeros_like(before)


def _pending_spec(env: Any) -> tuple[spaces.Space, int] | None:
    """Return the action space and delay of the `VectorActionDelay` in `env`, or None if there is none."""
    return next((wrapper.pending_spec for wrapper in beneath(env, VectorActionDelay)), None)


class VectorActionDelay(FixedDelay, VectorWrapper):
    """`ActionDelay` on each environment of a batch: ``info["pending_actions"]`` has leaves of shape (num_envs, delay, …)."""

    def __init__(self, env: VectorEnv, delay: int, warmup: Warmup = "random"):
        """`warmup` is as in `ActionDelay`, drawn for each environment on its own."""
        self._episodes = _Episodes(env, "ActionDelay")
        if (spec := _pending_spec(env)) is not None:
            raise second_delay(spec[1], delay)
        super().__init__(env)
        self._delay = check_delay(delay)
        self._pending = PendingActions(env.action_space, delay)
        self._warmups = [
            WarmUp(warmup, env.single_action_space, delay) for _ in range(env.num_envs)
        ]
        self.pending_spec = (env.single_action_space, self._delay)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; environment i is seeded as `ActionDelay` with its own seed would be."""
        started = self._episodes.at_reset(options)
        obs, info = self.env.reset(seed=seed, options=options)
        self._episodes.reset(started, options)
        seeds = (
            [seed + i for i in range(self.num_envs)]
            if isinstance(seed, int)
            else seed or [None] * self.num_envs
        )
        for i in np.flatnonzero(started):
            if (own := seeds[i]) is not None:
                self._warmups[i].seed(own)
        self._start(started, obs)
        return obs, {**info, **self._pending_info()}

    def step(self, actions: Any) -> Step:
        """Execute each environment's oldest pending action; those that restart get a new queue instead."""
        executed, _ = self._pending.push(actions)
        obs, reward, terminated, truncated, info = self.env.step(executed)
        started = self._episodes.at_step(terminated, truncated)
        info = {**info, "executed_action": executed, "_executed_action": ~started}
        if self._episodes.same_step:
            info["_executed_action"] = np.ones_like(started)
            if started.any():
                info["final_info"] = {**info.get("final_info", {}), **self._pending_info(started)}
        if started.any():
            self._start(started, obs)
        return obs, reward, terminated, truncated, {**info, **self._pending_info()}

    def _start(self, started: np.ndarray, obs: Any) -> None:
        rows = np.flatnonzero(started)
        each = (
            list(iterate(self.observation_space, obs))
            if self._warmups[0].needs_observation
            else [None] * self.num_envs
        )
        queues = [self._warmups[i].draw(each[i]) for i in rows]
        space = self.single_action_space

        def place(old: np.ndarray, *new: np.ndarray) -> np.ndarray:
            merged = np.array(old)
            merged[:, rows] = np.stack(new, axis=1)
            return merged

        self._pending.fill(map_leaves(place, space, self._pending.actions, *queues))

    def _pending_info(self, mask: np.ndarray | None = None) -> dict[str, Any]:
        queue = map_leaves(
            lambda leaf: np.swapaxes(leaf, 0, 1), self.single_action_space, self._pending.actions
        )
        return {
            "pending_actions": queue,
            "_pending_actions": np.ones(self.num_envs, bool) if mask is None else mask.copy(),
        }


class VectorObservationDelay(FixedDelay, VectorWrapper):
    """`ObservationDelay` on each environment of a batch; ``info["observation_age"]`` has shape (num_envs,)."""

    def __init__(self, env: VectorEnv, delay: int):
        """At delay 0 the observations are the present ones."""
        self._episodes = _Episodes(env, "ObservationDelay")
        super().__init__(env)
        for leaf in leaf_spaces(env.single_observation_space):
            if not isinstance(
                leaf, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box
            ):
                raise ValueError(
                    f"VectorObservationDelay keeps Discrete, MultiDiscrete, MultiBinary, Box, Dict and Tuple; got {leaf}: "
                    "put ObservationDelay on each environment instead"
                )
        self._delay = check_delay(delay)
        for augmented in beneath(env, VectorAugmentObservation):
            check_present(augmented.augmentation.delay, self._delay, "Vector")
        self._length = self._delay + 1
        leaves = leaf_spaces(env.observation_space)
        size = sum(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape or ()) for leaf in leaves)
        check_memory("a history of observations", self._delay, self._length * size)
        self._history: list[np.ndarray] | None = None
        self._now = 0
        self._age = np.zeros(env.num_envs, np.int64)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; environments that start anew show the observation of age 0, the others the one they showed."""
        started = self._episodes.at_reset(options)
        obs, info = self.env.reset(seed=seed, options=options)
        self._episodes.reset(started, options)
        if self._history is None:
            leaves = [np.asarray(leaf) for _, leaf in space_leaves(self.env.observation_space, obs)]
            self._history = [np.zeros((self._length, *leaf.shape), leaf.dtype) for leaf in leaves]
        self._age[started] = 0
        return self._record(obs), {**info, **self._age_info()}

    def step(self, actions: Any) -> Step:
        """Step at once, but show what was there `delay` steps ago in the same episode."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        started = self._episodes.at_step(terminated, truncated)
        self._age = np.minimum(self._age + 1, self._length - 1)
        if self._episodes.same_step and started.any():
            info = {**info, "final_obs": self._final(info["final_obs"], started)}
            info["final_info"] = {**info.get("final_info", {}), **self._age_info(started)}
        self._age[started] = 0
        self._now = (self._now + 1) % self._length
        return self._record(obs), reward, terminated, truncated, {**info, **self._age_info()}

    def _record(self, obs: Any) -> Any:
        assert self._history is not None
        for log, (_, leaf) in zip(
            self._history, space_leaves(self.env.observation_space, obs), strict=True
        ):
            log[self._now] = leaf
        rows, envs = (self._now - self._age) % self._length, np.arange(self.num_envs)
        return from_leaves(
            self.env.observation_space, iter([log[rows, envs] for log in self._history])
        )

    def _final(self, final_obs: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """The delayed view of each ended episode's last step; the present one only at delay 0."""
        if self._length == 1:
            return final_obs
        assert self._history is not None
        shown = final_obs.copy()
        for i in np.flatnonzero(ended):
            row = (self._now + 1 - self._age[i]) % self._length
            shown[i] = from_leaves(
                self.env.observation_space, iter([log[row, i].copy() for log in self._history])
            )
        return shown

    def _age_info(self, mask: np.ndarray | None = None) -> dict[str, Any]:
        known = np.ones(self.num_envs, bool) if mask is None else mask.copy()
        return {"observation_age": self._age.copy(), "_observation_age": known}


class VectorAugmentObservation(FixedDelay, VectorWrapper):
    """`AugmentObservation` on each environment of a batch."""

    def __init__(self, env: VectorEnv, flat: bool = False):
        """Wrap a vector environment that has `VectorActionDelay` somewhere beneath."""
        self._episodes = _Episodes(env, "AugmentObservation")
        super().__init__(env)
        self._pending_spec = _pending_spec(env)
        self.augmentation = Augmentation(env.single_observation_space, self._pending_spec, flat)
        self._delay = self.augmentation.delay
        observation_delay = sum(wrapper.delay for wrapper in beneath(env, VectorObservationDelay))
        check_present(self.augmentation.delay, observation_delay, "Vector")
        self.single_observation_space = self.augmentation.space
        self.observation_space = batch_space(self.augmentation.space, env.num_envs)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; the observations include the warm-up actions."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self.augmentation.join(obs, info["pending_actions"], (self.num_envs,)), info

    def step(self, actions: Any) -> Step:
        """Step; the observations include the actions just chosen, and `final_obs` the queue its episode ended with."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        if self._episodes.same_step and "final_obs" in info:
            info = {**info, "final_obs": self._final(info)}
        obs = self.augmentation.join(obs, info["pending_actions"], (self.num_envs,))
        return obs, reward, terminated, truncated, info

    def _final(self, info: dict[str, Any]) -> np.ndarray:
        shown = info["final_obs"].copy()
        queues = info["final_info"]["pending_actions"]
        assert self._pending_spec is not None
        for i, obs in enumerate(shown):
            if obs is not None:
                queue = map_leaves(lambda leaf, row=i: leaf[row], self._pending_spec[0], queues)
                shown[i] = self.augmentation.join(obs, queue)
        return shown
