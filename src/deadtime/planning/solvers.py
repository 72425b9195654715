"""Optimal values and policies of a finite MDP with execution delay: value, policy and modified policy iteration.

All three work on the m-augmented problem without writing it out (`augmented`). Values count the rewards of the pending
actions too, from the present step on; `Solution.delayed_values` counts from the first reward the agent can still decide.

How good an answer is, is measured, not assumed. With δ = T v - v, the optimum lies between T v + γ/(1-γ) min δ and
T v + γ/(1-γ) max δ (MacQueen); the middle of the two is returned, and `error_bound` is half their distance plus what
rounding can have added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import eye_array
from scipy.sparse.linalg import splu

from deadtime.delay import check_delay
from deadtime.planning.augmented import Operator, check_memory, pending_reward, queue_shape
from deadtime.planning.mdp import MDP, check_augmented_state

METHODS = ("modified_policy_iteration", "policy_iteration", "value_iteration", "beliefs")
_LU_STATES = 3000
_EPS = np.finfo(np.float64).eps


def check_time(time: Any, horizon: int) -> int:
    """A step of a problem with a horizon, or what is wrong with it."""
    if not isinstance(time, int | np.integer) or not 0 <= time < horizon:
        raise ValueError(f"time is a step from 0 to below the horizon, {horizon}; got {time!r}: nothing is decided after it")
    return int(time)


@dataclass(frozen=True)
class Solution:
    """An answer, and how it was reached.

    `iterations` counts evaluations for policy iteration (one more than policy changes), and improving sweeps for the
    others. `residual` is max |T v - v| at the returned values. `error_bound` bounds max |values - optimum|.
    With a horizon H, `values` are those with H steps to go, and `policy` has a first axis of length H, time from the start.
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
    horizon: int | None = None

    @property
    def delayed_values(self) -> Float[np.ndarray, " *x"]:
        """The optimal delayed value (from the m-th reward on): (v - what the pending actions earn) / γ^m."""
        if self.horizon is not None and self.horizon < self.delay:
            raise ValueError(
                f"with horizon {self.horizon} < delay {self.delay} no decision is ever executed: lengthen the horizon"
            )
        earned = pending_reward(self.mdp, self.delay).reshape(self.values.shape)
        if self.delay and self.mdp.gamma == 0:
            raise ValueError("at gamma 0 the value of a delayed decision is lost in the discount: use a positive gamma")
        return (self.values - earned) / self.mdp.gamma**self.delay

    def delayed_value(self, state: int, queue: Any = ()) -> float:
        """The delayed value of one augmented state."""
        return float(self.delayed_values[check_augmented_state(self.mdp, self.delay, state, queue)])

    def value(self, state: int, queue: Any = ()) -> float:
        """The value of one augmented state."""
        return float(self.values[check_augmented_state(self.mdp, self.delay, state, queue)])

    def action(self, state: int, queue: Any = (), time: int = 0) -> int:
        """The action to choose in one augmented state (at step `time` of a problem with a horizon)."""
        at = check_augmented_state(self.mdp, self.delay, state, queue)
        return int(self.policy[at] if self.horizon is None else self.policy[check_time(time, self.horizon)][at])


def solve(
    mdp: MDP,
    delay: int,
    method: str = "modified_policy_iteration",
    *,
    tol: float = 1e-8,
    horizon: int | None = None,
    max_iterations: int = 100_000,
    max_classes: int = 200_000,
) -> Any:
    """The optimum of `mdp` when actions are executed `delay` steps late, to within `tol`.

    With `horizon` it is the undiscounted or discounted sum of that many rewards, solved backwards, whatever the method.
    ``method="beliefs"`` merges augmented states with one nested law of the future (`beliefs`), and returns a
    `BeliefSolution`; it needs at most `max_classes` of them.
    """
    delay = check_delay(delay)
    if method not in METHODS:
        raise ValueError(f"no method is called {method!r}: choose one of {', '.join(METHODS)}")
    if not tol > 0:
        raise ValueError(f"tol is the largest error allowed, above 0; got {tol!r}: choose one such as 1e-8")
    if horizon is None and mdp.gamma >= 1:
        raise ValueError(f"gamma {mdp.gamma} without a horizon has no finite value: pass gamma < 1 or a horizon")
    if horizon is not None and (isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 0):
        raise ValueError(f"horizon is a whole number of steps, 0 or more; got {horizon!r}: pass None for none")
    if method == "beliefs":
        from deadtime.planning.beliefs import solve_beliefs  # noqa: PLC0415  (it calls this function on the merged problem)

        return solve_beliefs(mdp, delay, tol=tol, horizon=horizon, max_iterations=max_iterations, max_classes=max_classes)
    operator = Operator(mdp, delay)
    size = operator.policy_type(0).nbytes
    if horizon is not None:
        check_memory(mdp, delay, 16 + size * (horizon + 1))
        return _solve_horizon(operator, int(horizon))
    check_memory(mdp, delay, 16 + 2 * size)
    solver = {"policy_iteration": _policy_iteration, "value_iteration": _modified}.get(method, _modified)
    return solver(operator, tol, max_iterations, 0 if method == "value_iteration" else 8)


