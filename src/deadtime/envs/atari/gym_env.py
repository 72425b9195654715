"""An Atari game under a delay, as a Gymnasium environment in this process."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from deadtime.delays.convention import check_delay
from deadtime.envs.atari.games import Atari
from deadtime.envs.atari.lane import Lane


class AtariEnv(gym.Env):
    """An Atari game under a delay.

    With a look-ahead, `info["predicted_observation"]` holds the frames after the pending actions.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  (as Gymnasium has it)

    def __init__(self, game: Atari | str, delay: int = 0, look_ahead: str = ""):
        """Load a game; `look_ahead` is "", "fresh" or "kept" (see `look_ahead`)."""
        game = Atari(game) if isinstance(game, str) else game
        self.lane = Lane(game.played(check_delay(delay), 0, look_ahead), draws=True)
        self._seeded = False
        self.observation_space = game.observation_space()
        self.action_space = spaces.Discrete(self.lane.num_actions)
        self.render_mode = "rgb_array"
        self.deadtime_name = f"atari:{self.lane.game.name}"
        self.pending_spec = (self.action_space, delay)
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self.lane.seed(int(self.np_random.integers(2**31)) if seed is None else seed)
            self._seeded = True
        self.lane.reset()
        self._over = False
        return self.lane.real.stack.copy(), self._info()

    def step(
        self, action: int | np.integer
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Execute the oldest pending action, and append the chosen one to the queue."""
        if self._over:
            raise gym.error.ResetNeeded(
                "a step belongs to an episode; no episode is running: call reset()"
            )
        lane = self.lane
        lane.step(int(action))
        self._over = lane.terminated or lane.truncated
        info = {"executed_action": lane.executed, **self._info()}
        return lane.real.stack.copy(), lane.reward, lane.terminated, lane.truncated, info

    def _info(self) -> dict[str, Any]:
        lane = self.lane
        foreseen = lane.game.look_ahead or not lane.game.delay
        ahead = {"predicted_observation": lane.shown.copy()} if foreseen else {}
        return {"pending_actions": lane.queue, **ahead}

    def render(self) -> np.ndarray:
        """Return the screen as an RGB array."""
        return self.lane.real.screen()
