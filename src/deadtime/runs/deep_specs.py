"""Specs of deep runs, frozen and checked when they are made (see `specs`)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from deadtime.delays import Delay, DelayProcess
from deadtime.delays.convention import check_delay
from deadtime.delays.waits import WAYS_VERSION, Observed
from deadtime.envs.families import check_options, environment_settings, family_of, make
from deadtime.envs.family import ActionKind, Family, ObservationKind
from deadtime.learn.learners import LEARNERS, agents_of
from deadtime.learn.presets import preset
from deadtime.learn.settings import with_former_names, with_names_of_today
from deadtime.runs.deep_spec_checks import (
    check_agent,
    check_evaluations,
    check_names,
    check_process,
    check_rewards,
    checked_changes,
    checked_kinds,
)
from deadtime.runs.spec_checks import (
    check_endless,
    check_executed,
    check_observed,
    check_recorded,
    differing,
    plain,
    read_process,
)
from deadtime.runtime.frame_layers import MOST_ACTIONS
from deadtime.runtime.views import VIEWS

_KINDS = "action_kind", "observation_kind"
AGE_INPUTS_VERSION = 1
"""The version of the inputs for known ages, in the ids of runs that have them."""


@dataclass(frozen=True)
class DeepSpec:
    """A run of a deep agent on an environment of numbers or of frames."""

    env: str
    agent: str
    delay: int = 0
    preset: str = "best"
    steps: int | None = None
    """Default: 100,000 and 10,000 more for each step of delay; on Atari 1,000,000."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The environment's settings that differ from its usual ones."""
    changes: dict[str, Any] = field(default_factory=dict)
    """The learner's settings that differ from the preset."""
    evaluation_episodes: int = None  # type: ignore[assignment]
    """Default: 100; on frames 10."""
    evaluation_delays: tuple[int, ...] = ()
    """Other delays under which the trained policy is evaluated too."""
    envs: int = None  # type: ignore[assignment]
    """Environments outside the compiled program that one learner acts in at once.

    Default: 1; on Atari 8; for `recurrent` 16."""

    evaluate_every: int | None = None
    """Steps between evaluations on 5 held-out episodes during training; None: no evaluations."""
    process: DelayProcess | None = None
    """The process of the ages, of which `delay` is the longest; None for a constant delay."""
    observed: Observed = "now"
    """When an agent that uses ages learns the age of a step under `process`."""
    action_kind: ActionKind = None  # type: ignore[assignment]
    """The kind of actions; by default the environment's, in a record the family's usual one."""
    observation_kind: ObservationKind = None  # type: ignore[assignment]
    """The kind of observations, numbers or frames, found in the same way."""

    recorded: InitVar[bool] = False
    """Whether the spec comes from a record; then only its form is checked."""

    def __post_init__(self, recorded: bool) -> None:
        """Raise if this run is impossible, before any work is done."""
        object.__setattr__(self, "_is_recorded", recorded)
        self._read_process()
        check_names(self.env, self.preset)
        given = self.action_kind, self.observation_kind
        kinds = checked_kinds(self.env, self.settings, *given, recorded)
        object.__setattr__(self, "action_kind", kinds[0])
        object.__setattr__(self, "observation_kind", kinds[1])
        check_agent(self.env, self.agent, *kinds, self.preset)
        self._check_numbers()
        shaped = sorted({"shaped", "shaped_bonus"} & self.changes.keys())
        self._keep_changes()
        own = self.family.describe(self.env, self.settings)
        if own is not None:
            check_executed(self.longest_delay, self.family.longest_episode(own))
            settings = self._kept_settings(own)
        elif recorded:
            check_recorded(self.env, self.settings)
            settings = self.settings
        else:
            settings = self._changed_settings(self._checked_environment())
        if shaped and not self.family.shaped:
            raise ValueError(
                f"{self.env} has no shaped reward, so {shaped[0]} would do nothing: leave it out"
            )
        check_rewards(self.learner, shaped)
        self._check_place()
        object.__setattr__(self, "settings", settings)

    def _read_process(self) -> None:
        """Read a delay process from JSON, and set the delay to its longest age."""
        object.__setattr__(self, "process", read_process(self.process))
        if self.process is None:
            return
        longest = self.process.longest
        if self._is_recorded and longest != self.delay:  # type: ignore[attr-defined]
            raise ValueError(
                f"the delay of a record is the longest age of its process, {longest}; got "
                f"{self.delay!r}: train it again"
            )
        object.__setattr__(self, "delay", longest)

    def _check_numbers(self) -> None:
        """Set the numbers that were left out, and raise if a number is out of range."""
        object.__setattr__(self, "delay", check_delay(self.delay))
        if self.steps is not None and self.steps == self.family.usual_steps:
            object.__setattr__(self, "steps", None)
        for name, usual in self._usual.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)
        if not isinstance(self.evaluation_delays, list | tuple):
            raise ValueError(
                f"evaluation_delays are a list; got {self.evaluation_delays!r}: "
                "pass, for example, (5, 10)"
            )
        object.__setattr__(
            self, "evaluation_delays", tuple(check_delay(delay) for delay in self.evaluation_delays)
        )
        if VIEWS[self.agent].sees_queue and {*self.evaluation_delays} - {self.delay}:
            raise ValueError(
                f"{self.agent} learns only from queues of exactly its own delay, {self.delay}; got "
                f"evaluation_delays {self.evaluation_delays}: leave the others out"
            )
        check_observed(self.observed)
        view = VIEWS[self.agent]
        if self.process is None or not (view.predicts or view.shows_ages):  # it would do nothing
            object.__setattr__(self, "observed", "now")
        if self.process is not None:
            check_process(self.process, self.env, self.frames, self.evaluation_delays)
            if not self._is_recorded:  # type: ignore[attr-defined]
                check_endless(self.process)
        such_as = {"steps": 100_000, "evaluate_every": 10_000, **self._usual}
        for name in ("steps", "evaluation_episodes", "envs", "evaluate_every"):
            value = getattr(self, name)
            if value is None and name not in self._usual:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
                such = such_as[name]
                raise ValueError(
                    f"{name} is a whole number, 1 or more; got {value!r}: pass one such as {such}"
                )
        if self.evaluate_every is not None:
            check_evaluations(self.evaluate_every, self.length, self.env, self.frames)

    def _checked_environment(self) -> Any:
        """Return the environment, or raise if the agent can't act in it under this delay."""
        environment = self.environment(0)
        shape = environment.observation_space(environment.default_params).shape
        if self.frames and environment.num_actions > MOST_ACTIONS:
            raise ValueError(
                f"agents on frames choose one of at most {MOST_ACTIONS} actions; {self.env} has "
                f"{environment.num_actions}: wrap the environment so that it has fewer"
            )
        if len(shape) != 1 and not self.frames:
            raise ValueError(
                f"deep agents take observations of one axis; those of {self.env} have shape "
                f"{shape}: choose another environment"
            )
        check_executed(self.longest_delay, self.family.longest_episode(environment))
        return environment

    def _changed_settings(self, environment: object) -> dict[str, Any]:
        """Return an environment's settings that differ from its usual ones."""
        settings = getattr(environment, "settings", None)  # some environments know them
        return (
            differing(environment, make(self.env), self.settings) if settings is None else settings
        )

    def _kept_settings(self, own: object) -> dict[str, Any]:
        """Return the settings of a built-in environment that differ from its usual ones."""
        kept = differing(own, self.family.describe(self.env, {}), self.settings)
        if self.preset == "paper":
            kept |= self.family.paper_settings(own, self.settings)
        if getattr(own, "noise", None) == 0:
            kept.pop("perturb", None)
        return kept

    def _check_place(self) -> None:
        """Raise if a setting is for the other kind of environment, compiled or outside."""
        if self.outside and getattr(self.learner, "model", "") == "simulator":
            raise ValueError(
                f"model='simulator' predicts with a copy of the environment, and {self.env} can't "
                "be copied: choose learned or change"
            )
        if self.outside and "actors" in self.changes:
            raise ValueError(
                "actors is for environments inside the compiled program; got "
                f"actors={self.changes['actors']} for {self.env}: pass envs"
            )
        if not self.outside and self.envs != 1:
            raise ValueError(
                "envs is for gym:ID and atari:NAME, which run outside the compiled program; got "
                f"{self.envs} for {self.env}: leave it out"
            )

    @property
    def family(self) -> Family:
        """The family of the environment."""
        return family_of(self.env)

    @property
    def outside(self) -> bool:
        """Whether the environment runs outside the compiled program."""
        return self.family.loop == "host"

    @property
    def _usual(self) -> dict[str, Any]:
        remembers = VIEWS[self.agent].sees == "history"
        several = 8 if self.family.in_processes else 1
        envs = 16 if remembers and self.outside else several
        return {
            "evaluation_episodes": 10 if self.frames else 100,
            "envs": envs,
            "action_kind": self.family.action_kinds[0],
            "observation_kind": self.family.observation_kinds[0],
        }

    def _keep_changes(self) -> None:
        """Check the changes, and keep those that differ from the preset."""
        usual = preset(self.preset, self.family, self.agent, *self._kinds)
        changes = self.changes
        if self._is_recorded:  # type: ignore[attr-defined]
            changes = with_names_of_today(usual.kind, changes)
        kept = checked_changes(changes, usual, self.frames, self.agent)
        object.__setattr__(self, "changes", kept)

    @property
    def learner(self) -> Any:
        """The learner's settings: the preset with the changes (see `preset`)."""
        changes: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self.changes.items()
        }
        usual = preset(self.preset, self.family, self.agent, *self._kinds)
        return replace(usual, **changes)

    @property
    def _kinds(self) -> tuple[ActionKind, ObservationKind]:
        return self.action_kind, self.observation_kind

    @property
    def frames(self) -> bool:
        """Whether observations are stacks of frames instead of numbers."""
        return self.observation_kind == "frames"

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
    def longest_delay(self) -> int:
        """The longest delay in training or evaluation."""
        return max(self.delay, *self.evaluation_delays, 0)

    @property
    def length(self) -> int:
        """The number of environment steps of training."""
        return self.steps or self.family.usual_steps or 100_000 + 10_000 * self.delay

    def environment(self, seed: int) -> Any:
        """Return the environment, which is the same for all seeds.

        For a record's spec no module is imported.
        """
        if self._is_recorded:  # type: ignore[attr-defined]
            self.family.check_import(self.env)
        return make(self.env, self.settings)

    def canonical(self) -> dict[str, Any]:
        """Return the spec as JSON, without fields that have their usual values."""
        content: dict[str, Any] = {"kind": "deep"}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "changes":
                value = {
                    name: list(one) if isinstance(one, tuple) else one
                    for name, one in value.items()
                }
            if f.name == "evaluation_delays":
                value = list(value)
            if f.name == "process" and value is not None:
                value = value.to_json()
            if value not in ({}, [], self._usual.get(f.name, f.default)):
                content[f.name] = value
        return content

    @cached_property
    def id(self) -> str:
        """A hash of this spec, its preset's settings and the versions of its components."""
        kind = self.learner.kind
        learner = LEARNERS[kind]
        settings = {
            name: plain(value)
            for name, value in vars(self.learner).items()
            if value != getattr(learner.settings, name)
        }
        spec = self.canonical()
        if "changes" in spec:
            spec["changes"] = with_former_names(kind, spec["changes"])
        versions: list[int | str] = [self.family.version, learner.version]
        shows_ages = VIEWS[self.agent].shows_ages and self.observed != "never"
        if self.process is not None and shows_ages:
            versions.append(AGE_INPUTS_VERSION)
        if self.process is not None and VIEWS[self.agent].predicts:
            versions.append(f"ways {WAYS_VERSION}")
        text = json.dumps([spec, with_former_names(kind, settings), *versions], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The name of the record's folder."""
        env = re.sub("[^A-Za-z0-9_.-]", "-", self.env)
        kind = "m" if self.process is None else self.process.kind
        return f"{env}-{self.agent}-{kind}{self.delay}-{self.preset}-{self.id}"


def deep_spec(
    env: str,
    agent: str,
    channel: Delay,
    options: dict[str, Any],
    env_kwargs: Mapping[str, Any] | None = None,
) -> DeepSpec:
    """Return a spec from named options of the run, the learner and the environment."""
    named = {"env", "agent", "delay", "process", *_KINDS, "settings", "changes"}
    own = {f.name for f in fields(DeepSpec)} - named
    deep = [kind for kind in LEARNERS.values() if "tabular" not in kind.loops]
    learner = {f.name for kind in deep for f in fields(kind.settings)}
    family = family_of(env)
    kinds = agents_of(family).get(agent, deep)
    mine = {f.name for kind in kinds for f in fields(kind.settings)}
    outside = family.loop == "host"
    check_options(env, options, (own if outside else own - {"envs"}) | mine, learner | {"envs"})
    return DeepSpec(
        env,
        agent,
        channel.longest if isinstance(channel, DelayProcess) else channel,
        settings=environment_settings(env, options, own | learner, env_kwargs),
        changes={name: options[name] for name in sorted(learner & options.keys())},
        process=channel if isinstance(channel, DelayProcess) else None,
        **{name: options[name] for name in own & options.keys()},
    )
