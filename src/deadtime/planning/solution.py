"""The optimum under a constant delay: its values, its policy, and how the solver ended.

Values count the rewards of the pending actions too, from the present step on;
`Solution.delayed_values` counts from the first reward the agent can still decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from deadtime.planning.augmented import (
    Operator,
    check_memory,
    delayed_reward,
    pending_reward,
    queue_shape,
)
from deadtime.planning.iteration import (
    EPS,
    bound,
    check_contraction,
    most_successors,
    solve_operator,
)
from deadtime.planning.mdp import MDP, Queue, check_augmented_state
from deadtime.planning.process import Policy, queue_aware

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def check_time(time: object, horizon: int) -> int:
    """Return a step of a problem with a horizon, or raise if it is not one."""
    if not isinstance(time, int | np.integer) or not 0 <= time < horizon:
        raise ValueError(
            f"time is a step from 0 to below the horizon, {horizon}; got {time!r}: "
            "pass a step in this range"
        )
    return int(time)


@dataclass(frozen=True)
class Delayed:
    """Optimal values from the m-th reward on, and their greedy policy.

    They come from sweeps of their own operator. Subtracting the first rewards from v would divide
    the error of v by γ^m.
    """

    values: Float[np.ndarray, " *x"]
    policy: Int[np.ndarray, " *x"]
    error_bound: float


def described(solution: Any) -> str:
    """Return a solution as a line: the size of the problem, the delay and how the solver ended."""
    mdp = solution.mdp
    size = f"{mdp.states} states, {mdp.actions} actions, delay {solution.delay}"
    return f"{type(solution).__name__}({size}: {solution.message})"


@dataclass(frozen=True)
class Solution:
    """The optimum under a constant delay, and how it was reached.

    `iterations` counts evaluations for policy iteration (one more than policy changes), and
    improving sweeps for the others. `residual` is max |T v - v| at the returned values.
    `error_bound` bounds max |values - optimum|. With a horizon H, `values` are those with H steps
    to go, and `policy` has a first axis of length H, time from the start.
    """

    values: Float[np.ndarray, " *x"]
    policy: Int[np.ndarray, " *x"]
    iterations: int
    residual: float
    error_bound: float
    converged: bool
    message: str
    mdp: MDP
    delay: int
    tol: float
    horizon: int | None = None

    def __repr__(self) -> str:
        """Return the size of the problem, the delay and how the solver ended."""
        return described(self)

    @cached_property
    def delayed(self) -> Delayed:
        """The optimum from the first reward that the agent can still decide (see `Delayed`)."""
        return _delayed(self)

    @property
    def delayed_values(self) -> Float[np.ndarray, " *x"]:
        """The optimal delayed value of every augmented state."""
        return self.delayed.values

    def delayed_value(self, state: int, queue: Queue = ()) -> float:
        """Return the delayed value of one augmented state."""
        return float(self.delayed_values[check_augmented_state(self.mdp, self.delay, state, queue)])

    def value(self, state: int, queue: Queue = ()) -> float:
        """Return the value of one augmented state."""
        return float(self.values[check_augmented_state(self.mdp, self.delay, state, queue)])

    def action(self, state: int, queue: Queue = (), time: int = 0) -> int:
        """Return the action to choose (at step `time` of a problem with a horizon)."""
        at = check_augmented_state(self.mdp, self.delay, state, queue)
        return int(
            self.policy[at]
            if self.horizon is None
            else self.policy[check_time(time, self.horizon)][at]
        )

    def as_policy(self) -> Policy:
        """Return the solution as a policy; after a horizon its rules repeat."""
        return queue_aware(self.mdp, self.delay, self.policy)


def solve_augmented(
    mdp: MDP, delay: int, method: str, *, tol: float, horizon: int | None, max_iterations: int
) -> Solution:
    """Return the optimum of the augmented problem; `solvers.solve` checks the arguments."""
    check_contraction(mdp, horizon)
    size = np.min_scalar_type(mdp.actions - 1).itemsize
    if horizon is not None:
        what = f"the problem with horizon {horizon}"
        check_memory(
            mdp, delay, 16 + size * (horizon + 1), what, "shorten the horizon or the delay"
        )
    else:
        check_memory(mdp, delay, 16 + 2 * size)
    shape = queue_shape(mdp, delay)
    operator = Operator(mdp, delay)
    answer = solve_operator(operator, method, tol, horizon, max_iterations)
    lead = () if horizon is None else (horizon,)
    return Solution(
        values=answer.values.reshape(shape),
        policy=answer.policy.reshape(*lead, *shape),
        iterations=answer.iterations,
        residual=answer.residual,
        error_bound=answer.error_bound,
        converged=answer.converged,
        message=answer.message,
        mdp=mdp,
        delay=operator.delay,
        tol=tol if horizon is None else answer.error_bound,
        horizon=horizon,
    )


def _delayed(solution: Solution) -> Delayed:
    """Return the delayed optimum by sweeps that begin near it, from the solved values.

    They solve U(s, q) = max_a [E r(s_m, a) + γ E U(s', a_1 … a_{m-1}, a)].
    """
    mdp = solution.mdp
    delay = solution.delay
    gamma = mdp.gamma
    check_memory(mdp, delay, 8 * (2 * mdp.actions + 4), "the delayed value function")
    reward = delayed_reward(mdp, delay)
    shape = reward.shape
    value_shape = queue_shape(mdp, delay)

    def sweep(u: np.ndarray) -> np.ndarray:
        return reward + gamma * (mdp.P @ u).reshape(shape)

    if solution.horizon is not None:
        u = np.zeros(shape[:2])
        for _ in range(solution.horizon - delay):
            u = sweep(u).max(axis=-1)
        greedy = (
            _first_best(sweep(u))
            if solution.horizon <= delay
            else solution.policy[0].reshape(shape[:2])
        )
        return Delayed(u.reshape(value_shape), greedy.reshape(value_shape), solution.error_bound)
    low, high = mdp.r.min() / (1 - gamma), mdp.r.max() / (1 - gamma)
    scale = gamma**delay
    u = np.zeros(shape[:2])
    if scale > 1e-8:
        u = np.clip(
            (solution.values.reshape(shape[:2]) - pending_reward(mdp, delay)) / scale, low, high
        )
    for step in range(100_000):
        ahead = sweep(u)
        change = ahead.max(axis=-1) - u
        span, middle = float(change.max() - change.min()), float(change.max() + change.min()) / 2
        error = bound(
            mdp,
            float(np.abs(change).max()),
            float(np.abs(u).max()) + delay * float(np.abs(mdp.r).max()),
            most_successors(mdp),
        )
        if error <= 0.1 * solution.tol or (span <= 4 * EPS * float(np.abs(u).max()) and step > 3):
            break
        u = (
            u
            + change
            + (
                gamma * middle / (1 - gamma)
                if gamma * span < 0.1 * solution.tol * (1 - gamma)
                else 0.0
            )
        )
    return Delayed(u.reshape(value_shape), _first_best(ahead).reshape(value_shape), error)


def _first_best(values: np.ndarray) -> np.ndarray:
    """Return the lowest index among the best values, up to rounding."""
    return np.argmax(
        values >= values.max(axis=-1, keepdims=True) - 1e-13 * float(np.abs(values).max()), axis=-1
    )
