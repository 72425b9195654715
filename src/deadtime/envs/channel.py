"""The channel of a delay in compiled code: the state of its Markov chain, drawn from JAX keys.

Functional environments and compiled training share these functions. A constant delay has no
channel state: its state is ().
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from deadtime.delays.process import DelayProcess

_AGES = 0xA6E
"""The number that a key is folded with for the ages: they have a random stream of their own."""


def first_state(process: DelayProcess | None, key: jax.Array) -> Any:
    """Return the channel's state at the start of an episode; None under any constant delay."""
    if process is None or process.constant is not None:
        return ()
    chain = process.chain
    return chain.initial(_uniform(key) if chain.starts_randomly else jnp.zeros(()))


def step_draw(process: DelayProcess | None, key: jax.Array) -> Any:
    """Return the uniform number from which a step draws its channel; () if it needs none.

    It depends on the key alone, so it can be drawn for many steps at once.
    """
    if process is None or process.constant is not None or process.chain.deterministic:
        return ()
    return _uniform(key)


def next_state(process: DelayProcess | None, state: PyTree, draw: PyTree) -> Any:
    """Return the channel's state one step later, from the step's `step_draw`."""
    if process is None or process.constant is not None:
        return state
    chain = process.chain
    return chain.next(state, None if chain.deterministic else draw)


def age_of(process: DelayProcess, state: PyTree) -> jax.Array:
    """Return the age of the action that the present step executes."""
    return process.chain.age(state)


def _uniform(key: jax.Array) -> jax.Array:
    """Return a uniform number for the ages.

    Folding hashes the key, so the words of the folded key are random bits. Hashing it again, as
    `jax.random.uniform` does, would noticeably slow a step.
    """
    word = jax.random.key_data(jax.random.fold_in(key, _AGES))[-1]
    return (word >> 8).astype(jnp.float32) * 2**-24
