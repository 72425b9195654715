"""Finite Markov decision processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse

if TYPE_CHECKING:
    from jaxtyping import Float

Queue = Sequence[int] | np.ndarray
"""Pending actions, oldest first."""


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite MDP (S, A, P, r, γ).

    P is dense, P[s, a, s'], or sparse of shape (S·A, S) with row s·A + a. Rewards are r[s, a].

    After construction `P` is sparse of shape (S·A, S), in every case. γ = 1 is for problems with a
    horizon.
    """

    P: Any
    r: Float[np.ndarray, "S A"]
    gamma: float
    check: bool = True

    def __post_init__(self) -> None:
        """Convert P and r to one form; raise at the first row that is not valid."""
        r = np.array(self.r, np.float64)
        if r.ndim != 2 or 0 in r.shape:
            raise ValueError(
                f"r has shape (S, A), at least one of each; got {r.shape}: "
                "give one reward for each state and action"
            )
        states, actions = r.shape
        dense = self.P if issparse(self.P) else np.asarray(self.P)
        if dense.dtype.kind not in "iuf":
            dense = dense.astype(
                np.float64
            )  # others are converted once they are sparse, which takes less memory
        wanted = (states * actions, states) if issparse(self.P) else (states, actions, states)
        if dense.shape != wanted:
            raise ValueError(
                f"P has shape {wanted} when r has shape {r.shape}; got {dense.shape}: "
                "reorder or reshape it"
            )
        if (
            self.check and dense.dtype.kind in "iu"
        ):  # before such a P that is none takes 30 times its size
            _check_sums(dense.sum(axis=-1, dtype=np.float64).ravel(), actions)
        P = csr_array(
            dense if issparse(dense) else dense.reshape(-1, states), dtype=np.float64, copy=True
        )
        P.sum_duplicates()
        gamma = self.gamma
        if (
            isinstance(gamma, bool)
            or not isinstance(gamma, int | float | np.number)
            or not 0 <= gamma <= 1
        ):
            raise ValueError(f"gamma lies in [0, 1]; got {gamma!r}: choose a discount such as 0.95")
        if self.check:
            _check(P, r)
            P.data /= np.repeat(
                P.sum(axis=1), np.diff(P.indptr)
            )  # what float32 or printing lost, so that rows sum to 1
        P.eliminate_zeros()
        for array in (r, P.data, P.indices, P.indptr):
            array.flags.writeable = False
        for name, value in (("P", P), ("r", r), ("gamma", float(gamma))):
            object.__setattr__(self, name, value)

    @property
    def states(self) -> int:
        """The number of states, S."""
        return self.r.shape[0]

    @property
    def actions(self) -> int:
        """The number of actions, A."""
        return self.r.shape[1]

    @property
    def dense(self) -> Float[np.ndarray, "S A S"]:
        """P as one array."""
        return self.P.toarray().reshape(self.states, self.actions, self.states)


def check_augmented_state(mdp: MDP, delay: int, state: int, queue: Queue) -> tuple[int, ...]:
    """Return (s, a_0, …, a_{m-1}) as indices, or raise, also for a negative index."""
    actions = tuple(queue) if np.ndim(queue) == 1 else None
    if actions is None or len(actions) != delay:
        raise ValueError(
            f"a queue holds as many actions as the delay, {delay}, oldest first; "
            f"got {_plain(queue)}: give all of them"
        )
    for what, index, count in (
        ("state", state, mdp.states),
        *(("pending action", a, mdp.actions) for a in actions),
    ):
        check_index(what, index, count)
    return (int(state), *(int(a) for a in actions))


def check_index(what: str, index: object, count: int) -> None:
    """Raise if an index is not one of 0 … count - 1."""
    if isinstance(index, bool) or not isinstance(index, int | np.integer) or not 0 <= index < count:
        raise ValueError(
            f"each {what} is a whole number from 0 to {count - 1}; got {_plain(index)}: "
            "count from 0"
        )


def _plain(value: object) -> str:
    return str(np.asarray(value).tolist())


def _check(P: csr_array, r: np.ndarray) -> None:
    actions = r.shape[1]
    if not np.isfinite(r).all():
        s, a = np.argwhere(~np.isfinite(r))[0]
        raise ValueError(f"r[{s}, {a}] is {r[s, a]}: rewards are finite numbers")
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    wrong = ~np.isfinite(P.data) | (P.data < 0)
    if wrong.any():
        k = np.flatnonzero(wrong)[0]
        s, a = divmod(int(rows[k]), actions)
        raise ValueError(
            f"P[{s}, {a}, {P.indices[k]}] is {P.data[k]}: probabilities are finite and not negative"
        )
    _check_sums(P.sum(axis=1), actions)


def _check_sums(total: np.ndarray, actions: int) -> None:
    """Raise at the first row of P, numbered s·A + a, that does not sum to 1."""
    off = np.abs(total - 1)
    if (off > 1e-9).any():
        s, a = divmod(int(np.argmax(off > 1e-9)), actions)
        raise ValueError(
            f"P[{s}, {a}] sums to {total[s * actions + a]:.12g}, not 1: "
            "divide it by its sum, in float64, or pass check=False"
        )
