"""The channel of a delayed environment in compiled loops: which action a step executes.

A constant delay has no channel state. Its age is `Setup.delay`, which may differ between the runs
of one program. Under any other process the state is that of the process's Markov chain, drawn from
the environment's keys.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from deadtime.learn.program import Program, Setup

_AGES = 0xA6E
"""The constant that turns a key of the environment into one for the ages."""


def first_channel(program: Program, key: Array) -> Any:
    """Return the channel's state at the start of an episode; () under a constant delay."""
    if program.process is None:
        return ()
    return program.process.chain.initial(jax.random.uniform(jax.random.fold_in(key, _AGES)))


def action_age(program: Program, setup: Setup, channel: Any) -> Any:
    """Return the age of the action that the present step executes."""
    return setup.delay if program.process is None else program.process.chain.age(channel)


def next_channel(program: Program, channel: Any, key: Array) -> Any:
    """Return the channel's state one step later."""
    if program.process is None:
        return channel
    chain = program.process.chain
    draw = jax.random.uniform(jax.random.fold_in(key, _AGES))
    return chain.next(channel, draw)


def credited(program: Program, setup: Setup, age: Any, action_age: Any) -> Any:
    """Return whether the step `age` of an episode leaves a transition of the executed action.

    It does if that action was chosen in this episode. Under a constant delay the learner's setting
    `skipped_delays` decides instead.
    """
    if program.process is None:
        return True
    return (action_age <= age) | ~jnp.asarray(program.code(setup).executed)
