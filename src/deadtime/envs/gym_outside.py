"""Descriptions of Gymnasium environments: their ids, sizes and settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import error, spaces

from deadtime._support.ending import same_signals
from deadtime._support.names import nearest
from deadtime._support.timeouts import step_timeout
from deadtime.envs.gym_adapted import adapted
from deadtime.envs.gym_frames import is_frames
from deadtime.envs.gym_given import Copies, is_given, origin, unknown_given
from deadtime.envs.gym_spaces import Bounds, check_spaces
from deadtime.envs.opengl import opengl_remedy
from deadtime.envs.timed import TimedEnv
from deadtime.runtime.frame_layers import FRAMES

T = TypeVar("T")
PREFIX = "gym:"
TIME_LIMIT = "max_episode_steps"
"""The setting that `gymnasium.make` takes itself."""
LONGEST_EPISODE = 10_000
"""The step limit of an episode if the environment has no time limit."""
_READ: dict[tuple[str, str], tuple[Any, Any]] = {}
"""The descriptions read so far, each with the registered spec that it was read from."""


@dataclass(frozen=True)
class Outside:
    """The description of a Gymnasium environment: its id, sizes and settings."""

    id: str
    num_actions: int
    """The number of actions; 0 if actions are real vectors."""
    numbers: int
    """The length of an observation; 0 if observations are frames."""
    draws: bool
    """Whether the environment renders pictures."""
    bounds: Bounds | None = None
    """The shape and the bounds of real actions; None if actions are numbered."""
    settings: dict[str, Any] = field(hash=False, default_factory=dict)
    """The settings that differ from the environment's defaults."""
    limit: int | None = None
    """The time limit of an episode; None if there is none."""
    seen_and_done: tuple[str, str] = ("", "")
    """The spaces of observations and of actions, as text."""

    default_params = ()
    """Empty: a compiled program passes no parameters."""

    def action_space(self, params: object = None) -> spaces.Discrete | spaces.Box:
        """Return the space of one action."""
        return spaces.Discrete(self.num_actions) if self.bounds is None else self.bounds.space

    def observation_space(self, params: object = None) -> spaces.Box | spaces.Discrete:
        """Return the space of one observation, as the learner sees it."""
        if not self.numbers:
            return spaces.Box(0, 255, FRAMES, np.uint8)
        return spaces.Box(-float("inf"), float("inf"), (self.numbers,))

    def provenance(self) -> dict[str, str]:
        """Return what a record says about the environment: what made it, and its spaces."""
        observations, actions = self.seen_and_done
        about = origin(gym.spec(self.id.rpartition(":")[2]))
        return about | {"observation_space": observations, "action_space": actions}

    def make(self, render_mode: str | None = None) -> gym.Env:
        """Make the environment; if steps have a timeout, it runs in a thread of its own."""
        seconds = step_timeout()
        rendering = {} if render_mode is None else {"render_mode": render_mode}
        settings = {**self.settings, **rendering}
        if seconds is None:
            return self.shown(_as_registered(self.id, settings))
        return TimedEnv(
            lambda: self.shown(_as_registered(self.id, settings)), f"{PREFIX}{self.id}", seconds
        )

    def shown(self, env: gym.Env) -> gym.Env:
        """Return the environment with the observations and actions that its agents take."""
        return adapted(env)


class Common(TypedDict):
    """The fields that every description has."""

    id: str
    draws: bool
    settings: dict[str, Any]
    limit: int | None
    seen_and_done: tuple[str, str]


def outside(name: str, settings: dict[str, Any]) -> Outside:
    """Return the description of ``gym:ID``; make the environment once to read it."""
    return read_once(name, settings, PREFIX, _read)


def read_once(
    name: str, settings: dict[str, Any], prefix: str, read: Callable[[gym.Env, Common], T]
) -> T:
    """Return what `read` finds in an environment, which is made once and closed.

    `name` is an id after `prefix`. `read` also gets what all descriptions have in common.
    """
    plain = _plain(name, settings)
    key = name, json.dumps(plain, sort_keys=True)
    registered = gym.registry.get(name.rpartition(":")[2])
    if key not in _READ or _READ[key][0] is not registered:
        found = _found(name, plain, prefix, read)
        _READ[key] = gym.registry[name.rpartition(":")[2]], found
    return _READ[key][1]


def _found(
    name: str, plain: dict[str, Any], prefix: str, read: Callable[[gym.Env, Common], T]
) -> T:
    known = name.removeprefix(prefix)
    accepted, usual = accepted_settings(known)
    for setting in plain:
        if accepted is not None and setting not in accepted:
            raise ValueError(f"{name} has no setting {setting!r}: it takes {', '.join(accepted)}")
    changed = {
        key: value
        for key, value in plain.items()
        if not np.array_equal(usual.get(key, Parameter.empty), value)
    }
    env = _as_registered(known, plain)
    try:
        draws = "rgb_array" in env.metadata.get("render_modes", [])
        limit = None if env.spec is None else env.spec.max_episode_steps
        common: Common = {
            "id": known,
            "draws": draws and (not is_given(known) or _renders(known, env)),
            "settings": changed,
            "limit": limit,
            "seen_and_done": (str(env.observation_space), str(env.action_space)),
        }
        return read(env, common)
    finally:
        env.close()


