"""Specs of tabular runs: a run as data, frozen, checked when it is made, and identified by a hash.

The hash leaves out fields that have their default value, so a new optional setting keeps old ids.
It includes a version of each component that shapes the result, so a fix that changes results gives
new ids.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from deadtime._support.checks import check_count
from deadtime._support.names import nearest
from deadtime.delays import Delay, DelayProcess, as_delay, as_process
from deadtime.delays.convention import check_delay
from deadtime.delays.waits import Observed
from deadtime.envs.families import FAMILIES, check_options, environment_settings, family_of, make
from deadtime.envs.family import Family
from deadtime.learn.learners import agents_of
from deadtime.learn.settings import QLearning, with_former_names, with_names_of_today
from deadtime.runs.spec_checks import (
    check_endless,
    check_executed,
    check_observed,
    check_recorded,
    differing,
    read_process,
)
from deadtime.runtime.views import VIEWS

_USUAL_LEARNER = {"walk": QLearning(epsilon=0.1), "table": QLearning(epsilon=0.1)}
"""The learner's usual settings by family, where they are not its defaults.

The rewards of the walk and of FrozenLake do not lead to exploration."""
VERSIONS = {"q-learning": 1}
"""Versions of learners; raise one when a change of the learner changes results."""


@dataclass(frozen=True)
class TabularSpec:
    """A run of Q-learning on a finite environment."""

    env: str
    agent: str
    delay: int = 0
    episodes: int = 5000
    settings: dict[str, Any] = field(default_factory=dict)
    """The environment's settings, such as size and noise, that differ from its usual ones."""
    learner: QLearning = None  # type: ignore[assignment]
    """Default: the usual settings in the environment."""
    evaluation_episodes: int = 100
    until_return: float | None = None
    """Stop a seed once the mean of its last 20 training returns reaches this."""
    process: DelayProcess | None = None
    """The process of the ages, of which `delay` is the longest; None for a constant delay."""
    observed: Observed = "now"
    """When the agent learns the age of a step, if it uses ages at all."""
    wrong_delays: tuple[Delay, ...] = ()
    """Other delays under which the trained agent is played too, without being told."""
    num_states: int | None = None
    """The number of states; None if the settings tell it."""

    recorded: InitVar[bool] = False
    """Whether the spec comes from a record; then only its form is checked."""

    def __post_init__(self, recorded: bool) -> None:
        """Raise if this run is impossible, before any work is done."""
        object.__setattr__(self, "_is_recorded", recorded)
        if not is_tabular(self.env):
            known = tabular_names()
            unknown = f"no tabular environment is called {self.env!r}{nearest(self.env, known)}"
            raise ValueError(f"{unknown}: choose one of {', '.join(known)}")
        object.__setattr__(self, "learner", self.learner or usual_learner(self.env))
        agents = tuple(agents_of(family_of(self.env)))
        if self.agent not in agents and self.agent in VIEWS:
            raise ValueError(
                f"{self.agent} learns from numbers, not from the cells of {self.env}: "
                f"choose cartpole or acrobot, or one of the agents {', '.join(agents)}"
            )
        if self.agent not in agents:
            hint = nearest(str(self.agent), agents)
            raise ValueError(
                f"no agent is called {self.agent!r}{hint}: choose one of {', '.join(agents)}"
            )
        object.__setattr__(self, "delay", check_delay(self.delay))
        self._check_process()
        for name in ("episodes", "evaluation_episodes"):
            object.__setattr__(self, name, check_count(name, getattr(self, name)))
        self._check_environment()
        until = self.until_return
        if until is not None and (type(until) not in (int, float) or not abs(until) < 1e300):
            raise ValueError(
                f"until_return is a number; got {self.until_return!r}: pass one such as 0.5"
            )
        if VIEWS[self.agent].solves_offline:
            self._check_offline()

    def _check_environment(self) -> None:
        """Keep the settings that differ from the usual ones; raise if no decision is executed.

        For a record no environment is made, even if its settings could be checked only by that.
        """
        own = self.family.describe(self.env, self.settings)
        if own is None and self._is_recorded:  # type: ignore[attr-defined]
            check_recorded(self.env, self.settings)
            object.__setattr__(self, "num_states", check_count("num_states", self.num_states))
            return
        if own is None:
            own = make(self.env, self.settings)
            kept = own.settings
            object.__setattr__(self, "num_states", int(own.observation_space().n))
        else:
            seed = {"maze_seed": own.maze_seed} if "maze_seed" in self.settings else {}
            kept = differing(own, self.family.describe(self.env, {}), self.settings) | seed
        object.__setattr__(self, "settings", kept)
        check_executed(self.delay, own.max_steps)

    def _check_process(self) -> None:
        """Read the process, and raise if the agent can't be trained under it.

        `observed` keeps its default where the agent uses no ages, so that equal runs have one id.
        """
        check_observed(self.observed)
        process = read_process(self.process)
        object.__setattr__(self, "process", process)
        self._check_wrong_delays(self.delay if process is None else process.longest)
        view = VIEWS[self.agent]
        if process is None or not (view.sees_queue or view.predicts):
            object.__setattr__(self, "observed", "now")
        if process is None:
            return
        object.__setattr__(self, "delay", process.longest)
        check_endless(process)

    def _check_wrong_delays(self, longest: int) -> None:
        """Read the other delays; raise if the agent's queue does not fit them."""
        if not isinstance(self.wrong_delays, list | tuple):
            raise ValueError(
                f"wrong_delays are a list; got {self.wrong_delays!r}: "
                'pass, for example, ["walk:0-6"]'
            )
        others = tuple(as_delay(one) for one in self.wrong_delays)
        for one in others:
            process = as_process(one)
            if process.longest != longest:
                raise ValueError(
                    f"an agent is played under delays with its own longest age, {longest}; got "
                    f"{process} in wrong_delays: choose another delay"
                )
            check_endless(process)
        object.__setattr__(self, "wrong_delays", others)

    def _check_offline(self) -> None:
        """Raise if a setting would do nothing, since the agent solves its model after training."""
        usual = usual_learner(self.env)
        given = self.learner
        idle = [
            name
            for name in ("learning_rate", "epsilon")
            if getattr(given, name) != getattr(usual, name)
        ]
        idle += ["until_return"] * (self.until_return is not None)
        if idle:
            raise ValueError(
                f"{self.agent} acts at random and then solves its model, so {idle[0]} would do "
                "nothing: leave it out"
            )

    @property
    def family(self) -> Family:
        """The family of the environment."""
        return family_of(self.env)

    @property
    def states(self) -> int:
        """The number of states of the environment."""
        if self.num_states is not None:
            return self.num_states
        return int(self.family.describe(self.env, self.settings).observation_space().n)

    def environment(self, seed: int) -> Any:
        """Return the environment of a seed: a maze of its own, unless the settings name one.

        For a record's spec no module is imported.
        """
        if self._is_recorded:  # type: ignore[attr-defined]
            self.family.check_import(self.env)
        own = self.family.describe(self.env, self.settings)
        if own is None:
            return make(self.env, self.settings)
        if hasattr(own, "maze_seed") and "maze_seed" not in self.settings:
            return replace(own, maze_seed=seed)
        return own

    def canonical(self) -> dict[str, Any]:
        """Return the spec as JSON, without fields that have their usual values."""
        content: dict[str, Any] = {"kind": "tabular"}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "learner":
                usual = vars(usual_learner(self.env))
                value = {
                    name: number for name, number in vars(value).items() if number != usual[name]
                }
            if f.name == "process" and value is not None:
                value = value.to_json()
            if f.name == "wrong_delays":
                value = [one if isinstance(one, int) else one.to_json() for one in value]
            if value not in ({}, [], f.default):
                content[f.name] = value
        return content

    @cached_property
    def id(self) -> str:
        """A hash of this spec and the versions of its components."""
        versions = [family_of(self.env).version, VERSIONS["q-learning"]]
        spec = self.canonical()
        if "learner" in spec:
            spec["learner"] = with_former_names(QLearning.kind, spec["learner"])
        text = json.dumps([spec, versions], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def delay_text(self) -> str:
        """The delay in a line of text."""
        if self.process is None:
            return f"m={self.delay}"
        return str(self.process) + (f", ages {self.observed}" if self.observed != "now" else "")

    @property
    def channel(self) -> Delay:
        """The delay: a process of ages, or a whole number if it is constant."""
        return self.delay if self.process is None else self.process

    @property
    def name(self) -> str:
        """The name of the record's folder."""
        kind = "m" if self.process is None else self.process.kind
        env = re.sub("[^A-Za-z0-9_.-]", "-", self.env)
        return f"{env}-{self.agent}-{kind}{self.delay}-{self.id}"


def tabular_names() -> tuple[str, ...]:
    """Return the names of tabular environments that messages show."""
    families = [family for family in FAMILIES.values() if family.loop == "tabular"]
    return tuple(name for family in families for name in family.shown)


def is_tabular(env: object) -> bool:
    """Return whether tabular agents train in the environment of this name."""
    return isinstance(env, str) and any(
        family.loop == "tabular" and family.owns(env) for family in FAMILIES.values()
    )


def usual_learner(env: str) -> QLearning:
    """Return the learner's usual settings in an environment."""
    return _USUAL_LEARNER.get(family_of(env).name, QLearning())


MOST_SEEDS = 100_000


def check_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """Return seeds as a tuple; a number n means 0 … n - 1."""
    listed = seeds if isinstance(seeds, list | tuple | range) else None
    count = check_count("seeds", seeds) if listed is None else len(listed)
    if count > MOST_SEEDS:
        raise ValueError(f"a run has at most {MOST_SEEDS:,} seeds; got {count:,}: pass fewer")
    if listed is None:
        return tuple(range(count))
    whole = all(
        isinstance(seed, int | np.integer) and not isinstance(seed, bool) for seed in listed
    )
    chosen = tuple(int(seed) for seed in listed) if whole else ()
    if not chosen or min(chosen) < 0 or max(chosen) >= 2**31 or len(set(chosen)) != len(chosen):
        raise ValueError(
            "seeds are distinct whole numbers from 0 to 2^31 - 1, at least one; got "
            f"{seeds!r}: pass, for example, range(5)"
        )
    return chosen


def tabular_spec(
    env: str,
    agent: str,
    channel: Delay,
    options: dict[str, Any],
    env_kwargs: Mapping[str, Any] | None = None,
) -> TabularSpec:
    """Return a spec from named options of the run, the learner and the environment."""
    named = {"env", "agent", "delay", "process", "settings", "learner", "num_states"}
    own = {f.name for f in fields(TabularSpec)} - named
    learner = {f.name for f in fields(QLearning)}
    check_options(env, options, own | learner)
    return TabularSpec(
        env,
        agent,
        channel.longest if isinstance(channel, DelayProcess) else channel,
        settings=environment_settings(env, options, own | learner, env_kwargs),
        learner=replace(
            usual_learner(env),
            **{name: options[name] for name in learner & options.keys()},
        ),
        process=channel if isinstance(channel, DelayProcess) else None,
        **{name: options[name] for name in own & options.keys()},
    )


def tabular_from(given: dict[str, Any]) -> TabularSpec:
    """Return the spec of a record."""
    settings = with_names_of_today(QLearning.kind, given.get("learner", {}))
    learner = replace(usual_learner(given["env"]), **settings)
    return TabularSpec(**{**given, "learner": learner}, recorded=True)
