"""Pendulum as pure functions: Gymnasium's Pendulum-v1, with optional noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from deadtime.envs.functional import Environment, Key, Step
from deadtime.envs.noise import perturbed
from deadtime.envs.pendulum_settings import PendulumParams, PendulumSettings


class PendulumState(NamedTuple):
    """The angle, 0 when upright, the angular velocity, and the number of steps so far."""

    angle: jax.Array
    speed: jax.Array
    time: jax.Array


def _seen(angle: jax.Array, speed: jax.Array) -> jax.Array:
    return jnp.stack([jnp.cos(angle), jnp.sin(angle), speed])


@dataclass(frozen=True)
class Pendulum(PendulumSettings, Environment):
    """The task to swing a rod up and keep it upright, with noise on its mass, or also its length.

    The cost of a step is the squared angle, a tenth of the squared velocity and a thousandth of the
    squared torque, all before the step.
    """

    def reset_env(self, key: Key, params: PendulumParams) -> tuple[jax.Array, PendulumState]:
        """Draw the angle uniformly from all angles, and the velocity from -1 to 1."""
        drawn = jax.random.uniform(key, (2,), minval=-1.0)
        angle, speed = jnp.pi * drawn[0], drawn[1]
        return _seen(angle, speed), PendulumState(angle, speed, jnp.zeros((), jnp.int32))

    def step_env(
        self, key: Key, state: PendulumState, action: jax.Array, params: PendulumParams
    ) -> Step:
        """Step the system; torques outside the bounds are clipped."""
        normal = jax.random.normal(key, (2,))
        mass = perturbed(params.mass, params.mass_noise, normal[0], jnp)
        length = perturbed(params.length, params.length_noise, normal[1], jnp)
        torque = jnp.clip(action[0], -params.max_torque, params.max_torque)
        angle = jnp.mod(state.angle + jnp.pi, 2 * jnp.pi) - jnp.pi
        cost = angle**2 + 0.1 * state.speed**2 + 0.001 * torque**2
        pull = 3 * params.gravity / (2 * length) * jnp.sin(state.angle)
        faster = state.speed + (pull + 3.0 / (mass * length**2) * torque) * params.seconds
        speed = jnp.clip(faster, -params.max_speed, params.max_speed)
        turned = state.angle + speed * params.seconds
        after = PendulumState(turned, speed, state.time + 1)
        return _seen(turned, speed), after, -cost, jnp.zeros((), bool), {}

    def is_truncated(self, state: PendulumState, params: PendulumParams) -> jax.Array:
        """Return whether the episode has had 200 steps."""
        return state.time >= params.max_steps_in_episode
