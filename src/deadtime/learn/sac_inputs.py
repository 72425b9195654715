"""Inputs of SAC's networks: the observation and, for some views, known age and pending actions."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from deadtime.learn.box_scale import BoxScale
from deadtime.learn.program import Known, Program, Setup
from deadtime.learn.replay import Transition
from deadtime.learn.ways import shown_age


class Inputs(NamedTuple):
    """Inputs of the networks for a batch, at the steps of its actions and at the next steps."""

    decided: Array
    """The inputs of the actor when it decided the action that was executed."""
    valued: Array
    """The inputs of the critics when the action was executed."""
    next_decided: Array
    next_valued: Array
    action: Array
    """The actions, as flat vectors from -1 to 1."""


def scale_of(program: Program) -> BoxScale:
    """Return the scale of the program's actions."""
    return cast("BoxScale", program.actions)


def inputs(
    program: Program, setup: Setup, obs: Array, queue: Array, known: Known, sees: bool | Array
) -> Float[Array, " inputs"]:
    """Return an observation and, if the network `sees` them, the known age and pending actions."""
    capacity = len(queue)
    if capacity == 0:
        return obs
    pending = (jnp.arange(capacity) >= capacity - setup.delay) & sees
    shown = jnp.where(pending[:, None], scale_of(program).inward(queue), 0.0)
    return jnp.concatenate([obs, *shown_age(program, known), shown.ravel()])


def inputs_of(program: Program, setup: Setup, batch: Transition) -> Inputs:
    """Return the inputs of the networks for a batch."""
    code = program.code(setup)
    shown = jax.vmap(partial(inputs, program, setup), in_axes=(0, 0, 0, None))
    action = scale_of(program).inward(batch.action)
    before = batch.obs, batch.queue, batch.known
    after = batch.next_obs, batch.next_queue, batch.next_known
    valued, then = (shown(*place, code.values_queue) for place in (before, after))
    if not program.projects:
        return Inputs(valued, valued, then, then, action)
    decided = batch.seen, batch.seen_queue, batch.known
    decided_next = batch.next_seen, batch.next_seen_queue, batch.next_known
    if program.view is None:
        decided, decided_next = jax.tree.map(
            partial(jnp.where, code.projects), (decided, decided_next), (before, after)
        )
    first, second = (shown(*place, code.sees_queue) for place in (decided, decided_next))
    return Inputs(first, valued, second, then, action)
