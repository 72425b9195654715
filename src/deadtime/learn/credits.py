"""Transitions of executed actions: the age of the action, and what it was decided from."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from deadtime.envs.channel import age_of
from deadtime.learn.program import Actor, Done, History, Program, Setup
from deadtime.learn.replay import Transition
from deadtime.learn.ways import known_after
from deadtime.runtime.views import CHOSEN


def action_age(program: Program, setup: Setup, channel: PyTree) -> Any:
    """Return the age of the action that, as the agent is told, the present step executes.

    An agent that believes in a delay that varies is not told ages: 0 stands for any.
    """
    if program.process is None:
        return setup.delay
    if program.hidden is not None:
        return jnp.zeros((), jnp.int32)
    return age_of(program.process, channel)


def executed_age(program: Program, setup: Setup, channel: PyTree) -> Any:
    """Return the age of the action that the present step executes."""
    if program.hidden is None:
        return action_age(program, setup, channel)
    constant = program.hidden.constant
    return age_of(program.hidden, channel) if constant is None else constant


def credited(program: Program, setup: Setup, age: Array, action_age: Array) -> Any:
    """Return whether the step `age` of an episode leaves a transition of the executed action.

    It does if that action was chosen in this episode. Under a constant delay the learner's setting
    `skipped_delays` decides instead.
    """
    if program.process is None:
        return True
    return (action_age <= age) | ~jnp.asarray(program.code(setup).executed)


def is_fresh(program: Program, setup: Setup, done: Done) -> Any:
    """Return whether the next step executes another action than this one, where that matters.

    It does not matter for a view that learns from chosen actions.
    """
    learns_chosen = jnp.asarray(program.code(setup).credits == CHOSEN)
    return (done.next_age != done.action_age + 1) | learns_chosen


def new_history(program: Program, obs: Array, queue: Array, known: Any = ()) -> History:
    """Return the history at the start of an episode; `known` is `Actor.known`."""
    shifted = program.view is not None and program.view.credits == "shifted"
    past = program.capacity + 1 if shifted or program.projects else 0
    observations = jnp.tile(obs, (past, 1))
    if not program.projects:
        return History(observations)
    executed = () if program.process is None else jnp.zeros(past, bool)
    actions = jnp.concatenate([jnp.zeros_like(queue), queue])
    knew = jnp.full(past, known) if program.age_inputs else ()
    return History(observations, actions, executed, knew)


def later_history(program: Program, actor: Actor, done: Done) -> History:
    """Return the history after a step in the same episode."""
    history = actor.history
    observations = jnp.concatenate([history.obs[1:], done.obs[None]])
    if isinstance(history.actions, tuple):
        return History(observations)
    chosen = done.action.astype(history.actions.dtype)
    actions = jnp.concatenate([history.actions, chosen[None]])[1:]
    executed = history.executed
    if not isinstance(executed, tuple):
        marked = executed.at[_place(history, done.action_age)].set(True)
        executed = jnp.concatenate([marked[1:], jnp.zeros(1, bool)])
    known = history.known
    if not isinstance(known, tuple):
        known = jnp.append(known[1:], known_after(program, done.action_age, done.next_age))
    return History(observations, actions, executed, known)


def decided_from(history: History, age: Array) -> tuple[Array, Array, Any]:
    """Return what the action of an age was decided from: observation, queue and known age.

    The last is None if networks see no ages.
    """
    place = _place(history, age)
    room = len(history.obs) - 1
    queue = jax.lax.dynamic_slice_in_dim(history.actions, place, room)
    known = None if isinstance(history.known, tuple) else history.known[place]
    return history.obs[place], queue, known


def projected_row(
    program: Program, setup: Setup, actor: Actor, done: Done
) -> tuple[Transition, Any]:
    """Return the transition of a view that projects, and whether there is one at this step.

    There is one if the executed action was chosen in this episode. If a channel out of order goes
    back to the warm-up in the next step, nobody decided that action, and there is none.
    """
    age, next_age = done.action_age, done.next_age
    if program.process is None:
        age = next_age = setup.delay
    seen, seen_queue, known = decided_from(actor.history, age)
    later = later_history(program, actor, done)
    next_seen, next_seen_queue, next_known = decided_from(later, next_age)
    first: Any = True
    if program.process is not None:
        first = ~actor.history.executed[_place(actor.history, age)]
    nothing = done.queue[:0]
    item = Transition(
        actor.obs,
        nothing,
        done.executed,
        done.reward,
        done.obs,
        nothing,
        done.terminated,
        seen,
        seen_queue,
        next_seen,
        next_seen_queue,
        first,
        next_age != age + 1,
        known,
        next_known,
    )
    follows = (next_age <= actor.age + 1) | done.terminated
    return item, (age <= actor.age) & follows


def shifted_row(program: Program, setup: Setup, actor: Actor, done: Done) -> tuple[Transition, Any]:
    """Return the transition of a view that credits shifted actions, and whether there is one.

    It goes from the observation that the executed action was decided from to the one that the next
    executed action was decided from. So both must have been chosen in this episode.
    """
    age, next_age = done.action_age, done.next_age
    if program.process is None:
        age = next_age = setup.delay
    path = jnp.concatenate([actor.history.obs, done.obs[None]])
    last = len(path) - 1
    nothing = done.queue[:0]
    ends = done.executed, done.reward, path[last - next_age], nothing, done.terminated
    item = Transition(path[last - 1 - age], nothing, *ends)
    if program.process is not None:
        item = item._replace(fresh=is_fresh(program, setup, done))
    follows = (next_age <= actor.age + 1) | done.terminated
    return item, (age <= actor.age) & follows


def _place(history: History, age: Array) -> Any:
    """Return the place, in the history, of the decision of the action with this age."""
    return len(history.obs) - 1 - age
