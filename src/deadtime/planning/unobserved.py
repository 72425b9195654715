"""Bounds for an agent that never sees the ages.

Such an agent knows its own actions and the states it has seen. From above, its optimum is bounded
by the optimum of an agent that also sees the channel's state before it chooses. From below, it is
bounded by the exact value, in the true process, of any policy of (s, the last K actions). The best
such policy is searched for as follows.

1. Candidates: the policy that is greedy for the observed values averaged over the stationary law
   of the channel, and for each age m that occurs the optimal policy of the constant delay m.
2. The best candidate is improved. A step computes the discounted law of (channel, s, queue) under
   the policy, from the given start. For each (s, queue), this law gives the mean gain of each
   action over the channel. The situations with the largest gains change their action: all of them,
   or half as many until the exact value rises.
3. The search ends when not even the change with the largest gain raises the exact value.

The result is a policy that no such change improves. It need not be the best one, so `lower` is a
bound only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from deadtime.delays import DelayProcess, as_process
from deadtime.planning.channel import Channel, channel_of
from deadtime.planning.channel_policies import check_discount, discounted_sum, followed
from deadtime.planning.channel_solution import ProcessSolution, solve_process, written_out
from deadtime.planning.iteration import METHODS
from deadtime.planning.mdp import MDP
from deadtime.planning.process import initial_law
from deadtime.planning.solution import solve_augmented

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on the optimum from one start for an agent that never sees the ages.

    `policy` has the value `lower`: an action for each state and queue, shape (S, A, …, A).
    `observed` is the solution that `upper` is taken from. `evaluated` counts the policies whose
    exact value was computed.
    """

    lower: float
    upper: float
    policy: Int[np.ndarray, " *x"]
    observed: ProcessSolution
    evaluated: int


def bounds(
    mdp: MDP,
    delay: int | DelayProcess,
    start: ArrayLike = 0,
    queue: ArrayLike | None = None,
    *,
    tol: float = 1e-8,
    max_evaluations: int = 500,
) -> Bounds:
    """Return bounds on the value from `start` and `queue` if the agent never sees the ages.

    `start` is a state or a law of states. `queue` is the last K actions, or a law for each of them;
    by default action 0 throughout.
    """
    check_discount(mdp)
    process = as_process(delay)
    channel = channel_of(process)
    queue = (0,) * channel.longest if queue is None else queue
    law = initial_law(mdp, channel.longest, start, queue)
    search = _Search(mdp, channel, law, max_evaluations)
    observed = solve_process(
        mdp, process, METHODS[0], observed="now", tol=tol, horizon=None, max_iterations=100_000
    )
    values = whole_values(observed).reshape(channel.states, -1)
    upper = float(channel.start @ (values @ law.ravel())) + observed.error_bound
    candidates = [search.greedy(values), *_constants(mdp, channel, tol)]
    valued = [(search.value(policy), policy) for policy in candidates]
    lower, policy = search.improve(*max(valued, key=lambda pair: pair[0]))
    shape = (mdp.states, *([mdp.actions] * channel.longest))
    return Bounds(lower, upper, policy.reshape(shape), observed, search.evaluated)


def whole_values(solution: ProcessSolution) -> Float[np.ndarray, " *x"]:
    """Return the values with the last K actions in every channel state: shape (N, S, A, …, A)."""
    mdp, longest = solution.mdp, solution.channel.longest
    shape = (mdp.states, *([mdp.actions] * longest))
    parts = []
    for values in solution.values:
        unseen = [1] * (longest + 1 - values.ndim)
        parts.append(np.broadcast_to(values.reshape(mdp.states, *unseen, *values.shape[1:]), shape))
    return np.stack(parts)


def _constants(mdp: MDP, channel: Channel, tol: float) -> list[Int[np.ndarray, " x"]]:
    """Return the optimal policy of each constant age that occurs, as a flat array of actions."""
    policies = []
    shape = (mdp.states, *([mdp.actions] * channel.longest))
    for age in np.unique(channel.ages).tolist():
        solution = solve_augmented(
            mdp, age, METHODS[0], tol=tol, horizon=None, max_iterations=100_000
        )
        unseen = [1] * (channel.longest - age)
        rule = solution.policy.reshape(mdp.states, *unseen, *([mdp.actions] * age))
        policies.append(np.broadcast_to(rule, shape).ravel().astype(np.int64))
    return policies


class _Search:
    """The search for a good policy of (s, the last K actions), as a flat array of actions."""

    def __init__(
        self, mdp: MDP, channel: Channel, law: Float[np.ndarray, "S Q"], max_evaluations: int
    ):
        self.problem = written_out(mdp, channel)
        self.channel = channel
        self.start = np.outer(channel.start, law.ravel()).ravel()
        self.max_evaluations = max_evaluations
        self.evaluated = 0

    def greedy(self, values: Float[np.ndarray, "N x"]) -> Int[np.ndarray, " x"]:
        """Return the policy that is greedy for values averaged over the channel's law."""
        mean = np.tensordot(self.channel.start, self._action_values(values.ravel()), 1)
        return mean.argmax(axis=-1)

    def _action_values(self, values: Float[np.ndarray, " x"]) -> Float[np.ndarray, "N x A"]:
        """Return r + γ P v, by channel state, situation and action."""
        after = (self.problem.P @ values).reshape(self.problem.r.shape)
        found = self.problem.r + self.problem.gamma * after
        return found.reshape(self.channel.states, -1, self.problem.actions)

    def _followed(self, policy: Int[np.ndarray, " x"]) -> tuple[Any, Float[np.ndarray, " x"]]:
        return followed(
            self.problem, np.eye(self.problem.actions)[np.tile(policy, self.channel.states)]
        )

    def value(self, policy: Int[np.ndarray, " x"]) -> float:
        """Return the exact value of a policy from the start."""
        return float(self.start @ self._values(policy))

    def _values(self, policy: Int[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
        self.evaluated += 1
        return discounted_sum(*self._followed(policy), self.problem.gamma)

    def _gains(self, policy: Int[np.ndarray, " x"]) -> Float[np.ndarray, "x A"]:
        """Return the gain of each action to first order, weighted by how often its situation
        occurs.
        """
        law, reward = self._followed(policy)
        gamma = self.problem.gamma
        values = discounted_sum(law, reward, gamma)
        met = discounted_sum(law.T.tocsr(), self.start, gamma).reshape(self.channel.states, -1)
        better = self._action_values(values) - values.reshape(self.channel.states, -1, 1)
        return np.einsum("nx,nxa->xa", met, better)

    def improve(
        self, value: float, policy: Int[np.ndarray, " x"]
    ) -> tuple[float, Int[np.ndarray, " x"]]:
        """Change actions until no change that is tried raises the value."""
        while self.evaluated < self.max_evaluations:
            gains = self._gains(policy)
            best = gains.argmax(axis=-1)
            gain = gains.max(axis=-1)
            order = np.argsort(-gain, kind="stable")
            count = int((gain > 1e-13 * max(1.0, abs(value))).sum())
            while count:
                changed = policy.copy()
                changed[order[:count]] = best[order[:count]]
                found = self.value(changed)
                if found > value:
                    break
                count //= 2
            if not count:
                break
            value, policy = found, changed
        return value, policy
