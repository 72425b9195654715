"""Optimal values and policies of a finite MDP with execution delay: value, policy and modified
policy iteration.

All three work on an operator. For the m-augmented problem it is never written out as a matrix (see
`augmented`).

The error of each answer is measured. `residual` is max |T v - v| at the returned values v.
`error_bound` is the residual over 1 - γ plus a bound on rounding errors. Sweeps end early by
MacQueen's argument: when T v - v is nearly constant, the error of v is nearly a constant, which is
added to v.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import splu

from deadtime.planning.mdp import MDP
from deadtime.planning.threads import changes, on_threads

if TYPE_CHECKING:
    from jaxtyping import Float, Int

METHODS = ("modified_policy_iteration", "policy_iteration", "value_iteration")
_LU_STATES = 3000
EPS = np.finfo(np.float64).eps


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


def most_successors(mdp: MDP) -> int:
    """Return the largest number of successors of a state and an action."""
    return int(np.diff(mdp.P.indptr).max())


def bound(mdp: MDP, change: float, largest: float, terms: int) -> float:
    """Bound |v - v*| from |T v - v| ≤ `change`, computed in doubles from values up to `largest`."""
    return (change + 2 * (terms + 3) * EPS * largest) / (1 - _contraction(mdp))


def _tie(mdp: MDP, largest: float) -> float:
    """Return the largest difference between actions from rounding, in values up to `largest`."""
    return 16 * EPS * largest / (1 - _contraction(mdp))


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
    error = bound(operator.mdp, change, float(np.abs(v).max()), operator.terms)
    message = f"converged: every value is within {error:.3g} of the optimum"
    if error > tol:
        message = (
            f"not converged: after {iterations} iterations the error may be {error:.3g}, "
            f"above tol {tol:.3g}: "
        )
        message += "raise max_iterations" if cut else "raise tol, double precision allows no less"
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
        error = bound(mdp, change, largest, operator.terms)
        if error <= tol or iteration == max_iterations or moved == 5:
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
        if gamma * (high - low) <= 8 * EPS * largest:
            v += gamma * (high + low) / (2 * (1 - gamma))
            return v


def _solve_horizon(operator: BellmanOperator, horizon: int) -> Answer:
    v = np.zeros(operator.shape)
    after = np.empty(operator.shape)
    largest = float(np.abs(operator.mdp.r).max())
    policy = np.zeros((horizon, *operator.shape), operator.policy_type)
    for step in range(horizon - 1, -1, -1):
        operator.improve(v, after, policy[step], tie=16 * EPS * largest)
        v, after = after, v
        largest = max(largest, float(np.abs(v).max()))
    error = 2 * (operator.terms + 3) * EPS * horizon * largest
    message = f"converged: exact to rounding, {horizon} steps backwards"
    return Answer(v, policy, horizon, 0.0, error, True, message)
