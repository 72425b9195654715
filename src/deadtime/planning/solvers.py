"""Exact solutions of a finite MDP with execution delay: `solve`, by any method.

`bellman_operator` returns the operators T and T^π that the solvers iterate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deadtime.delays import DelayProcess, as_process
from deadtime.delays.waits import Observed
from deadtime.planning import iteration
from deadtime.planning.augmented import Operator
from deadtime.planning.beliefs import solve_beliefs
from deadtime.planning.channel import channel_of
from deadtime.planning.channel_operator import ChannelOperator
from deadtime.planning.channel_solution import solve_process
from deadtime.planning.iteration import BellmanOperator
from deadtime.planning.mdp import MDP
from deadtime.planning.solution import solve_augmented

METHODS = (*iteration.METHODS, "beliefs")


def solve(
    mdp: MDP,
    delay: int | str | DelayProcess,
    method: str = "modified_policy_iteration",
    *,
    observed: Observed = "now",
    tol: float = 1e-8,
    horizon: int | None = None,
    max_iterations: int = 100_000,
    max_classes: int = 200_000,
) -> Any:
    """Return the optimum of `mdp` when actions are executed `delay` steps late, to within `tol`.

    `delay` is a whole number or a process of `deadtime.delays`, also as text (``"walk:0-3"``). A
    whole number, or a constant process such as ``Buffered(process, 6)``, gives a `Solution`.
    Any other process gives a `ProcessSolution`.

    `observed` says when the agent sees an age: "now", before it chooses the action of that step,
    or "hindsight", one step later. For ages that it never sees there is `bounds`.

    With `horizon` the problem is the sum of that many rewards, discounted or not. Every method then
    solves it backwards. ``method="beliefs"`` merges augmented states with the same nested law of
    the future into classes (see `beliefs`). It returns a `BeliefSolution`, or raises if there are
    more than `max_classes` classes.
    """
    process = as_process(delay)
    _check_arguments(mdp, method, tol, horizon, max_iterations)
    _check_observed(observed)
    if process.constant is None:
        if method == "beliefs":
            raise ValueError(
                f"the method 'beliefs' is for constant delays; got {delay}: "
                f"choose one of {', '.join(iteration.METHODS)}"
            )
        return solve_process(
            mdp,
            process,
            method,
            observed=observed,
            tol=tol,
            horizon=horizon,
            max_iterations=max_iterations,
        )
    delay = process.constant
    if method == "beliefs":
        limits = {"max_iterations": max_iterations, "max_classes": max_classes}
        return solve_beliefs(mdp, delay, tol=tol, horizon=horizon, **limits)
    limits = {"max_iterations": max_iterations}
    return solve_augmented(mdp, delay, method, tol=tol, horizon=horizon, **limits)


def bellman_operator(mdp: MDP, delay: int | str | DelayProcess) -> BellmanOperator:
    """Return the Bellman operator of `mdp` under `delay`, for an agent that sees each age.

    Nothing is written out, so the operator itself needs little memory. Its arrays of values and
    policies have `operator.shape`.
    """
    process = as_process(delay)
    if process.constant is None:
        return ChannelOperator(mdp, channel_of(process))
    return Operator(mdp, process.constant)


def _check_observed(observed: str) -> None:
    """Raise unless `observed` is "now" or "hindsight"."""
    if observed == "never":
        raise ValueError(
            'solve needs ages that are observed "now" or in "hindsight"; got observed="never": '
            "use bounds(mdp, delay)"
        )
    if observed not in ("now", "hindsight"):
        raise ValueError(f'observed is "now" or "hindsight"; got {observed!r}: choose one of these')


def _check_arguments(
    mdp: MDP, method: str, tol: float, horizon: int | None, max_iterations: int
) -> None:
    """Raise if an argument of `solve` is not valid."""
    if method not in METHODS:
        raise ValueError(f"no method is called {method!r}: choose one of {', '.join(METHODS)}")
    if not tol > 0:
        rule = "tol is the largest error allowed, above 0"
        raise ValueError(f"{rule}; got {tol!r}: choose one such as 1e-8")
    if horizon is None and mdp.gamma >= 1:
        rule = f"gamma {mdp.gamma} without a horizon has no finite value"
        raise ValueError(f"{rule}: pass gamma < 1 or a horizon")
    if horizon is not None and not _is_whole(horizon, 0):
        rule = "horizon is a whole number of steps, 0 or more"
        raise ValueError(f"{rule}; got {horizon!r}: pass None for no horizon")
    if not _is_whole(max_iterations, 1):
        rule = "max_iterations is a whole number, 1 or more"
        raise ValueError(f"{rule}; got {max_iterations!r}: leave it out for 100,000")


def _is_whole(number: object, least: int) -> bool:
    """Return whether a number is whole and large enough; True and False are no numbers here."""
    if not isinstance(number, int | np.integer) or isinstance(number, bool):
        return False
    return bool(number >= least)
