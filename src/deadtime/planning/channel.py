"""The channel of a delay process, as planning needs it.

Step t executes the action of age z_t, which is a_{t - z_t}. The ages come from a finite Markov
chain of the channel (`deadtime.delays.Chain`). An exact plan therefore has states (c, s, queue):
the channel's state, the state of the MDP and the last chosen actions.

A channel state c needs only as many actions as this step or a later one may still execute.
Their number is its *length*

    L(c) = max(age of c, max over successors c' of L(c') - 1).

In a channel that is in order, L(c) is the age of c itself. So the problem has S·Σ_c A^L(c) states,
not N·S·A^K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import breadth_first_order

from deadtime._support.machine import free_memory
from deadtime.delays import DelayProcess
from deadtime.delays.chain import Chain
from deadtime.planning.mdp import MDP, Queue, check_index

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_LONGEST = 63


@dataclass(frozen=True, eq=False)
class Channel:
    """A Markov chain of N channel states, all of which an episode can reach.

    Each row of `transitions` lists its successors in the order of their lengths, shortest queue
    first.
    """

    ages: Int[np.ndarray, " N"]
    lengths: Int[np.ndarray, " N"]
    transitions: csr_array
    start: Float[np.ndarray, " N"]
    longest: int

    @property
    def states(self) -> int:
        """The number of channel states, N."""
        return len(self.ages)

    @property
    def reach(self) -> Int[np.ndarray, " N"]:
        """The number of actions that the next step needs, at least 1.

        It is the greatest length among the successors.
        """
        longest = np.maximum.reduceat(
            self.lengths[self.transitions.indices], self.transitions.indptr[:-1]
        )
        return np.maximum(longest, 1)

    @property
    def seen(self) -> bool:
        """Whether the ages of an episode so far always tell the channel's state."""
        first = self.ages[self.start > 0]
        if len(set(first.tolist())) < len(first):
            return False
        rows = np.repeat(np.arange(self.states), np.diff(self.transitions.indptr))
        pairs = {*zip(rows.tolist(), self.ages[self.transitions.indices].tolist(), strict=True)}
        return len(pairs) == len(rows)

    def whole(self) -> Channel:
        """Return the same channel with the last K actions in every state."""
        lengths = np.full(self.states, self.longest)
        return Channel(self.ages, lengths, self.transitions, self.start, self.longest)

    def still(self) -> Channel:
        """Return a channel that never leaves its state."""
        moves = csr_array(eye_array(self.states))
        return Channel(self.ages, self.lengths, moves, self.start, self.longest)


def channel_of(process: DelayProcess) -> Channel:
    """Return the channel of a process; raise if planning can't use it."""
    chain = process.chain
    if chain.longest > _LONGEST:
        raise ValueError(
            f"planning looks at the last {_LONGEST} actions at most; "
            f"got a longest age of {chain.longest}: pass a process of shorter ages"
        )
    if not chain.endless:
        raise ValueError(
            f"planning needs a delay that never ends; got a trace of {chain.size} steps: "
            "pass repeat=True to the trace"
        )
    reached, moves = _reachable(chain)
    ages = chain.ages[reached].astype(np.int64)
    lengths = _lengths(ages, moves)
    start = chain.start[reached]
    return Channel(ages, lengths, _by_length(moves, lengths), start / start.sum(), chain.longest)


def constant_channel(delay: int) -> Channel:
    """Return the channel of a constant delay: it has one state and one age."""
    age = np.array([delay])
    return Channel(age, age, csr_array(np.ones((1, 1))), np.ones(1), delay)


def _reachable(chain: Chain) -> tuple[Int[np.ndarray, " N"], csr_array]:
    """Return the states that an episode can reach, in order, and the transitions among them."""
    size = chain.size
    listed = chain.successors
    if listed is None:
        moves = csr_array(chain.transitions)
    else:
        rows = np.repeat(np.arange(size), listed.shape[1])
        moves = csr_array((chain.transitions.ravel(), (rows, listed.ravel())), shape=(size, size))
    moves.sum_duplicates()
    moves.eliminate_zeros()
    first = np.flatnonzero(chain.start)
    source = csr_array((np.ones(len(first)), first, [0, len(first)]), shape=(1, size))
    graph = csr_array(
        (
            np.concatenate([moves.data, source.data]),
            np.concatenate([moves.indices, source.indices]),
            np.concatenate([moves.indptr, [moves.nnz + len(first)]]),
        ),
        shape=(size + 1, size + 1),
    )
    order = breadth_first_order(graph, size, return_predecessors=False)
    reached = np.sort(order[order < size])
    kept = csr_array(moves[reached][:, reached])
    kept.data /= np.repeat(kept.sum(axis=1), np.diff(kept.indptr))
    return reached, kept


def _lengths(ages: Int[np.ndarray, " N"], moves: csr_array) -> Int[np.ndarray, " N"]:
    """Return how many of the last actions each channel state needs."""
    lengths = ages.copy()
    while True:
        later = np.maximum.reduceat(lengths[moves.indices], moves.indptr[:-1]) - 1
        longer = np.maximum(ages, later)
        if (longer == lengths).all():
            return lengths
        lengths = longer


def _by_length(moves: csr_array, lengths: Int[np.ndarray, " N"]) -> csr_array:
    """Return the transitions with the successors of each row in the order of their lengths."""
    rows = np.repeat(np.arange(moves.shape[0]), np.diff(moves.indptr))
    order = np.lexsort((moves.indices, lengths[moves.indices], rows))
    return csr_array((moves.data[order], moves.indices[order], moves.indptr), shape=moves.shape)


def check_channel_memory(mdp: MDP, channel: Channel, bytes_a_state: float, what: str) -> None:
    """Raise, before anything is allocated, if the problem would not fit into the free memory."""
    logs = channel.lengths * math.log10(mdp.actions)
    top = float(logs.max())
    count = math.log10(mdp.states) + top + math.log10(float((10.0 ** (logs - top)).sum()))
    needed = 10.0 ** min(count, 300) * bytes_a_state
    free = free_memory()
    if needed > 0.9 * free:
        raise MemoryError(
            f"{what} must fit into memory; with S = {mdp.states}, A = {mdp.actions} and the last "
            f"{channel.longest} actions in {channel.states} channel states it has 10^{count:.1f} "
            "states "
            f"and needs {needed / 2**30:.3g} GiB, and {free / 2**30:.3g} GiB are free: "
            "pass a process of shorter ages"
        )


def check_queue(mdp: MDP, channel: Channel, queue: Queue) -> tuple[int, ...]:
    """Return the last K actions as a tuple, or raise if they are not K actions."""
    actions = tuple(queue) if np.ndim(queue) == 1 else None
    if actions is None or len(actions) != channel.longest:
        raise ValueError(
            f"a queue holds the last {channel.longest} actions, as many as the longest age, "
            "oldest first; "
            f"got {np.asarray(queue).tolist()}: give all of them"
        )
    for action in actions:
        check_index("pending action", action, mdp.actions)
    return tuple(int(action) for action in actions)
