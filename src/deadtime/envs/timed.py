"""Gymnasium environments whose steps have a time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from deadtime._support.timeouts import Patient


class TimedEnv(gym.Wrapper):
    """An environment in a thread of its own; a step or reset that takes too long raises
    StepTimeoutError.
    """

    def __init__(self, make: Callable[[], gym.Env], name: str, seconds: float):
        """Make the environment, without a time limit; `name` is for error messages."""
        self._patient, self._seconds = Patient(name), seconds
        try:
            super().__init__(self._patient.call(make))
        except BaseException:
            self._patient.end()
            raise

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        return self._patient.call(self.env.reset, seed=seed, options=options, seconds=self._seconds)

    def step(self, action: object) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Make a step."""
        return self._patient.call(self.env.step, action, seconds=self._seconds)

    def close(self) -> None:
        """Close the environment, unless it is stuck."""
        if not self._patient.stuck:
            self._patient.call(self.env.close, seconds=self._seconds)
        self._patient.end()
