"""Learners on numbers in the host loop: several runs in lock step, each with all its lanes.

The functions of one run are mapped over runs. In a turn one compiled call chooses the actions of
all lanes of all runs. Another one learns from the turn before, while the environments play. So a
run acts with the networks from before its last update, which a run alone does not.

The outcome of a turn goes to the device as one array. A run's numbers depend on the other runs of
its group by rounding only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from deadtime.envs.pools import Played
from deadtime.learn.compiled_loop import actor_at
from deadtime.learn.host_turn import Turn
from deadtime.learn.lane_steps import (
    Steps,
    chosen,
    followed,
    learned,
    new_learner,
    started,
    steps_of,
)
from deadtime.learn.program import Actor, Done, Program, Setup, compiled, compiled_products
from deadtime.learn.ways import known_after, known_at_start

_FLAGS = ("terminated", "ended", "lost")


class TogetherRuns(NamedTuple):
    """Runs between two turns; each leaf has an axis of runs first."""

    actors: Actor
    behind: Actor
    """The actors one turn before, while the runs have not learned from that turn."""
    learner: Any
    replay: Any


class Seen(NamedTuple):
    """The present step of lanes, as decisions need it (see `pools.Played`)."""

    obs: Array
    queue: Array
    age: Array
    action_age: Array
    next_age: Array
    age_now: Array


def _layout(program: Program) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return the shape and the type of each part of a lane's step."""
    action = program.action_shape, program.action_type
    seen = (program.observation,), np.float32
    queue = (program.capacity, *program.action_shape), program.action_type
    number, flag, age = ((), np.float32), ((), np.bool_), ((), np.int32)
    parts = {"action": action, "executed": action, "reward": number}
    parts |= dict.fromkeys(_FLAGS, flag)
    parts |= {"obs": seen, "queue": queue, "action_age": age, "next_age": age}
    return parts | {"start_obs": seen, "start_queue": queue, "start_age": age}


def columns_of(program: Program) -> dict[str, slice]:
    """Return the columns of each part of a lane's step in the array of `packed`."""
    found: dict[str, slice] = {}
    first = 0
    for name, (shape, _) in _layout(program).items():
        found[name] = slice(first, first + prod(shape))
        first += prod(shape)
    return found


def packed(columns: dict[str, slice], steps: Steps) -> Float[np.ndarray, "R E numbers"]:
    """Return the steps of all lanes as one array of single precision."""
    _, start_obs, start_queue, _, start_age = steps.start
    parts = steps.done._asdict() | {"lost": steps.lost}
    parts |= {"start_obs": start_obs, "start_queue": start_queue, "start_age": start_age}
    lead = steps.lost.shape
    rows = np.empty((*lead, max(one.stop for one in columns.values())), np.float32)
    for name, place in columns.items():
        rows[..., place] = parts[name].reshape(*lead, place.stop - place.start)
    return rows


def unpacked(program: Program, rows: Float[Array, "E numbers"]) -> Steps:
    """Return the steps of one run from their numbers."""
    found: dict[str, Array] = {}
    columns = columns_of(program)
    for name, (shape, kind) in _layout(program).items():
        part = rows[:, columns[name]].reshape(len(rows), *shape)
        found[name] = part > 0 if name in _FLAGS else part.astype(kind)
    start = (), found.pop("start_obs"), found.pop("start_queue"), (), found.pop("start_age")
    lost = found.pop("lost")
    return Steps(Done(memory=None, **found), start, lost)


@partial(compiled, static_argnums=0)
def begin_all(program: Program, setups: Setup) -> TogetherRuns:
    """Return new runs, whose lanes show zeros."""

    def one(setup: Setup) -> TogetherRuns:
        obs = jnp.zeros((program.lanes, program.observation))
        shape = program.lanes, program.capacity, *program.action_shape
        queue = jnp.zeros(shape, program.action_type)
        actors = started(program, obs, queue, jnp.zeros(program.lanes, jnp.int32))
        learner = new_learner(program, setup)
        return TogetherRuns(actors, actors, learner, program.learner.new_replay(program))

    return jax.vmap(one)(setups)


def _followed_and_chosen(
    program: Program, setup: Setup, learner: PyTree, actors: Actor, rows: Array, t: Array
) -> tuple[Array, Actor, Array]:
    actors = followed(program, actors, unpacked(program, rows))
    return *chosen(program, setup, learner, actors, t), rows


def _learned(
    program: Program, setup: Setup, both: PyTree, actors: Actor, rows: Array, t: Array
) -> tuple[Any, Any]:
    learner, replay = both
    return learned(program, setup, learner, replay, actors, unpacked(program, rows), t)


