"""The ages of steps in a channel that does not show them, as its observations tell them.

An agent that believes in a law of ages can't know which action a step executed. It infers that. The
one-step model of the search (`identify.AgeModel`) says how likely the step's transition is under
each age, and the law says how ages follow each other. Both together are a hidden Markov model. Its
state is that of the law's chain.

The row of step t needs the age of step t + 1 too, so the agent learns from it one step later. It
takes the most likely pair of ages, given all observations of the episode up to that of step t + 2,
or up to the last one. Where two ages are about equally likely, their actions have about the same
effect in the model, so a wrong one is a small error.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from deadtime.delays import DelayProcess
from deadtime.learn.credits import later_history
from deadtime.learn.program import Actor, Done, Program

_LEAST = 1e-9
"""The least density of an age relative to the best one, so that no step excludes an age."""
_NEVER = np.int32(2**30)
"""An age longer than any episode: there is no row."""


class Trail(NamedTuple):
    """The step before the present one, whose ages are not settled yet."""

    late: Actor
    """The actor before that step; its history has the ages that were settled."""
    done: Done
    law: Float[Array, " states"]
    """The law of the channel's state in that step, given all observations after it."""
    begun: Array
    """Whether there is such a step; not at the beginning of a training."""


@cache
def _chain(process: DelayProcess) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the start law, the transitions, and the age of each state as one-hot rows."""
    chain = process.chain
    shown = np.eye(process.longest + 1)[chain.ages]
    return tuple(np.float32(one) for one in (chain.start, chain.matrix(), shown))  # type: ignore


def first_trail(program: Program, actor: Actor) -> Any:
    """Return the trail of an actor before its first step; () if ages need not be inferred."""
    if not program.infers:
        return ()
    assert program.process is not None
    none, zero = jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    action = jnp.zeros(program.action_shape, program.action_type)
    done: Any = action, action, jnp.zeros(()), none, none, actor.obs, actor.queue, (), zero, zero
    start = jnp.asarray(_chain(program.process)[0])
    return Trail(_bare(actor), Done(*done), start, none)


def settled(program: Program, actor: Actor, done: Done) -> tuple[Actor, Done]:
    """Return the step to learn from: the last one whose ages are known.

    It is `done` itself, from `actor`, unless ages are inferred.
    """
    return _settled(program, actor, done)[:2] if program.infers else (actor, done)


def later_trail(program: Program, actor: Actor, done: Done) -> Any:
    """Return the trail after a step."""
    if not program.infers:
        return ()
    late, past, law = _settled(program, actor, done)
    history = actor.history
    if len(history.obs):
        begins, followed = actor.age == 0, later_history(program, late, past)
        history = jax.tree.map(lambda a, b: jnp.where(begins, a, b), history, followed)
    kinds = jax.tree.map(lambda leaf: leaf.dtype, actor.trail.done)
    kept = jax.tree.map(jnp.asarray, done._replace(memory=()))
    kept = jax.tree.map(lambda leaf, kind: leaf.astype(kind), kept, kinds)
    late = _bare(actor)._replace(history=history)
    return Trail(late, kept, law, jnp.ones((), bool))


def _bare(actor: Actor) -> Actor:
    """Return an actor without the parts that rows do not need."""
    return actor._replace(env=(), channel=(), memory=(), trail=())


def _settled(program: Program, actor: Actor, done: Done) -> tuple[Actor, Done, Array]:
    """Return the step before, with its ages, and the law of the channel in the present step."""
    assert program.process is not None
    start, moves, shown = _chain(program.process)
    trail: Trail = actor.trail
    same = actor.age > 0
    likely = jnp.exp(_densities(program, actor, done)) @ shown.T
    pairs = trail.law[:, None] * moves * jnp.where(same, likely, 1.0)
    joint = shown.T @ pairs @ shown
    first, second = jnp.unravel_index(jnp.argmax(joint), joint.shape)
    law = jnp.where(same, trail.law @ moves, start) * likely
    slots = jnp.concatenate([trail.late.queue, trail.done.action[None]])
    past = trail.done._replace(
        executed=slots[program.capacity - first].astype(trail.done.executed.dtype),
        action_age=jnp.where(trail.begun, first, _NEVER).astype(jnp.int32),
        next_age=second.astype(jnp.int32),
    )
    return trail.late, past, law / law.sum()


def _densities(program: Program, actor: Actor, done: Done) -> Float[Array, " ages"]:
    """Return the log-density of a step under each age, relative to the best one."""
    assert program.process is not None
    assert program.ages is not None
    slots = jnp.concatenate([actor.queue, done.action.astype(actor.queue.dtype)[None]])
    actions = slots[program.capacity - np.arange(program.process.longest + 1)]
    before = jnp.where(actor.age > 0, actor.trail.late.obs, actor.obs)
    found = program.ages.log_densities(before, actor.obs, done.obs, actions)
    return jnp.maximum(found - found.max(), np.log(_LEAST))
