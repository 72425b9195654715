"""The Bellman operator of an MDP under a delay process, on states (c, s, queue), never written out.

With z the age of channel state c, u = a_{t-z} the action executed now, and q' the queue after
action a was chosen,

    (T v)(c, s, q) = max_a [ r(s, u) + γ Σ_s' P(s' | s, u) Σ_c' p(c' | c) v(c', s', q') ].

At age 0 the executed action u is a itself. The agent sees c and s before it chooses; it does not
see c' or s'.

Values are one flat array. Channel state c has a block of S·A^L(c) numbers, its queue of L(c)
actions oldest first. A sweep goes through the queues q' in pieces that stay in the cache. For each
piece it first takes the expectation over the channel's moves, for all s' at once. So it costs
nnz(P), and a few more multiplications for each state and action. A constant delay is a channel of
one state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from deadtime.planning.channel import Channel
from deadtime.planning.mdp import MDP
from deadtime.planning.threads import on_threads

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_PIECE = 512
_CACHED = 2**16


@numba.njit(cache=True)
def _expect(v, offsets, counts, moves, probabilities, low, actions, ahead):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill ahead[s, x], the value of s and queue low + x expected over the channel's moves."""
    states, width = ahead.shape
    for s in range(states):
        row = ahead[s]
        filled = 0
        for j in range(len(moves)):  # shortest queues first, so each sum is repeated once
            count = counts[moves[j]]
            size = min(count, width)
            begin = offsets[moves[j]] + s * count + low % count
            source = v[begin : begin + size]
            p = probabilities[j]
            if filled == 0:
                for x in range(size):
                    row[x] = p * source[x]
            elif filled < size:
                for first in range(size - filled, -1, -filled):  # the part that is read comes last
                    for x in range(filled):
                        row[first + x] = row[x] + p * source[first + x]
            else:
                for x in range(size):
                    row[x] += p * source[x]
            filled = size
        while filled < width:
            for x in range(filled, filled * actions):
                row[x] = row[x - filled]
            filled *= actions


@numba.njit(cache=True)
def _average(indptr, indices, data, row, ahead, mean, first, run, step):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add row `row` of P times `ahead` to `mean`: runs of `run` entries begin `step` apart."""
    for j in range(indptr[row], indptr[row + 1]):
        p = data[j]
        source = ahead[indices[j]]
        if run == 1:
            for x in range(first, len(mean), step):
                mean[x] += p * source[x]
        else:
            for begin in range(first, len(mean), step):
                for x in range(begin, begin + run):
                    mean[x] += p * source[x]


@numba.njit(cache=True)
def _choose(mean, actions, tie, best, chosen):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill the best value and action of each queue: a later one must be better by `tie`."""
    for g in range(len(best)):
        most = kept = mean[g * actions]
        taken = 0
        for a in range(1, actions):
            new = mean[g * actions + a]
            most = max(most, new)
            better = new > kept + tie
            taken = a if better else taken
            kept = new if better else kept
        best[g] = most
        chosen[g] = taken


