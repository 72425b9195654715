"""A turn of the host loop, and the interface of learners that play outside the program."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Array

from deadtime.envs.pools import Played
from deadtime.learn.program import Program, Setup


class Turn(NamedTuple):
    """A step of every lane: what was seen, what was chosen, and what came of it.

    Runs on frames have two axes first, run (R) and lane (E); a run on numbers has its lanes alone.
    """

    before: Played
    chosen: np.ndarray
    after: Played


class HostedLearner(Protocol):
    """A learner on environments outside the program, for all runs and lanes at once."""

    overlaps: bool
    """Whether it learns from a turn while the next one is played; else before it chooses."""

    def begin(self, program: Program, setups: Setup) -> Any:
        """Return runs that know nothing."""

    def restart(self, program: Program, state: Any, seen: Played) -> Any:
        """Return the state at the beginning of new episodes."""

    def choose(
        self, program: Program, setups: Setup, state: Any, seen: Played, t: int
    ) -> tuple[Any, Any]:
        """Return the actions of all lanes at environment step t, and the state then."""

    def learn(self, program: Program, setups: Setup, state: Any, turn: Turn, index: int) -> Any:
        """Return the state after it has learned from the turn with this index."""

    def learn_and_choose(
        self, program: Program, setups: Setup, state: Any, turn: Turn, t: int
    ) -> tuple[Any, Any]:
        """Learn from the last turn, and choose at environment step t, from what it led to."""

    def finish(self, program: Program, setups: Setup, state: Any, turn: Turn, t: int) -> Any:
        """Return the state after the last turn of all."""

    def decide(
        self, program: Program, setups: Setup, learner: Any, memory: Any, seen: Played
    ) -> tuple[Array, Any]:
        """Return the best action of each lane, and the memories then; None is an empty memory."""

    def policy_arrays(self, program: Program, learner: Any) -> dict[str, np.ndarray]:
        """Return the arrays that acting needs, of one run."""


class LearnsByTurn:
    """A learner that keeps nothing of an episode beyond its turns, and learns in a call of its own."""

    def restart(self, program: Program, state: Any, seen: Played) -> Any:
        """Return the state as it is."""
        return state

    def learn(self, program: Program, setups: Setup, state: Any, turn: Turn, index: int) -> Any:
        """Return the state after it has learned from the turn with this index."""
        raise NotImplementedError

    def choose(
        self, program: Program, setups: Setup, state: Any, seen: Played, t: int
    ) -> tuple[Any, Any]:
        """Return the actions of all lanes at environment step t, and the state then."""
        raise NotImplementedError

    def learn_and_choose(
        self, program: Program, setups: Setup, state: Any, turn: Turn, t: int
    ) -> tuple[Any, Any]:
        """Learn from the last turn, and choose at environment step t, from what it led to."""
        state = self.learn(program, setups, state, turn, t // program.lanes - 1)
        return self.choose(program, setups, state, turn.after, t)

    def finish(self, program: Program, setups: Setup, state: Any, turn: Turn, t: int) -> Any:
        """Return the state after the last turn of all."""
        return self.learn(program, setups, state, turn, t // program.lanes - 1)
