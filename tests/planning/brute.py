"""Slow, plain answers to hold the fast ones against: explicit loops over augmented states, dense
linear algebra.
"""

from itertools import product

import numpy as np


def augmented_arrays(mdp, delay):
    """F[x, a, x'] and g[x, a], states in the order of an array (S, A, …, A): straight from the
    definition.
    """
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
    """The delayed value of `steps` decisions of a deterministic Markov policy, by following every
    path.
    """

    def follow(t, state, pending):
        if t == steps + delay:
            return 0.0
        chosen = rules[t % len(rules)][state]
        now, *rest = (*pending, chosen)
        reward = mdp.gamma ** (t - delay) * mdp.r[state, now] if t >= delay else 0.0
        row = mdp.dense[state, now]
        return reward + sum(row[s] * follow(t + 1, s, tuple(rest)) for s in np.flatnonzero(row))

    return follow(0, start, tuple(queue))


def process_arrays(mdp, process, moves=None):
    """F[x, a, x'] and g[x, a] under a delay process; x = (c, s, the last K actions, oldest first).

    The channel moves as its chain says, or as `moves` do.
    """
    P, r = mdp.dense, mdp.r
    moves = process.chain.matrix() if moves is None else moves
    ages, longest = process.chain.ages, process.longest
    channels = range(len(ages))
    states = list(product(channels, range(mdp.states), *[range(mdp.actions)] * longest))
    number = {x: i for i, x in enumerate(states)}
    F = np.zeros((len(states), mdp.actions, len(states)))
    g = np.zeros((len(states), mdp.actions))
    for (i, (c, s, *queue)), a in product(enumerate(states), range(mdp.actions)):
        known = [*queue, a]
        executed = known[longest - ages[c]]
        g[i, a] = r[s, executed]
        for after, to in product(range(mdp.states), channels):
            x = (to, after, *known[1:])
            F[i, a, number[x]] += moves[c, to] * P[s, executed, after]
    return F, g


def process_optimum(mdp, process, horizon=None, hindsight=False):
    """The optimal values, of shape (N, S, A, …, A); in hindsight by the previous channel state, the
    last for none.
    """
    stays = np.eye(len(process.chain.ages)) if hindsight else None
    F, g = process_arrays(mdp, process, stays)
    chain = process.chain
    shape = (len(chain.ages), mdp.states, *[mdp.actions] * process.longest)
    steps = 4000 if horizon is None else horizon
    if not hindsight:
        v = np.zeros(len(g))
        for _ in range(steps):
            v = (g + mdp.gamma * F @ v).max(axis=1)
        return v.reshape(shape)
    unseen = np.vstack([chain.matrix(), chain.start])
    v = np.zeros((len(unseen), len(g) // len(chain.ages)))
    for _ in range(steps):
        q = (g + mdp.gamma * F @ v[:-1].ravel()).reshape(len(chain.ages), -1, mdp.actions)
        v = np.tensordot(unseen, q, 1).max(axis=-1)
    return v.reshape(len(unseen), *shape[1:])


def best_blind_policy(mdp, process, start, queue):
    """The best deterministic policy of (s, the last K actions), by trying them all."""
    F, g = process_arrays(mdp, process)
    chain = process.chain
    blind = len(g) // len(chain.ages)
    place = np.ravel_multi_index((start, *queue), (mdp.states, *[mdp.actions] * process.longest))
    best = -np.inf
    for rule in product(range(mdp.actions), repeat=blind):
        rows = np.arange(len(g)), np.tile(rule, len(chain.ages))
        v = np.linalg.solve(np.eye(len(g)) - mdp.gamma * F[rows], g[rows])
        best = max(best, float(chain.start @ v.reshape(len(chain.ages), blind)[:, place]))
    return best
