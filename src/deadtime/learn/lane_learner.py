"""Learners on numbers in the host loop: one run, with one learner for all lanes.

A turn is one compiled call. It learns from the last step of each lane, one after the other, and
chooses the next actions. So data goes to the device and back once per turn.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, PyTree

from deadtime.envs.pools import Played
from deadtime.learn.host_turn import Turn
from deadtime.learn.lane_steps import (
    Steps,
    blank,
    chosen,
    followed,
    learned,
    new_learner,
    started,
    steps_of,
)
from deadtime.learn.program import Actor, Program, Setup, compiled


class LaneRun(NamedTuple):
    """A run between two turns; each lane is an actor."""

    actors: Actor
    learner: Any
    replay: Any


def _chosen(program: Program, setup: Setup, run: LaneRun, t: Array) -> tuple[Array, LaneRun]:
    actions, actors = chosen(program, setup, run.learner, run.actors, t)
    return actions, run._replace(actors=actors)


def _learned_and_chosen(
    program: Program, setup: Setup, run: LaneRun, steps: Steps, t: Array
) -> tuple[Array, LaneRun]:
    """Learn from the steps that begin at t, and choose at those that follow."""
    now = learned(program, setup, run.learner, run.replay, run.actors, steps, t)
    run = LaneRun(followed(program, run.actors, steps), *now)
    return _chosen(program, setup, run, t + len(steps.lost))


@cache
def functions(program: Program) -> tuple[Any, Any]:
    """Return the two compiled functions of a program."""
    choose = compiled(partial(_chosen, program))
    learn_and_choose = compiled(partial(_learned_and_chosen, program), donate_argnums=1)
    return choose, learn_and_choose


_new = compiled(new_learner, static_argnums=0)


class LaneLearner:
    """A learner of `learner_code` with the interface `host_turn.HostedLearner`."""

    overlaps = False
    functions = staticmethod(functions)
    """The function that compiles its two functions for a program."""

    def __init__(self, program: Program):
        """Look up the compiled functions once, since hashing a program takes long."""
        self._choose, self._learn_and_choose = self.functions(program)

    def begin(self, program: Program, setups: Setup) -> Any:
        """Return a new run; `setups` is the setup of this one run."""
        return LaneRun(
            blank(program)[0], _new(program, setups), program.learner.new_replay(program)
        )

    def restart(self, program: Program, state: PyTree, seen: Played, index: int) -> Any:
        """Return the run at the start of new episodes."""
        return state._replace(actors=started(program, seen.shown, seen.queue, seen.age_now))

    def choose(
        self,
        program: Program,
        setups: Setup,
        state: PyTree,
        seen: Played,
        t: int,
        turn: Turn | None = None,
    ) -> tuple[np.ndarray, Any]:
        """Return the actions of all lanes."""
        actions, state = self._choose(setups, state, np.int32(t))
        return np.asarray(actions), state

    def learn_and_choose(
        self, program: Program, setups: Setup, state: PyTree, turn: Turn, t: int
    ) -> tuple[np.ndarray, Any]:
        """Learn from the last turn, and choose the next actions."""
        first = np.int32(t - program.lanes)
        actions, state = self._learn_and_choose(setups, state, steps_of(turn), first)
        return np.asarray(actions), state

    def learn(self, program: Program, setups: Setup, state: PyTree, turn: Turn, index: int) -> Any:
        """Raise: this learner learns before it chooses."""
        raise NotImplementedError

    def finish(self, program: Program, setups: Setup, state: PyTree, turn: Turn, t: int) -> Any:
        """Learn from the last turn of the training."""
        return self.learn_and_choose(program, setups, state, turn, t)[1]
