"""The settings of a training as options, with help and completion from the registries."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

import tyro

from deadtime._support.names import listed
from deadtime.cli.option_types import NO_DEFAULT, Integer, Number, Switch, name_type
from deadtime.delays.waits import OBSERVED
from deadtime.envs.families import FAMILIES, environment_names
from deadtime.envs.noise import PERTURB
from deadtime.learn.learners import agents_of
from deadtime.learn.presets import PRESETS
from deadtime.learn.settings import FORWARD_MODELS, PIXEL_MODELS
from deadtime.runtime.views import VIEWS

_PYTHON = {"True": "true", "False": "false", "None": "null"}
"""Constants of Python, and their JSON."""


def _agents_help() -> str:
    """Return the agents, grouped by the families of environments that they work in."""
    agents_in = {family: agents_of(member) for family, member in FAMILIES.items()}
    groups: dict[tuple[str, ...], list[str]] = {}
    for agent in VIEWS:
        missing = tuple(family for family, agents in agents_in.items() if agent not in agents)
        if len(missing) < len(FAMILIES):
            groups.setdefault(missing, []).append(agent)
    return "; ".join(f"{', '.join(those)} ({_where(but)})" for but, those in groups.items())


def _where(missing: Collection[str]) -> str:
    """Return the families without the `missing` ones as text, in the shorter of two forms."""
    present = [family for family in FAMILIES if family not in missing]
    if len(present) <= len(missing):
        return listed(present)
    return f"not in {listed(missing, 'or')}" if missing else "everywhere"


ENVIRONMENT = name_type("ENV", environment_names())
AGENT = name_type("AGENT", VIEWS)
PRESET = name_type("PRESET", PRESETS)
ENVIRONMENT_HELP = f"Environment: {listed(environment_names(), 'or')}."
AGENTS_HELP = f"{_agents_help()}."
PRESET_HELP = f"deep agents: settings to begin with, {listed(PRESETS, 'or')} (best)."


@dataclass(frozen=True)
class Options:
    """Settings of the environment, the training and the learner; defaults in brackets."""

    size: Integer = None
    """maze: number of cells on a side (10)."""
    noise: Annotated[
        float | None,
        tyro.conf.arg(
            metavar="FLOAT",
            help="maze: probability that a random action replaces the executed one; cartpole, "
            "acrobot, pendulum: relative standard deviation of the masses (0; noisy-… 0.1).",
            **NO_DEFAULT,
        ),
    ] = None
    maze_seed: Integer = None
    """maze: seed of one maze for all runs. Without it, each run has its own maze."""
    length: Integer = None
    """walk: number of steps of an episode (40)."""
    momentum: Number = None
    """walk: probability of a step away from 0 (0.6)."""
    near: Integer = None
    """walk: largest |x| at which action 0 is rewarded (3)."""
    episodes: Integer = None
    """maze, walk: number of training episodes (5000)."""
    observation_delay: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="STEPS|PROCESS",
            help="Delay of observations in steps (0). It is added to the delay of actions, so both "
            "must be constant or drawn once per episode, such as episode:uniform:2-6.",
            **NO_DEFAULT,
        ),
    ] = None
    observed: Annotated[
        str | None,
        name_type("WHEN", OBSERVED),
        tyro.conf.arg(
            help="agents that predict or see the queue: when the agent learns the age of a step "
            "under a delay that varies: now (before it chooses), hindsight (one step later) or "
            "never (now).",
            **NO_DEFAULT,
        ),
    ] = None
    until_return: Number = None
    """maze, walk: stop a run when the mean of its last 20 training returns reaches this."""
    gamma: Number = None
    """Discount factor (maze, walk 0.99; deep agents by preset)."""
    epsilon: Number = None
    """maze, walk: probability of a random action in training (maze 0, walk 0.1)."""
    preset: Annotated[str | None, PRESET, tyro.conf.arg(help=PRESET_HELP, **NO_DEFAULT)] = None
    steps: Annotated[
        int | None,
        tyro.conf.arg(
            metavar="INT",
            help="deep agents: training steps (100,000, and 10,000 more for each step of delay; "
            "atari: 1,000,000).",
            **NO_DEFAULT,
        ),
    ] = None
    envs: Integer = None
    """gym:, atari: number of environments side by side (1; atari 8; recurrent 16)."""
    sticky: Number = None
    """atari: probability that a frame repeats the last action (0.25; preset paper 0)."""
    max_episode_steps: Integer = None
    """gym:, atari: step at which an episode is truncated (atari 27,000)."""
    perturb: Annotated[
        str | None,
        name_type("NAME", PERTURB),
        tyro.conf.arg(
            help=f"cartpole, acrobot, pendulum: what noise changes, {listed(PERTURB, 'or')}.",
            **NO_DEFAULT,
        ),
    ] = None
    learning_rate: Number = None
    """Learning rate (maze, walk 0.1; deep agents, their forward models too, by preset)."""
    model: Annotated[
        str | None,
        name_type("MODEL", (*FORWARD_MODELS, *PIXEL_MODELS)),
        tyro.conf.arg(
            help=f"delayed: forward model, {listed(FORWARD_MODELS, 'or')}; "
            f"atari: {listed(PIXEL_MODELS, 'or')}.",
            **NO_DEFAULT,
        ),
    ] = None
    members: Integer = None
    """delayed: number of predictions that Q is averaged over."""
    shaped: Switch = None
    """cartpole: train on the paper's shaped reward."""
    env_kwargs: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(
            metavar="NAME=VALUE",
            help="Argument of the environment, where a setting of the training has the same name. "
            "Repeat it for several: --env-kwargs size=10.",
            **NO_DEFAULT,
        ),
    ] = ()
    set: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(
            metavar="NAME=VALUE",
            help="Any other setting of the learner or the environment. Repeat it for "
            "several: --set batch_size=64 --set hidden=[32,32] --set double=False.",
            **NO_DEFAULT,
        ),
    ] = ()

    def given(self) -> dict[str, Any]:
        """Return the settings that were given."""
        lists = ("env_kwargs", "set")
        options = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in lists
        }
        named = {name: value for name, value in options.items() if value is not None}
        return named | _by_name(self.set, named, "batch_size=64")

    def environment(self) -> dict[str, Any]:
        """Return the arguments of the environment that were given with `--env-kwargs`."""
        return _by_name(self.env_kwargs, (), "size=10")


OptionGroup = Annotated[Options, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="training")]
"""The settings as a group of options; `name` is in the group's title in the help."""


def _by_name(given: Sequence[str], known: Collection[str], such: str) -> dict[str, Any]:
    """Return the values of arguments NAME=VALUE; raise if a name is `known` already."""
    named: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals or name in named or name in known:
            rule = "a setting is NAME=VALUE, each name once"
            raise ValueError(f"{rule}; got {one!r}: write {such}, for example")
        try:
            named[name] = json.loads(_PYTHON.get(value, value))
        except json.JSONDecodeError:
            named[name] = value
    return named
