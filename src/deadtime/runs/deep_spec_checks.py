"""Checks of a deep run's spec: its names, its delay process, and the changes to its preset."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from deadtime._support.names import nearest
from deadtime.delays import DelayProcess
from deadtime.envs.families import environment_names, family_of
from deadtime.envs.family import ActionKind, ObservationKind
from deadtime.learn.learners import agents_of, learners_of
from deadtime.learn.presets import PRESETS
from deadtime.learn.settings import FORWARD_MODELS, PIXEL_MODELS, DoubleQ
from deadtime.runs.spec_checks import like
from deadtime.runtime.views import VIEWS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST_EVALUATIONS = 1000
"""The largest number of evaluations during a training."""


def check_names(env: str, preset_name: str) -> None:
    """Raise if the environment is unknown or not for deep agents, or if the preset is unknown."""
    if family_of(env).loop == "tabular":
        raise ValueError(
            f"deep agents learn from numbers or frames; {env} has cells: choose another environment"
        )
    if preset_name not in PRESETS:
        hint = nearest(preset_name, PRESETS)
        raise ValueError(f"no preset is called {preset_name!r}{hint}: choose paper or best")


def checked_kinds(
    env: str,
    settings: dict[str, Any],
    actions: ActionKind | None,
    observations: ObservationKind | None,
    recorded: bool,
) -> tuple[ActionKind, ObservationKind]:
    """Return the kinds of actions and observations of an environment.

    For a record, which makes no environment, they are those given, or the family's usual ones.
    """
    family = family_of(env)
    known = {"action": family.action_kinds, "observation": family.observation_kinds}
    given = {"action": actions, "observation": observations}
    for what, kind in given.items():
        if kind is not None and kind not in known[what]:
            words = " or ".join(known[what])
            raise ValueError(f"{what}s of {env} are {words}; got {kind!r:.50}: train it again")
    if recorded:
        return actions or family.action_kinds[0], observations or family.observation_kinds[0]
    found = family.action_kind(env, settings), family.observation_kind(env, settings)
    for (what, kind), its in zip(given.items(), found, strict=True):
        if kind is not None and kind != its:
            raise ValueError(f"{what}s of {env} are {its}; got {kind!r}: leave {what}_kind out")
    return found


def check_agent(
    env: str,
    agent: str,
    action_kind: ActionKind,
    observation_kind: ObservationKind,
    preset_name: str,
) -> None:
    """Raise if the agent is unknown or does not work in the environment, or has no such preset."""
    agents = tuple(learners_of(family_of(env), action_kind, observation_kind))
    if not agents:
        raise ValueError(
            f"agents on {observation_kind} do not choose {action_kind} actions; got {env}: number "
            "its actions with gymnasium.wrappers.TransformAction, or pass a setting that "
            "numbers them"
        )
    if (
        agent in VIEWS
        and VIEWS[agent].predicts
        and observation_kind == "frames"
        and agent not in agents
    ):
        raise ValueError(
            f"{agent} acts on predictions, and only Atari's emulators predict frames; got {env}: "
            f"choose one of {', '.join(agents)}"
        )
    if agent not in agents:
        families = {name: family_of(name) for name in environment_names()}
        others = [
            name for name, one in families.items() if agent in agents_of(one) and not one.owns(env)
        ]
        hint = f", which {', '.join(others)} have" if others else nearest(str(agent), agents)
        raise ValueError(f"{env} has no agent {agent!r}{hint}: choose one of {', '.join(agents)}")
    if preset_name == "paper" and action_kind == "box":
        raise ValueError(
            f"preset paper is for numbered actions, as in the paper; got {env}: leave it out"
        )


def check_process(
    process: DelayProcess, env: str, frames: bool, evaluation_delays: tuple[int, ...]
) -> None:
    """Raise if an agent, on numbers or on frames, can't be trained under a delay that varies."""
    if frames:
        raise ValueError(
            f"agents on {env}, which see frames, can be trained under constant delays only; got "
            f"{process}: pass a whole number such as {process.longest}, or train on vectors"
        )
    if evaluation_delays:
        raise ValueError(
            "evaluation_delays go with a constant delay; got "
            f"{evaluation_delays} with {process}: leave them out, and evaluate the "
            "policy under other delays with `deadtime evaluate`"
        )


def check_evaluations(every: int, length: int, env: str, frames: bool) -> None:
    """Raise if evaluations during a training of `length` steps are too rare or too many."""
    if frames:
        raise ValueError(
            "evaluations during training are for agents that see numbers; got evaluate_every="
            f"{every} for {env}: leave it out"
        )
    if not length <= every * MOST_EVALUATIONS <= length * MOST_EVALUATIONS:
        raise ValueError(
            f"a training has 1 to {MOST_EVALUATIONS:,} evaluations; got evaluate_every={every} "
            f"with {length} steps: pass one from {-(-length // MOST_EVALUATIONS)} to {length}"
        )


def check_rewards(learner: DataclassInstance, shaped: list[str]) -> None:
    """Raise if the learner's settings would leave no reward to learn from."""
    if not isinstance(learner, DoubleQ):
        return
    if "shaped_bonus" in shaped and not learner.shaped:
        raise ValueError(
            "shaped_bonus is added to the shaped reward, which is off (shaped=False): leave "
            "one of them out"
        )
    if (learner.scaled or learner.centre) and np.float32(learner.gamma) == 1:
        raise ValueError(
            "scaled and centred rewards need a gamma below 1 in single precision; got "
            f"{learner.gamma}: pass a smaller one, or scaled=False and centre=0"
        )


def checked_changes(
    changes: dict[str, Any], usual: DataclassInstance, frames: bool, agent: str
) -> dict[str, Any]:
    """Return the changes that differ from the preset `usual`; raise if one is unknown or unfit."""
    if not VIEWS[agent].predicts and {"model", "members"} & changes.keys():
        idle = next(name for name in ("model", "members") if name in changes)
        raise ValueError(f"{agent} predicts nothing, so {idle} would do nothing: leave it out")
    if not VIEWS[agent].projects and "projection_weight" in changes:
        rule = f"{agent} has no projection, so projection_weight would do nothing"
        raise ValueError(f"{rule}: leave it out, or train projected")
    known = [f.name for f in fields(usual)]
    found = {}
    for name, value in changes.items():
        if name not in known:
            unknown = f"{agent} has no setting {name!r}{nearest(name, known)}"
            raise ValueError(f"{unknown}: it has {', '.join(known)}")
        found[name] = like(getattr(usual, name), name, value)
    models = PIXEL_MODELS if frames else tuple(FORWARD_MODELS)
    if found.get("model", models[0]) not in models:
        raise ValueError(
            f"no model is called {found['model']!r}: choose one of {', '.join(models)}"
        )
    kept = {name: value for name, value in found.items() if value != getattr(usual, name)}
    if frames:
        _check_frames(kept)
    return kept


def _check_frames(changes: dict[str, Any]) -> None:
    """Raise if a changed setting does not fit networks that see frames."""
    if changes.get("target_period_updates") == 0:
        raise ValueError(
            "on frames the target network is copied; got target_period_updates=0: pass 1 or more"
        )
    if len(changes.get("channels", (1, 1, 1))) != 3:
        raise ValueError(
            "channels are the numbers of channels of three convolutions; got "
            f"{changes['channels']}: pass three numbers"
        )