def _decided(program: Program, setup: Setup, learner: PyTree, seen: Seen) -> Array:
    """Return the best action of each lane of a run."""

    def one(seen: Seen) -> Array:
        starts = known_at_start(program, seen.age_now)
        later = known_after(program, seen.action_age, seen.next_age)
        known = jax.tree.map(partial(jnp.where, seen.age == 0), starts, later)
        actor = actor_at(program, (), seen.obs, seen.queue)._replace(known=known)
        return program.learner.decide(program, setup, learner, actor, setup.key)[0]

    return jax.vmap(one)(seen)


class _Functions(NamedTuple):
    """The compiled functions of a program, for all runs of a group."""

    restart: Any
    choose: Any
    follow_and_choose: Any
    learn: Any
    decide: Any


@cache
def _functions(program: Program) -> _Functions:
    def mapped(function: Callable[..., Any], *axes: int | None) -> Any:
        return jax.vmap(partial(function, program), in_axes=axes)

    return _Functions(
        compiled(mapped(started, 0, 0, 0)),
        compiled(mapped(chosen, 0, 0, 0, None)),
        compiled(mapped(_followed_and_chosen, 0, 0, 0, 0, None)),
        compiled_products(mapped(_learned, 0, 0, 0, 0, None), donate_argnums=1),
        compiled(mapped(_decided, 0, 0, 0)),
    )


class TogetherLearner:
    """A learner of `learner_code` for several runs (see `host_turn.HostedLearner`)."""

    overlaps = True

    def __init__(self, program: Program):
        """Look up the compiled functions once, since hashing a program takes long."""
        self._do = _functions(program)
        self._columns = columns_of(program)
        self._rows: Any = None
        """The steps of the turn that the last choice followed, on the device."""

    def begin(self, program: Program, setups: Setup) -> TogetherRuns:
        """Return new runs."""
        return begin_all(program, setups)

    def restart(
        self, program: Program, state: TogetherRuns, seen: Played, index: int
    ) -> TogetherRuns:
        """Return the runs at the start of new episodes."""
        return state._replace(actors=self._do.restart(seen.shown, seen.queue, seen.age_now))

    def choose(
        self,
        program: Program,
        setups: Setup,
        state: TogetherRuns,
        seen: Played,
        t: int,
        turn: Turn | None = None,
    ) -> tuple[Array, TogetherRuns]:
        """Move all lanes on by the last turn, and return their actions."""
        now = setups, state.learner, state.actors
        if turn is None:
            actions, actors = self._do.choose(*now, np.int32(t))
        else:
            rows = packed(self._columns, steps_of(turn))
            actions, actors, self._rows = self._do.follow_and_choose(*now, rows, np.int32(t))
        return actions, state._replace(actors=actors, behind=state.actors)

    def learn(
        self, program: Program, setups: Setup, state: TogetherRuns, turn: Turn, index: int
    ) -> TogetherRuns:
        """Learn from the turn `index`, after the choice that followed it."""
        return self._learned(program, setups, state, state.behind, self._rows, index)

    def learn_and_choose(
        self, program: Program, setups: Setup, state: TogetherRuns, turn: Turn, t: int
    ) -> tuple[np.ndarray, TogetherRuns]:
        """Raise: this learner learns while the environments play."""
        raise NotImplementedError

    def finish(
        self, program: Program, setups: Setup, state: TogetherRuns, turn: Turn, t: int
    ) -> TogetherRuns:
        """Learn from the last turn of the training."""
        index = t // program.lanes - 1
        rows = packed(self._columns, steps_of(turn))
        return self._learned(program, setups, state, state.actors, rows, index)

    def _learned(
        self,
        program: Program,
        setups: Setup,
        state: TogetherRuns,
        actors: Actor,
        rows: Array | np.ndarray,
        index: int,
    ) -> TogetherRuns:
        """Learn from the steps of a turn; the arrays of `state` can not be used afterwards."""
        both, first = (state.learner, state.replay), np.int32(index * program.lanes)
        learner, replay = self._do.learn(setups, both, actors, rows, first)
        return state._replace(learner=learner, replay=replay)

    def decide(
        self, program: Program, setups: Setup, learner: PyTree, memory: PyTree, seen: Played
    ) -> tuple[Array, Any]:
        """Return the best action of each lane."""
        ages = seen.age, seen.action_age, seen.next_age, seen.age_now
        present = Seen(*map(jnp.asarray, (seen.shown, seen.queue, *ages)))
        return self._do.decide(setups, learner, present), memory
