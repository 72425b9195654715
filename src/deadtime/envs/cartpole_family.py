"""The family `cartpole`: a pole on a cart, with or without noise on its masses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deadtime.envs.cartpole_settings import CartPoleSettings
from deadtime.envs.family import Arrows, Draw, Limits
from deadtime.envs.physical_family import PhysicalFamily

if TYPE_CHECKING:
    from collections.abc import Mapping

    import gymnasium as gym

    from deadtime.envs.noise import PerturbedSettings


class CartPoleFamily(PhysicalFamily):
    """CartPole as in Gymnasium, and with noise."""

    name = "cartpole"
    members = {"cartpole": {}, "noisy-cartpole": {"noise": 0.1}}  # noqa: RUF012  (never changed)
    settings = CartPoleSettings
    gymnasium_id = "deadtime/NoisyCartPole-v1"
    shaped = True

    def make(self, name: str, settings: dict[str, Any]) -> Any:
        """Make CartPole as pure functions."""
        from deadtime.envs.cartpole import CartPole  # noqa: PLC0415  (JAX)

        return CartPole(**vars(self.describe(name, settings)))

    def return_limits(self, settings: Mapping[str, Any]) -> Limits:
        """Return the limits of a return: a step pays 1, and an episode has at most 500."""
        return 0.0, 500.0

    def warm_up(self) -> Any:
        """Return the warm-up rule of the queue: actions of an expert, which keep the pole up."""
        import jax  # noqa: PLC0415  (JAX)

        from deadtime.envs.cartpole import expert_warmup  # noqa: PLC0415  (JAX)

        plan = jax.jit(expert_warmup, static_argnums=1)
        return lambda obs, m, rng: np.asarray(plan(obs, m, None))

    def scene(self, environment: PerturbedSettings, env: gym.Env) -> tuple[Draw, Arrows]:
        """Return a function that draws the system and its predicted state."""
        from deadtime.envs import scenes  # noqa: PLC0415  (Pillow)

        return scenes.cartpole, [(0, -1), (0, 1)]
