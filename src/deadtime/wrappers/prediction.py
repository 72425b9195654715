"""Predicted observations: the state in which the action that is chosen now will be executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from deadtime.delays.convention import FixedDelay
from deadtime.wrappers.augmented_observation import beneath, check_outermost
from deadtime.wrappers.scalar import ActionDelay, ObservationDelay, Step

Model = Callable[[np.ndarray, Any], np.ndarray]
"""A forward model: from an observation and an action to the next observation."""


class PredictObservation(FixedDelay, gym.Wrapper):
    """Show the observation that a forward model predicts for the time the next action is executed.

    The model is applied to the present observation and to each pending action, oldest first. After
    reset and step, ``info["present_observation"]`` is the observation of the environment. After a
    step, ``info["last_observation"]`` is the one before. With ``info["executed_action"]`` they are
    the transition that took place.

    The observation space stays that of the environment. A Box without bounds is the safest, since a
    prediction may lie outside the bounds: it is clipped to them.
    """

    def __init__(self, env: gym.Env, model: Model):
        """Wrap an environment with an `ActionDelay` of a constant delay inside."""
        check_outermost(env, "PredictObservation")
        super().__init__(env)
        delays = next(beneath(env, ActionDelay), None)
        if delays is None:
            raise ValueError(
                "PredictObservation predicts over the pending actions of an ActionDelay; there is "
                "none inside it: write PredictObservation(ActionDelay(env, delay), model)"
            )
        if delays.process.constant is None:
            raise ValueError(
                "a prediction needs to know which actions are executed, so the delay is constant; "
                f"got {delays.process}: use deadtime.delays.Buffered(process, "
                f"{delays.process.longest}), or AugmentObservation"
            )
        for late in beneath(env, ObservationDelay):
            raise ValueError(
                "PredictObservation starts from the present observation; got a delay of "
                f"observations of {late.delay}: use one ActionDelay with the sum of both"
            )
        if not isinstance(env.observation_space, spaces.Box):
            raise ValueError(
                "a forward model predicts arrays of numbers, so observations are a Box; got "
                f"{env.observation_space}: use AugmentObservation"
            )
        if isinstance(env.action_space, spaces.Dict | spaces.Tuple):
            raise ValueError(
                "a forward model takes one action at a time, from a space without parts; got "
                f"{env.action_space}: use AugmentObservation"
            )
        self._delay = delays.delay
        self.forward_model = model
        self._box = env.observation_space
        self._present: np.ndarray = np.zeros(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset, and predict over the warm-up actions."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._present = np.array(obs)
        shown = self._predicted(obs, info["pending_actions"])
        return shown, {**info, "present_observation": self._present}

    def step(self, action: object) -> Step:
        """Step, and predict over the actions that are pending now."""
        last = self._present
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._present = np.array(obs)
        info = {**info, "last_observation": last, "present_observation": self._present}
        shown = self._predicted(obs, info["pending_actions"])
        return shown, reward, terminated, truncated, info

    def _predicted(self, obs: np.ndarray, pending: np.ndarray) -> np.ndarray:
        found = np.array(obs)
        for action in pending:
            found = self.forward_model(found, action)
        return np.clip(found, self._box.low, self._box.high).astype(self._box.dtype)
