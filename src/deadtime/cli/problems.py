"""The arguments of `deadtime plan`: its problems, and how to solve them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro

from deadtime.cli.option_types import File as Picture
from deadtime.cli.option_types import Flag

Method = Literal["modified_policy_iteration", "policy_iteration", "value_iteration", "beliefs"]


@dataclass(frozen=True)
class Solving:
    """Options of the solver, of the start and of the output."""

    delay: Annotated[
        str,
        tyro.conf.arg(
            metavar="STEPS|PROCESS",
            help="Steps between choosing an action and executing it: a number, or a delay that "
            "varies, such as walk:0-3 or uniform:2-6.",
        ),
    ] = "1"
    method: Annotated[
        Method | None,
        tyro.conf.arg(
            metavar="METHOD",
            help=f"Method of the solver: {', '.join(get_args(Method))}.",
            help_behavior_hint="(default: beliefs for a maze without noise, else "
            "policy_iteration, and modified_policy_iteration above 3,000 augmented states)",
        ),
    ] = None
    tol: float = 1e-8
    """Largest error allowed in a value."""
    horizon: Annotated[
        int | None,
        tyro.conf.arg(
            metavar="INT",
            help="Number of rewards to count.",
            help_behavior_hint="(default: all, discounted; for a maze with gamma 1 those of an "
            "episode, 10 × size²)",
        ),
    ] = None
    start: int = 0
    """State whose value is reported."""
    queue: Annotated[
        tuple[int, ...] | None,
        tyro.conf.arg(
            metavar="INT ...",
            help="Pending actions at the start, oldest first, as many as the longest delay.",
            help_behavior_hint="(default: action 0 throughout)",
        ),
    ] = None
    json: Flag = False
    """Print one JSON object."""


SolverGroup = Annotated[Solving, tyro.conf.arg(name="solver")]
"""The options of the solver; `name` is in the group's title in the help."""


@dataclass(frozen=True)
class TwoState:
    """The paper's two-state MDP: the state flips with probability p; action i pays 1 in state i."""

    p: float = 0.8
    gamma: float = 0.5
    solving: SolverGroup = field(default_factory=Solving)
    heat_map: Picture = None
    """Also draw the optimal delayed value over p and delays 0 … 10 into this PNG."""


@dataclass(frozen=True)
class Chain:
    """A chain of states. Howard's policy iteration changes the policy in one state per iteration.

    The answer's `iterations` also count the last one, which changes nothing.
    """

    states: int = 12
    gamma: float = 0.9
    solving: SolverGroup = field(default_factory=lambda: Solving(delay="0"))


@dataclass(frozen=True)
class Maze:
    """A random maze. With gamma 1 the value is the expected return of an episode.

    Actions: 0 up, 1 right, 2 down, 3 left.
    """

    size: int = 10
    noise: float = 0.0
    maze_seed: int = 0
    gamma: float = 1.0
    solving: SolverGroup = field(default_factory=Solving)
    picture: Picture = None
    """Also draw the maze and the path that the optimal policy predicts into this PNG."""


@dataclass(frozen=True)
class File:
    """Your own MDP: an .npz file with P of shape (S, A, S), r of shape (S, A) and gamma."""

    path: tyro.conf.Positional[Path]
    solving: SolverGroup = field(default_factory=Solving)


Problem = (
    Annotated[TwoState, tyro.conf.subcommand("two-state")]
    | Annotated[Chain, tyro.conf.subcommand("chain")]
    | Annotated[Maze, tyro.conf.subcommand("maze")]
    | Annotated[File, tyro.conf.subcommand("file")]
)
