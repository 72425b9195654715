"""What `deadtime plan` and `deadtime verify` do: solve a problem or run the checks, and print a table or one JSON object."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import TextWrapper
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich.progress import track
from rich.table import Table
from rich.text import Text

from deadtime import files
from deadtime.delay import check_delay
from deadtime.envs.maze_layout import carve, model
from deadtime.envs.noise import check_noise
from deadtime.machine import free_memory
from deadtime.pictures import check_picture
from deadtime.planning import figures
from deadtime.planning.beliefs import BeliefSolution
from deadtime.planning.claims import CLAIMS, Claim, tally
from deadtime.planning.claims_optima import Finding, Verdict
from deadtime.planning.examples import chain, two_state, two_state_optimum
from deadtime.planning.mdp import MDP, check_augmented_state
from deadtime.planning.solvers import solve
from deadtime.terminal import console

Method = Literal["modified_policy_iteration", "policy_iteration", "value_iteration", "beliefs"]
_PRINTED, _LONGEST_DELAY = 100_000, 1_000_000
_BYTES_A_TRANSITION = 60
"""While P becomes sparse: two indices and a number, some of them twice."""
_COLOURS = {Verdict.HOLDS: "green", Verdict.FAILS: "yellow", Verdict.UNPROVEN: "magenta"}


@dataclass(frozen=True)
class Solving:
    """How to solve, from where, and how to print it."""

    delay: int = 1
    """Steps between choosing an action and its execution."""
    method: Method | None = None
    """Default: beliefs for a maze without noise, else policy iteration, modified above 3,000 augmented states."""
    tol: float = 1e-8
    """The largest error allowed in a value."""
    horizon: int | None = None
    """Count this many rewards; default: all, discounted (for a maze with gamma 1, its 10 N² steps)."""
    start: int = 0
    """The state whose value is reported."""
    queue: tuple[int, ...] | None = None
    """The pending actions there, oldest first; default: action 0 throughout."""
    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True)
class TwoState:
    """The paper's two-state MDP: the state flips with probability p; action i pays 1 in state i."""

    p: float = 0.8
    gamma: float = 0.5
    solving: Solving = field(default_factory=Solving)
    heat_map: Path | None = None
    """Also draw the optimal delayed value over p and delays 0 … 10 into this PNG."""


@dataclass(frozen=True)
class Chain:
    """The chain on which Howard's policy iteration changes one state an iteration; `iterations` are evaluations, one more."""

    states: int = 12
    gamma: float = 0.9
    solving: Solving = field(default_factory=lambda: Solving(delay=0))


@dataclass(frozen=True)
class Maze:
    """A random maze, scored as an episode is unless gamma is below 1. Actions: 0 up, 1 right, 2 down, 3 left."""

    size: int = 10
    noise: float = 0.0
    maze_seed: int = 0
    gamma: float = 1.0
    solving: Solving = field(default_factory=Solving)
    picture: Path | None = None
    """Also draw the maze and the path that the optimal policy predicts into this PNG."""


@dataclass(frozen=True)
class File:
    """Your own MDP: an .npz file with P of shape (S, A, S), r of shape (S, A) and gamma."""

    path: tyro.conf.Positional[Path]
    solving: Solving = field(default_factory=Solving)


Problem = (
    Annotated[TwoState, tyro.conf.subcommand("two-state")]
    | Annotated[Chain, tyro.conf.subcommand("chain")]
    | Annotated[Maze, tyro.conf.subcommand("maze")]
    | Annotated[File, tyro.conf.subcommand("file")]
)


def load(path: Path) -> MDP:
    """Read an MDP from a file that can hold numbers only."""
    try:
        arrays = files.arrays(path.read_bytes(), free_memory() / 2)
    except ValueError as error:
        raise ValueError(
            f"{path} must be an .npz file of arrays of numbers; it can't be read as one ({error}): save it with numpy.savez"
        ) from error
    for name in ("P", "r", "gamma"):
        if name not in arrays:
            raise ValueError(f"{path} must hold P, r and gamma; {name} is missing: save it with numpy.savez")
    check_size(path, arrays["P"])
    if arrays["gamma"].size != 1:
        raise ValueError(f"gamma is one number; {path} holds {arrays['gamma'].shape}: save it with numpy.savez")
    return MDP(arrays["P"], arrays["r"], float(arrays["gamma"].item()))


def check_size(path: Path, P: np.ndarray) -> None:
    """Raise if the sparse form of P would take more than half of the free memory."""
    needed, most = P.nbytes + _BYTES_A_TRANSITION * int(np.count_nonzero(P)), free_memory() / 2
    if needed > most:
        raise ValueError(
            f"an MDP must fit into half of the free memory, {most / 2**30:.3g} GiB; {path} would take "
            f"{needed / 2**30:.3g} GiB: use fewer states, or a sparser P"
        )


def _mdp(problem: Any) -> tuple[MDP, dict[str, Any]]:
    if isinstance(problem, TwoState):
        return two_state(problem.p, problem.gamma), {"problem": "two-state", "p": problem.p}
    if isinstance(problem, Chain):
        return chain(problem.states, problem.gamma), {"problem": "chain", "states": problem.states}
    if isinstance(problem, Maze):
        P, r = model(carve(problem.size, problem.maze_seed), check_noise(problem.noise))
        about = {"size": problem.size, "noise": problem.noise, "maze_seed": problem.maze_seed}
        return MDP(P, r, problem.gamma), {"problem": "maze", **about}
    return load(problem.path), {"problem": str(problem.path)}


