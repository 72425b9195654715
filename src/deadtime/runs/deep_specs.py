"""A deep run as data (see `specs`)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, fields, replace
from typing import Any

import numpy as np

from deadtime._support.names import nearest
from deadtime.delays import Delay, DelayProcess, from_json
from deadtime.delays.convention import check_delay
from deadtime.envs.families import (
    check_options,
    environment_names,
    environment_settings,
    family_of,
    make,
)
from deadtime.envs.family import Family
from deadtime.learn.learners import LEARNERS, learners_of
from deadtime.learn.presets import PRESETS, preset
from deadtime.learn.settings import (
    FORWARD_MODELS,
    PIXEL_MODELS,
    DoubleQ,
    with_former_names,
    with_names_of_today,
)
from deadtime.runs.spec_checks import check_executed, check_recorded, differing, like, plain
from deadtime.runtime.views import VIEWS


@dataclass(frozen=True)
class DeepSpec:
    """A deep agent on an environment of numbers or of frames; `changes` are what differs from the preset."""

    env: str
    agent: str
    delay: int = 0
    preset: str = "best"
    steps: int | None = None
    """Default: 100,000 and 10,000 more for each step of delay; on Atari 1,000,000."""
    settings: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    evaluation_episodes: int = None  # type: ignore[assignment]
    """Default: 100; on Atari 10."""
    evaluation_delays: tuple[int, ...] = ()
    """Other delays under which what was learned is evaluated too."""
    envs: int = None  # type: ignore[assignment]
    """Environments side by side, where they are outside the compiled program; one learner for all. Default: 1; on Atari 8,
    for `recurrent` 16."""

    process: DelayProcess | None = None
    """The process of the ages, of which `delay` is the longest; None for a constant delay."""

    recorded: InitVar[bool] = False
    """Whether a record says this: then it is data, of which only the form is checked."""

    def __post_init__(self, recorded: bool) -> None:
        """Raise if this can't be run, before any work is done."""
        object.__setattr__(self, "_is_recorded", recorded)
        self._read_process()
        self._check_names()
        self._check_numbers()
        shaped = sorted({"shaped", "shaped_bonus"} & self.changes.keys())
        self._check_changes()
        own = self.family.describe(self.env, self.settings)
        if own is not None:
            check_executed(self.longest_delay, self.family.longest_episode(own))
            settings = self._kept_settings(own)
        elif recorded:
            check_recorded(self.env, self.settings)
            settings = self.settings
        else:
            environment = self._checked_environment()
            kept = getattr(environment, "settings", None)  # it knows which differ from its own
            settings = (
                differing(environment, make(self.env), self.settings) if kept is None else kept
            )
        if shaped and not self.family.shaped:
            raise ValueError(
                f"{self.env} has no shaped reward, so {shaped[0]} would do nothing: leave it out"
            )
        self._check_rewards(shaped)
        self._check_place()
        object.__setattr__(self, "settings", settings)

    def _check_names(self) -> None:
        """Raise if there is no such environment, agent or preset, or if the agent does not work in the environment."""
        if self.family.loop == "tabular":
            raise ValueError(
                f"deep agents learn from numbers or frames; {self.env} has cells: choose another environment"
            )
        agents = tuple(learners_of(self.family))
        remembers = self.agent in VIEWS and VIEWS[self.agent].sees == "history"
        if self.agent not in agents and remembers:
            others = [
                name for name in environment_names() if self.agent in learners_of(family_of(name))
            ]
            raise ValueError(
                f"{self.agent} trains only where the environment is compiled with it, or on Atari; got {self.env}: choose "
                f"one of {', '.join(others)}, or an agent of {', '.join(agents)}"
            )
        if self.agent not in agents:
            raise ValueError(
                f"{self.env} has no agent {self.agent!r}{nearest(str(self.agent), agents)}: choose one of {', '.join(agents)}"
            )
        if self.preset not in PRESETS:
            raise ValueError(
                f"no preset is called {self.preset!r}{nearest(self.preset, PRESETS)}: choose paper or best"
            )

    def _read_process(self) -> None:
        """Turn a process in JSON into one; its longest age is the delay."""
        if isinstance(self.process, Mapping):
            object.__setattr__(self, "process", from_json(self.process))
        if self.process is not None and not self._is_recorded:  # type: ignore[attr-defined]
            object.__setattr__(self, "delay", self.process.longest)

    def _check_process(self) -> None:
        """Raise if the agent can't be trained under a delay that varies."""
        if self.process is None:
            return
        view = VIEWS[self.agent]
        if view.predicts or view.credits == "shifted" or self.family.frames:
            who = f"agents on {self.env}" if self.family.frames else self.agent
            raise ValueError(
                f"{who} can be trained under constant delays only; got {self.process}: pass a "
                f"whole number such as {self.delay}, or train augmented or oblivious on numbers"
            )
        if self.evaluation_delays:
            raise ValueError(
                "evaluation_delays go with a constant delay; got "
                f"{self.evaluation_delays} with {self.process}: leave them out, and evaluate the "
                "policy under other delays with `deadtime evaluate`"
            )
        if not self._is_recorded and not self.process.chain.endless:  # type: ignore[attr-defined]
            raise ValueError(
                "training needs a delay that goes on for ever; got a trace of "
                f"{self.process.chain.size} steps: pass Trace(…, repeat=True)"
            )

    def _check_numbers(self) -> None:
        """Raise if a number of the run is out of range; set those that were left out."""
        object.__setattr__(self, "delay", check_delay(self.delay))
        if self.steps is not None and self.steps == self.family.usual_steps:
            object.__setattr__(self, "steps", None)
        for name, usual in self._usual.items():
            object.__setattr__(
                self, name, usual if getattr(self, name) is None else getattr(self, name)
            )
        if not isinstance(self.evaluation_delays, list | tuple):
            raise ValueError(
                f"evaluation_delays are a list; got {self.evaluation_delays!r}: pass (5, 10), say"
            )
        object.__setattr__(
            self, "evaluation_delays", tuple(check_delay(delay) for delay in self.evaluation_delays)
        )
        if VIEWS[self.agent].sees_queue and {*self.evaluation_delays} - {self.delay}:
            raise ValueError(
                f"{self.agent} learns only from queues of exactly its own delay, {self.delay}; got evaluation_delays "
                f"{self.evaluation_delays}: leave the others out"
            )
        self._check_process()
        for name in ("steps", "evaluation_episodes", "envs"):
            value = getattr(self, name)
            if (value, name) != (None, "steps") and (
                isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31
            ):
                such = 100_000 if name == "steps" else self._usual[name]
                raise ValueError(
                    f"{name} is a whole number, 1 or more; got {value!r}: pass one such as {such}"
                )

    def _checked_environment(self) -> Any:
        """Make the environment, raise if this agent can't act in it under this delay, and return it."""
        environment = self.environment(0)
        shape = environment.observation_space(environment.default_params).shape
        if len(shape) != 1 and not self.family.frames:
            raise ValueError(
                f"deep agents take observations of one axis; those of {self.env} have shape {shape}: choose another"
            )
        check_executed(self.longest_delay, self.family.longest_episode(environment))
        return environment

    def _check_rewards(self, shaped: list[str]) -> None:
        """Raise if rewards would say nothing."""
        if "shaped_bonus" in shaped and not self.learner.shaped:
            raise ValueError(
                "shaped_bonus is added to the shaped reward, which is off (shaped=False): leave one of them out"
            )
        measured = isinstance(self.learner, DoubleQ) and (
            self.learner.scaled or self.learner.centre
        )
        if measured and np.float32(self.learner.gamma) == 1:
            raise ValueError(
                f"scaled and centred rewards need 1 - gamma, which is 0 here; got gamma={self.learner.gamma}: "
                "pass a smaller one, or scaled=False and centre=0"
            )

    def _kept_settings(self, own: Any) -> dict[str, Any]:
        """Return the settings of an environment of ours that differ from its usual ones."""
        kept = differing(own, self.family.describe(self.env, {}), self.settings)
        if self.preset == "paper":
            kept |= self.family.paper_settings(own, self.settings)
        if getattr(own, "noise", None) == 0:
            kept.pop("perturb", None)
        return kept

    def _check_place(self) -> None:
        """Raise if this needs an environment inside the compiled program, or one outside, and has the other."""
        if self.outside and getattr(self.learner, "model", "") == "simulator":
            raise ValueError(
                f"model='simulator' looks ahead in the environment itself, and {self.env} can't be copied to do so: "
                "choose learned or change"
            )
        if not self.outside and self.envs != 1:
            raise ValueError(
                f"envs is for gym:ID and atari:NAME, which run outside the compiled program; got {self.envs} for {self.env}: "
                "leave it out"
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
    def _usual(self) -> dict[str, int]:
        remembers = VIEWS[self.agent].sees == "history"
        envs = (16 if remembers else 8) if self.family.in_processes else 1
        return {"evaluation_episodes": self.family.usual_evaluation_episodes, "envs": envs}

    def _check_changes(self) -> None:
        usual = preset(self.preset, self.family, self.agent)
        if self._is_recorded:  # type: ignore[attr-defined]
            object.__setattr__(self, "changes", with_names_of_today(usual.kind, self.changes))
        if not VIEWS[self.agent].predicts and {"model", "members"} & self.changes.keys():
            idle = next(name for name in ("model", "members") if name in self.changes)
            raise ValueError(
                f"{self.agent} predicts nothing, so {idle} would do nothing: leave it out"
            )
        known = [f.name for f in fields(usual)]
        for name, value in self.changes.items():
            if name not in known:
                raise ValueError(
                    f"{self.agent} has no setting {name!r}{nearest(name, known)}: it has {', '.join(known)}"
                )
            object.__setattr__(
                self, "changes", self.changes | {name: like(getattr(usual, name), name, value)}
            )
        models = PIXEL_MODELS if self.family.frames else tuple(FORWARD_MODELS)
        if self.changes.get("model", models[0]) not in models:
            raise ValueError(
                f"no model is called {self.changes['model']!r}: choose one of {', '.join(models)}"
            )
        kept = {
            name: value for name, value in self.changes.items() if value != getattr(usual, name)
        }
        object.__setattr__(self, "changes", kept)
        if self.family.frames and self.changes.get("target_period_updates") == 0:
            raise ValueError(
                "on Atari the target network is copied; got target_period_updates=0: pass 1 or more"
            )
        if self.family.frames and len(self.changes.get("channels", (1, 1, 1))) != 3:
            raise ValueError(
                f"channels are those of three convolutions; got {self.changes['channels']}: pass three numbers"
            )

    @property
    def learner(self) -> Any:
        """All settings of the learner (see `preset`)."""
        changes: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self.changes.items()
        }
        return replace(preset(self.preset, self.family, self.agent), **changes)

    @property
    def delay_text(self) -> str:
        """The delay in a line of text."""
        return f"m={self.delay}" if self.process is None else str(self.process)

    @property
    def channel(self) -> Delay:
        """The process of the ages or, if it is constant, the delay."""
        return self.delay if self.process is None else self.process

    @property
    def longest_delay(self) -> int:
        """The longest it meets, in training or evaluation."""
        return max(self.delay, *self.evaluation_delays, 0)

    @property
    def length(self) -> int:
        """Environment steps to train."""
        return self.steps or self.family.usual_steps or 100_000 + 10_000 * self.delay

    def environment(self, seed: int) -> Any:
        """Make the environment; all seeds have the same. A record may not have a module imported for it."""
        if self._is_recorded:  # type: ignore[attr-defined]
            self.family.check_import(self.env)
        return make(self.env, self.settings)

    def canonical(self) -> dict[str, Any]:
        """All that was asked for beyond what is usual."""
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

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that stand for this spec, its preset's settings, and the versions of what it uses."""
        learner = learners_of(self.family)[self.agent]
        kind = learner.settings.kind
        settings = {
            name: plain(value)
            for name, value in vars(self.learner).items()
            if value != getattr(learner.settings, name)
        }
        spec = self.canonical()
        if "changes" in spec:
            spec["changes"] = with_former_names(kind, spec["changes"])
        versions = self.family.version, learner.version
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
    """Sort named options into the run's own, the learner's and the environment's."""
    named = {"env", "agent", "delay", "process", "settings", "changes"}
    own = {f.name for f in fields(DeepSpec)} - named
    deep = [kind for kind in LEARNERS.values() if "tabular" not in kind.loops]
    learner = {f.name for kind in deep for f in fields(kind.settings)}
    family = family_of(env)
    kinds = learners_of(family)
    mine = {f.name for f in fields(kinds[agent].settings)} if agent in kinds else learner
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
