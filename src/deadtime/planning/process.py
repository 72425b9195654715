"""The process that a policy makes under execution delay: path probabilities, exact laws, simulation.

A policy is a rule for each step, repeated with a period (1: stationary). A rule says how likely each action is, given
the state (Markov) or the state and the queue (queue-aware). The action chosen at t is executed at t + m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from jaxtyping import Float, Int

from deadtime.delay import check_delay
from deadtime.planning.mdp import MDP, check_augmented_state

_DRAWS = 2**22


@dataclass(frozen=True, eq=False)
class Policy:
    """`probabilities[k, s, q, a]`: rule k serves the steps t with t mod period = k; q has length 1 if no rule looks at it."""

    probabilities: Float[np.ndarray, "period S Q A"]

    def rule(self, time: int) -> Float[np.ndarray, "S Q A"]:
        """The rule of step `time`."""
        return self.probabilities[time % len(self.probabilities)]

    @property
    def period(self) -> int:
        """After how many steps the rules repeat."""
        return len(self.probabilities)

    def after(self, steps: int) -> Policy:
        """The same policy, begun `steps` steps later: the paper's π_{k:}."""
        return Policy(np.roll(self.probabilities, -steps, axis=0))


def markov(mdp: MDP, rules: Any) -> Policy:
    """A Markov policy from rules d_0, d_1, … (repeated after the last): actions d_k[s], or probabilities d_k[s, a]."""
    rules = np.asarray(rules)
    if np.issubdtype(rules.dtype, np.integer):
        rules = np.eye(mdp.actions)[rules]
    if (
        rules.ndim != 3
        or rules.shape[1:] != (mdp.states, mdp.actions)
        or not np.allclose(rules.sum(-1), 1)
        or (rules < 0).any()
    ):
        raise ValueError(
            f"a Markov policy is rules of shape (period, S) in actions or (period, S, A) in probabilities, with S, A = "
            f"{mdp.states}, {mdp.actions}; got {rules.shape}: give one row for each step of the period"
        )
    return Policy(rules[:, :, None, :].astype(np.float64))


def stationary(mdp: MDP, rule: Any) -> Policy:
    """A stationary policy from one rule: actions d[s], or probabilities d[s, a]."""
    return markov(mdp, np.asarray(rule)[None])


def queue_aware(mdp: MDP, delay: int, rule: Any) -> Policy:
    """A stationary queue-aware policy: actions d[s, a_0, …, a_{m-1}], or probabilities with one more axis."""
    rule = np.asarray(rule)
    shape = (mdp.states, *([mdp.actions] * check_delay(delay)))
    if np.issubdtype(rule.dtype, np.integer) and rule.shape == shape:
        rule = np.eye(mdp.actions)[rule]
    if rule.shape != (*shape, mdp.actions):
        raise ValueError(f"a queue-aware rule has shape {shape} in actions; got {rule.shape}: queue axes come oldest first")
    return Policy(rule.reshape(1, mdp.states, -1, mdp.actions).astype(np.float64))


def initial_law(mdp: MDP, delay: int, start: Any, queue: Any) -> Float[np.ndarray, "S Q"]:
    """The law of (s_0, queue): `start` a state or a law of states; `queue` m actions, or m laws of actions (m, A)."""
    delay, queue = check_delay(delay), np.asarray(queue)
    if np.ndim(start) == 0 and queue.ndim < 2:
        start, *pending = check_augmented_state(mdp, delay, start, queue)
        queue = np.array(pending, int)
    laws = queue if queue.ndim == 2 else np.eye(mdp.actions)[queue.astype(int)].reshape(-1, mdp.actions)
    law = np.eye(mdp.states)[start] if np.ndim(start) == 0 else np.asarray(start, np.float64)
    for what, part, shape in (("start", law, (mdp.states,)), ("queue", laws, (delay, mdp.actions))):
        if part.shape != shape or (part < 0).any() or not np.allclose(part.sum(axis=-1), 1):
            raise ValueError(
                f"{what} is given by indices or by laws of shape {shape} that sum to 1; got {part.tolist()}: normalise it"
            )
    law = law[:, None]
    for action in laws:
        law = (law[:, :, None] * action).reshape(mdp.states, -1)
    return law


def advance(mdp: MDP, delay: int, law: Float[np.ndarray, "S Q"], rule: Float[np.ndarray, "S Q A"]) -> Float[np.ndarray, "S Q"]:
    """The law of (s, queue) one step later."""
    if delay == 0:
        return (mdp.P.T @ (law[:, 0, None] * rule[:, 0]).ravel())[:, None]
    joint = (law[:, :, None] * rule).reshape(mdp.states * mdp.actions, -1)
    return mdp.P.T @ joint


