"""The m-augmented MDP as an operator on arrays of shape (S, A, …, A), queue axes oldest first, never written out.

An augmented state is x = (s, a_0, …, a_{m-1}): the state and the pending actions, a_0 executed now (paper, Def. 4.1, eqs.
for F and g; the paper's a^{-m} is our a_0). Its Bellman operator is, for m ≥ 1,

    (T v)(s, a_0, …, a_{m-1}) = r(s, a_0) + γ max_a Σ_s' P(s' | s, a_0) v(s', a_1, …, a_{m-1}, a),

the maximum over the new action *outside* the expectation: the agent chooses a before it sees s'. Inside, it would be the
problem with delay m - 1. One sweep costs nnz(P)·A^m, and needs memory for v and T v alone: it goes through the queue
axis in blocks that stay in the cache, for all states at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from scipy.sparse import csr_array

from deadtime._support.machine import free_memory
from deadtime.delays.convention import check_delay
from deadtime.planning.mdp import MDP

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_BLOCK = 128
_PIECE = 4096


def queue_shape(mdp: MDP, delay: int) -> tuple[int, ...]:
    """The shape (S, A, …, A) of an array over augmented states."""
    if check_delay(delay) > 63:
        raise ValueError(
            f'arrays have at most 63 queue axes; got delay {delay}: shorten it, or try the method "beliefs"'
        )
    return (mdp.states, *([mdp.actions] * check_delay(delay)))


def check_memory(
    mdp: MDP,
    delay: int,
    bytes_a_state: float,
    what: str = "the augmented problem",
    remedy: str = "",
) -> None:
    """Refuse, before anything is allocated, what would not fit into the memory that is free."""
    log = math.log10(mdp.states) + check_delay(delay) * math.log10(mdp.actions)
    count = 10.0 ** min(log, 300)
    needed, free = count * bytes_a_state, free_memory()
    if needed > 0.9 * free:
        remedy = (
            remedy
            or 'shorten the delay, or try the method "beliefs", which merges what has the same future'
        )
        raise MemoryError(
            f"{what} has S·A^m = {mdp.states}·{mdp.actions}^{delay} = 10^{log:.1f} states and needs {needed / 2**30:.3g} GiB; "
            f"{free / 2**30:.3g} GiB are free: {remedy}"
        )


@numba.njit(parallel=True, cache=True)
def _improve(indptr, indices, data, r, gamma, v, after, policy, tie):  # type: ignore[no-untyped-def]  # pragma: no cover
    """after = T v, and the greedy policy: a later action is taken only if it is better by more than `tie`."""
    states, actions = r.shape
    rests = v.shape[1] // actions
    for block in numba.prange((rests + _BLOCK - 1) // _BLOCK):
        low, high = block * _BLOCK, min((block + 1) * _BLOCK, rests)
        mean = np.empty((high - low) * actions)
        for row in range(states * actions):
            mean[:] = 0.0
            for j in range(indptr[row], indptr[row + 1]):
                p, source = data[j], v[indices[j]]
                for i in range((high - low) * actions):
                    mean[i] += p * source[low * actions + i]
            s, a0 = row // actions, row % actions
            for i in range(high - low):
                best = kept = mean[i * actions]
                chosen = 0
                for a in range(
                    1, actions
                ):  # selections instead of branches, which values of a real problem mispredict
                    new = mean[i * actions + a]
                    best = max(best, new)
                    better = new > kept + tie
                    chosen = a if better else chosen
                    kept = new if better else kept
                after[s, a0 * rests + low + i] = r[s, a0] + gamma * best
                policy[s, a0 * rests + low + i] = chosen


@numba.njit(parallel=True, cache=True)
def _follow(indptr, indices, data, r, gamma, v, after, policy):  # type: ignore[no-untyped-def]  # pragma: no cover
    """after = T^π v."""
    states, actions = r.shape
    rests = v.shape[1] // actions
    for block in numba.prange((rests + _BLOCK - 1) // _BLOCK):
        low, high = block * _BLOCK, min((block + 1) * _BLOCK, rests)
        for row in range(states * actions):
            s, a0 = row // actions, row % actions
            for i in range(low, high):
                total = 0.0
                x = i * actions + policy[s, a0 * rests + i]
                for j in range(indptr[row], indptr[row + 1]):
                    total += data[j] * v[indices[j], x]
                after[s, a0 * rests + i] = r[s, a0] + gamma * total


@numba.njit(parallel=True, cache=True)
def changes(after, before):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The least and the greatest change, and the largest absolute value before it, in one pass."""
    pieces = (len(after) + _PIECE - 1) // _PIECE
    low, high, largest = np.empty(pieces), np.empty(pieces), np.empty(pieces)
    for i in numba.prange(pieces):
        least, most, size = np.inf, -np.inf, 0.0
        for j in range(i * _PIECE, min((i + 1) * _PIECE, len(after))):
            change = after[j] - before[j]
            least = min(least, change)
            most = max(most, change)
            size = max(size, abs(before[j]))
        low[i], high[i], largest[i] = least, most, size
        if not (least - least == 0.0 and most - most == 0.0):  # a NaN hides from min and max
            low[i] = np.nan
    return low.min(), high.max(), largest.max()


