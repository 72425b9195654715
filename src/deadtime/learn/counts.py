"""The tabular forward model: how often each successor of (s, a) was seen.

A pair that was never tried is predicted to change nothing. The most likely state follows the most
visited successors through the queue, as the paper's forward model does in its mazes. The law
follows all successors with their frequencies.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from jaxtyping import Bool, Float, Int, Int32
from scipy.sparse import csr_array

from deadtime.planning.mdp import MDP


class Counts(NamedTuple):
    """The visits of successors, the most visited one, the sums of rewards, and terminal states."""

    successors: Int32[np.ndarray, "S A K"]
    visits: Int[np.ndarray, "S A K"]
    likely: Int32[np.ndarray, "S A"]
    rewards: Float[np.ndarray, "S A"]
    terminal: Bool[np.ndarray, " S"]


def empty(states: int, actions: int, most_successors: int) -> Counts:
    """Return a model without any visits."""
    shape = (states, actions, most_successors)
    likely = np.repeat(np.arange(states, dtype=np.int32)[:, None], actions, axis=1)
    return Counts(
        np.full(shape, -1, np.int32),
        np.zeros(shape, np.int64),
        likely,
        np.zeros(shape[:2]),
        np.zeros(states, np.bool_),
    )


@numba.njit(cache=True)
def observe(successors, visits, likely, rewards, terminal, s, a, reward, after, terminated):  # type: ignore[no-untyped-def]
    """Count one transition; return whether the most likely successor of (s, a) changed."""
    k = 0
    while successors[s, a, k] != after and successors[s, a, k] >= 0:
        k += 1
    successors[s, a, k] = after
    visits[s, a, k] += 1
    rewards[s, a] += reward
    terminal[after] |= terminated
    if likely[s, a] == after:
        return False
    most = 0
    for j in range(visits.shape[2]):
        if successors[s, a, j] == likely[s, a]:
            most = visits[s, a, j]
    if visits[s, a, k] > most:
        likely[s, a] = after
        return True
    return False


@numba.njit(cache=True)
def roll(likely, believed, actions, s, t, m):  # type: ignore[no-untyped-def]
    """Write the most likely path from s at step t through m pending actions; return its end."""
    believed[t] = s
    for k in range(t, t + m):
        believed[k + 1] = likely[believed[k], actions[k]]
    return np.int64(believed[t + m])


@numba.njit(cache=True)
def roll_on(likely, believed, actions, s, t, m, changed):  # type: ignore[no-untyped-def]
    """Return the end of the most likely path, like `roll`, from the path of the previous step.

    Only the last state is new, unless the path or the model has changed.
    """
    if m == 0 or changed or believed[t] != s:
        return roll(likely, believed, actions, s, t, m)
    believed[t + m] = likely[believed[t + m - 1], actions[t + m - 1]]
    return np.int64(believed[t + m])


@numba.njit(cache=True)
def roll_way(likely, actions, s, t, steps, places, code):  # type: ignore[no-untyped-def]
    """Return the end of the most likely path from s at step t through the actions on a way.

    Row `code` of `places` has the places of these actions, counted from `actions[t]` (see
    `tabular_channel.Channel`).
    """
    state = np.int64(s)
    for j in range(steps[code, 0]):
        state = np.int64(likely[state, actions[t + places[code, 0, j]]])
    return state


@numba.njit(cache=True)
def roll_law(  # type: ignore[no-untyped-def]
    successors, visits, s, actions, t, steps, places, code, way, law, members
):
    """Write the law of the state after the actions on a way; return the number n of its states.

    `law[0]` holds the probabilities, which are above 0 for the states `members[0, :n]`.
    """
    for i in range(law.shape[1]):
        law[0, i] = 0.0
    law[0, s], members[0, 0], n = 1.0, s, 1
    for j in range(steps[code, way]):
        a, found = actions[t + places[code, way, j]], 0
        for i in range(n):
            state = members[0, i]
            weight, total = law[0, state], 0
            law[0, state] = 0.0
            for k in range(visits.shape[2]):
                total += visits[state, a, k]
            for k in range(visits.shape[2]):
                after = state if total == 0 else successors[state, a, k]
                if after < 0:
                    break
                share = weight if total == 0 else weight * visits[state, a, k] / total
                if share > 0.0:
                    if law[1, after] == 0.0:
                        members[1, found] = after
                        found += 1
                    law[1, after] += share
                if total == 0:
                    break
        for i in range(found):
            state = members[1, i]
            members[0, i], law[0, state], law[1, state] = state, law[1, state], 0.0
        n = found
    return n


def estimate(model: Counts, discount: float) -> MDP:
    """Return the MDP that the counts describe.

    A pair that was never tried stays in its state and has the lowest mean reward of all pairs.
    """
    states, actions, _ = model.visits.shape
    total = model.visits.sum(axis=2)
    tried = total > 0
    r = np.divide(model.rewards, total, out=np.zeros(total.shape), where=tried)
    r = np.where(tried, r, r[tried].min() if tried.any() else 0.0)
    r[model.terminal] = 0.0
    s, a, k = np.nonzero(model.visits)
    stays = np.nonzero(~tried)
    rows = np.concatenate([s, stays[0]]) * actions + np.concatenate([a, stays[1]])
    columns = np.concatenate([model.successors[s, a, k], stays[0]])
    shares = np.concatenate([model.visits[s, a, k] / total[s, a], np.ones(len(stays[0]))])
    return MDP(csr_array((shares, (rows, columns)), shape=(states * actions, states)), r, discount)
