"""A finite environment as arrays, which compiled tabular learners step through."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from numpy import add, diff, eye, full, indices, int64, ndarray, ones, zeros

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int32, Int64


class Finite(NamedTuple):
    """A finite environment; outcome k of (s, a) leads to `successors[s, a, k]`.

    The outcome pays `rewards[s, a, k]`. A step draws u uniformly from [0, 1) and takes the first
    outcome with u < `cumulative[s, a, k]`. An episode starts in `starts[i]`, drawn in the same way
    by `start_cumulative`; a single start needs no draw. It is truncated after `max_steps` steps.
    """

    successors: Int32[ndarray, "S A K"]
    cumulative: Float[ndarray, "S A K"]
    rewards: Float[ndarray, "S A K"]
    terminal: Bool[ndarray, " S"]
    starts: Int64[ndarray, " N"]
    start_cumulative: Float[ndarray, " N"]
    max_steps: int

    def model(self) -> tuple[Float[ndarray, "S A S"], Float[ndarray, "S A"]]:
        """Return the exact P and r; a terminal state leads to itself and pays nothing."""
        states, actions, _ = self.successors.shape
        shares = diff(self.cumulative, axis=2, prepend=0.0)
        P = zeros((states, actions, states))
        s, a, _ = indices(self.successors.shape)
        add.at(P, (s, a, self.successors), shares)
        r = (shares * self.rewards).sum(axis=2)
        P[self.terminal] = eye(states)[self.terminal][:, None]
        r[self.terminal] = 0.0
        return P, r

    def start_law(self) -> Float[ndarray, " S"]:
        """Return the probability of each state at the start of an episode."""
        law = zeros(len(self.terminal))
        add.at(law, self.starts, diff(self.start_cumulative, prepend=0.0))
        return law


class FiniteEnvironment(Protocol):
    """An environment that knows its own arrays, as mazes, walks and tables do."""

    def finite(self) -> Finite:
        """Return the environment as arrays."""

    def model(self) -> tuple[ndarray, ndarray]:
        """Return the exact transition probabilities P and rewards r."""


def one_start(state: int) -> tuple[Int64[ndarray, " 1"], Float[ndarray, " 1"]]:
    """Return the starts of episodes that all begin in one state, and their law."""
    return full(1, state, int64), ones(1)
