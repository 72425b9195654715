"""Learners of numbers on environments outside the program: one run, with one learner for all lanes.

A turn is one compiled call. It learns from the last step of each lane, one after the other, and
chooses the next actions. So numbers cross to the program once and come back once.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from deadtime.envs.pools import Played
from deadtime.learn.host_turn import Turn
from deadtime.learn.program import Actor, Done, Program, Setup, compiled


class LaneRun(NamedTuple):
    """A run between two turns; its actors are the lanes."""

    actors: Actor
    learner: Any
    replay: Any


class Given(NamedTuple):
    """A step of the lanes, a row each, as the program needs it."""

    chosen: Int[np.ndarray, " n"]
    executed: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    ended: Bool[np.ndarray, " n"]
    after: Float[np.ndarray, "n D"]
    queue_after: Int[np.ndarray, "n m"]
    obs: Float[np.ndarray, "n D"]
    """What is seen now: the same as `after`, or the next episode's first observation."""
    queue: Int[np.ndarray, "n m"]


def _named_keys(program: Program, setup: Setup, t: Array) -> dict[str, Array]:
    """Return the random keys of environment step t: those of the compiled loop."""
    names = *program.learner.keys, "reset"
    keys = jax.random.split(jax.random.fold_in(setup.key, t + 1), len(names))
    return dict(zip(names, keys, strict=True))


def _started(program: Program, obs: Any, queue: Any) -> Actor:
    """Return lanes at the beginning of episodes."""
    count = len(obs)
    shifted = program.view is not None and program.view.credits == "shifted"
    past = program.capacity + 1 if shifted else 0
    history = jnp.tile(obs[:, None], (1, past, 1))
    memory = jax.tree.map(
        lambda leaf: jnp.tile(leaf[None], (count, *[1] * leaf.ndim)),
        program.learner.new_memory(program),
    )
    age = jnp.zeros(count, jnp.int32)
    return Actor((), jnp.array(obs), jnp.array(queue), history, age, memory)


def _chosen(program: Program, setup: Setup, run: LaneRun, t: Array) -> tuple[Array, LaneRun]:
    """Return an action for each lane at its step t, t + 1, …, and the run with their memories."""

    def one(t: Array, actor: Actor) -> tuple[Array, Any]:
        keys = _named_keys(program, setup, t)
        return program.learner.act(program, setup, run.learner, actor, keys)

    numbered = t + jnp.arange(len(run.actors.obs))
    actions, memory = jax.vmap(one)(numbered, run.actors)
    return actions, run._replace(actors=run.actors._replace(memory=memory))


def _learned(program: Program, setup: Setup, run: LaneRun, given: Given, t: Array) -> LaneRun:
    """Learn from the steps t, t + 1, … that the lanes have just made."""
    of = program.learner

    def one(learned: Any, row: Any) -> tuple[Any, None]:
        t, actor, new = row
        learner, replay = learned
        done = Done(
            new.chosen,
            new.executed,
            new.reward,
            new.terminated,
            new.ended,
            new.after,
            new.queue_after,
            actor.memory,
        )
        kept = of.record(program, setup, learner, actor, done)
        keys = _named_keys(program, setup, t)
        return of.update(program, setup, learner, replay, kept, t, keys), None

    rows = t + jnp.arange(len(given.chosen)), run.actors, given
    learned, _ = jax.lax.scan(one, (run.learner, run.replay), rows)
    return LaneRun(_moved(program, run.actors, given), *learned)


def _moved(program: Program, actors: Actor, given: Given) -> Actor:
    """Return the lanes after a step, in the same episodes or at the beginning of the next ones."""
    history = actors.history
    if history.shape[1]:
        moved = jnp.concatenate([history[:, 1:], given.after[:, None]], axis=1)
        history = jnp.where(given.ended[:, None, None], given.obs[:, None], moved)
    age = jnp.where(given.ended, 0, actors.age + 1)

    def begun(new: Array, old: Array) -> Array:
        ended = given.ended.reshape(-1, *[1] * new.ndim)
        return jnp.where(ended, new, old)

    memory = jax.tree.map(begun, program.learner.new_memory(program), actors.memory)
    return Actor((), jnp.asarray(given.obs), jnp.asarray(given.queue), history, age, memory)


def _learned_and_chosen(
    program: Program, setup: Setup, run: LaneRun, given: Given, t: Array
) -> tuple[Array, LaneRun]:
    """Learn from the steps that begin at t, and choose at those that follow."""
    run = _learned(program, setup, run, given, t)
    return _chosen(program, setup, run, t + len(given.chosen))


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
    """A learner of `learner_code` in the host loop (see `host_turn.HostedLearner`)."""

    overlaps = False

    def __init__(self, program: Program):
        """Find the program's compiled functions once: hashing a program at every step takes long."""
        if program.learner.updates_once:
            kind = program.settings.kind
            raise ValueError(
                f"in the host loop a learner of numbers learns from each step alone; {kind} learns from rollouts of all "
                'actors (updates_once): leave "host" out of its loops'
            )
        self._choose, self._learn_and_choose = functions(program)

    def begin(self, program: Program, setups: Setup) -> LaneRun:
        """Return a run that has seen nothing; `setups` is the setup of this one run."""
        lanes = program.lanes
        obs = np.zeros((lanes, program.observation), np.float32)
        shape = lanes, program.capacity, *program.action_shape
        actors = _started(program, obs, np.zeros(shape, program.action_type))
        return LaneRun(actors, _new(program, setups), program.learner.new_replay(program))

    def restart(self, program: Program, state: LaneRun, seen: Played) -> LaneRun:
        """Return the run at the beginning of new episodes."""
        return state._replace(actors=_started(program, seen.shown, seen.queue))

    def choose(
        self, program: Program, setups: Setup, state: LaneRun, seen: Played, t: int
    ) -> tuple[np.ndarray, LaneRun]:
        """Return the actions of all lanes."""
        actions, state = self._choose(setups, state, np.int32(t))
        return np.asarray(actions), state

    def learn_and_choose(
        self, program: Program, setups: Setup, state: LaneRun, turn: Turn, t: int
    ) -> tuple[np.ndarray, LaneRun]:
        """Learn from the last turn, and choose."""
        first = np.int32(t - program.lanes)
        given = _given(turn)
        actions, state = self._learn_and_choose(setups, state, given, first)
        return np.asarray(actions), state

    def learn(
        self, program: Program, setups: Setup, state: LaneRun, turn: Turn, index: int
    ) -> LaneRun:
        """Raise: this learner learns before it chooses."""
        raise NotImplementedError

    def finish(
        self, program: Program, setups: Setup, state: LaneRun, turn: Turn, t: int
    ) -> LaneRun:
        """Learn from the last turn of all."""
        return self.learn_and_choose(program, setups, state, turn, t)[1]


def _given(turn: Turn) -> Given:
    after = turn.after
    return Given(
        turn.chosen,
        after.executed,
        after.reward,
        after.terminated,
        after.terminated | after.truncated,
        after.after,
        after.queue_after,
        after.shown,
        after.queue,
    )
