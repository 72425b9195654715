"""Options of commands: types for tyro, and the settings of `deadtime train` and `compare`."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

_LEFT_OUT = {"help_behavior_hint": ""}
Whole = Annotated[int | None, tyro.conf.arg(metavar="INT", **_LEFT_OUT)]
Number = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", **_LEFT_OUT)]
Word = Annotated[str | None, tyro.conf.arg(metavar="STR", **_LEFT_OUT)]
Place = Annotated[str, tyro.conf.arg(metavar="PATH|URL")]
File = Annotated[Path | None, tyro.conf.arg(metavar="PATH", **_LEFT_OUT)]
Choice = Annotated[bool | None, tyro.conf.arg(metavar="True|False", **_LEFT_OUT)]
"""Types of options that may be left out; the help of each option says its default."""
_PYTHON = {"True": "true", "False": "false", "None": "null"}
"""Words of Python, and what JSON has for them."""


@dataclass(frozen=True)
class Limits:
    """Limits of a command that trains."""

    step_timeout: Number = None
    """gym:ID, atari:NAME: seconds that a step or a reset may take, after which it counts as stuck;
    default: any number."""


@dataclass(frozen=True)
class Options:
    """Settings of the environment, the run and the learner."""

    size: Whole = None
    """maze: cells on a side (10)."""
    noise: Number = None
    """maze: probability that an action is replaced; cartpole, acrobot: relative deviation of masses
    (0; noisy-… 0.1)."""
    maze_seed: Whole = None
    """maze: one maze for all seeds; default: a maze of its own for each."""
    length: Whole = None
    """walk: steps (40)."""
    momentum: Number = None
    """walk: probability to move away from 0 (0.6)."""
    near: Whole = None
    """walk: the largest |x| at which action 0 pays (3)."""
    episodes: Whole = None
    """maze, walk: how long to train (5000)."""
    until_return: Number = None
    """maze, walk: stop a seed once the mean of its last 20 training returns reaches this."""
    step_size: Number = None
    """maze, walk: of Q-learning (0.1)."""
    discount: Number = None
    """maze, walk 0.99; cartpole, acrobot by preset."""
    epsilon: Number = None
    """maze, walk: how often a training decision is random (maze 0, walk 0.1)."""
    preset: Word = None
    """deep agents: paper or best (best)."""
    steps: Whole = None
    """deep agents: how long to train (100,000 and 10,000 more for each step of delay; Atari
    1,000,000)."""
    envs: Whole = None
    """gym:ID, atari:NAME: how many environments side by side (1; Atari 8, its recurrent agent
    16)."""
    sticky: Number = None
    """atari:NAME: probability that a frame repeats the last action (0.25; with preset paper 0)."""
    max_episode_steps: Whole = None
    """atari:NAME, gym:ID: where episodes are cut off (Atari 27,000)."""
    perturb: Word = None
    """cartpole, acrobot: what noise falls on, masses or masses+lengths."""
    learning_rate: Number = None
    """deep agents: of Q and the model, by preset."""
    model: Word = None
    """delayed: learned, change or simulator; on Atari fresh or kept."""
    members: Whole = None
    """delayed: how many predictions Q is averaged over."""
    shaped: Choice = None
    """cartpole: whether to train on the authors' shaped reward."""
    env_kwargs: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An argument of the environment, as often as needed: --env-kwargs size=10. Only needed where a
    setting of the training has the same name."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Any other setting, as often as needed: --set batch=64 --set hidden=[32,32] --set
    double=False, or gym:ID's own."""

    def given(self) -> dict[str, Any]:
        """Return the settings that were not left out."""
        lists = ("env_kwargs", "set")
        options = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in lists
        }
        named = {name: value for name, value in options.items() if value is not None}
        return named | _by_name(self.set, named, "batch=64")

    def environment(self) -> dict[str, Any]:
        """Return the arguments of the environment that were given as such."""
        return _by_name(self.env_kwargs, (), "size=10")


def _by_name(given: Sequence[str], known: Collection[str], such: str) -> dict[str, Any]:
    """Return the values of arguments NAME=VALUE; raise if a name is `known` already."""
    named: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals or name in named or name in known:
            rule = "a setting is NAME=VALUE, each name once"
            raise ValueError(f"{rule}; got {one!r}: write {such}, say")
        try:
            named[name] = json.loads(_PYTHON.get(value, value))
        except json.JSONDecodeError:
            named[name] = value
    return named
