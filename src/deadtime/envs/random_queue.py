"""Random warm-up actions of functional environments, the same for wrappers and for training."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def random_numbered(key: jax.Array, length: int, count: int) -> jax.Array:
    """Return `length` random actions of 0 … count - 1.

    The remainder is biased by less than count / 2^32, at half the price of `jax.random.randint`.
    """
    return (jax.random.bits(key, (length,)) % count).astype(jnp.int32)


def random_in_box(key: jax.Array, length: int, box: Any) -> jax.Array:
    """Return `length` random actions in a box with finite bounds `low` and `high`."""
    low, high = jnp.asarray(box.low), jnp.asarray(box.high)
    return low + (high - low) * jax.random.uniform(key, (length, *box.shape))


def is_bounded(space: Any) -> bool:
    """Return whether a space is a box with finite bounds."""
    bounds = getattr(space, "low", None), getattr(space, "high", None)
    return None not in bounds and bool(np.isfinite(np.asarray(bounds, np.float64)).all())
