"""The m-augmented MDP as an operator that is never written out.

Its arrays have shape (S, A, …, A), queue axes oldest first.

An augmented state is x = (s, a_0, …, a_{m-1}): the state and the pending actions, a_0 executed now
(paper, Def. 4.1, eqs. for F and g; the paper's a^{-m} is our a_0). Its Bellman operator is, for m ≥
1,

    (T v)(s, a_0, …, a_{m-1}) = r(s, a_0) + γ max_a Σ_s' P(s' | s, a_0) v(s', a_1, …, a_{m-1}, a),

where the maximum over the new action is *outside* the expectation: the agent chooses a before it
sees s'. With the maximum inside, it would be the problem with delay m - 1. One sweep costs
nnz(P)·A^m, and needs memory for v and T v alone (`channel_operator`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from deadtime._support.machine import free_memory
from deadtime.delays.convention import check_delay
from deadtime.planning.channel import constant_channel
from deadtime.planning.channel_operator import ChannelOperator
from deadtime.planning.mdp import MDP

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def queue_shape(mdp: MDP, delay: int) -> tuple[int, ...]:
    """Return the shape (S, A, …, A) of an array over augmented states."""
    if check_delay(delay) > 63:
        raise ValueError(
            f"arrays have at most 63 queue axes; got delay {delay}: "
            'shorten it, or try the method "beliefs"'
        )
    return (mdp.states, *([mdp.actions] * check_delay(delay)))


def check_memory(
    mdp: MDP,
    delay: int,
    bytes_a_state: float,
    what: str = "the augmented problem",
    remedy: str = "",
) -> None:
    """Raise, before anything is allocated, if the problem does not fit into the free memory."""
    log = math.log10(mdp.states) + check_delay(delay) * math.log10(mdp.actions)
    count = 10.0 ** min(log, 300)
    needed = count * bytes_a_state
    free = free_memory()
    if needed > 0.9 * free:
        remedy = (
            remedy
            or 'shorten the delay, or try the method "beliefs", which merges states with '
            "the same future"
        )
        raise MemoryError(
            f"{what} has S·A^m = {mdp.states}·{mdp.actions}^{delay} = 10^{log:.1f} states and "
            f"needs {needed / 2**30:.3g} GiB; "
            f"{free / 2**30:.3g} GiB are free: {remedy}"
        )


class Operator:
    """T and T^π of a problem under a constant delay; arrays are flat in the queue: (S, A^m).

    From m = 1 on it is the operator of a channel of one state, `channel_operator`.
    """

    def __init__(self, mdp: MDP, delay: int):
        """Keep the problem; its augmented states are not written out."""
        self.mdp = mdp
        self.delay = check_delay(delay)
        self.shape: tuple[int, int] = (mdp.states, mdp.actions**self.delay)
        self.policy_type: type[np.generic] = np.min_scalar_type(mdp.actions - 1).type
        self.terms = int(np.diff(mdp.P.indptr).max())
        self._delayed = ChannelOperator(mdp, constant_channel(self.delay)) if self.delay else None

    def improve(
        self, v: Float[np.ndarray, "S Q"], after: np.ndarray, policy: np.ndarray, tie: float = 0.0
    ) -> None:
        """Write T v into `after` and its greedy policy, ties to the lowest index, into `policy`."""
        if self._delayed is not None:
            self._delayed.improve(_flat(v), _flat(after), _flat(policy), tie)
            return
        q = self.mdp.r + self.mdp.gamma * (self.mdp.P @ v).reshape(self.mdp.r.shape)
        after[:, 0] = q.max(axis=1)
        kept = q[:, 0]
        policy[:, 0] = 0
        for a in range(1, self.mdp.actions):
            better = q[:, a] > kept + tie
            kept = np.where(better, q[:, a], kept)
            policy[better, 0] = a

    def follow(self, v: Float[np.ndarray, "S Q"], after: np.ndarray, policy: np.ndarray) -> None:
        """Write T^π v into `after`."""
        if self._delayed is not None:
            self._delayed.follow(_flat(v), _flat(after), _flat(policy))
            return
        law, reward = self.chain(policy)
        after[:] = (reward + self.mdp.gamma * (law @ v[:, 0]))[:, None]

    def chain(self, policy: Int[np.ndarray, "S Q"]) -> tuple[csr_array, np.ndarray]:
        """Return F^π and g^π as arrays, for small problems."""
        if self._delayed is not None:
            return self._delayed.chain(policy.ravel())
        rows = np.arange(self.mdp.states) * self.mdp.actions + policy[:, 0]
        return self.mdp.P[rows], self.mdp.r.ravel()[rows]


def _flat(array: np.ndarray) -> np.ndarray:
    """Return an array's view of one axis; raise if that needs a copy."""
    flat = array.view()
    flat.shape = (array.size,)
    return flat


def augment(mdp: MDP, delay: int) -> MDP:
    """Return the m-augmented problem as an explicit MDP, for small cases and other libraries.

    Its states are numbered as the elements of an array of shape (S, A, …, A), queue axes oldest
    first.
    """
    delay = check_delay(delay)
    if delay == 0:
        return mdp
    check_memory(mdp, delay, 16.0 * mdp.P.nnz / mdp.states, "the explicit augmented MDP")
    operator = Operator(mdp, delay)
    count = operator.shape[0] * operator.shape[1]
    actions = mdp.actions
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
    """Return the discounted rewards of the pending actions: Σ_{k<m} γ^k E r(s_k, a_k)."""
    earned = np.zeros((mdp.states, 1))
    for _ in range(check_delay(delay)):
        later = (mdp.P @ earned).reshape(mdp.states, mdp.actions, -1)
        earned = (mdp.r[:, :, None] + mdp.gamma * later).reshape(mdp.states, -1)
    return earned


def delayed_reward(mdp: MDP, delay: int) -> Float[np.ndarray, "S Q A"]:
    """Return E r(s_m, a), the expected reward of each new action a when it is executed."""
    earned = mdp.r
    for _ in range(check_delay(delay)):
        earned = (mdp.P @ earned).reshape(mdp.states, -1)
    return earned.reshape(mdp.states, -1, mdp.actions)