@numba.njit(cache=True)
def _best_within(problem, s, age, low, ahead, tie, mean, best, chosen):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill T v and the greedy actions of a piece whose queues hold the executed action."""
    indptr, indices, data, r, gamma = problem
    actions = r.shape[1]
    width, groups = len(mean), len(best)
    mean[:] = 0.0
    if age == 0:
        for a in range(actions):
            _average(indptr, indices, data, s * actions + a, ahead, mean, a, 1, actions)
            for g in range(groups):
                mean[g * actions + a] = r[s, a] + gamma * mean[g * actions + a]
        _choose(mean, actions, tie, best, chosen)
        return
    place = actions ** (age - 1)  # how far two queues lie apart that differ by one in that action
    if place >= groups:
        u = (low // actions // place) % actions
        _average(indptr, indices, data, s * actions + u, ahead, mean, 0, width, width)
    else:
        run = place * actions
        for u in range(actions):
            row = s * actions + u
            _average(indptr, indices, data, row, ahead, mean, u * run, run, run * actions)
    _choose(mean, actions, tie, best, chosen)
    for g in range(groups):
        u = ((low // actions + g) // place) % actions
        best[g] = r[s, u] + gamma * best[g]


@numba.njit(parallel=True, cache=True)
def _improve(problem, channel, pieces, v, after, policy, tie):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Write T v and the greedy policy; a later action must be better by `tie`."""
    indptr, indices, data, r, gamma = problem
    ages, counts, offsets, reaches, starts, moves, probabilities = channel
    members, firsts, groups_of, lows, widths = pieces
    states, actions = r.shape
    for piece in numba.prange(len(lows)):
        group, low = groups_of[piece], lows[piece]
        width = widths[group]
        like = members[firsts[group]]
        reach = reaches[like]
        part = slice(starts[like], starts[like + 1])
        ahead = np.empty((states, width))
        _expect(v, offsets, counts, moves[part], probabilities[part], low, actions, ahead)
        mean = np.empty(width)
        best = np.empty(width // actions)
        chosen = np.empty(width // actions, policy.dtype)
        for member in range(firsts[group], firsts[group + 1]):
            c = members[member]
            age = ages[c]
            place = (
                actions ** max(age - 1, 0) // reach
            )  # 0: the executed action is within the piece
            for s in range(states):
                if age == 0 or place == 0:
                    _best_within(problem, s, age, low, ahead, tie, mean, best, chosen)
                begin = offsets[c] + s * counts[c] + low // actions
                for h in range(counts[c] // reach):
                    if age > 0 and place > 0:
                        u = (h // place) % actions
                        mean[:] = 0.0
                        row = s * actions + u
                        _average(indptr, indices, data, row, ahead, mean, 0, width, width)
                        _choose(mean, actions, tie, best, chosen)
                        for g in range(len(best)):
                            best[g] = r[s, u] + gamma * best[g]
                    at = begin + h * reach
                    after[at : at + len(best)] = best
                    policy[at : at + len(best)] = chosen


@numba.njit(cache=True)
def _gather(indptr, indices, data, row, ahead, first, actions, policy, totals):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Write row `row` of P times the entries of `ahead` that the policy leads to."""
    totals[:] = 0.0
    for j in range(indptr[row], indptr[row + 1]):
        p = data[j]
        source = ahead[indices[j]]
        for g in range(len(totals)):
            totals[g] += p * source[(first + g) * actions + policy[g]]


@numba.njit(parallel=True, cache=True)
def _follow(problem, channel, pieces, v, after, policy):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Write T^π v into `after`."""
    indptr, indices, data, r, gamma = problem
    ages, counts, offsets, reaches, starts, moves, probabilities = channel
    members, firsts, groups_of, lows, widths = pieces
    states, actions = r.shape
    for piece in numba.prange(len(lows)):
        group, low = groups_of[piece], lows[piece]
        like = members[firsts[group]]
        part = slice(starts[like], starts[like + 1])
        ahead = np.empty((states, widths[group]))
        _expect(v, offsets, counts, moves[part], probabilities[part], low, actions, ahead)
        for member in range(firsts[group], firsts[group + 1]):
            c = members[member]
            age = ages[c]
            place = actions ** max(age - 1, 0)
            groups = widths[group] // actions
            run = min(place, groups) if age > 0 else 1
            for s in range(states):
                for h in range(counts[c] // reaches[like]):
                    base = h * reaches[like] + low // actions
                    at = offsets[c] + s * counts[c] + base
                    for first in range(0, groups, run):
                        u = policy[at + first] if age == 0 else ((base + first) // place) % actions
                        row = s * actions + u
                        part = slice(at + first, at + first + run)
                        _gather(
                            indptr,
                            indices,
                            data,
                            row,
                            ahead,
                            first,
                            actions,
                            policy[part],
                            after[part],
                        )
                        for g in range(at + first, at + first + run):
                            after[g] = r[s, u] + gamma * after[g]


class ChannelOperator:
    """T and T^π of one problem; arrays are flat, channel states one after another."""

    def __init__(self, mdp: MDP, channel: Channel):
        """Compute the layout of the arrays, without allocating them."""
        self.mdp = mdp
        self.channel = channel
        self.counts = mdp.actions**channel.lengths
        sizes = mdp.states * self.counts
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.shape: tuple[int, ...] = (int(self.offsets[-1]),)
        self.policy_type = np.min_scalar_type(mdp.actions - 1).type
        moves = channel.transitions
        self.terms = int(np.diff(mdp.P.indptr).max()) + int(np.diff(moves.indptr).max())
        reaches = mdp.actions**channel.reach
        self._pieces = self._cut(reaches)
        self._problem = (mdp.P.indptr, mdp.P.indices, mdp.P.data, mdp.r, mdp.gamma)
        layout = (channel.ages, self.counts, self.offsets[:-1], reaches // mdp.actions)
        self._channel = (*layout, moves.indptr, moves.indices, moves.data)
        self._work = mdp.P.nnz * int(self.counts.sum())

    def _cut(self, reaches: Int[np.ndarray, " N"]) -> tuple[np.ndarray, ...]:
        """Cut the queues q' into pieces.

        Channel states with the same law of successors share their pieces.

        Return five arrays: the channel states by group, the start of each group, the group of each
        piece, its first queue, and the number of queues in a piece of each group.
        """
        moves = self.channel.transitions
        actions = self.mdp.actions
        groups: dict[bytes, list[int]] = {}
        for c in range(self.channel.states):
            part = slice(moves.indptr[c], moves.indptr[c + 1])
            law = moves.indices[part].tobytes() + moves.data[part].tobytes()
            groups.setdefault(law, []).append(c)
        found = [*groups.values()]
        ends = np.cumsum([0, *(len(group) for group in found)])
        sizes = reaches[[group[0] for group in found]]
        most = max(min(_PIECE, _CACHED // self.mdp.states), actions)
        width = actions
        while actions > 1 and width * actions <= most:
            width *= actions
        widths = np.minimum(sizes, width)
        lows = [np.arange(0, size, step) for size, step in zip(sizes, widths, strict=True)]
        owners = np.repeat(np.arange(len(found)), [len(low) for low in lows])
        return np.concatenate(found), ends, owners, np.concatenate(lows), widths

    def improve(
        self, v: Float[np.ndarray, " x"], after: np.ndarray, policy: np.ndarray, tie: float = 0.0
    ) -> None:
        """Write T v into `after` and its greedy policy, ties to the lowest index, into `policy`."""
        given = (self._problem, self._channel, self._pieces)
        on_threads(self._work, _improve, *given, v, after, policy, tie)

    def follow(self, v: Float[np.ndarray, " x"], after: np.ndarray, policy: np.ndarray) -> None:
        """Write T^π v into `after`."""
        given = (self._problem, self._channel, self._pieces)
        on_threads(self._work, _follow, *given, v, after, policy)

    def chain(self, policy: Int[np.ndarray, " x"]) -> tuple[csr_array, np.ndarray]:
        """Return F^π and g^π as arrays, for small problems."""
        parts = [self._rows(c, policy) for c in range(self.channel.states)]
        return csr_array(vstack([F for F, _ in parts])), np.concatenate([g for _, g in parts])

    def _rows(self, c: int, policy: Int[np.ndarray, " x"]) -> tuple[csr_array, np.ndarray]:
        """Return the rows of F^π and g^π for channel state `c`."""
        mdp, channel = self.mdp, self.channel
        count = int(self.counts[c])
        s, q = np.divmod(np.arange(mdp.states * count), count)
        a = policy[self.offsets[c] : self.offsets[c + 1]].astype(np.int64)
        age = int(channel.ages[c])
        u = a if age == 0 else q // mdp.actions ** (age - 1) % mdp.actions
        rows = mdp.P[s * mdp.actions + u]
        lengths = np.diff(rows.indptr)
        row = np.repeat(np.arange(len(s)), lengths)
        queue = np.repeat(q * mdp.actions + a, lengths)
        found = coo_array((len(s), self.shape[0]))
        part = slice(*channel.transitions.indptr[c : c + 2])
        moves = channel.transitions.indices[part]
        for to, p in zip(moves, channel.transitions.data[part], strict=True):
            column = self.offsets[to] + rows.indices * self.counts[to] + queue % self.counts[to]
            entries = (rows.data * p, (row, column))
            found = found + coo_array(entries, shape=found.shape)
        return csr_array(found), mdp.r[s, u]

    def split(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return an array (S, A, …, A) for each channel state; a leading axis for time stays."""
        lead = values.shape[:-1]
        parts = []
        for c, length in enumerate(self.channel.lengths):
            shape = (*lead, self.mdp.states, *([self.mdp.actions] * int(length)))
            parts.append(values[..., self.offsets[c] : self.offsets[c + 1]].reshape(shape))
        return tuple(parts)

    def index(self, channel: int, state: int, queue: tuple[int, ...]) -> int:
        """Return the place of (c, s, the last K actions) in a flat array."""
        number = 0
        for action in queue[len(queue) - int(self.channel.lengths[channel]) :]:
            number = number * self.mdp.actions + action
        return int(self.offsets[channel] + state * self.counts[channel] + number)
