"""An environment with known Q-values: the state flips at each step; the matching action earns 1."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from deadtime.envs.functional import Environment


class ProbeState(NamedTuple):
    flipped: jax.Array
    time: jax.Array


class ProbeParams(NamedTuple):
    max_steps_in_episode: float = 20.0


@dataclass(frozen=True)
class Probe(Environment):
    @property
    def default_params(self):
        return ProbeParams()

    @property
    def num_actions(self):
        return 2

    def action_space(self, params=None):
        return spaces.Discrete(2)

    def observation_space(self, params=None):
        return spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset_env(self, key, params):
        flipped = jax.random.bernoulli(key).astype(jnp.float32)
        return flipped[None], ProbeState(flipped, jnp.zeros(()))

    def step_env(self, key, state, action, params):
        reward = (action == state.flipped).astype(jnp.float32)
        after = ProbeState(1.0 - state.flipped, state.time + 1.0)
        return after.flipped[None], after, reward, jnp.zeros((), bool), {}

    def is_truncated(self, state, params):
        return state.time >= params.max_steps_in_episode


class RecallState(NamedTuple):
    shown: jax.Array
    before: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class Recall(Probe):
    """An environment that shows 0 or 1 at random; the action that names the last one earns 1."""

    def reset_env(self, key, params):
        shown = jax.random.bernoulli(key).astype(jnp.float32)
        return shown[None], RecallState(shown, -jnp.ones(()), jnp.zeros(()))

    def step_env(self, key, state, action, params):
        reward = (action == state.before).astype(jnp.float32)
        after = RecallState(
            jax.random.bernoulli(key).astype(jnp.float32), state.shown, state.time + 1.0
        )
        return after.shown[None], after, reward, jnp.zeros((), bool), {}


@dataclass(frozen=True)
class Echo(Probe):
    """Shows the action that was executed last, -1 at first."""

    def reset_env(self, key, params):
        return -jnp.ones(1), ProbeState(-jnp.ones(()), jnp.zeros(()))

    def step_env(self, key, state, action, params):
        after = ProbeState(jnp.float32(action), state.time + 1.0)
        return after.flipped[None], after, jnp.zeros(()), jnp.zeros((), bool), {}