def _read(env: gym.Env, common: Common) -> Outside:
    check_spaces(f"{PREFIX}{common['id']}", env)
    env = adapted(env)
    actions = int(getattr(env.action_space, "n", 0))
    box = env.action_space
    bounds = Bounds.of(box) if isinstance(box, spaces.Box) else None
    seen: Any = env.observation_space
    numbers = 0 if is_frames(seen) else int(seen.shape[0])
    return Outside(num_actions=actions, numbers=numbers, bounds=bounds, **common)


def _renders(known: str, env: gym.Env) -> bool:
    """Return whether a function takes `render_mode`, or an instance already renders arrays."""
    entry: Any = gym.spec(known).entry_point
    own = env.render_mode == "rgb_array"
    return own if isinstance(entry, Copies) else "render_mode" in signature(entry).parameters


def accepted_settings(known: str) -> tuple[list[str] | None, dict[str, Any]]:
    """Return the names of settings (None for any name), and the default values."""
    module, _, registered = known.rpartition(":")
    if module:
        _check_not_hidden(module)
        _asked(known, lambda: _imported(module))
    spec = _asked(known, lambda: gym.spec(registered))
    entry = spec.entry_point
    creator = _asked(
        known,
        lambda: gym.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry,
    )
    parameters = _asked(known, lambda: signature(creator)).parameters if creator else {}
    usual = {
        key: one.default for key, one in parameters.items() if one.default is not Parameter.empty
    }
    usual |= {TIME_LIMIT: spec.max_episode_steps, **spec.kwargs}
    if creator is None or any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values()):
        return None, usual
    return [*(key for key in parameters if key != "render_mode"), TIME_LIMIT], usual


def _imported(module: str) -> None:
    """Import a module that the user named, from the current folder if it is not installed.

    The folder then stays last on `sys.path`, so it hides no other module. Worker processes get it
    too (see `machine.started`).
    """
    top = module.partition(".")[0]
    here = Path.cwd()
    is_here = (here / top).is_dir() or (here / f"{top}.py").is_file()
    if is_here and top not in sys.modules and find_spec(top) is None:
        sys.path.append(str(here))
        invalidate_caches()
    import_module(module)


def _check_not_hidden(module: str) -> None:
    """Raise if an installed module hides one of the same name in the current folder."""
    top = module.partition(".")[0]
    files = Path.cwd() / f"{top}.py", Path.cwd() / top / "__init__.py"
    mine = [file.resolve() for file in files if file.is_file()]
    found = find_spec(top) if mine and top not in sys.modules else None
    if found is not None and found.origin and Path(found.origin).resolve() not in mine:
        raise ValueError(
            f"{PREFIX}{module}:ID imports {module}; {found.origin} hides {mine[0]}, which python "
            "script.py would import: give your module another name, or set PYTHONPATH=."
        )


def _as_registered(known: str, settings: dict[str, Any]) -> gym.Env:
    with same_signals():
        return _asked(known, lambda: gym.make(known, **settings), settings)


def _asked(known: str, ask: Callable[[], T], settings: dict[str, Any] | None = None) -> T:
    """Return the result of a call of Gymnasium; turn its errors into ValueError with a remedy."""
    try:
        return ask()
    except (error.UnregisteredEnv, error.DeprecatedEnv) as problem:
        if is_given(known):
            raise unknown_given(known) from problem
        raise ValueError(
            f"Gymnasium has no environment {known!r}{nearest(known, gym.registry)} ({problem}): "
            "choose one of gymnasium.registry, or write gym:MODULE:ID for one that MODULE registers"
        ) from problem
    except (error.DependencyNotInstalled, ImportError) as problem:
        why = f"gym:{known} needs a module that can't be imported ({problem})"
        raise ValueError(
            f"{why}: install the module, or run the command in its folder"
        ) from problem
    except (error.Error, TypeError, ValueError, AssertionError) as problem:
        raise ValueError(
            f"Gymnasium can't make {known!r} with {settings or 'no settings'} ({problem}): "
            "pass an id and settings that gymnasium.make takes"
        ) from problem
    except Exception as problem:
        remedy = opengl_remedy(problem)
        if remedy is None:
            raise
        raise ValueError(f"gym:{known} can't be imported ({problem}): {remedy}") from problem


def _plain(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as JSON data, which a record can hold."""
    if "render_mode" in settings:
        raise ValueError(
            f"training renders nothing; got render_mode={settings['render_mode']!r} for {name}: "
            "leave it out, `watch` sets it"
        )
    try:
        return json.loads(json.dumps(settings))
    except TypeError as problem:
        raise ValueError(
            "settings of a run are numbers, strings, lists and dicts, so that a record can hold "
            f"them; got {settings} for {name} ({problem}): register the environment with this "
            "setting under an id of its own"
        ) from problem