def law_at(mdp: MDP, policy: Policy, delay: int, start: Any, queue: Any, time: int) -> Float[np.ndarray, " *x"]:
    """The exact law of (s_t, queue) as an array of shape (S, A, …, A)."""
    law = initial_law(mdp, delay, start, queue)
    for t in range(time):
        law = advance(mdp, delay, law, policy.rule(t))
    return law.reshape(mdp.states, *([mdp.actions] * delay))


def path_probability(
    mdp: MDP,
    policy: Policy | Callable[[tuple[int, ...]], Any],
    delay: int,
    queue: Any,
    path: Any,
    start: Any = None,
) -> float:
    """The probability of a path (s_0, a_0, s_1, …, s_t) of states and *executed* actions (paper, Prop. 5.1).

    `policy` may also be a function of the history (s_0, a_0, …, s_k) that returns probabilities of actions. `start` is a law
    of s_0; without one the probability is given s_0.
    """
    states, actions = tuple(path[::2]), tuple(path[1::2])
    if len(states) != len(actions) + 1:
        raise ValueError(f"a path is s_0, a_0, s_1, …, s_t, an odd number of entries; got {len(path)}: end it with a state")
    check_augmented_state(mdp, delay, states[0], queue)
    for state, action in zip(states[1:], actions, strict=True):
        check_augmented_state(mdp, 1, state, (action,))
    probability = 1.0 if start is None else float(np.asarray(start)[states[0]])
    for k, action in enumerate(actions):
        if k < delay:
            probability *= float(action == queue[k])
        else:
            seen = k - delay
            if isinstance(policy, Policy):
                rule = policy.rule(seen)
                pending = int(np.ravel_multi_index(actions[seen:k], (mdp.actions,) * delay)) if rule.shape[1] > 1 else 0
                probability *= float(rule[states[seen], pending, action])
            else:
                probability *= float(policy(tuple(path[: 2 * seen + 1]))[action])
        probability *= float(mdp.P[states[k] * mdp.actions + action, states[k + 1]])
    return probability


@numba.njit(parallel=True, cache=True)
def _run(indptr, indices, data, rules, state, queue, draws, states, executed):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Follow each path; two uniform draws a step decide the action and the next state."""
    period, _, looked, actions = rules.shape
    paths, steps, _ = draws.shape
    delay = queue.shape[1]
    for i in numba.prange(paths):
        pending = queue[i].copy()
        s = state[i]
        states[i, 0] = s
        for t in range(steps):
            q = 0
            if looked > 1:
                for k in range(delay):
                    q = q * actions + pending[k]
            left, chosen = draws[i, t, 0], 0
            while chosen < actions - 1 and left >= rules[t % period, s, q, chosen]:
                left -= rules[t % period, s, q, chosen]
                chosen += 1
            now = chosen
            if delay > 0:
                now = pending[0]
                for k in range(delay - 1):
                    pending[k] = pending[k + 1]
                pending[delay - 1] = chosen
            row = s * actions + now
            left, j = draws[i, t, 1], indptr[row]
            while j < indptr[row + 1] - 1 and left >= data[j]:
                left -= data[j]
                j += 1
            s = indices[j]
            executed[i, t], states[i, t + 1] = now, s


def simulate(
    mdp: MDP, policy: Policy, delay: int, start: Any, queue: Any, *, steps: int, paths: int, seed: int
) -> tuple[Int[np.ndarray, "paths steps+1"], Int[np.ndarray, "paths steps"]]:
    """Sample paths: the states s_0 … s_steps and the executed actions."""
    rng = np.random.default_rng(seed)
    law = initial_law(mdp, delay, start, queue)
    first = rng.choice(law.size, size=paths, p=law.ravel() / law.sum())
    state, pending = np.divmod(first, law.shape[1])
    powers = mdp.actions ** np.arange(delay - 1, -1, -1)
    states, executed = np.empty((paths, steps + 1), np.int64), np.empty((paths, steps), np.int64)
    pending = (pending[:, None] // powers) % mdp.actions if delay else np.zeros((paths, 0), np.int64)
    block = max(_DRAWS // max(steps, 1), 1)
    for low in range(0, paths, block):  # the draws of a block follow those of the last, so its length changes no path
        part = slice(low, min(low + block, paths))
        draws = rng.random((part.stop - low, steps, 2))
        problem = (mdp.P.indptr, mdp.P.indices, mdp.P.data, policy.probabilities)
        _run(*problem, state[part], pending[part], draws, states[part], executed[part])
    return states, executed
