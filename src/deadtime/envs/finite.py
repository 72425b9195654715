"""A finite environment as arrays: what a tabular learner steps through without leaving compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numpy import add, diff, eye, indices, ndarray, zeros

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int32


class Finite(NamedTuple):
    """Outcome k of (s, a) leads to `successors[s, a, k]` and pays `rewards[s, a, k]`.

    It is the first with u < `cumulative[s, a, k]`, for u uniform in [0, 1).
    """

    successors: Int32[ndarray, "S A K"]
    cumulative: Float[ndarray, "S A K"]
    rewards: Float[ndarray, "S A K"]
    terminal: Bool[ndarray, " S"]
    start: int
    max_steps: int

    def model(self) -> tuple[Float[ndarray, "S A S"], Float[ndarray, "S A"]]:
        """The exact P and r; a terminal state keeps its agent and pays nothing."""
        states, actions, _ = self.successors.shape
        shares = diff(self.cumulative, axis=2, prepend=0.0)
        P = zeros((states, actions, states))
        s, a, _ = indices(self.successors.shape)
        add.at(P, (s, a, self.successors), shares)
        r = (shares * self.rewards).sum(axis=2)
        P[self.terminal], r[self.terminal] = eye(states)[self.terminal][:, None], 0.0
        return P, r
