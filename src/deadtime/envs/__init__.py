"""Environments by name: the paper's own as pure functions, gymnax's through the extra, Gymnasium's by registration."""

from __future__ import annotations

import json
from collections.abc import Collection
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

import gymnasium

from deadtime.envs.outside import ATARI, PREFIX, accepted_settings, outside

FUNCTIONAL: dict[str, tuple[str, dict[str, Any]]] = {
    "maze": ("maze:Maze", {}),
    "noisy-maze": ("maze:Maze", {"noise": 0.1}),
    "walk": ("walk:Walk", {}),
    "cartpole": ("cartpole:CartPole", {}),
    "noisy-cartpole": ("cartpole:CartPole", {"noise": 0.1}),
    "acrobot": ("acrobot:Acrobot", {}),
    "noisy-acrobot": ("acrobot:Acrobot", {"noise": 0.1}),
}
_ANY_GYM = f"{PREFIX}ID"
"""What lists of environments say for all of Gymnasium's."""
_SYNONYMS = (
    ("steps", "episodes"),
    ("gamma", "discount"),
    ("lr", "alpha", "step_size", "learning_rate"),
    ("eps", "epsilon", "epsilon_floor"),
    ("batch_size", "batch"),
    ("buffer_size", "replay_transitions"),
    ("tau", "target_rate"),
)
"""Names of one thing, here or elsewhere."""


def make(name: str, **settings: Any) -> Any:
    """An environment by name: a functional one of `FUNCTIONAL` or ``gymnax:NAME``; ``gym:ID``, ``atari:NAME`` stay outside."""
    if name.startswith(PREFIX):
        return outside(name, settings)
    if name.startswith(ATARI):
        return _atari().named(name, settings)
    if name.startswith("gymnax:"):
        return _make_gymnax(name.removeprefix("gymnax:"), settings)
    if name not in FUNCTIONAL:
        names = [*FUNCTIONAL, "gymnax:NAME", _ANY_GYM, "atari:NAME"]
        hint, all_of_them = nearest(name, names), ", ".join(names)
        raise ValueError(f"no environment is called {name!r}{hint}: choose one of {all_of_them}")
    where, defaults = FUNCTIONAL[name]
    module, _, kind = where.partition(":")
    environment = getattr(import_module(f"deadtime.envs.{module}"), kind)
    known = list(signature(environment).parameters)
    for setting in settings:
        if setting not in known:
            raise ValueError(f"{name} has no setting {setting!r}{nearest(setting, known)}: it takes {', '.join(known)}")
    return environment(**{**defaults, **settings})


def _atari() -> Any:
    """Its module, which takes a while to load."""
    return import_module("deadtime.envs.atari")


def _make_gymnax(name: str, settings: dict[str, Any]) -> Any:
    for setting in {"noise", "perturb"} & set(settings):
        raise ValueError(
            f"{setting}={settings[setting]!r} was asked of gymnax:{name}, which has no masses to perturb here: "
            "leave it out, or use noisy-cartpole or noisy-acrobot"
        )
    try:
        gymnax = import_module("gymnax")
    except ImportError as error:
        raise ImportError(f"gymnax:{name} needs gymnax ({error}): pip install gymnax six") from error
    if name not in gymnax.registered_envs:
        raise ValueError(
            f"gymnax has no environment {name!r}{nearest(name, gymnax.registered_envs)}: see gymnax.registered_envs"
        )
    try:
        return _gymnax(name, json.dumps(settings, sort_keys=True))
    except TypeError as error:
        raise ValueError(f"gymnax:{name} can't be made with {settings} ({error}): give it settings that it takes") from None


@cache
def _gymnax(name: str, settings: str) -> Any:
    """One object for one environment: gymnax's compare by identity, and so would the programs compiled for them."""
    return import_module("gymnax").make(name, **json.loads(settings))[0]


def check_options(name: str, options: Any, others: set[str], known_elsewhere: Collection[str] = ()) -> None:
    """Refuse options that are neither the environment's own nor among `others`; those known elsewhere are left to others."""
    own: list[str] | None = None
    if name in FUNCTIONAL:
        module, _, kind = FUNCTIONAL[name][0].partition(":")
        own = list(signature(getattr(import_module(f"deadtime.envs.{module}"), kind)).parameters)
    elif name.startswith(PREFIX):
        own = accepted_settings(name)
    elif name.startswith(ATARI):
        own = list(_atari().SETTINGS)
    if own is not None:
        known = [*own, *sorted(others)]
        for option in options:
            if option not in known and option not in known_elsewhere:
                raise ValueError(f"{name} has no setting {option!r}{nearest(option, known)}: it takes {', '.join(known)}")


def nearest(name: str, names: Collection[str]) -> str:
    """Return a hint at the known name that means the same as an unknown one or is close to it.

    Where ``gym:ID`` is among the known names, so are Gymnasium's registered environments.
    """
    same = [one for group in _SYNONYMS if name in group for one in group if one in names]
    registered = [f"{PREFIX}{one}" for one in gymnasium.registry] if _ANY_GYM in names else []
    close = same or get_close_matches(name, [*names, *registered], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def register() -> None:
    """Make the environments known to `gymnasium.make`."""
    where = "deadtime.envs.registered"
    gymnasium.register("deadtime/Maze-v0", f"{where}:MazeEnv")
    gymnasium.register("deadtime/NoisyCartPole-v1", f"{where}:NoisyCartPoleEnv", max_episode_steps=500)
    gymnasium.register("deadtime/NoisyAcrobot-v1", f"{where}:NoisyAcrobotEnv", max_episode_steps=500)
