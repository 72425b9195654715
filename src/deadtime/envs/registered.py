"""The paper's environments as Gymnasium ones, in plain NumPy: a second implementation, tested against the functional one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv

from deadtime.envs.maze_layout import carve, draw_image, draw_text, model
from deadtime.envs.noise import check_noise, check_perturb, perturbed
from deadtime.envs.walk_settings import WalkSettings


class NoisyCartPoleEnv(CartPoleEnv):
    """Gymnasium's CartPole with new masses (and, with "masses+lengths", a new length) at each step."""

    def __init__(self, noise: float = 0.1, perturb: str = "masses", render_mode: str | None = None):
        """`noise` is the deviation relative to the nominal value."""
        super().__init__(render_mode=render_mode)
        self.noise, self._lengths = check_noise(noise), check_perturb(perturb)
        self._nominal = self.masscart, self.masspole, self.length

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """Perturb, step, and put the nominal values back (the picture is drawn with them)."""
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
        self.masscart, self.masspole, self.length = cart, pole, length
        self.total_mass, self.polemass_length = pole + cart, pole * length


class NoisyAcrobotEnv(AcrobotEnv):
    """Gymnasium's Acrobot with new masses (and, with "masses+lengths", new lengths) at each step."""

    def __init__(self, noise: float = 0.1, perturb: str = "masses", render_mode: str | None = None):
        """`noise` is the deviation relative to the nominal value; a centre of mass moves with its link's length."""
        super().__init__(render_mode=render_mode)
        self.noise, self._lengths = check_noise(noise), check_perturb(perturb)

    def step(self, a: Any) -> tuple[Any, float, bool, bool, dict]:
        """Perturb, step, and return to the nominal values, which are the class's own."""
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


class MazeEnv(gym.Env):
    """A random maze (`deadtime.envs.maze`); `maze_seed` decides its walls, the seed of `reset` its noise."""

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 8}  # noqa: RUF012

    def __init__(
        self, size: int = 10, noise: float = 0.0, maze_seed: int = 0, render_mode: str | None = None
    ):
        """`noise` is the probability that an action is replaced by a uniformly random one."""
        self.render_mode = render_mode
        self.noise, self._leads_to = check_noise(noise), carve(size, maze_seed)
        cells = len(self._leads_to)
        self.goal, self._step_cost, self._max_steps = cells - 1, 1 / (10 * cells), 10 * cells
        self.action_space, self.observation_space = spaces.Discrete(4), spaces.Discrete(cells)
        self.cell, self._time = 0, 0

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """The exact transition probabilities P and rewards r of this maze."""
        return model(self._leads_to, self.noise)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict]:
        """Begin in the top left cell."""
        super().reset(seed=seed)
        self.cell, self._time = 0, 0
        return self.cell, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict]:
        """Reward 1 for reaching the goal, -1/(10 N²) for any other step; 10 N² steps at most."""
        if not self.action_space.contains(action):
            raise ValueError(
                f"a maze action is 0 (up), 1 (right), 2 (down) or 3 (left); got {action!r}: choose one of these"
            )
        if self.np_random.random() < self.noise:
            action = self.np_random.integers(4)
        self.cell = int(self._leads_to[self.cell, action])
        self._time += 1
        terminated = self.cell == self.goal
        reward = 1.0 if terminated else -self._step_cost
        return self.cell, reward, terminated, self._time >= self._max_steps, {}

    def render(self) -> Any:
        """A string ("ansi") or an image ("rgb_array")."""
        if self.render_mode == "ansi":
            return draw_text(self._leads_to, self.cell)
        if self.render_mode == "rgb_array":
            return draw_image(self._leads_to, self.cell)
        return None


class WalkEnv(gym.Env):
    """The random walk with momentum (`deadtime.envs.walk`); the seed of `reset` decides its steps."""

    def __init__(self, length: int = 40, momentum: float = 0.6, near: int = 3):
        """`momentum` is the probability of a step away from 0, and `near` the largest |x| at which action 0 pays."""
        self.settings = WalkSettings(length, momentum, near)
        self.action_space, self.observation_space = (
            self.settings.action_space(),
            self.settings.observation_space(),
        )
        self.x, self._time = 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict]:
        """Begin at 0."""
        super().reset(seed=seed)
        self.x, self._time = 0, 0
        return self.settings.number(self.x, self._time), {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict]:
        """Pay 1 if the action suits the position, then walk; the last step ends the walk."""
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
