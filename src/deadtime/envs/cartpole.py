"""CartPole as pure functions: Gymnasium's CartPole-v1, with optional noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from deadtime.envs.cartpole_settings import CartPoleParams, CartPoleSettings
from deadtime.envs.functional import Environment, Key, Step
from deadtime.envs.noise import perturbed

_Numbers = tuple[jax.Array, ...]
"""Position, velocity, angle and angular velocity."""


class CartPoleState(NamedTuple):
    """Position, velocity, angle and angular velocity, and the number of steps so far."""

    physics: jax.Array
    time: jax.Array


def accelerate(physics: jax.Array, action: jax.Array, params: CartPoleParams) -> jax.Array:
    """Return the state after one Euler step of the equations of motion."""
    return jnp.stack(_euler(physics, action, params))


def _euler(physics: _Numbers | jax.Array, action: jax.Array, params: CartPoleParams) -> _Numbers:
    """Return the numbers of the state after one Euler step."""
    x, x_dot, theta, theta_dot = physics
    sin, cos = jnp.sin(theta), jnp.cos(theta)
    mass = params.mass_cart + params.mass_pole
    pole = params.mass_pole * params.half_length
    push = (jnp.where(action == 1, params.force, -params.force) + pole * theta_dot**2 * sin) / mass
    theta_acc = (params.gravity * sin - cos * push) / (
        params.half_length * (4.0 / 3.0 - params.mass_pole * cos**2 / mass)
    )
    x_acc = push - pole * theta_acc * cos / mass
    seconds = params.seconds
    return (
        x + seconds * x_dot,
        x_dot + seconds * x_acc,
        theta + seconds * theta_dot,
        theta_dot + seconds * theta_acc,
    )


def expert(observation: Sequence[jax.Array] | jax.Array) -> jax.Array:
    """Return the action of a linear controller, which balances the pole when nothing is delayed."""
    x, x_dot, theta, theta_dot = observation
    return (0.05 * x + 0.1 * x_dot + theta + 0.3 * theta_dot > 0).astype(jnp.int32)


def predict(observation: jax.Array, queue: jax.Array, params: CartPoleParams) -> jax.Array:
    """Return the state after the pending actions, computed with the nominal masses."""
    return jax.lax.scan(
        lambda physics, action: (accelerate(physics, action, params), None), observation, queue
    )[0]


def expert_warmup(observation: jax.Array, delay: int, key: Key | None) -> jax.Array:
    """Return the next `delay` actions of the undelayed expert, a warm-up that keeps the pole up."""

    def follow(physics: _Numbers, _: None) -> tuple[_Numbers, jax.Array]:
        action = expert(physics)
        return _euler(physics, action, CartPoleParams()), action

    return jax.lax.scan(follow, tuple(observation), None, length=delay)[1]


@dataclass(frozen=True)
class CartPole(CartPoleSettings, Environment):
    """The task to balance a pole on a cart, with noise on masses, or on masses and length."""

    def reset_env(self, key: Key, params: CartPoleParams) -> tuple[jax.Array, CartPoleState]:
        """Draw position, angle and both speeds uniformly from ±0.05."""
        physics = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return physics, CartPoleState(physics, jnp.zeros((), jnp.int32))

    def step_env(
        self, key: Key, state: CartPoleState, action: jax.Array, params: CartPoleParams
    ) -> Step:
        """Step the system; the reward is 1, also for the last step."""
        normal = jax.random.normal(key, (3,))
        now = params._replace(
            mass_cart=perturbed(params.mass_cart, params.mass_noise, normal[0], jnp),
            mass_pole=perturbed(params.mass_pole, params.mass_noise, normal[1], jnp),
            half_length=perturbed(params.half_length, params.length_noise, normal[2], jnp),
        )
        physics = accelerate(state.physics, action, now)
        terminated = (jnp.abs(physics[0]) > params.position_limit) | (
            jnp.abs(physics[2]) > params.angle_limit
        )
        return physics, CartPoleState(physics, state.time + 1), jnp.ones(()), terminated, {}

    def shaped_reward(self, observation: jax.Array) -> jax.Array:
        """Return the reward that the paper's code trains on, instead of 1 per step."""
        limits = CartPoleParams()
        x, theta = jnp.abs(observation[0]), jnp.abs(observation[2])
        return (
            (limits.position_limit - x) / limits.position_limit
            + (limits.angle_limit - theta) / limits.angle_limit
            - 1.3
        )

    def warm_up(self, observation: jax.Array, capacity: int, delay: jax.Array) -> jax.Array:
        """Return a queue of length `capacity` that ends with `delay` actions of the expert."""
        planned = expert_warmup(observation, capacity, None)
        return jnp.roll(planned, capacity - delay)

    def is_truncated(self, state: CartPoleState, params: CartPoleParams) -> jax.Array:
        """Return whether the episode has had 500 steps."""
        return state.time >= params.max_steps_in_episode
