"""Delay on a Gymnasium vector environment: the vector forms of `deadtime.wrappers.scalar`.

An environment that starts a new episode gets a new queue, a new age and a new history of
observations at that moment. `deadtime.wrappers.episodes` describes the autoreset modes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, iterate

from deadtime.delays.convention import FixedDelay, Warmup, second_delay
from deadtime.delays.nested import map_leaves
from deadtime.delays.parse import DelayLike, as_process
from deadtime.delays.pending import PendingActions
from deadtime.delays.warm_up import WarmUp
from deadtime.wrappers.age_streams import AgeStreams
from deadtime.wrappers.augmented_observation import (
    Augmentation,
    Augmented,
    Shown,
    beneath,
    check_outermost,
)
from deadtime.wrappers.episodes import Episodes, Step, own_seeds
from deadtime.wrappers.knowledge import AgeKnowledge, Observed
from deadtime.wrappers.scalar import ACTIONS
from deadtime.wrappers.vector_observation import VectorObservationDelay

__all__ = ["VectorActionDelay", "VectorAugmentObservation", "VectorObservationDelay"]


def _pending_spec(env: VectorEnv) -> tuple[spaces.Space, int] | None:
    """Return the action space and longest age of the `VectorActionDelay` in `env`, if any."""
    return next((wrapper.pending_spec for wrapper in beneath(env, VectorActionDelay)), None)


class VectorActionDelay(FixedDelay, VectorWrapper):
    """`ActionDelay` on each environment of a batch.

    ``info["pending_actions"]`` has leaves of shape (num_envs, K, …), the ages shape (num_envs,).
    """

    def __init__(
        self,
        env: VectorEnv,
        delay: DelayLike,
        warmup: Warmup = "random",
        observed: Observed = "now",
    ):
        """`warmup` and ages are as in `ActionDelay`, drawn separately for each environment."""
        self._episodes = Episodes(env, "ActionDelay")
        if (spec := _pending_spec(env)) is not None:
            raise second_delay(spec[1], delay)
        check_outermost(env, "VectorActionDelay")
        super().__init__(env)
        self.process = as_process(delay)
        self._delay = self.process.longest
        self._pending = PendingActions(env.action_space, self._delay)
        space = env.single_action_space
        self._warmups = [WarmUp(warmup, space, self._delay) for _ in range(env.num_envs)]
        self.pending_spec = (space, self._delay)
        self.knowledge = AgeKnowledge(self.process, observed)
        self._ages = AgeStreams(self.process, ACTIONS, env.num_envs)
        self._executed_ages = self._ages.now

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; environment i is seeded as `ActionDelay` with its own seed would be."""
        started = self._episodes.at_reset(options)
        obs, info = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._episodes.reset(started, options)
        seeds = own_seeds(seed, self.num_envs)
        for i in np.flatnonzero(started):
            if (own := seeds[i]) is not None:
                self._warmups[i].seed(own)
        self._start(started, obs, seeds)
        return obs, {**info, **self._pending_info(started)}

    def step(self, actions: object) -> Step:
        """Execute each environment's pending action of the present age.

        Environments that restart get a new queue instead.
        """
        self._executed_ages = ages = self._ages.now
        executed, _ = self._pending.push(actions, ages if self._ages.random else None)
        obs, reward, terminated, truncated, info = self.env.step(executed)
        started = self._episodes.at_step(terminated, truncated)
        stepped = np.ones_like(started) if self._episodes.same_step else ~started
        info = {
            **info,
            "executed_action": executed,
            "_executed_action": stepped,
            "executed_age": ages.copy(),
            "_executed_age": stepped.copy(),
        }
        self._ages.advance(stepped, terminated | truncated)
        if self._episodes.same_step and started.any():
            final = _masked(self._pending_info(), started)
            info["final_info"] = {**info.get("final_info", {}), **final}
        if started.any():
            self._start(started, obs)
        return obs, reward, terminated, truncated, {**info, **self._pending_info(started)}

    def _start(
        self, started: np.ndarray, obs: object, seeds: list[int | None] | None = None
    ) -> None:
        self._ages.start(started, seeds)
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

    def _pending_info(self, started: np.ndarray | None = None) -> dict[str, Any]:
        """Return the info after a step or reset that began the episodes of the mask `started`."""
        queue = map_leaves(
            lambda leaf: np.swapaxes(leaf, 0, 1), self.single_action_space, self._pending.actions
        )
        known = self.knowledge.after_step(self._executed_ages, self._ages.now)
        if self.knowledge.unknown_at_reset and started is not None:
            first = self.knowledge.at_reset(self._ages.now)
            known = {name: np.where(started, first[name], now) for name, now in known.items()}
        every = {"pending_actions": queue, **known}
        present = np.ones(self.num_envs, bool)
        return {**every, **{"_" + name: present for name in every}}


def _masked(info: dict[str, Any], mask: np.ndarray) -> dict[str, Any]:
    """Return `info` with `mask` as the presence of each of its entries."""
    return {name: mask.copy() if name[0] == "_" else value for name, value in info.items()}


class VectorAugmentObservation(Augmented, VectorWrapper):
    """`AugmentObservation` on each environment of a batch."""

    def __init__(self, env: VectorEnv, flat: bool = False):
        """Wrap an environment with `VectorActionDelay` or `VectorObservationDelay` inside."""
        self._episodes = Episodes(env, "AugmentObservation")
        super().__init__(env)
        actions = next(beneath(env, VectorActionDelay), None)
        observations = next(beneath(env, VectorObservationDelay), None)
        self.augmentation = Augmentation(
            env.single_observation_space,
            env.single_action_space,
            _pending_spec(env),
            None if actions is None else actions.knowledge,
            None if observations is None else observations.process,
            flat,
        )
        self._delay = self.augmentation.delay
        self._shown = Shown(self.augmentation, (self.num_envs,))
        self.single_observation_space = self.augmentation.space
        self.observation_space = batch_space(self.augmentation.space, env.num_envs)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; the observations include the warm-up actions."""
        started = self._episodes.at_reset(options)
        obs, info = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._episodes.reset(started, None)
        self._shown.start(info, None if started.all() else started)
        return self._join(obs, info), info

    def step(self, actions: object) -> Step:
        """Step; the observations include the actions just chosen.

        `final_obs` includes the queue that its episode ended with.
        """
        obs, reward, terminated, truncated, info = self.env.step(actions)
        started = self._episodes.at_step(terminated, truncated)
        age = info.get("action_age")
        if self._episodes.same_step and "final_obs" in info:
            final = info["final_info"]
            if age is not None:
                age = np.where(started, final["action_age"], age)
            self._shown.follow(actions, age)
            info = {**info, "final_obs": self._final(info["final_obs"], final)}
        else:
            self._shown.follow(actions, age)
        if started.any():
            self._shown.start(info, started)
        return self._join(obs, info), reward, terminated, truncated, info

    def _join(self, obs: object, info: dict[str, Any]) -> Any:
        return self.augmentation.join(obs, self._shown.parts(info), (self.num_envs,))

    def _final(self, final_obs: np.ndarray, final_info: dict[str, Any]) -> np.ndarray:
        shown = final_obs.copy()
        parts = self._shown.parts(final_info)
        for i, obs in enumerate(shown):
            if obs is not None:
                shown[i] = self.augmentation.join(obs, self._shown.row(parts, i))
        return shown
