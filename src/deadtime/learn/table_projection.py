"""The tabular form of the view `projected`: values Q over states, and their projection F.

F is the table over pairs (state, queue), by which the agent decides. When the action chosen at a
pair is first executed, in state s, F of the pair moves towards Q(s, ·). The target of Q needs the
action that the next step executes: the one with the largest F at the pair where it was decided. If
the next step executes the same action again, or one of the warm-up, the target has that action.
"""

from __future__ import annotations

import numba


@numba.njit(cache=True)
def project(  # type: ignore[no-untyped-def]
    q, values, rows, repeated, actions, s, executed, reward, after, ended, then,
    t, age, later, m, step_size, discount,
):  # fmt: skip
    """Learn from step t, which executed an action of this episode.

    `rows[k]` is the pair of the decision at step k, and `then` that of step t + 1. `repeated[k]`
    tells whether the action chosen at step k was executed before. `later` is the age of step t + 1.
    """
    target = reward
    if not ended and (later == age + 1 or later > t + 1):
        target += discount * values[after, actions[t + 1 + m - later]]
    elif not ended:
        row = then if later == 0 else rows[t + 1 - later]
        target += discount * values[after, _best(q, row, values, after)]
    values[s, executed] += step_size * (target - values[s, executed])
    if repeated[t - age] == 0:
        repeated[t - age] = 1
        row = rows[t - age]
        for a in range(q.shape[1]):
            q[row, a] += step_size * (values[s, a] - q[row, a])


@numba.njit(cache=True)
def _best(q, row, values, state):  # type: ignore[no-untyped-def]
    """Return the action of the largest projection in a row; of equal ones, the best in `state`."""
    best = 0
    for a in range(1, q.shape[1]):
        equal = q[row, a] == q[row, best]
        if q[row, a] > q[row, best] or (equal and values[state, a] > values[state, best]):
            best = a
    return best
