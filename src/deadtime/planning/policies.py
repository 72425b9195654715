"""The best return within a class of policies, from a fixed start and queue.

Returns are delayed values: rewards from the m-th on, the first the agent can decide. The classes, from small to large:
stationary deterministic ⊂ stationary randomized, Markov deterministic ⊂ queue-aware. The last attains the optimum over all
history-dependent policies; a deterministic policy that remembers its own choices knows its queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from deadtime.planning.augmented import delayed_reward
from deadtime.planning.delayed_value import at_queue, exact_values
from deadtime.planning.mdp import MDP
from deadtime.planning.process import Policy, advance, initial_law, markov, queue_aware, stationary
from deadtime.planning.solvers import solve


@dataclass(frozen=True)
class Best:
    """The best value found in a class, the policy that has it, and a bound that no policy of the class exceeds."""

    value: float
    policy: Policy
    upper_bound: float
    looked_at: int


def best_queue_aware(mdp: MDP, delay: int, start: Any, queue: Any, tol: float = 1e-10) -> Best:
    """The optimum over all policies: the augmented problem, solved."""
    solution = solve(mdp, delay, tol=tol * mdp.gamma**delay)
    policy = queue_aware(mdp, delay, solution.policy.astype(int))
    value = at_queue(mdp, delay, solution.delayed_values, start, queue)
    return Best(value, policy, value + solution.error_bound / mdp.gamma**delay, 1)


def best_stationary_deterministic(mdp: MDP, delay: int, start: Any, queue: Any, limit: int = 100_000) -> Best:
    """All A^S rules, each evaluated exactly."""
    count = mdp.actions**mdp.states
    if count > limit:
        raise ValueError(
            f"there are A^S = {count:.3g} stationary rules, above limit = {limit:,}: raise it, or use a smaller MDP"
        )
    rules = (np.array(rule) for rule in product(range(mdp.actions), repeat=mdp.states))
    found = [(at_queue(mdp, delay, exact_values(mdp, stationary(mdp, rule), delay), start, queue), rule) for rule in rules]
    value, rule = max(found, key=lambda pair: pair[0])
    return Best(value, stationary(mdp, rule), value, count)


def best_stationary_randomized(mdp: MDP, delay: int, start: Any, queue: Any, starts: int = 20, seed: int = 0) -> Best:
    """The best of many local searches over softmax rules, and the optimum over all policies as the bound."""
    rng = np.random.default_rng(seed)
    shape = (mdp.states, mdp.actions)

    def loss(logits: np.ndarray) -> float:
        values = exact_values(mdp, stationary(mdp, softmax(logits.reshape(shape), axis=1)), delay)
        return -at_queue(mdp, delay, values, start, queue)

    runs = [minimize(loss, rng.normal(scale=2, size=shape).ravel(), method="L-BFGS-B") for _ in range(starts)]
    best = min(runs, key=lambda run: run.fun)
    policy = stationary(mdp, softmax(best.x.reshape(shape), axis=1))
    value = -float(best.fun)
    if mdp.actions**mdp.states <= 4096:
        vertex = best_stationary_deterministic(mdp, delay, start, queue)
        value, policy = max(((value, policy), (vertex.value, vertex.policy)), key=lambda pair: pair[0])
    bound = best_queue_aware(mdp, delay, start, queue).upper_bound
    return Best(value, policy, max(bound, value), sum(run.nfev for run in runs))


def best_markov_deterministic(mdp: MDP, delay: int, start: Any, queue: Any, horizon: int, max_nodes: int = 1_000_000) -> Best:
    """The best sequence of rules d_t: S → A for `horizon` decisions, by branch and bound; later decisions only widen the bound.

    A Markov policy can't see the queue, so what it controls is the law of (s, queue), which moves deterministically. The search
    goes depth first over rules on the states that law reaches, takes the queue-aware optimum from there as the bound on
    what a branch can still earn, and never solves the same law twice. It is exact for the `horizon` decisions;
    `upper_bound` adds γ^horizon · max r / (1 - γ) for those after. Its cost grows as A^(states reached at a time): fine for
    a handful of reachable states or near-deterministic dynamics, not beyond.
    """
    search = _MarkovSearch(mdp, delay, horizon, max_nodes)
    value, rules = search.best(0, initial_law(mdp, delay, start, queue), -np.inf)
    tail = 0.0 if mdp.gamma == 1 else mdp.gamma**horizon * max(float(mdp.r.max()), 0.0) / (1 - mdp.gamma)
    return Best(value, markov(mdp, np.array(rules)), value + tail, search.nodes)


class _MarkovSearch:
    def __init__(self, mdp: MDP, delay: int, horizon: int, max_nodes: int):
        self.mdp, self.delay, self.horizon, self.max_nodes = mdp, delay, horizon, max_nodes
        self.reward = delayed_reward(mdp, delay)
        self.nodes = 0
        self.solved: dict[tuple[int, bytes], tuple[float, list[np.ndarray]]] = {}
        self.bounds = [np.zeros((mdp.states, mdp.actions**delay))]
        for _ in range(horizon):
            ahead = (mdp.P @ self.bounds[-1]).reshape(mdp.states, -1, mdp.actions)
            self.bounds.append((self.reward + mdp.gamma * ahead).max(axis=-1))

    def best(self, time: int, law: np.ndarray, wanted: float) -> tuple[float, list[np.ndarray]]:
        """The best return from `time` on and its rules, if it is above `wanted`; else a return of -inf."""
        if time == self.horizon:
            return 0.0, []
        key = (time, np.round(law, 13).tobytes())
        if key in self.solved:
            return self.solved[key]
        self.nodes += 1
        if self.nodes > self.max_nodes:
            raise ValueError(
                f"the search passed max_nodes = {self.max_nodes:,}: raise it, or shorten the horizon of {self.horizon}"
            )
        value, rules = -np.inf, [np.zeros(self.mdp.states, int)] * (self.horizon - time)
        complete = True
        for bound, earned, after, rule in sorted(self._branches(time, law), key=lambda branch: -branch[0]):
            if bound <= max(value, wanted):
                complete = complete and bound <= value
                break
            later, rest = self.best(time + 1, after, (max(value, wanted) - earned) / self.mdp.gamma)
            complete = complete and later > -np.inf
            if earned + self.mdp.gamma * later > value:
                value, rules = earned + self.mdp.gamma * later, [rule, *rest]
        if complete or value > wanted:
            self.solved[key] = (value, rules)
        return value, rules

    def _branches(self, time: int, law: np.ndarray) -> Any:
        reached = np.flatnonzero(law.sum(axis=1) > 1e-15)
        for choice in product(range(self.mdp.actions), repeat=len(reached)):
            rule = np.zeros(self.mdp.states, int)
            rule[reached] = choice
            hot = np.eye(self.mdp.actions)[rule][:, None, :]
            earned = float((law[:, :, None] * hot * self.reward).sum())
            after = advance(self.mdp, self.delay, law, hot)
            bound = earned + self.mdp.gamma * float((after * self.bounds[self.horizon - time - 1]).sum())
            yield bound + 1e-15, earned, after, rule