def _shaped(operator: Operator, solution: Solution) -> Solution:
    shape = queue_shape(operator.mdp, operator.delay)
    lead = () if solution.horizon is None else (solution.horizon,)
    return replace(solution, values=solution.values.reshape(shape), policy=solution.policy.reshape(*lead, *shape))


def _rounding(mdp: MDP, largest: float) -> float:
    """What rounding in the sweeps can add to the error of a value that `largest` bounds."""
    row = int(np.diff(mdp.P.indptr).max())
    return 2 * (row + 3) * _EPS * largest / (1 - mdp.gamma)


def _finish(operator: Operator, v: np.ndarray, policy: np.ndarray, iterations: int, error: float, tol: float) -> Solution:
    """Measure the residual at the values that are returned, take the greedy policy there, and say how it ended."""
    after = np.empty_like(v)
    operator.improve(v, after, policy, tie=_tie(v))
    np.subtract(after, v, out=after)
    residual = float(np.abs(after, out=after).max())
    error = float(error + _rounding(operator.mdp, float(np.abs(v).max())))
    converged = bool(error <= tol)
    message = f"converged: every value is within {error:.3g} of the optimum"
    if not converged:
        message = f"not converged: after {iterations} iterations the error may be {error:.3g}, above tol {tol:.3g}: "
        message += "raise max_iterations" if residual > 4 * _EPS * np.abs(v).max() else "raise tol, doubles can't show more"
    solution = Solution(v, policy, iterations, residual, error, converged, message, operator.mdp, operator.delay)
    return _shaped(operator, solution)


def _tie(v: np.ndarray) -> float:
    return 1e-12 * max(1.0, float(np.abs(v).max()))


def _modified(operator: Operator, tol: float, max_iterations: int, sweeps: int) -> Solution:
    """Improving sweeps, each followed by `sweeps` sweeps that follow its policy; none of those is value iteration."""
    gamma = operator.mdp.gamma
    v = np.full(operator.shape, operator.mdp.r.min() / (1 - gamma))
    after, policy = np.empty_like(v), np.zeros(operator.shape, operator.policy_type)
    goal = max(tol - _rounding(operator.mdp, float(np.abs(operator.mdp.r).max()) / (1 - gamma)), 0.1 * tol)
    for iteration in range(1, max_iterations + 1):
        operator.improve(v, after, policy)
        low, high = _extremes(after, v)
        error = gamma * (high - low) / (2 * (1 - gamma))
        v, after = after, v
        if error <= goal or iteration == max_iterations:
            break
        for _ in range(sweeps):
            operator.follow(v, after, policy)
            v, after = after, v
    v += gamma * (high + low) / (2 * (1 - gamma))
    del after
    return _finish(operator, v, policy, iteration, error, tol)


def _extremes(after: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """The least and the greatest change, row by row, without a third array of that size."""
    changes = [(float(change.min()), float(change.max())) for change in (a - b for a, b in zip(after, before, strict=True))]
    return min(low for low, _ in changes), max(high for _, high in changes)


def _policy_iteration(operator: Operator, tol: float, max_iterations: int, _: int) -> Solution:
    """The paper's mA-PI (Alg. 1): evaluate, take the greedy policy of lowest index, until the policy stays."""
    gamma = operator.mdp.gamma
    policy = np.zeros(operator.shape, operator.policy_type)
    after = np.empty(operator.shape)
    evaluations, changed = 0, True
    while changed and evaluations < max_iterations:
        v = evaluate(operator, policy)
        evaluations += 1
        before = policy.copy()
        operator.improve(v, after, policy, tie=_tie(v))
        changed = bool((policy != before).any())
    low, high = _extremes(after, v)
    error = max(abs(low), abs(high)) / (1 - gamma)
    return _finish(operator, v, policy, evaluations, error, tol)


def evaluate(operator: Operator, policy: Int[np.ndarray, "S Q"]) -> Float[np.ndarray, "S Q"]:
    """v^π: by a direct solution where that is small, else by sweeps until rounding is all that is left."""
    gamma = operator.mdp.gamma
    if policy.size <= _LU_STATES:
        F, g = operator.chain(policy)
        return splu((eye_array(policy.size) - gamma * F).tocsc()).solve(g).reshape(operator.shape)
    v = np.zeros(operator.shape)
    after = np.empty_like(v)
    while True:
        operator.follow(v, after, policy)
        low, high = _extremes(after, v)
        v, after = after, v
        if gamma * (high - low) <= 8 * _EPS * np.abs(v).max():
            v += gamma * (high + low) / (2 * (1 - gamma))
            return v


def _solve_horizon(operator: Operator, horizon: int) -> Solution:
    v, after = np.zeros(operator.shape), np.empty(operator.shape)
    policy = np.zeros((horizon, *operator.shape), operator.policy_type)
    for step in range(horizon - 1, -1, -1):
        operator.improve(v, after, policy[step], tie=_tie(v))
        v, after = after, v
    row = int(np.diff(operator.mdp.P.indptr).max())
    error = 2 * (row + 3) * _EPS * horizon * max(float(np.abs(v).max()), float(np.abs(operator.mdp.r).max()))
    message = f"converged: exact to rounding, {horizon} steps backwards"
    solution = Solution(v, policy, horizon, 0.0, error, True, message, operator.mdp, operator.delay, horizon)
    return _shaped(operator, solution)