def on_threads(work: int, kernel: Any, *arguments: Any) -> Any:
    """Call a kernel on one thread if there is little work: waking the others would take longer."""
    if work > 200_000:
        return kernel(*arguments)
    allowed = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        return kernel(*arguments)
    finally:
        numba.set_num_threads(allowed)


class Operator:
    """T and T^π of one problem; arrays are flat in the queue: (S, A^m)."""

    def __init__(self, mdp: MDP, delay: int):
        """Nothing is written out but what `mdp` holds."""
        self.mdp, self.delay = mdp, check_delay(delay)
        self.shape: tuple[int, int] = (mdp.states, mdp.actions**self.delay)
        self.policy_type: type[np.generic] = np.min_scalar_type(mdp.actions - 1).type
        self.terms = int(np.diff(mdp.P.indptr).max())
        self._work = mdp.P.nnz * self.shape[1]
        self._parts = (mdp.P.indptr, mdp.P.indices, mdp.P.data, mdp.r, mdp.gamma)

    def improve(
        self, v: Float[np.ndarray, "S Q"], after: np.ndarray, policy: np.ndarray, tie: float = 0.0
    ) -> None:
        """Write T v into `after` and its greedy policy, ties to the lowest index, into `policy`."""
        if self.delay:
            on_threads(self._work, _improve, *self._parts, v, after, policy, tie)
            return
        q = self.mdp.r + self.mdp.gamma * (self.mdp.P @ v).reshape(self.mdp.r.shape)
        after[:, 0] = q.max(axis=1)
        kept, policy[:, 0] = q[:, 0], 0
        for a in range(1, self.mdp.actions):
            better = q[:, a] > kept + tie
            kept, policy[better, 0] = np.where(better, q[:, a], kept), a

    def follow(self, v: Float[np.ndarray, "S Q"], after: np.ndarray, policy: np.ndarray) -> None:
        """Write T^π v into `after`."""
        if self.delay:
            on_threads(self._work, _follow, *self._parts, v, after, policy)
            return
        rows = np.arange(self.mdp.states) * self.mdp.actions + policy[:, 0]
        after[:] = (self.mdp.r.ravel()[rows] + self.mdp.gamma * (self.mdp.P[rows] @ v[:, 0]))[
            :, None
        ]

    def chain(self, policy: Int[np.ndarray, "S Q"]) -> tuple[csr_array, np.ndarray]:
        """F^π and g^π written out, for problems small enough."""
        mdp, (states, queues) = self.mdp, self.shape
        if self.delay == 0:
            rows = np.arange(states) * mdp.actions + policy[:, 0]
            return mdp.P[rows], mdp.r.ravel()[rows]
        rests = queues // mdp.actions
        s, q = np.divmod(np.arange(states * queues), queues)
        a0, rest = np.divmod(q, rests)
        rows = mdp.P[s * mdp.actions + a0]
        after = rest * mdp.actions + policy.ravel()
        columns = rows.indices.astype(np.int64) * queues + np.repeat(after, np.diff(rows.indptr))
        return csr_array((rows.data, columns, rows.indptr), shape=(states * queues,) * 2), mdp.r[
            s, a0
        ]


def augment(mdp: MDP, delay: int) -> MDP:
    """The m-augmented problem as an explicit MDP, for small cases and other libraries.

    Its states are numbered as the elements of an array of shape (S, A, …, A), queue axes oldest first.
    """
    delay = check_delay(delay)
    if delay == 0:
        return mdp
    check_memory(mdp, delay, 16.0 * mdp.P.nnz / mdp.states, "the explicit augmented MDP")
    operator = Operator(mdp, delay)
    count, actions = operator.shape[0] * operator.shape[1], mdp.actions
    chains = [operator.chain(np.full(operator.shape, a)) for a in range(actions)]
    lengths = np.stack([np.diff(F.indptr) for F, _ in chains], axis=1).ravel()
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data, indices = np.empty(indptr[-1]), np.empty(indptr[-1], np.int64)
    for a, (F, _) in enumerate(chains):
        at = np.repeat(indptr[a:-1:actions] - F.indptr[:-1], np.diff(F.indptr)) + np.arange(F.nnz)
        data[at], indices[at] = F.data, F.indices
    P = csr_array((data, indices, indptr), shape=(count * actions, count))
    return MDP(P, np.repeat(chains[0][1][:, None], actions, axis=1), mdp.gamma, check=False)


def pending_reward(mdp: MDP, delay: int) -> Float[np.ndarray, "S Q"]:
    """What the pending actions themselves will earn, discounted: Σ_{k<m} γ^k E r(s_k, a_k), flat in the queue."""
    earned = np.zeros((mdp.states, 1))
    for _ in range(check_delay(delay)):
        later = (mdp.P @ earned).reshape(mdp.states, mdp.actions, -1)
        earned = (mdp.r[:, :, None] + mdp.gamma * later).reshape(mdp.states, -1)
    return earned


def delayed_reward(mdp: MDP, delay: int) -> Float[np.ndarray, "S Q A"]:
    """E r(s_m, a) from each augmented state and for each new action a: what that action will earn when its turn comes."""
    earned = mdp.r
    for _ in range(check_delay(delay)):
        earned = (mdp.P @ earned).reshape(mdp.states, -1)
    return earned.reshape(mdp.states, -1, mdp.actions)
