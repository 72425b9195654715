"""Optimal values and policies of a finite MDP with execution delay: value, policy and modified
policy iteration.

All three work on the m-augmented problem without writing it out (`augmented`). Values count the
rewards of the pending actions too, from the present step on; `Solution.delayed_values` counts from
the first reward the agent can still decide.

The error of each answer is measured. `residual` is max |T v - v| at the returned values v.
`error_bound` is the residual over 1 - γ plus a bound on rounding errors. Sweeps end early by
MacQueen's argument: when T v - v is nearly constant, the error of v is nearly a constant, which is
added to v.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import splu

from deadtime.planning.augmented import (
    Operator,
    check_memory,
    delayed_reward,
    pending_reward,
    queue_shape,
)
from deadtime.planning.mdp import MDP, check_augmented_state
from deadtime.planning.process import Policy, queue_aware
from deadtime.planning.threads import changes, on_threads

if TYPE_CHECKING:
    from jaxtyping import Float, Int

METHODS = ("modified_policy_iteration", "policy_iteration", "value_iteration")
_LU_STATES = 3000
_EPS = np.finfo(np.float64).eps


def check_time(time: Any, horizon: int) -> int:
    """Return a step of a problem with a horizon, or raise if it is not one."""
    if not isinstance(time, int | np.integer) or not 0 <= time < horizon:
        raise ValueError(
            f"time is a step from 0 to below the horizon, {horizon}; got {time!r}: "
            "nothing is decided after it"
        )
    return int(time)


@dataclass(frozen=True)
class Delayed:
    """Optimal values from the m-th reward on, and their greedy policy.

    They are not taken from v by subtraction, which would divide its error by γ^m, but by sweeps of
    their own operator.
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

    def delayed_value(self, state: int, queue: Any = ()) -> float:
        """Return the delayed value of one augmented state."""
        return float(self.delayed_values[check_augmented_state(self.mdp, self.delay, state, queue)])

    def value(self, state: int, queue: Any = ()) -> float:
        """Return the value of one augmented state."""
        return float(self.values[check_augmented_state(self.mdp, self.delay, state, queue)])

    def action(self, state: int, queue: Any = (), time: int = 0) -> int:
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


class BellmanOperator(Protocol):
    """T and T^π of a problem; its values and its policies are arrays of one shape."""

    @property
    def mdp(self) -> MDP:
        """The undelayed problem."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of values and policies."""

    @property
    def policy_type(self) -> type[np.generic]:
        """The type of a policy's entries."""

    @property
    def terms(self) -> int:
        """The number of terms in the longest sum of an expectation, which bounds its rounding."""

    def improve(
        self, v: np.ndarray, after: np.ndarray, policy: np.ndarray, tie: float = 0.0
    ) -> None:
        """Write T v and its greedy policy."""

    def follow(self, v: np.ndarray, after: np.ndarray, policy: np.ndarray) -> None:
        """Write T^π v."""

    def chain(self, policy: np.ndarray) -> tuple[csr_array, np.ndarray]:
        """Return F^π and g^π."""


class Answer(NamedTuple):
    """Values and a policy in an operator's shape, and how the solver ended (see `Solution`)."""

    values: np.ndarray
    policy: np.ndarray
    iterations: int
    residual: float
    error_bound: float
    converged: bool
    message: str


def solve_operator(
    operator: BellmanOperator, method: str, tol: float, horizon: int | None, max_iterations: int
) -> Answer:
    """Return the optimum of an operator's problem by one of `METHODS`."""
    if horizon is not None:
        return _solve_horizon(operator, int(horizon))
    if method == "policy_iteration":
        return _policy_iteration(operator, tol, max_iterations)
    return _modified(operator, tol, max_iterations, 0 if method == "value_iteration" else 8)


def check_contraction(mdp: MDP, horizon: int | None) -> None:
    """Raise if a problem without a horizon has no finite values."""
    if horizon is None and (kappa := _contraction(mdp)) >= 1:
        raise ValueError(
            f"gamma times the largest row sum of P must be below 1; got {kappa:.6g}, "
            "so values grow without end: normalise the rows of P"
        )


def _contraction(mdp: MDP) -> float:
    """Return γ; with `check=False` and rows that do not sum to 1, γ times the largest sum."""
    return mdp.gamma * max(1.0, float(mdp.P.sum(axis=1).max()))


def _row(mdp: MDP) -> int:
    """Return the largest number of successors of a state and an action."""
    return int(np.diff(mdp.P.indptr).max())


def _bound(mdp: MDP, change: float, largest: float, terms: int) -> float:
    """Bound |v - v*| from |T v - v| ≤ `change`, computed in doubles from values up to `largest`."""
    return (change + 2 * (terms + 3) * _EPS * largest) / (1 - _contraction(mdp))


def _tie(mdp: MDP, largest: float) -> float:
    """Return the largest difference between actions from rounding, in values up to `largest`."""
    return 16 * _EPS * largest / (1 - _contraction(mdp))


