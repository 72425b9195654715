"""The best return within a class of policies, from a fixed start and queue.

Returns are delayed values: rewards from the m-th on, the first the agent can decide. The classes,
from small to large: stationary deterministic ⊂ stationary randomized, Markov deterministic ⊂
queue-aware. The last attains the optimum over all history-dependent policies; a deterministic
policy that remembers its own choices knows its queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import softmax

from deadtime.planning.augmented import check_memory, delayed_reward
from deadtime.planning.delayed_value import at_queue, exact_values
from deadtime.planning.mdp import MDP
from deadtime.planning.process import Policy, advance, initial_law, markov, queue_aware, stationary
from deadtime.planning.solvers import solve


@dataclass(frozen=True)
class Best:
    """The best value found in a class of policies.

    `policy` attains it, and no policy of the class exceeds `upper_bound`.

    For `best_markov_deterministic` the value counts the first `horizon` decisions, and the policy
    repeats after them.
    """

    value: float
    policy: Policy
    upper_bound: float
    looked_at: int


def best_queue_aware(
    mdp: MDP, delay: int, start: ArrayLike, queue: ArrayLike, tol: float = 1e-10
) -> Best:
    """Return the optimum over all policies: the solution of the augmented problem."""
    delayed = solve(mdp, delay, tol=tol).delayed
    value = at_queue(mdp, delay, delayed.values, start, queue)
    return Best(value, queue_aware(mdp, delay, delayed.policy), value + delayed.error_bound, 1)


def best_stationary_deterministic(
    mdp: MDP, delay: int, start: ArrayLike, queue: ArrayLike, limit: int = 100_000
) -> Best:
    """Return the best of all A^S rules, each evaluated exactly."""
    count = mdp.actions**mdp.states
    if count > limit:
        raise ValueError(
            f"there are A^S = {count:.3g} stationary rules, above limit = {limit:,}: "
            "raise it, or use a smaller MDP"
        )
    rules = (np.array(rule) for rule in product(range(mdp.actions), repeat=mdp.states))
    found = [
        (at_queue(mdp, delay, exact_values(mdp, stationary(mdp, rule), delay), start, queue), rule)
        for rule in rules
    ]
    value, rule = max(found, key=lambda pair: pair[0])
    return Best(value, stationary(mdp, rule), value, count)


def best_stationary_randomized(
    mdp: MDP, delay: int, start: ArrayLike, queue: ArrayLike, starts: int = 20, seed: int = 0
) -> Best:
    """Return the best of many local searches over softmax rules.

    `upper_bound` is the optimum over all policies.
    """
    rng = np.random.default_rng(seed)
    shape = (mdp.states, mdp.actions)

    def loss(logits: np.ndarray) -> float:
        values = exact_values(mdp, stationary(mdp, softmax(logits.reshape(shape), axis=1)), delay)
        return -at_queue(mdp, delay, values, start, queue)

    runs = [
        minimize(loss, rng.normal(scale=2, size=shape).ravel(), method="L-BFGS-B")
        for _ in range(starts)
    ]
    best = min(runs, key=lambda run: run.fun)
    policy = stationary(mdp, softmax(best.x.reshape(shape), axis=1))
    value = -float(best.fun)
    if mdp.actions**mdp.states <= 4096:
        vertex = best_stationary_deterministic(mdp, delay, start, queue)
        value, policy = max(
            ((value, policy), (vertex.value, vertex.policy)), key=lambda pair: pair[0]
        )
    bound = best_queue_aware(mdp, delay, start, queue).upper_bound
    return Best(value, policy, max(bound, value), sum(run.nfev for run in runs))


def best_markov_deterministic(
    mdp: MDP,
    delay: int,
    start: ArrayLike,
    queue: ArrayLike,
    horizon: int,
    max_nodes: int = 1_000_000,
) -> Best:
    """Return the best rules d_t: S → A for `horizon` decisions, by branch and bound.

    Later decisions count only in the upper bound.

    A Markov policy can't see the queue, so it controls the law of (s, queue), which changes
    deterministically. The search goes depth first over rules on the states that the law reaches.
    The queue-aware optimum bounds the further reward of a branch. No law is solved twice. It is
    exact for the `horizon` decisions; `upper_bound` adds γ^horizon · max(r, 0) / (1 - γ) for those
    after (at γ = 1 it is infinite). Its cost grows as A^(states reached at a time): fine for a
    handful of reachable states or near-deterministic dynamics, not beyond.
    """
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ValueError(
            f"horizon is a whole number of decisions, 1 or more; got {horizon!r}: "
            "choose one such as 10"
        )
    search = _MarkovSearch(mdp, delay, horizon, max_nodes)
    found = search.best(0, initial_law(mdp, delay, start, queue), -np.inf)
    assert found is not None  # every return is above -inf
    value, rules = found
    tail = (
        np.inf
        if mdp.gamma == 1
        else mdp.gamma**horizon * max(float(mdp.r.max()), 0.0) / (1 - mdp.gamma)
    )
    return Best(value, markov(mdp, np.array(rules)), value + tail, search.nodes)


class _MarkovSearch:
    def __init__(self, mdp: MDP, delay: int, horizon: int, max_nodes: int):
        self.mdp = mdp
        self.delay = delay
        self.horizon = horizon
        self.max_nodes = max_nodes
        check_memory(
            mdp,
            delay,
            8 * (horizon + mdp.actions + 4),
            "the search",
            "shorten the delay or the horizon",
        )
        self.reward = delayed_reward(mdp, delay)
        self.nodes = 0
        self.solved: dict[tuple[int, bytes], tuple[float, list[np.ndarray]]] = {}
        self.at_most: dict[tuple[int, bytes], float] = {}
        self.bounds = [np.zeros((mdp.states, mdp.actions**delay))]
        for _ in range(horizon):
            ahead = (mdp.P @ self.bounds[-1]).reshape(mdp.states, -1, mdp.actions)
            self.bounds.append((self.reward + mdp.gamma * ahead).max(axis=-1))

    def best(
        self, time: int, law: np.ndarray, wanted: float
    ) -> tuple[float, list[np.ndarray]] | None:
        """Return the best return from `time` on and its rules, or None if it is below `wanted`."""
        if time == self.horizon:
            return (0.0, []) if wanted < 0 else None
        key = (time, np.round(law, 13).tobytes())
        if key in self.solved:
            return self.solved[key] if self.solved[key][0] > wanted else None
        if self.at_most.get(key, np.inf) <= wanted:
            return None
        self.nodes += 1
        if self.nodes > self.max_nodes:
            raise ValueError(
                f"the search passed max_nodes = {self.max_nodes:,}: "
                f"raise it, or shorten the horizon of {self.horizon}"
            )
        value = wanted
        rules = None
        gamma = self.mdp.gamma
        for bound, earned, after, rule in sorted(
            self._branches(time, law), key=lambda branch: -branch[0]
        ):
            if bound <= value:
                break
            later = self.best(time + 1, after, (value - earned) / gamma if gamma else -np.inf)
            if later is not None and earned + gamma * later[0] > value:
                value, rules = earned + gamma * later[0], [rule, *later[1]]
        if rules is None:
            self.at_most[key] = wanted
            return None
        self.solved[key] = (value, rules)
        return self.solved[key]

    def _branches(self, time: int, law: np.ndarray) -> Any:
        reached = np.flatnonzero(law.sum(axis=1) > 1e-15)
        for choice in product(range(self.mdp.actions), repeat=len(reached)):
            rule = np.zeros(self.mdp.states, int)
            rule[reached] = choice
            hot = np.eye(self.mdp.actions)[rule][:, None, :]
            earned = float((law[:, :, None] * hot * self.reward).sum())
            after = advance(self.mdp, self.delay, law, hot)
            bound = earned + self.mdp.gamma * float(
                (after * self.bounds[self.horizon - time - 1]).sum()
            )
            yield bound + 1e-15, earned, after, rule
