"""A finite MDP whose observations are delayed, written out as an ordinary MDP.

At step t the agent sees the state s_{t-w}, w = min(z_t, t), and the channel's state. It remembers
its own actions, which are executed at once. It is not shown rewards. Where the channel is in order,
all that it knows is

    (c, x, b_1 … b_w): the channel's state, the newest state seen, and the actions chosen since.

The next state that it sees, w' steps old, follows x by the first w + 1 - w' of these actions and
the new one.

For a constant delay, and for a delay that is drawn once per episode and observed, this is the
problem of the same delay of actions, from the first reward that the agent can decide: the value of
(x, b_1 … b_m) here is the *delayed value* of state x and queue (b_1 … b_m) there. In general the
two differ: a delayed action may be held for several steps or overtaken by a newer one, and an
observation is not executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.sparse import coo_array, csr_array

from deadtime._support.machine import free_memory
from deadtime.delays import DelayProcess, as_process
from deadtime.planning.channel import Channel, channel_of
from deadtime.planning.mdp import MDP, Queue

_BYTES = 2000
_Known = tuple[int, int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class LateObservations:
    """The ordinary MDP `problem`, and the number of each of its states."""

    problem: MDP
    numbers: dict[_Known, int]

    def number(self, channel: int, seen: int, actions: Queue = ()) -> int:
        """Return the number of the state (channel state, state seen, actions since)."""
        known = (channel, seen, tuple(actions))
        if known not in self.numbers:
            raise ValueError(
                "a state is (channel state, state seen, actions since), with at most as many "
                "actions as the "
                f"channel state's age; got {known}: shorten it or count from 0"
            )
        return self.numbers[known]


def late_observations(mdp: MDP, delay: int | DelayProcess) -> LateObservations:
    """Return the problem of an agent whose observations are delayed.

    An episode begins in a state with no actions after it.
    """
    process = as_process(delay)
    channel = channel_of(process)
    if not process.chain.in_order:
        raise ValueError(
            "late observations need a channel in order, which never goes back to an older state; "
            f"got {process}: pass a process in order"
        )
    _check_size(mdp, channel)
    known = [
        (c, x, actions)
        for c in range(channel.states)
        for since in range(int(channel.ages[c]) + 1)
        for x in range(mdp.states)
        for actions in product(range(mdp.actions), repeat=since)
    ]
    numbers = {one: i for i, one in enumerate(known)}
    laws = _Laws(mdp)
    rows: list[int] = []
    columns: list[int] = []
    chances: list[float] = []
    reward = np.empty((len(known), mdp.actions))
    for (i, (c, x, actions)), a in product(enumerate(known), range(mdp.actions)):
        reward[i, a] = laws.after(x, actions) @ mdp.r[:, a]
        after = (*actions, a)
        part = slice(*channel.transitions.indptr[c : c + 2])
        moves = channel.transitions
        for to, p in zip(moves.indices[part].tolist(), moves.data[part].tolist(), strict=True):
            passed = len(after) - min(int(channel.ages[to]), len(after))
            law = laws.after(x, after[:passed])
            for seen in np.flatnonzero(law).tolist():
                rows.append(i * mdp.actions + a)
                columns.append(numbers[to, seen, after[passed:]])
                chances.append(p * float(law[seen]))
    shape = (len(known) * mdp.actions, len(known))
    P = csr_array(coo_array((chances, (rows, columns)), shape=shape))
    return LateObservations(MDP(P, reward, mdp.gamma, check=False), numbers)


def _check_size(mdp: MDP, channel: Channel) -> None:
    """Raise if the problem would not fit into the free memory."""
    counts = float(mdp.actions) ** (channel.ages + 1)
    needed = _BYTES * mdp.states**2 * mdp.actions * float(counts.sum())
    free = free_memory()
    if needed > 0.9 * free:
        raise MemoryError(
            "late observations must fit into memory; with "
            f"S = {mdp.states}, A = {mdp.actions} and ages up to {channel.longest} they need up to "
            f"{needed / 2**30:.3g} GiB, and {free / 2**30:.3g} GiB are free: "
            "pass shorter ages or a smaller MDP"
        )


class _Laws:
    """The laws of the state after a sequence of actions, each computed once."""

    def __init__(self, mdp: MDP):
        self._steps = [mdp.P[a :: mdp.actions].toarray() for a in range(mdp.actions)]
        self._found: dict[tuple[int, ...], np.ndarray] = {(): np.eye(mdp.states)}

    def after(self, state: int, actions: tuple[int, ...]) -> np.ndarray:
        """Return the law of the state after these actions from `state`."""
        return self._matrix(actions)[state]

    def _matrix(self, actions: tuple[int, ...]) -> np.ndarray:
        """Return the laws after these actions, a row for each state."""
        if actions not in self._found:
            self._found[actions] = self._matrix(actions[:-1]) @ self._steps[actions[-1]]
        return self._found[actions]
