"""Acrobot as pure functions: Gymnasium's Acrobot-v1, with optional noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from deadtime.envs.acrobot_settings import AcrobotParams, AcrobotSettings
from deadtime.envs.functional import Environment, Key, Step
from deadtime.envs.noise import perturbed


class AcrobotState(NamedTuple):
    """The two angles and angular velocities, and the number of steps so far."""

    physics: jax.Array
    time: jax.Array


def velocities(physics: jax.Array, torque: jax.Array, params: AcrobotParams) -> jax.Array:
    """Return the time derivatives of the two angles and speeds (Sutton and Barto's equations)."""
    angle_1, angle_2, speed_1, speed_2 = physics
    m1, m2 = params.mass_1, params.mass_2
    l1 = params.length_1
    g = params.gravity
    inertia = params.inertia
    c1, c2 = params.length_1 * params.centre, params.length_2 * params.centre
    sin_2, cos_2 = jnp.sin(angle_2), jnp.cos(angle_2)
    d1 = m1 * c1**2 + m2 * (l1**2 + c2**2 + 2 * l1 * c2 * cos_2) + 2 * inertia
    d2 = m2 * (c2**2 + l1 * c2 * cos_2) + inertia
    fall_2 = m2 * c2 * g * jnp.cos(angle_1 + angle_2 - jnp.pi / 2)
    swing = -m2 * l1 * c2 * speed_2 * (speed_2 + 2 * speed_1) * sin_2
    fall_1 = swing + (m1 * c1 + m2 * l1) * g * jnp.cos(angle_1 - jnp.pi / 2) + fall_2
    drive = torque + d2 / d1 * fall_1 - m2 * l1 * c2 * speed_1**2 * sin_2 - fall_2
    acc_2 = drive / (m2 * c2**2 + inertia - d2**2 / d1)
    acc_1 = -(d2 * acc_2 + fall_1) / d1
    return jnp.stack([speed_1, speed_2, acc_1, acc_2])


def swing(physics: jax.Array, torque: jax.Array, params: AcrobotParams) -> jax.Array:
    """Return the state after one Runge-Kutta step, with angles in ±π and speeds clipped."""
    h = params.seconds
    k1 = velocities(physics, torque, params)
    k2 = velocities(physics + h / 2 * k1, torque, params)
    k3 = velocities(physics + h / 2 * k2, torque, params)
    k4 = velocities(physics + h * k3, torque, params)
    after = physics + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    turns = jnp.where(after[:2] > jnp.pi, jnp.ceil((after[:2] - jnp.pi) / (2 * jnp.pi)), 0.0)
    turns = jnp.where(after[:2] < -jnp.pi, jnp.floor((after[:2] + jnp.pi) / (2 * jnp.pi)), turns)
    limits = jnp.asarray([params.max_speed_1, params.max_speed_2])
    return jnp.concatenate([after[:2] - 2 * jnp.pi * turns, jnp.clip(after[2:], -limits, limits)])


def observe(physics: jax.Array) -> jax.Array:
    """Return the cosine and sine of both angles, and both speeds."""
    angles, speeds = physics[:2], physics[2:]
    return jnp.concatenate([jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1).ravel(), speeds])


@dataclass(frozen=True)
class Acrobot(AcrobotSettings, Environment):
    """The task to swing the lower link up, with noise on masses, or on masses and lengths."""

    def reset_env(self, key: Key, params: AcrobotParams) -> tuple[jax.Array, AcrobotState]:
        """Draw both angles and both speeds uniformly from ±0.1."""
        physics = jax.random.uniform(key, (4,), minval=-0.1, maxval=0.1)
        return observe(physics), AcrobotState(physics, jnp.zeros((), jnp.int32))

    def step_env(
        self, key: Key, state: AcrobotState, action: jax.Array, params: AcrobotParams
    ) -> Step:
        """Step the system; the reward is -1 until the tip reaches the target height."""
        normal = jax.random.normal(key, (4,))
        now = params._replace(
            mass_1=perturbed(params.mass_1, params.mass_noise, normal[0], jnp),
            mass_2=perturbed(params.mass_2, params.mass_noise, normal[1], jnp),
            length_1=perturbed(params.length_1, params.length_noise, normal[2], jnp),
            length_2=perturbed(params.length_2, params.length_noise, normal[3], jnp),
        )
        physics = swing(state.physics, (action - 1) * params.torque, now)
        terminated = -jnp.cos(physics[0]) - jnp.cos(physics[0] + physics[1]) > 1.0
        reward = jnp.where(terminated, 0.0, -1.0)
        return observe(physics), AcrobotState(physics, state.time + 1), reward, terminated, {}

    def is_truncated(self, state: AcrobotState, params: AcrobotParams) -> jax.Array:
        """Return whether the episode has had 500 steps."""
        return state.time >= params.max_steps_in_episode
