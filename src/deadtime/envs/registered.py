"""The paper's environments for Gymnasium in plain NumPy.

This second implementation is tested against the functional one.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv, PendulumEnv

from deadtime.envs.maze_layout import carve, draw_image, draw_text, model
from deadtime.envs.noise import check_noise, check_perturb, perturbed
from deadtime.envs.walk_settings import WalkSettings


class NoisyCartPoleEnv(CartPoleEnv):
    """Gymnasium's CartPole with noise on its masses, or also on its length, at each step."""

    def __init__(self, noise: float = 0.1, perturb: str = "masses", render_mode: str | None = None):
        """Make the environment; `noise` is a standard deviation relative to the nominal value."""
        super().__init__(render_mode=render_mode)
        self.noise = check_noise(noise)
        self._lengths = check_perturb(perturb)
        self._nominal = self.masscart, self.masspole, self.length

    def step(self, action: int | np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        """Step with perturbed values, then restore the nominal ones, which the picture uses."""
        if not self.noise:
            return super().step(action)
        normal = self.np_random.standard_normal(3)
        cart, pole, length = self._nominal
        self._set(
            perturbed(cart, self.noise, normal[0], np),
            perturbed(pole, self.noise, normal[1], np),
            perturbed(length, self.noise, normal[2], np) if self._lengths else length,
        )
        try:
            return super().step(action)
        finally:
            self._set(*self._nominal)

    def _set(self, cart: float, pole: float, length: float) -> None:
        self.masscart = cart
        self.masspole = pole
        self.length = length
        self.total_mass = pole + cart
        self.polemass_length = pole * length


class NoisyAcrobotEnv(AcrobotEnv):
    """Gymnasium's Acrobot with noise on its masses, or also on its lengths, at each step."""

    def __init__(self, noise: float = 0.1, perturb: str = "masses", render_mode: str | None = None):
        """Make the environment; `noise` is a standard deviation relative to the nominal value.

        A centre of mass moves with the length of its link.
        """
        super().__init__(render_mode=render_mode)
        self.noise = check_noise(noise)
        self._lengths = check_perturb(perturb)

    def step(self, a: int | np.integer) -> tuple[Any, float, bool, bool, dict]:
        """Step with perturbed values, then remove them, so that the class's nominal ones apply."""
        if not self.noise:
            return super().step(a)
        normal = self.np_random.standard_normal(4)
        names = ["LINK_MASS_1", "LINK_MASS_2"] + ["LINK_LENGTH_1", "LINK_LENGTH_2"] * self._lengths
        for name, draw in zip(names, normal, strict=False):
            setattr(self, name, perturbed(getattr(AcrobotEnv, name), self.noise, draw, np))
        if self._lengths:
            self.LINK_COM_POS_1 = (
                self.LINK_LENGTH_1 * AcrobotEnv.LINK_COM_POS_1 / AcrobotEnv.LINK_LENGTH_1
            )
            self.LINK_COM_POS_2 = (
                self.LINK_LENGTH_2 * AcrobotEnv.LINK_COM_POS_2 / AcrobotEnv.LINK_LENGTH_2
            )
            names += ["LINK_COM_POS_1", "LINK_COM_POS_2"]
        try:
            return super().step(a)
        finally:
            for name in names:
                delattr(self, name)


class NoisyPendulumEnv(PendulumEnv):
    """Gymnasium's Pendulum with other constants, and with noise on its mass at each step."""

    def __init__(
        self,
        noise: float = 0.1,
        perturb: str = "masses",
        mass: float = 1.0,
        length: float = 1.0,
        gravity: float = 10.0,
        render_mode: str | None = None,
    ):
        """Make the environment; `noise` is a standard deviation relative to the nominal value."""
        super().__init__(render_mode=render_mode, g=gravity)
        self.noise = check_noise(noise)
        self._lengths = check_perturb(perturb)
        self._nominal = mass, length
        self.m, self.l = self._nominal

    def step(self, u: np.ndarray) -> tuple[Any, Any, bool, bool, dict]:
        """Step with perturbed values, then restore the nominal ones, which the picture uses."""
        if not self.noise:
            return super().step(u)
        normal = self.np_random.standard_normal(2)
        mass, length = self._nominal
        self.m = perturbed(mass, self.noise, normal[0], np)
        self.l = perturbed(length, self.noise, normal[1], np) if self._lengths else length
        try:
            return super().step(u)
        finally:
            self.m, self.l = self._nominal


class MazeEnv(gym.Env):
    """A random maze: `maze_seed` decides the walls, the seed of `reset` the noise."""

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 8}  # noqa: RUF012

    def __init__(
        self, size: int = 10, noise: float = 0.0, maze_seed: int = 0, render_mode: str | None = None
    ):
        """Make the maze; an action is replaced by a random one with probability `noise`."""
        self.render_mode = render_mode
        self.noise = check_noise(noise)
        self._leads_to = carve(size, maze_seed)
        cells = len(self._leads_to)
        self.goal = cells - 1
        self._step_cost = 1 / (10 * cells)
        self._max_steps = 10 * cells
        self.action_space = spaces.Discrete(4)
        self.observation_space = spaces.Discrete(cells)
        self.cell = 0
        self._time = 0

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the exact transition probabilities P and rewards r of this maze."""
        return model(self._leads_to, self.noise)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict]:
        """Start in the top left cell."""
        super().reset(seed=seed)
        self.cell = 0
        self._time = 0
        return self.cell, {}

    def step(self, action: int | np.integer) -> tuple[int, float, bool, bool, dict]:
        """Step the maze; the reward is 1 at the goal and -1/(10 N²) elsewhere."""
        if not self.action_space.contains(action):
            raise ValueError(
                "a maze action is 0 (up), 1 (right), 2 (down) or 3 (left); "
                f"got {action!r}: choose one of these"
            )
        if self.np_random.random() < self.noise:
            action = self.np_random.integers(4)
        self.cell = int(self._leads_to[self.cell, action])
        self._time += 1
        terminated = self.cell == self.goal
        reward = 1.0 if terminated else -self._step_cost
        return self.cell, reward, terminated, self._time >= self._max_steps, {}

    def render(self) -> str | np.ndarray | None:
        """Return the maze as text ("ansi") or as an image ("rgb_array")."""
        if self.render_mode == "ansi":
            return draw_text(self._leads_to, self.cell)
        if self.render_mode == "rgb_array":
            return draw_image(self._leads_to, self.cell)
        return None


class WalkEnv(gym.Env):
    """The random walk with momentum (see `deadtime.envs.walk`)."""

    def __init__(self, length: int = 40, momentum: float = 0.6, near: int = 3):
        """Make the walk.

        `momentum` is the probability of a step away from 0. Action 0 pays where |x| ≤ `near`.
        """
        self.settings = WalkSettings(length, momentum, near)
        self.action_space = self.settings.action_space()
        self.observation_space = self.settings.observation_space()
        self.x = 0
        self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict]:
        """Start at 0."""
        super().reset(seed=seed)
        self.x = 0
        self._time = 0
        return self.settings.number(self.x, self._time), {}

    def step(self, action: int | np.integer) -> tuple[int, float, bool, bool, dict]:
        """Move the walk; the reward is 1 if the action fits the position before the move."""
        if not self.action_space.contains(action):
            raise ValueError(
                f"an action of the walk is 0 (near) or 1 (far); got {action!r}: choose one of these"
            )
        reward = float((abs(self.x) > self.settings.near) == (action == 1))
        away = self.np_random.random() < (self.settings.momentum if self.x else 0.5)
        self.x += 1 if away == (self.x >= 0) else -1
        self._time += 1
        return (
            self.settings.number(self.x, self._time),
            reward,
            self._time >= self.settings.length,
            False,
            {},
        )
