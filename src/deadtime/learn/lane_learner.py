"""Learners of numbers in the host loop: one run, with one learner for all lanes.

A turn is one compiled call. It learns from the last step of each lane, one after the other, and
chooses the next actions. So data goes to the device and back once a turn.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from deadtime.envs.pools import Played
from deadtime.learn.compiled_loop import actor_after, actor_at
from deadtime.learn.host_turn import Turn
from deadtime.learn.program import Actor, Done, Program, Setup, compiled


class LaneRun(NamedTuple):
    """A run between two turns; each lane is an actor."""

    actors: Actor
    learner: Any
    replay: Any


def _named_keys(program: Program, setup: Setup, t: Array) -> dict[str, Array]:
    """Return the random keys of environment step t, the same as in the compiled loop."""
    names = *program.learner.keys, "reset"
    keys = jax.random.split(jax.random.fold_in(setup.key, t + 1), len(names))
    return dict(zip(names, keys, strict=True))


def _started(program: Program, obs: Any, queue: Any, ages: Any) -> Actor:
    """Return lanes at the start of new episodes, whose first steps read `ages`."""

    def one(obs: Array, queue: Array, age: Array) -> Actor:
        return actor_at(program, (), obs, queue, (), age)

    return jax.vmap(one)(jnp.array(obs), jnp.array(queue), jnp.array(ages))


def _chosen(program: Program, setup: Setup, run: LaneRun, t: Array) -> tuple[Array, LaneRun]:
    """Return an action for each lane, at the steps t, t + 1, …, and the run with new memories."""

    def one(t: Array, actor: Actor) -> tuple[Array, Any]:
        keys = _named_keys(program, setup, t)
        return program.learner.act(program, setup, run.learner, actor, keys)

    numbered = t + jnp.arange(len(run.actors.obs))
    actions, memory = jax.vmap(one)(numbered, run.actors)
    return actions, run._replace(actors=run.actors._replace(memory=memory))


def _learned(
    program: Program, setup: Setup, run: LaneRun, done: Done, start: Any, t: Any
) -> LaneRun:
    """Learn from the steps t, t + 1, … that the lanes have just made.

    `start` is the start of the next episode, for lanes whose episode ended.
    """
    done = done._replace(memory=run.actors.memory)

    def one(learned: Any, row: tuple[Array, Actor, Done]) -> tuple[Any, None]:
        t, actor, done = row
        learner, replay = learned
        kept = program.learner.record(program, setup, learner, actor, done)
        keys = _named_keys(program, setup, t)
        return program.learner.update(program, setup, learner, replay, kept, t, keys), None

    rows = t + jnp.arange(len(done.action)), run.actors, done
    learned, _ = jax.lax.scan(one, (run.learner, run.replay), rows)
    moved = jax.vmap(partial(actor_after, program))(run.actors, done, (), (), start)
    return LaneRun(moved, *learned)


def _learned_and_chosen(
    program: Program, setup: Setup, run: LaneRun, done: Done, start: Any, t: Any
) -> tuple[Array, LaneRun]:
    """Learn from the steps that begin at t, and choose at those that follow."""
    run = _learned(program, setup, run, done, start, t)
    return _chosen(program, setup, run, t + len(done.action))


@cache
def functions(program: Program) -> tuple[Any, Any]:
    """Return the two compiled functions of a program."""
    choose = compiled(partial(_chosen, program))
    learn_and_choose = compiled(partial(_learned_and_chosen, program), donate_argnums=1)
    return choose, learn_and_choose


@partial(compiled, static_argnums=0)
def _new(program: Program, setup: Setup) -> Any:
    key_learner, _ = jax.random.split(jax.random.fold_in(setup.key, 0))
    return program.learner.init(program, setup, key_learner)


class LaneLearner:
    """A learner of `learner_code` with the interface `host_turn.HostedLearner`."""

    overlaps = False

    def __init__(self, program: Program):
        """Look up the compiled functions once, since hashing a program takes long."""
        if program.learner.updates_once:
            kind = program.settings.kind
            raise ValueError(
                "in the host loop a learner of numbers learns from each step alone; "
                f"{kind} learns from rollouts of all actors (updates_once): "
                'leave "host" out of its loops'
            )
        self._choose, self._learn_and_choose = functions(program)

    def begin(self, program: Program, setups: Setup) -> LaneRun:
        """Return a new run; `setups` is the setup of this one run."""
        lanes = program.lanes
        obs = np.zeros((lanes, program.observation), np.float32)
        shape = lanes, program.capacity, *program.action_shape
        queue = np.zeros(shape, program.action_type)
        actors = _started(program, obs, queue, np.zeros(lanes, np.int32))
        return LaneRun(actors, _new(program, setups), program.learner.new_replay(program))

    def restart(self, program: Program, state: LaneRun, seen: Played) -> LaneRun:
        """Return the run at the start of new episodes."""
        return state._replace(actors=_started(program, seen.shown, seen.queue, seen.age_now))

    def choose(
        self, program: Program, setups: Setup, state: LaneRun, seen: Played, t: int
    ) -> tuple[np.ndarray, LaneRun]:
        """Return the actions of all lanes."""
        actions, state = self._choose(setups, state, np.int32(t))
        return np.asarray(actions), state

    def learn_and_choose(
        self, program: Program, setups: Setup, state: LaneRun, turn: Turn, t: int
    ) -> tuple[np.ndarray, LaneRun]:
        """Learn from the last turn, and choose the next actions."""
        after = turn.after
        ended = after.terminated | after.truncated
        reached = after.after, after.queue_after
        step: Any = (
            turn.chosen,
            after.executed,
            after.reward,
            after.terminated,
            ended,
            *reached,
            None,
            after.action_age,
            after.next_age,
        )
        done = Done(*step)
        start = (), after.shown, after.queue, (), after.age_now
        first = np.int32(t - program.lanes)
        actions, state = self._learn_and_choose(setups, state, done, start, first)
        return np.asarray(actions), state

    def learn(
        self, program: Program, setups: Setup, state: LaneRun, turn: Turn, index: int
    ) -> LaneRun:
        """Raise: this learner learns before it chooses."""
        raise NotImplementedError

    def finish(
        self, program: Program, setups: Setup, state: LaneRun, turn: Turn, t: int
    ) -> LaneRun:
        """Learn from the last turn of the training."""
        return self.learn_and_choose(program, setups, state, turn, t)[1]
