"""The answer of `deadtime plan`: make an MDP from the arguments, solve it, collect the numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from deadtime._support import files
from deadtime._support.machine import free_memory
from deadtime._support.pictures import check_picture
from deadtime.cli.planned_process import solved_process
from deadtime.cli.problems import Chain, Maze, Problem, TwoState
from deadtime.delays import DelayProcess, as_process
from deadtime.planning.beliefs import BeliefSolution
from deadtime.planning.examples import chain, two_state, two_state_optimum
from deadtime.planning.mdp import MDP, check_augmented_state
from deadtime.planning.solution import Solution
from deadtime.planning.solvers import solve

_PRINTED = 100_000
"""The largest number of values of augmented states that are printed."""
_LONGEST_DELAY = 1_000_000
_SMALL = 3000
"""The largest number of augmented states for which policy iteration is the default."""
_BYTES_A_TRANSITION = 60
"""The bytes of a transition while P becomes sparse: two indices and a number, some with a copy."""
_ENDED = ("iterations", "residual", "error_bound", "converged", "message")


def solved(problem: Problem) -> dict[str, Any]:
    """Solve a problem, and return the answer by name."""
    how = problem.solving
    check_picture(getattr(problem, "picture", None) or getattr(problem, "heat_map", None))
    process = _process(how.delay)
    mdp, about = _mdp(problem)
    horizon = _horizon(problem)
    if process.constant is None:
        if getattr(problem, "picture", None) is not None:
            rule = "a picture shows the path under a constant delay"
            raise ValueError(f"{rule}; got {process}: leave out --picture, or pass a number")
        answer = about | solved_process(mdp, process, how, horizon)
        return answer | _pictures(problem, mdp, None, ())
    return about | _constant(problem, mdp, process.constant, horizon)


def _process(delay: str) -> DelayProcess:
    """Return the process of the text form of a delay."""
    process = as_process(delay)
    if process.constant is not None and process.constant > _LONGEST_DELAY:
        rule = f"plan solves delays up to {_LONGEST_DELAY:,}"
        raise ValueError(f"{rule}; got {process.constant:,}: pass a shorter one")
    return process


def _constant(problem: Problem, mdp: MDP, delay: int, horizon: int | None) -> dict[str, Any]:
    """Return the answer for a constant delay by name."""
    how = problem.solving
    method = how.method or _usual_method(problem, mdp, delay)
    queue = tuple(how.queue) if how.queue is not None else (0,) * delay
    check_augmented_state(mdp, delay, how.start, queue)
    solution = solve(mdp, delay, method, tol=how.tol, horizon=horizon)
    answer: dict[str, Any] = {"gamma": mdp.gamma, "delay": delay, "horizon": horizon}
    answer["method"] = method
    answer |= {"start": how.start, "queue": list(queue), **_values(solution, how.start, queue)}
    if isinstance(problem, TwoState) and horizon is None and problem.gamma < 1:
        answer["closed_form"] = two_state_optimum(problem.p, problem.gamma, delay)
    answer |= {name: getattr(solution, name) for name in _ENDED}
    if horizon is None and answer["delayed_error_bound"] > how.tol and answer["converged"]:
        wrong = "not converged: the delayed value may be off by more than tol: raise tol"
        answer |= {"converged": False, "message": wrong}
    return answer | _pictures(problem, mdp, solution, (how.start, *queue))


def _mdp(problem: Problem) -> tuple[MDP, dict[str, Any]]:
    """Return the MDP of a problem, and the first entries of its answer."""
    if isinstance(problem, TwoState):
        return two_state(problem.p, problem.gamma), {"problem": "two-state", "p": problem.p}
    if isinstance(problem, Chain):
        states = {"problem": "chain", "states": problem.states}
        return chain(problem.states, problem.gamma), states
    if isinstance(problem, Maze):
        from deadtime.envs.maze_layout import carve, model  # noqa: PLC0415  (for mazes alone)
        from deadtime.envs.noise import check_noise  # noqa: PLC0415

        P, r = model(carve(problem.size, problem.maze_seed), check_noise(problem.noise))
        about = {"size": problem.size, "noise": problem.noise, "maze_seed": problem.maze_seed}
        return MDP(P, r, problem.gamma), {"problem": "maze", **about}
    return load(problem.path), {"problem": str(problem.path)}


def _usual_method(problem: Problem, mdp: MDP, delay: int) -> str:
    """Return the default method for a problem."""
    if isinstance(problem, Maze) and problem.noise == 0:
        return "beliefs"
    small = mdp.states * mdp.actions**delay <= _SMALL
    return "policy_iteration" if small else "modified_policy_iteration"


def _horizon(problem: Problem) -> int | None:
    """Return the number of rewards to count: in a maze without discount those of an episode."""
    horizon = problem.solving.horizon
    if horizon is None and isinstance(problem, Maze) and problem.gamma == 1:
        return 10 * problem.size**2
    return horizon


def _values(
    solution: Solution | BeliefSolution, start: int, queue: tuple[int, ...]
) -> dict[str, Any]:
    """Return the values and the action of one augmented state."""
    found: dict[str, Any] = {
        "optimal_augmented_value": solution.value(start, queue),
        "optimal_delayed_value": solution.delayed_value(start, queue),
    }
    if isinstance(solution, BeliefSolution):
        decided = solution.horizon != 0
        found["classes"] = solution.classes
        found["delayed_error_bound"] = solution.error_bound
        found["action"] = solution.action(start, queue) if decided else 0
        return found
    small = solution.values.size <= _PRINTED
    found["delayed_error_bound"] = solution.delayed.error_bound
    found["optimal_augmented_values"] = solution.values.tolist() if small else None
    found["action"] = int(solution.delayed.policy[(start, *queue)])
    return found


def _pictures(
    problem: Problem,
    mdp: MDP,
    solution: Solution | BeliefSolution | None,
    start: tuple[int, ...],
) -> dict[str, str]:
    """Draw the picture that was asked for, and return its path by name."""
    heat_map = problem.heat_map if isinstance(problem, TwoState) else None
    picture = problem.picture if isinstance(problem, Maze) else None
    if heat_map is None and picture is None:
        return {}
    from deadtime.envs.maze_layout import carve  # noqa: PLC0415  (only a picture needs these)
    from deadtime.studies.paper import claims_figures  # noqa: PLC0415

    if isinstance(problem, TwoState) and heat_map is not None:
        return {"heat_map": str(claims_figures.two_state_heat_map(problem.gamma, heat_map))}
    assert isinstance(problem, Maze)
    assert picture is not None
    assert solution is not None
    layout = carve(problem.size, problem.maze_seed)
    return {"picture": str(claims_figures.maze_path(mdp, solution, start, layout, picture))}


def load(path: Path) -> MDP:
    """Read an MDP from a file that can hold numbers only."""
    try:
        with files.opened(path.resolve(), math.inf) as file:
            arrays = files.arrays(file, free_memory() / 2)
    except ValueError as error:
        rule = f"{path} must be an .npz file of arrays of numbers"
        wrong = f"it can't be read as one ({error})"
        raise ValueError(f"{rule}; {wrong}: save it with numpy.savez") from error
    for name in ("P", "r", "gamma"):
        if name not in arrays:
            rule = f"{path} must hold P, r and gamma"
            raise ValueError(f"{rule}; {name} is missing: save it with numpy.savez")
    check_size(path, arrays["P"])
    if arrays["gamma"].size != 1:
        shape = arrays["gamma"].shape
        raise ValueError(
            f"gamma is one number; {path} holds an array of shape {shape}: save it with numpy.savez"
        )
    return MDP(arrays["P"], arrays["r"], float(arrays["gamma"].item()))


def check_size(path: Path, P: np.ndarray) -> None:
    """Raise if the sparse form of P would take more than half of the free memory."""
    needed = P.nbytes + _BYTES_A_TRANSITION * int(np.count_nonzero(P))
    most = free_memory() / 2
    if needed > most:
        rule = f"an MDP must fit into half of the free memory, {most / 2**30:.3g} GiB"
        wrong = f"{path} would take {needed / 2**30:.3g} GiB"
        raise ValueError(f"{rule}; {wrong}: use fewer states, or a sparser P")