def _ended(
    operator: BellmanOperator,
    v: np.ndarray,
    policy: np.ndarray,
    iterations: int,
    change: float,
    tol: float,
    cut: bool,
) -> Answer:
    """Return the answer and how the solver ended; `change` is max |T v - v| at the values v."""
    error = _bound(operator.mdp, change, float(np.abs(v).max()), operator.terms)
    message = f"converged: every value is within {error:.3g} of the optimum"
    if error > tol:
        message = (
            f"not converged: after {iterations} iterations the error may be {error:.3g}, "
            f"above tol {tol:.3g}: "
        )
        message += "raise max_iterations" if cut else "raise tol, doubles can't show more"
    return Answer(v, policy, iterations, change, error, bool(error <= tol), message)


def _check_finite(span: float) -> None:
    if not np.isfinite(span):
        raise ValueError(
            "the values do not stay finite: "
            "the rows of P must sum to 1 and r must be finite (check=True says where)"
        )


def _changes(after: np.ndarray, before: np.ndarray) -> tuple[float, float, float]:
    """Return the least and the greatest change, and the largest absolute value before it."""
    low, high, largest = on_threads(before.size, changes, after.ravel(), before.ravel())
    return low, high, largest


def _modified(operator: BellmanOperator, tol: float, max_iterations: int, sweeps: int) -> Answer:
    """Solve by improving sweeps, each followed by `sweeps` sweeps of its policy.

    With `sweeps` 0 this is value iteration.

    Once T v - v is nearly a constant c, the error of v is nearly c / (1 - γ). The solver adds it to
    v and measures the residual again.
    """
    mdp, gamma = operator.mdp, operator.mdp.gamma
    v = np.zeros(operator.shape)
    after = np.empty_like(v)
    policy = np.zeros(operator.shape, operator.policy_type)
    moved = 0
    largest = 0.0
    for iteration in range(1, max_iterations + 1):
        operator.improve(v, after, policy, tie=_tie(mdp, largest))
        low, high, largest = _changes(after, v)
        _check_finite(high - low)
        change = max(abs(low), abs(high))
        bound = _bound(mdp, change, largest, operator.terms)
        if bound <= tol or iteration == max_iterations or moved == 5:
            break
        v, after = after, v
        if gamma * (high - low) / (2 * (1 - gamma)) <= 0.5 * tol:
            v += gamma * (high + low) / (2 * (1 - gamma))
            moved += 1
            continue
        for _ in range(sweeps):
            operator.follow(v, after, policy)
            v, after = after, v
    return _ended(operator, v, policy, iteration, change, tol, moved < 5)


def _policy_iteration(operator: BellmanOperator, tol: float, max_iterations: int) -> Answer:
    """Solve by the paper's mA-PI (Alg. 1).

    It evaluates a policy and takes the greedy policy of lowest index, until the policy stays the
    same or improves by rounding errors only.
    """
    mdp = operator.mdp
    policy = np.zeros(operator.shape, operator.policy_type)
    after = np.empty(operator.shape)
    v = np.full(operator.shape, -np.inf)
    evaluations = 0
    stays = False
    while not stays and evaluations < max_iterations:
        last = v
        v = evaluate(operator, policy)
        evaluations += 1
        before = policy.copy()
        tie = _tie(mdp, float(np.abs(v).max()))
        operator.improve(v, after, policy, tie=tie)
        gained = float((v - last).max())
        rounding = gained <= tie or float(np.abs(after - v).max()) <= 16 * tie
        stays = bool((policy == before).all()) or rounding
    low, high, _ = _changes(after, v)
    return _ended(operator, v, policy, evaluations, max(abs(low), abs(high)), tol, not stays)


def evaluate(operator: BellmanOperator, policy: Int[np.ndarray, " *x"]) -> Float[np.ndarray, " *x"]:
    """Return v^π: by a direct solver if it is small, else by sweeps until only rounding is left."""
    gamma = operator.mdp.gamma
    if policy.size <= _LU_STATES:
        F, g = operator.chain(policy)
        return splu((eye_array(policy.size) - gamma * F).tocsc()).solve(g).reshape(operator.shape)
    v = np.zeros(operator.shape)
    after = np.empty_like(v)
    while True:
        operator.follow(v, after, policy)
        low, high, largest = _changes(after, v)
        _check_finite(high - low)
        v, after = after, v
        if gamma * (high - low) <= 8 * _EPS * largest:
            v += gamma * (high + low) / (2 * (1 - gamma))
            return v


def _solve_horizon(operator: BellmanOperator, horizon: int) -> Answer:
    v = np.zeros(operator.shape)
    after = np.empty(operator.shape)
    largest = float(np.abs(operator.mdp.r).max())
    policy = np.zeros((horizon, *operator.shape), operator.policy_type)
    for step in range(horizon - 1, -1, -1):
        operator.improve(v, after, policy[step], tie=16 * _EPS * largest)
        v, after = after, v
        largest = max(largest, float(np.abs(v).max()))
    error = 2 * (operator.terms + 3) * _EPS * horizon * largest
    message = f"converged: exact to rounding, {horizon} steps backwards"
    return Answer(v, policy, horizon, 0.0, error, True, message)


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
        error = _bound(
            mdp,
            float(np.abs(change).max()),
            float(np.abs(u).max()) + delay * float(np.abs(mdp.r).max()),
            _row(mdp),
        )
        if error <= 0.1 * solution.tol or (span <= 4 * _EPS * float(np.abs(u).max()) and step > 3):
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
    """Return the lowest index among the best, up to rounding."""
    return np.argmax(
        values >= values.max(axis=-1, keepdims=True) - 1e-13 * float(np.abs(values).max()), axis=-1
    )
