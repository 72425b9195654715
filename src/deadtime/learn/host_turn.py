"""A turn of the host loop, and the interface of learners that play outside the program."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Array, PyTree

from deadtime.envs.pools import Played
from deadtime.learn.program import Program, Setup


class Turn(NamedTuple):
    """A step of every lane: the observations before it, the chosen actions, and the outcome.

    Runs that are trained together have two axes first, run (R) and lane (E). A run alone has only
    the lane axis.
    """

    before: Played
    chosen: np.ndarray
    after: Played


class HostedLearner(Protocol):
    """A learner on environments outside the program, for all runs and lanes at once."""

    overlaps: bool
    """Whether it learns from a turn while the next one is played, and not before it chooses."""

    def begin(self, program: Program, setups: Setup) -> Any:
        """Return the state of new runs."""

    def restart(self, program: Program, state: PyTree, seen: Played, index: int) -> Any:
        """Return the state at the start of new episodes; `index` is the last turn's, -1 if none."""

    def choose(
        self,
        program: Program,
        setups: Setup,
        state: PyTree,
        seen: Played,
        t: int,
        turn: Turn | None = None,
    ) -> tuple[Any, Any]:
        """Return the actions of all lanes at environment step t, and the new state.

        `turn` is the last turn, if the learner has not learned from it.
        """

    def learn(self, program: Program, setups: Setup, state: PyTree, turn: Turn, index: int) -> Any:
        """Return the state after learning from the turn `index`."""

    def learn_and_choose(
        self, program: Program, setups: Setup, state: PyTree, turn: Turn, t: int
    ) -> tuple[Any, Any]:
        """Learn from the last turn, and choose the next actions, at environment step t."""

    def finish(self, program: Program, setups: Setup, state: PyTree, turn: Turn, t: int) -> Any:
        """Return the state after the last turn of the training."""

    def decide(
        self, program: Program, setups: Setup, learner: PyTree, memory: PyTree, seen: Played
    ) -> tuple[Array, Any]:
        """Return the best action of each lane, and the new memories; None is an empty memory."""

    def policy_arrays(self, program: Program, learner: PyTree) -> dict[str, np.ndarray]:
        """Return the arrays of the policy of one run."""


class LearnsByTurn:
    """A base class of learners that keep turns, with `learn` as a separate call."""

    def restart(self, program: Program, state: PyTree, seen: Played, index: int) -> Any:
        """Return the state at the start of new episodes."""
        raise NotImplementedError

    def learn(self, program: Program, setups: Setup, state: PyTree, turn: Turn, index: int) -> Any:
        """Return the state after learning from the turn `index`."""
        raise NotImplementedError

    def choose(
        self,
        program: Program,
        setups: Setup,
        state: PyTree,
        seen: Played,
        t: int,
        turn: Turn | None = None,
    ) -> tuple[Any, Any]:
        """Return the actions of all lanes at environment step t, and the new state.

        `turn` is the last turn, if the learner has not learned from it.
        """
        raise NotImplementedError

    def learn_and_choose(
        self, program: Program, setups: Setup, state: PyTree, turn: Turn, t: int
    ) -> tuple[Any, Any]:
        """Learn from the last turn, and choose the next actions, at environment step t."""
        state = self.learn(program, setups, state, turn, t // program.lanes - 1)
        return self.choose(program, setups, state, turn.after, t)

    def finish(self, program: Program, setups: Setup, state: PyTree, turn: Turn, t: int) -> Any:
        """Return the state after the last turn of the training."""
        return self.learn(program, setups, state, turn, t // program.lanes - 1)
