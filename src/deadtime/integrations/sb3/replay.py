"""Replay buffers for Stable-Baselines3 whose rows hold the executed action."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from deadtime.integrations.executed_rows import UNKNOWN, Entries, ExecutedRows

Infos = list[dict[str, Any]]


class Seen(NamedTuple):
    """The inputs of a projected agent for a batch of rows, at the present or the next step."""

    state: torch.Tensor
    """The state, which the critic reads."""
    seen: torch.Tensor
    """The state and queue that the action was decided from, which the actor reads."""
    fixed: torch.Tensor | None
    """Whether the action is given, shape (B, 1); None if the actor chooses all of them."""
    action: torch.Tensor
    """The given action."""
    is_next: bool
    """Whether the action is the next one, of a target."""


class ExecutedReplayBuffer(ReplayBuffer):
    """Rows (s_t, action executed at t, r_t, s_{t+1}) from an environment that shows predictions.

    The states come from the entries of `info` that `deadtime.PredictObservation` adds. So the
    agent decides from predictions, and learns from what happened. A step whose action was chosen
    before its episode leaves no row.

    With `n_steps` above 1, a row sums the rewards of that many steps, discounted by `gamma`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_steps: int = 1,
        gamma: float = 0.99,
    ):
        """Take the arguments of `NStepReplayBuffer`; each next observation is stored too."""
        if optimize_memory_usage:
            raise ValueError(
                "rows under a delay need both observations of a step; got "
                "optimize_memory_usage=True: pass False"
            )
        super().__init__(
            buffer_size,
            observation_space,
            action_space,
            device,
            n_envs,
            handle_timeout_termination=handle_timeout_termination,
        )
        self.rows = ExecutedRows(self.buffer_size, self.n_envs, n_steps)
        self._n_steps = n_steps
        self._gamma = gamma
        self._expected: np.ndarray | None = None

    def reset(self) -> None:
        """Forget all rows."""
        super().reset()
        self.rows.clear()

    def add(
        self,
        obs: np.ndarray,
        next_obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        done: np.ndarray,
        infos: Infos,
    ) -> None:
        """Add a step of each environment."""
        obs, next_obs = self._observations(obs, next_obs, infos)
        truncated = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        ended = np.asarray(done, bool)
        self._find_resets(obs, next_obs)
        self.rows.add(
            np.array([_entry(info, "executed_age") for info in infos]),
            self._next_ages(infos),
            ended & ~truncated,
            ended & truncated,
        )
        super().add(obs, next_obs, action, reward, done, infos)

    def _observations(
        self, obs: np.ndarray, next_obs: np.ndarray, infos: Infos
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the observations to store."""
        last = np.stack([_entry(info, "last_observation") for info in infos])
        present = np.stack([_entry(info, "present_observation") for info in infos])
        return last, present

    def _next_ages(self, infos: Infos) -> np.ndarray:
        """Return the ages of the next step's actions; rows of states do not need them."""
        return np.zeros(len(infos), np.int64)

    def _find_resets(self, obs: np.ndarray, next_obs: np.ndarray) -> None:
        """Begin new episodes where the observation does not continue the last step.

        Stable-Baselines3 resets the environments at each call of `learn`, and does not tell the
        buffer.
        """
        if self._expected is not None:
            unknown = np.isnan(obs) & np.isnan(self._expected)
            differs = (obs != self._expected) & ~unknown
            self.rows.restart(differs.reshape(self.n_envs, -1).any(axis=1))
        self._expected = np.array(next_obs)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        """Return a batch of rows."""
        return self._batch(*self.rows.draw(batch_size), env)

    def _batch(
        self, places: np.ndarray, lanes: np.ndarray, env: VecNormalize | None
    ) -> ReplayBufferSamples:
        entries = self.rows.entries(places, lanes)
        return ReplayBufferSamples(
            observations=self._observed(self.observations[places, lanes], env),
            actions=self.to_torch(self.actions[entries.chosen, lanes]),
            next_observations=self._observed(self.next_observations[entries.last, lanes], env),
            **self._outcomes(places, lanes, entries, env),
        )

    def _observed(self, observations: np.ndarray, env: VecNormalize | None) -> torch.Tensor:
        return self.to_torch(self._normalize_obs(observations, env))

    def _outcomes(
        self, places: np.ndarray, lanes: np.ndarray, entries: Entries, env: VecNormalize | None
    ) -> dict[str, torch.Tensor | None]:
        """Return sums of rewards, the ends that are not truncations, and the discounts of values.

        As in Stable-Baselines3, rows of one step leave the discount to the learner.
        """
        last = entries.last, lanes
        terminated = self.dones[last] * (1 - self.timeouts[last])
        ahead = np.arange(self._n_steps)
        rewards = self.rewards[(places[:, None] + ahead) % self.buffer_size, lanes[:, None]]
        counted = ahead < entries.steps[:, None]
        factors = self._gamma ** ahead.astype(np.float32) * counted
        total = (self._normalize_reward(rewards, env) * factors).sum(axis=1, keepdims=True)
        steps = entries.steps.reshape(-1, 1).astype(np.float32)
        return {
            "dones": self.to_torch(terminated.reshape(-1, 1)),
            "rewards": self.to_torch(total.astype(np.float32)),
            "discounts": self.to_torch(self._gamma**steps) if self._n_steps > 1 else None,
        }


class ProjectedReplayBuffer(ExecutedReplayBuffer):
    """Rows of `projected`: states for the critic, and the (s, queue) of each decision.

    Observations are flat ones of `deadtime.AugmentObservation`, whose first numbers are the state.
    A sample's `observations` and `next_observations` are `Seen`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_steps: int = 1,
        gamma: float = 0.99,
        *,
        state_size: int,
        constant_delay: int | None,
        sees_next_age: bool,
    ):
        """`sees_next_age` says whether ``info["action_age"]`` is the age of the next step."""
        super().__init__(
            buffer_size,
            observation_space,
            action_space,
            device,
            n_envs,
            optimize_memory_usage,
            handle_timeout_termination,
            n_steps,
            gamma,
        )
        self._state_size = state_size
        self._constant = constant_delay
        self._sees_next_age = sees_next_age

    def _observations(
        self, obs: np.ndarray, next_obs: np.ndarray, infos: Infos
    ) -> tuple[np.ndarray, np.ndarray]:
        return obs, next_obs

    def _next_ages(self, infos: Infos) -> np.ndarray:
        if self._constant is not None:
            return np.full(len(infos), self._constant)
        if self._sees_next_age:
            return np.array([_entry(info, "action_age") for info in infos])
        return np.full(len(infos), UNKNOWN)

    def _batch(
        self, places: np.ndarray, lanes: np.ndarray, env: VecNormalize | None
    ) -> ReplayBufferSamples:
        entries = self.rows.entries(places, lanes)
        actions = self.to_torch(self.actions[entries.chosen, lanes])
        now = self._observed(self.observations[places, lanes], env)
        then = self._observed(self.next_observations[entries.last, lanes], env)
        seen = self._observed(self.observations[entries.chosen, lanes], env)
        next_seen = self._observed(self.observations[entries.next_chosen, lanes], env)
        is_now = self.to_torch(entries.next_is_now.reshape(-1, 1))
        fixed = next_fixed = None
        if self._constant is None:
            fixed = self.to_torch(~entries.first.reshape(-1, 1))
            next_fixed = self.to_torch(entries.held.reshape(-1, 1))
        return ReplayBufferSamples(
            observations=Seen(now[:, : self._state_size], seen, fixed, actions, False),
            actions=actions,
            next_observations=Seen(
                then[:, : self._state_size],
                torch.where(is_now, then, next_seen),
                next_fixed,
                self.to_torch(self.actions[entries.next_chosen, lanes]),
                True,
            ),
            **self._outcomes(places, lanes, entries, env),
        )


def _entry(info: dict[str, Any], name: str) -> Any:
    if name not in info:
        wrappers = {
            "executed_age": "deadtime.ActionDelay(env, delay)",
            "action_age": "deadtime.ActionDelay(env, delay)",
        }
        remedy = wrappers.get(name, "deadtime.PredictObservation(ActionDelay(env, delay), model)")
        raise ValueError(
            f"rows of executed actions are made from info[{name!r}]; got {sorted(info)}: "
            f"wrap the environment, {remedy}"
        )
    return info[name]
