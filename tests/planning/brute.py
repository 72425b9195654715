"""Slow, plain answers to hold the fast ones against: explicit loops over augmented states, dense linear algebra."""

from itertools import product

import numpy as np


def augmented_arrays(mdp, delay):
    """F[x, a, x'] and g[x, a], states in the order of an array (S, A, …, A): straight from the definition."""
    P, r = mdp.dense, mdp.r
    states = list(product(range(mdp.states), *[range(mdp.actions)] * delay))
    number = {x: i for i, x in enumerate(states)}
    F, g = np.zeros((len(states), mdp.actions, len(states))), np.zeros((len(states), mdp.actions))
    for i, (s, *queue) in enumerate(states):
        for a in range(mdp.actions):
            now, *rest = (*queue, a)
            g[i, a] = r[s, now]
            for after in range(mdp.states):
                F[i, a, number[(after, *rest)]] += P[s, now, after]
    return F, g


def optimum(mdp, delay):
    """Policy iteration with dense solves: v* and its action values."""
    F, g = augmented_arrays(mdp, delay)
    n = len(g)
    policy = np.zeros(n, int)
    while True:
        rows = np.arange(n), policy
        v = np.linalg.solve(np.eye(n) - mdp.gamma * F[rows], g[rows])
        q = g + mdp.gamma * F @ v
        better = q.max(axis=1) > q[rows] + 1e-11
        if not better.any():
            return v, q
        policy = np.where(better, q.argmax(axis=1), policy)


def horizon_values(mdp, delay, horizon):
    """The values with `horizon` steps to go."""
    F, g = augmented_arrays(mdp, delay)
    v = np.zeros(len(g))
    for _ in range(horizon):
        v = (g + mdp.gamma * F @ v).max(axis=1)
    return v


def policy_value(mdp, delay, rules, start, queue, steps):
    """The delayed value of `steps` decisions of a deterministic Markov policy, by following every path."""

    def follow(t, state, pending):
        if t == steps + delay:
            return 0.0
        chosen = rules[t % len(rules)][state]
        now, *rest = (*pending, chosen)
        reward = mdp.gamma ** (t - delay) * mdp.r[state, now] if t >= delay else 0.0
        row = mdp.dense[state, now]
        return reward + sum(row[s] * follow(t + 1, s, tuple(rest)) for s in np.flatnonzero(row))

    return follow(0, start, tuple(queue))
