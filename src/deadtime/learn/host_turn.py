"""A turn of the host loop, and the interface of learners that play outside the program."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from deadtime.learn.program import Program, Setup


class Turn(NamedTuple):
    """A step of every lane (E) of every run (R): what was seen, what was done, what came of it."""

    shown: Any
    """What agents see: numbers, or the last four frames."""
    queue: Int[np.ndarray, "R E C"]
    age: Int[np.ndarray, "R E"]
    """Steps since the episode began."""
    chosen: Int[np.ndarray, "R E"]
    executed: Int[np.ndarray, "R E"]
    reward: Float[np.ndarray, "R E"]
    terminated: Bool[np.ndarray, "R E"]
    truncated: Bool[np.ndarray, "R E"]
    life_lost: Bool[np.ndarray, "R E"]
    lost: Bool[np.ndarray, "R E"]
    """Whether a worker died and nothing came of the step."""
    frame: Any = None
    """The newest frame alone, where agents see frames."""
    after: Any = None
    """What the step led to, before any reset; None where it is not seen."""
    queue_after: Any = None


class HostedLearner(Protocol):
    """A learner on environments outside the program, for all runs and lanes at once."""

    overlaps: bool
    """Whether it learns from a turn while the next one is played; else before it chooses."""

    def begin(self, program: Program, setups: Setup) -> Any:
        """Return runs that know nothing."""

    def restart(self, program: Program, state: Any, seen: Turn) -> Any:
        """Return the state at the beginning of new episodes."""

    def choose(self, program: Program, setups: Setup, state: Any, seen: Turn, t: int) -> tuple[Any, Any]:
        """Return the actions of all lanes at environment step t, and the state then."""

    def learn(self, program: Program, setups: Setup, state: Any, turn: Turn, index: int) -> Any:
        """Return the state after it has learned from the turn with this index."""

    def learn_and_choose(self, program: Program, setups: Setup, state: Any, turn: Turn, seen: Turn, t: int) -> tuple[Any, Any]:
        """Learn from the last turn, and choose at environment step t."""

    def finish(self, program: Program, setups: Setup, state: Any, turn: Turn, seen: Turn, t: int) -> Any:
        """Return the state after the last turn of all."""

    def decide(self, program: Program, setups: Setup, learner: Any, memory: Any, seen: Turn) -> tuple[Array, Any]:
        """Return the best action of each lane, and the memories then; None is an empty memory."""

    def policy_arrays(self, program: Program, learner: Any) -> dict[str, np.ndarray]:
        """Return the arrays that acting needs, of one run."""


class LearnsByTurn:
    """A learner that keeps nothing of an episode beyond its turns, and learns in a call of its own."""

    def restart(self, program: Program, state: Any, seen: Turn) -> Any:
        """Return the state as it is."""
        return state

    def learn(self, program: Program, setups: Setup, state: Any, turn: Turn, index: int) -> Any:
        """Return the state after it has learned from the turn with this index."""
        raise NotImplementedError

    def choose(self, program: Program, setups: Setup, state: Any, seen: Turn, t: int) -> tuple[Any, Any]:
        """Return the actions of all lanes at environment step t, and the state then."""
        raise NotImplementedError

    def learn_and_choose(self, program: Program, setups: Setup, state: Any, turn: Turn, seen: Turn, t: int) -> tuple[Any, Any]:
        """Learn from the last turn, and choose at environment step t."""
        state = self.learn(program, setups, state, turn, t // program.lanes - 1)
        return self.choose(program, setups, state, seen, t)

    def finish(self, program: Program, setups: Setup, state: Any, turn: Turn, seen: Turn, t: int) -> Any:
        """Return the state after the last turn of all."""
        return self.learn(program, setups, state, turn, t // program.lanes - 1)
