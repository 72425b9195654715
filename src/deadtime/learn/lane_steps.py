"""Steps of a run's lanes, for learners on numbers: their form, and the learning from them.

The functions take one run. Each lane is an actor, and all lanes share one learner.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from deadtime.learn.compiled_loop import actor_after, actor_at
from deadtime.learn.host_turn import Turn
from deadtime.learn.inferred_ages import settled
from deadtime.learn.program import Actor, Done, Program, Setup

NEVER = np.int32(2**31 - 2)
"""A step number that no training reaches; nothing is learned from it."""


class Steps(NamedTuple):
    """The last step of each lane."""

    done: Done
    start: Any
    """The start of the next episode, for lanes whose episode ended."""
    lost: Any
    """Whether the episode was lost, so that nothing is learned from the step."""


def steps_of(turn: Turn) -> Steps:
    """Return the steps of a turn; a lost episode counts as ended."""
    after = turn.after
    ended = after.terminated | after.truncated | after.lost
    step: Any = (
        turn.chosen,
        after.executed,
        after.reward,
        after.terminated,
        ended,
        after.after,
        after.queue_after,
        None,
        after.action_age,
        after.next_age,
    )
    start = (), after.shown, after.queue, (), after.age_now
    return Steps(Done(*step), start, after.lost)


def new_learner(program: Program, setup: Setup) -> Any:
    """Return the state of a new learner."""
    key_learner, _ = jax.random.split(jax.random.fold_in(setup.key, 0))
    return program.learner.init(program, setup, key_learner)


def started(
    program: Program, obs: Array | np.ndarray, queue: Array | np.ndarray, ages: Array | np.ndarray
) -> Actor:
    """Return lanes at the start of new episodes, whose first steps read `ages`."""

    def one(obs: Array, queue: Array, age: Array) -> Actor:
        return actor_at(program, (), obs, queue, (), age)

    return jax.vmap(one)(jnp.array(obs), jnp.array(queue), jnp.array(ages))


def blank(program: Program) -> tuple[Actor, Steps]:
    """Return lanes and steps of the right shapes, filled with zeros."""
    lanes = program.lanes
    obs = np.zeros((lanes, program.observation), np.float32)
    shape = lanes, program.capacity, *program.action_shape
    queue = np.zeros(shape, program.action_type)
    action = np.zeros((lanes, *program.action_shape), program.action_type)
    reward = np.zeros(lanes, np.float32)
    flags = np.zeros(lanes, bool)
    ages = np.zeros(lanes, np.int32)
    step: Any = action, action, reward, flags, flags, obs, queue, None, ages, ages
    return started(program, obs, queue, ages), Steps(Done(*step), (), flags)


def chosen(
    program: Program, setup: Setup, learner: PyTree, actors: Actor, t: Array
) -> tuple[Array, Actor]:
    """Return an action for each lane, at the steps t, t + 1, …, and the lanes with new memories."""

    def one(t: Array, actor: Actor) -> tuple[Array, Any]:
        return program.learner.act(program, setup, learner, actor, _named_keys(program, setup, t))

    numbered = t + jnp.arange(len(actors.obs))
    actions, memory = jax.vmap(one)(numbered, actors)
    return actions, actors._replace(memory=memory)


def learned(
    program: Program,
    setup: Setup,
    learner: PyTree,
    replay: PyTree,
    actors: Actor,
    steps: Steps,
    t: Array,
) -> tuple[Any, Any]:
    """Return learner and replay buffer after the steps t, t + 1, … that the lanes made."""
    done = steps.done._replace(memory=actors.memory)

    def one(state: PyTree, row: tuple[Array, Actor, Done, Array]) -> tuple[Any, None]:
        t, actor, done, lost = row
        learner, replay = state
        known = settled(program, actor, done)
        kept = program.learner.record(program, setup, learner, *known)
        keys = _named_keys(program, setup, t)
        at = jnp.where(lost, NEVER, t)
        return program.learner.update(program, setup, learner, replay, kept, at, keys), None

    rows = t + jnp.arange(len(done.action)), actors, done, steps.lost
    return jax.lax.scan(one, (learner, replay), rows)[0]


def followed(program: Program, actors: Actor, steps: Steps) -> Actor:
    """Return the lanes after their steps."""
    done = steps.done._replace(memory=actors.memory)
    return jax.vmap(partial(actor_after, program))(actors, done, (), (), steps.start)


def _named_keys(program: Program, setup: Setup, t: Array) -> dict[str, Array]:
    """Return the random keys of environment step t, the same as in the compiled loop."""
    names = *program.learner.keys, "reset"
    keys = jax.random.split(jax.random.fold_in(setup.key, t + 1), len(names))
    return dict(zip(names, keys, strict=True))