def plan(problem: Any) -> int:
    """Solve one problem and print the answer; 1 if the solver did not converge."""
    how: Solving = problem.solving
    check_picture(getattr(problem, "picture", None) or getattr(problem, "heat_map", None))
    if check_delay(how.delay) > _LONGEST_DELAY:
        raise ValueError(f"plan solves delays up to {_LONGEST_DELAY:,}; got {how.delay:,}: pass a shorter one")
    mdp, about = _mdp(problem)
    maze = isinstance(problem, Maze)
    small = mdp.states * mdp.actions**how.delay <= 3000
    usual = "policy_iteration" if small else "modified_policy_iteration"
    method = how.method or ("beliefs" if maze and problem.noise == 0 else usual)
    horizon = 10 * problem.size**2 if maze and how.horizon is None and problem.gamma == 1 else how.horizon
    queue = tuple(how.queue) if how.queue is not None else (0,) * how.delay
    check_augmented_state(mdp, how.delay, how.start, queue)
    solution = solve(mdp, how.delay, method, tol=how.tol, horizon=horizon)
    answer = {**about, "gamma": mdp.gamma, "delay": how.delay, "horizon": horizon, "method": method}
    answer |= {"start": how.start, "queue": list(queue), **_values(solution, how.start, queue)}
    if isinstance(problem, TwoState) and horizon is None and problem.gamma < 1:
        answer["closed_form"] = two_state_optimum(problem.p, problem.gamma, how.delay)
    answer |= {name: getattr(solution, name) for name in ("iterations", "residual", "error_bound", "converged", "message")}
    if horizon is None and answer["delayed_error_bound"] > how.tol and answer["converged"]:
        answer |= {"converged": False, "message": "not converged: the delayed value may be off by more than tol: raise tol"}
    if isinstance(problem, TwoState) and problem.heat_map is not None:
        answer["heat_map"] = str(figures.two_state_heat_map(problem.gamma, problem.heat_map))
    if isinstance(problem, Maze) and problem.picture is not None:
        answer["picture"] = str(
            figures.maze_path(mdp, solution, (how.start, *queue), carve(problem.size, problem.maze_seed), problem.picture)
        )
    _print(answer, how.json)
    return 0 if answer["converged"] else 1


def _values(solution: Any, start: int, queue: tuple[int, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"optimal_augmented_value": solution.value(start, queue)}
    if isinstance(solution, BeliefSolution):
        found |= {"optimal_delayed_value": solution.delayed_value(start, queue), "classes": solution.classes}
        found["delayed_error_bound"] = solution.error_bound
    else:
        found["optimal_delayed_value"] = solution.delayed_value(start, queue)
        found["delayed_error_bound"] = solution.delayed.error_bound
        small = solution.values.size <= _PRINTED
        found["optimal_augmented_values"] = solution.values.tolist() if small else None
        found["action"] = int(solution.delayed.policy[(start, *queue)])
        return found
    return {**found, "action": solution.action(start, queue) if solution.horizon != 0 else 0}


def _print(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
        return
    table = Table("", "", show_header=False)
    for name, value in answer.items():
        if value is not None and name != "optimal_augmented_values":
            table.add_row(name.replace("_", " "), f"{value:.12g}" if isinstance(value, float) else str(value))
    console().print(table)


@dataclass(frozen=True)
class Plan:
    """Solve a finite MDP with execution delay exactly."""

    problem: Problem

    def run(self) -> int:
        """Solve and print."""
        return plan(self.problem)


@dataclass(frozen=True)
class Verify:
    """Check each claim of the paper numerically; exit 1 if a verdict is not the one in docs/claims.md."""

    only: tuple[str, ...] = ()
    """Names of the claims to check; default: all."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        """Check and print."""
        return verify(self)


def verify(arguments: Verify) -> int:
    """Run the checks and print what was found."""
    names = [claim.name for claim in CLAIMS]
    for name in arguments.only:
        if name not in names:
            raise ValueError(f"no claim is called {name!r}: choose from {', '.join(names)}")
    chosen = [claim for claim in CLAIMS if not arguments.only or claim.name in arguments.only]
    steps = chosen if arguments.json else track(chosen, "checking", console=console(stderr=True), transient=True)
    found = [(claim, claim.check()) for claim in steps]
    if arguments.json:
        print(json.dumps({"claims": [_row(claim, finding) for claim, finding in found]}))
    else:
        _print_findings(found)
    return 0 if all(finding.verdict == claim.expected for claim, finding in found) else 1


def _row(claim: Claim, finding: Finding) -> dict[str, Any]:
    about = {"claim": claim.name, "where": claim.where, "statement": claim.statement}
    return {**about, **vars(finding), "as_expected": finding.verdict == claim.expected}


def _print_findings(found: list[tuple[Claim, Finding]]) -> None:
    """Print one block a claim, wrapped to the console's width, and the number of each verdict."""
    shown = console()
    wrapper = TextWrapper(shown.width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    for claim, finding in found:
        verdict = (str(finding.verdict), _COLOURS[finding.verdict])
        head = Text.assemble((f"{claim.name:<18}", "bold"), f"  {claim.where:<9}  ", verdict)
        if finding.verdict != claim.expected:
            head.append(f" (expected: {claim.expected})", "red")
        shown.print(head.append(f", {finding.cases} case{'s' * (finding.cases > 1)}"))
        for text in (f"Claim: {claim.statement}", f"Found: {finding.detail}"):
            shown.print(Text(wrapper.fill(text)))
        shown.print()
    shown.print(tally(finding.verdict for _, finding in found))
