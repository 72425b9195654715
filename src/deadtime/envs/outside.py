"""Gymnasium environments by name, ``gym:ID``: what a compiled learner must know of one, and how it is made.

They live outside compiled programs, so nothing can be copied or looked ahead in.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import error, spaces

from deadtime.ending import same_signals
from deadtime.envs.timed import TimedEnv
from deadtime.timeouts import step_timeout

PREFIX, ATARI = "gym:", "atari:"
ALLOWED = "DEADTIME_IMPORT"
"""The variable of the process that names the modules, with commas between them, that records may have imported."""
_OWN = "max_episode_steps"
"""The setting of `gymnasium.make` itself."""
_MOST_FLATTENED = 1000
"""Numbers of an observation of several axes that is worth flattening; a larger one is an image."""


@dataclass(frozen=True)
class Outside:
    """A Gymnasium environment with numbered actions and observations of one axis."""

    id: str
    num_actions: int
    numbers: int
    """How many an observation has."""
    draws: bool
    """Whether it renders pictures."""
    settings: dict[str, Any] = field(hash=False, default_factory=dict)
    """Those that differ from the environment's own."""

    default_params = ()
    """A program has none to give."""

    def observation_space(self, params: Any = None) -> spaces.Box:
        """The space of one observation, as the learner sees it."""
        return spaces.Box(-float("inf"), float("inf"), (self.numbers,))

    def make(self, **further: Any) -> gym.Env:
        """Make the environment itself; where steps have a time limit, in a thread of its own."""
        seconds, settings = step_timeout(), {**self.settings, **further}
        if seconds is None:
            return _made(self.id, settings)
        return TimedEnv(lambda: _made(self.id, settings), f"{PREFIX}{self.id}", seconds)


def outside(name: str, settings: dict[str, Any]) -> Outside:
    """What is to be known of ``gym:ID`` with these settings: it is made once to ask it, and closed."""
    known = name.removeprefix(PREFIX)
    plain = _plain(name, settings)
    accepted, usual = _accepted(known)
    for setting in plain:
        if accepted is not None and setting not in accepted:
            raise ValueError(f"{name} has no setting {setting!r}: it takes {', '.join(accepted)}")
    env = _made(known, plain)
    try:
        _check_spaces(name, env)
        actions, numbers = int(env.action_space.n), int(env.observation_space.shape[0])  # type: ignore[attr-defined, index]
        draws = "rgb_array" in env.metadata.get("render_modes", [])
    finally:
        env.close()
    changed = {key: value for key, value in plain.items() if not np.array_equal(usual.get(key, Parameter.empty), value)}
    return Outside(known, actions, numbers, draws, changed)


def check_imported(name: str, allowed: Collection[str] = ()) -> None:
    """Raise if a name from a file has a module imported, and so run, that the user neither imported nor allowed."""
    module = name.removeprefix(PREFIX).rpartition(":")[0] if name.startswith(PREFIX) else ""
    if module and module not in {*sys.modules, *allowed, *os.environ.get(ALLOWED, "").split(",")}:
        raise ValueError(
            f"a file can't have modules imported; this one asks for {module!r:.100}: if you trust it, import it first, or set "
            f"{ALLOWED}={module:.100}"
        )


def accepted_settings(name: str) -> list[str] | None:
    """The settings that ``gym:ID`` takes; None: any."""
    return _accepted(name.removeprefix(PREFIX))[0]


def _accepted(known: str) -> tuple[list[str] | None, dict[str, Any]]:
    """The names of settings (None: any), and the usual values of those that have one."""
    module, _, registered = known.rpartition(":")
    if module:
        _asked(known, lambda: _imported(module))
    spec = _asked(known, lambda: gym.spec(registered))
    entry = spec.entry_point
    creator = _asked(known, lambda: gym.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry)
    parameters = signature(creator).parameters if creator is not None else {}
    usual = {key: one.default for key, one in parameters.items() if one.default is not Parameter.empty}
    usual |= {_OWN: spec.max_episode_steps, **spec.kwargs}
    if creator is None or any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values()):
        return None, usual
    return [*(key for key in parameters if key != "render_mode"), _OWN], usual


def _imported(module: str) -> None:
    """Import a module that the user named, from the current folder if it is nowhere else.

    The folder then stays last on `sys.path`, so it shadows nothing.
    Workers get it too (see `machine.started`).
    """
    top = module.partition(".")[0]
    here = Path.cwd()
    is_here = (here / top).is_dir() or (here / f"{top}.py").is_file()
    if is_here and top not in sys.modules and find_spec(top) is None:
        sys.path.append(str(here))
        invalidate_caches()
    import_module(module)


def _made(known: str, settings: dict[str, Any]) -> gym.Env:
    with same_signals():
        return _asked(known, lambda: gym.make(known, **settings), settings)


def _asked(known: str, ask: Any, settings: dict[str, Any] | None = None) -> Any:
    """What Gymnasium answers, or its error as one of ours."""
    from deadtime.envs import nearest  # noqa: PLC0415  (it imports this module)

    try:
        return ask()
    except (error.UnregisteredEnv, error.DeprecatedEnv) as problem:
        raise ValueError(
            f"Gymnasium knows no environment {known!r}{nearest(known, gym.registry)} ({problem}): choose one of "
            "gymnasium.registry, or write gym:MODULE:ID for one that MODULE registers"
        ) from problem
    except (error.DependencyNotInstalled, ImportError) as problem:
        why = f"gym:{known} needs what can't be imported ({problem})"
        raise ValueError(f"{why}: install it, or go to its folder") from problem
    except (error.Error, TypeError, ValueError, AssertionError) as problem:
        raise ValueError(
            f"Gymnasium can't make {known!r} with {settings or 'no settings'} ({problem}): give it an id and settings that "
            "gymnasium.make takes"
        ) from problem


def _plain(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as a record can hold them."""
    if "render_mode" in settings:
        raise ValueError(
            f"training draws nothing; got render_mode={settings['render_mode']!r} for {name}: leave it out, `watch` sets it"
        )
    try:
        return json.loads(json.dumps(settings))
    except TypeError as problem:
        raise ValueError(
            f"settings of a run are numbers, words, lists and dicts, so that a record can hold them; got {settings} for "
            f"{name} ({problem}): register the environment with it under an id of its own"
        ) from problem


def _check_spaces(name: str, env: gym.Env) -> None:
    actions, seen = env.action_space, env.observation_space
    if not isinstance(actions, spaces.Discrete):
        raise ValueError(
            f"the agents choose among numbered actions (Discrete); those of {name} are {actions}: wrap it so that they are"
        )
    if actions.start != 0:
        raise ValueError(
            f"actions are numbered from 0; those of {name} are {actions}: wrap it in gymnasium.wrappers.TransformAction"
        )
    if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
        given = f"the agents take observations of one axis (Box); those of {name} are {seen}"
        if isinstance(seen, spaces.Box) and np.prod(seen.shape) > _MOST_FLATTENED:
            raise ValueError(
                f"{given}, and images are supported only as frames of Atari: choose an environment "
                "that gives numbers, or atari:NAME"
            )
        raise ValueError(f"{given}: wrap it, for example in gymnasium.wrappers.FlattenObservation")
