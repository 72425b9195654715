"""The law of SAC's actions: a Gaussian that tanh squashes into the box from -1 to 1.

An action is a = tanh(u) with u ~ N(μ, σ²), independently for each number. So its density is that of
u divided by the slope of tanh: log π(a) = Σ log N(u; μ, σ) - Σ log(1 - tanh(u)²).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LOG_STD_LIMITS = (-20.0, 2.0)
"""The least and the largest logarithm of a standard deviation."""
_LARGEST = 1.0 - 1e-6
"""The largest number of an action whose u is computed; tanh rounds larger ones to 1."""


class Gaussian(NamedTuple):
    """The means and the logarithms of the deviations, before tanh."""

    mean: Float[Array, " n"]
    log_std: Float[Array, " n"]


def gaussian(outputs: Float[Array, " 2n"]) -> Gaussian:
    """Return the Gaussian of an actor's outputs: means, then logarithms of deviations."""
    mean, log_std = jnp.split(outputs, 2, axis=-1)
    return Gaussian(mean, jnp.clip(log_std, *LOG_STD_LIMITS))


def sampled(law: Gaussian, noise: Float[Array, " n"]) -> tuple[Float[Array, " n"], Array]:
    """Return the action that standard normal `noise` leads to, and its log-density."""
    raw = law.mean + jnp.exp(law.log_std) * noise
    return jnp.tanh(raw), _log_density(law, noise, raw)


def judged(law: Gaussian, action: Float[Array, " n"]) -> tuple[Array, Array]:
    """Return the log-density of a given action, and an estimate of the law's entropy.

    The estimate is -log π at this action. Its gradient is that of the action that the same noise
    leads to, so its mean over actions is the gradient of the entropy.
    """
    raw = jnp.arctanh(jnp.clip(action, -_LARGEST, _LARGEST))
    noise = (raw - law.mean) * jnp.exp(-law.log_std)
    _, again = sampled(law, jax.lax.stop_gradient(noise))
    return _log_density(law, noise, raw), -again


def _log_density(law: Gaussian, noise: Array, raw: Array) -> Array:
    normal = -0.5 * noise**2 - law.log_std - 0.5 * math.log(2 * math.pi)
    return jnp.sum(normal - log_slope(raw), axis=-1)


def log_slope(raw: Array) -> Array:
    """Return log(1 - tanh(u)²), without the loss of digits where tanh(u) is close to 1."""
    return 2.0 * (math.log(2.0) - raw - jax.nn.softplus(-2.0 * raw))
