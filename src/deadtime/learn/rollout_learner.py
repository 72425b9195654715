"""Learners of rollouts in the host loop: one run, with one learner for all lanes.

A turn is one compiled call, as in `lane_learner`. It keeps the last step of each lane, learns from
all of them once a rollout is full, and chooses the next actions. An update in which an episode was
lost with its worker is left out, and so is the last rollout if the training ends within it.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from deadtime.envs.pools import Played
from deadtime.learn.lane_learner import LaneLearner
from deadtime.learn.lane_steps import (
    NEVER,
    Steps,
    blank,
    chosen,
    followed,
    new_learner,
    started,
)
from deadtime.learn.program import Actor, Program, Setup, compiled


class RolloutRun(NamedTuple):
    """A run between two turns; each lane is an actor."""

    actors: Actor
    learner: Any
    memory: Any
    """The memories of the lanes before the rollout."""
    kept: Any
    """The records of the rollout's steps, with the axes (step, lane)."""
    filled: Int[Array, ""] | int
    """The number of steps of each lane in the rollout so far."""
    lost: Bool[Array, ""] | bool
    """Whether an episode was lost during the rollout."""


def _recorded(program: Program, setup: Setup, run: RolloutRun, steps: Steps) -> Any:
    """Return the record of the last step of each lane."""
    done = steps.done._replace(memory=run.actors.memory)
    record = partial(program.learner.record, program, setup, run.learner)
    return jax.vmap(record)(run.actors, done)


def _learned(program: Program, setup: Setup, run: RolloutRun, steps: Steps, t: Array) -> RolloutRun:
    """Return the run after the steps that begin at t: with an update, if the rollout is full."""
    record = _recorded(program, setup, run, steps)
    kept = jax.tree.map(lambda rows, row: rows.at[run.filled].set(row), run.kept, record)
    actors = followed(program, run.actors, steps)
    lost = run.lost | steps.lost.any()
    filled = run.filled + 1

    def updated(learner: PyTree) -> Any:
        at = jnp.where(lost, NEVER, t + len(steps.lost) - 1)
        rollout = run.memory, kept
        return program.learner.update(program, setup, learner, (), rollout, at, {})[0]

    full = filled == program.learner.rollout(program)
    learner = jax.lax.cond(full, updated, lambda learner: learner, run.learner)
    memory = jax.tree.map(partial(jnp.where, full), actors.memory, run.memory)
    return RolloutRun(actors, learner, memory, kept, jnp.where(full, 0, filled), lost & ~full)


def _chosen(program: Program, setup: Setup, run: RolloutRun, t: Array) -> tuple[Array, RolloutRun]:
    actions, actors = chosen(program, setup, run.learner, run.actors, t)
    return actions, run._replace(actors=actors)


def _learned_and_chosen(
    program: Program, setup: Setup, run: RolloutRun, steps: Steps, t: Array
) -> tuple[Array, RolloutRun]:
    run = _learned(program, setup, run, steps, t)
    return _chosen(program, setup, run, t + len(steps.lost))


@cache
def _functions(program: Program) -> tuple[Any, Any]:
    """Return the two compiled functions of a program."""
    choose = compiled(partial(_chosen, program))
    return choose, compiled(partial(_learned_and_chosen, program), donate_argnums=1)


_new = compiled(new_learner, static_argnums=0)


class RolloutLearner(LaneLearner):
    """A learner of `learner_code` with `updates_once`, as a `host_turn.HostedLearner`."""

    functions = staticmethod(_functions)

    def begin(self, program: Program, setups: Setup) -> RolloutRun:
        """Return a new run; `setups` is the setup of this one run."""
        actors, steps = blank(program)
        run = _at_start(RolloutRun(actors, _new(program, setups), (), (), 0, False))
        record = jax.eval_shape(partial(_recorded, program), setups, run, steps)
        rows = program.learner.rollout(program)
        kept = jax.tree.map(lambda one: jnp.zeros((rows, *one.shape), one.dtype), record)
        return run._replace(kept=kept)

    def restart(self, program: Program, state: RolloutRun, seen: Played, index: int) -> RolloutRun:
        """Return the run at the start of new episodes, and of a rollout."""
        actors = started(program, seen.shown, seen.queue, seen.age_now)
        return _at_start(state._replace(actors=actors))


def _at_start(run: RolloutRun) -> RolloutRun:
    """Return the run at the start of a rollout."""
    memory = jax.tree.map(jnp.array, run.actors.memory)  # a copy, since both are donated
    return run._replace(memory=memory, filled=jnp.zeros((), jnp.int32), lost=jnp.zeros((), bool))
