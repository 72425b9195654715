"""An environment whose Q-values are known: the state flips at each step, and the action that names it pays 1."""

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
