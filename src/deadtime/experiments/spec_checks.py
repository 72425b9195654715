"""Checks of what a spec says: the settings of its environment and of its learner.

A spec that a user makes is checked against its environment. A spec that a record holds is data, and only its form is
checked: nothing that it names is imported, made or downloaded.
"""

from __future__ import annotations

import json
import math
import re
from importlib import import_module
from typing import Any

import gymnasium as gym

from deadtime.envs import FUNCTIONAL, check_options, make
from deadtime.envs.outside import ATARI, PREFIX, Outside

GYMNAX = "gymnax:"
LONGEST_EPISODE = 10_000
"""Steps after which an episode of ``gym:ID`` is cut off in evaluation if the environment has no time limit of its own."""
_FORMS = {PREFIX: r"([\w.]+:)?([\w:-]+/)?[\w:.-]+", GYMNAX: r"[\w.-]+"}
"""Names of environments that are not ours, as records may have them."""


def own_environment(env: str, settings: dict[str, Any]) -> Any:
    """Return one of our environments, or an Atari game, as the data that describes it; None for gym:ID and gymnax:NAME.

    The settings are checked, and nothing is built: no maze is carved and no emulator is started.
    """
    if env.startswith(ATARI):
        return import_module("deadtime.envs.atari").named(env, settings)
    if env not in FUNCTIONAL:
        return None
    check_options(env, settings, set())
    where, usual = FUNCTIONAL[env]
    module, _, kind = where.partition(":")
    return getattr(import_module(f"deadtime.envs.{module}"), kind)(**{**usual, **settings})


def made(env: str, settings: dict[str, Any]) -> Any:
    """Return an environment by name, or raise an error of ours if it can't be made."""
    try:
        return make(env, **settings)
    except (ValueError, ImportError):
        raise
    except Exception as error:  # gymnax checks little of what it is given, each environment in its own way
        raise ValueError(
            f"{env} can't be made with {settings or 'no settings'} ({error!r:.200}): give it settings that it takes"
        ) from error


def check_recorded(env: str, settings: Any) -> None:
    """Raise if a record's environment has no name of the right form, or if its settings are not plain data."""
    for prefix, form in _FORMS.items():
        if env.startswith(prefix) and not re.fullmatch(form, env.removeprefix(prefix)):
            raise ValueError(f"an environment's name is a word such as gym:CartPole-v1; got {env!r:.100}: train it again")
    if not isinstance(settings, dict):
        raise ValueError(f"settings are a table of names and values; got {settings!r:.100}: train it again")
    json.dumps(settings)


def differing(environment: Any, usual: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, as the environment has them, in which it differs from the usual one."""
    given = {name: getattr(environment, name, settings[name]) for name in sorted(settings)}
    return {name: value for name, value in given.items() if value != getattr(usual, name, None)}


def longest_episode(environment: Any) -> int:
    """Return the most steps that an evaluated episode of a deep agent can have."""
    if isinstance(environment, Outside):
        usual = gym.spec(environment.id.rpartition(":")[2]).max_episode_steps
        limit = environment.settings.get("max_episode_steps", usual)
        return limit if limit is not None and limit > 0 else LONGEST_EPISODE
    usual = getattr(environment, "max_episode_steps", 500)
    return int(getattr(environment.default_params, "max_steps_in_episode", usual))


def check_executed(delay: int, limit: int) -> None:
    """Raise if episodes of at most `limit` steps are over before the first decision is executed."""
    if delay >= limit:
        raise ValueError(
            f"an episode has at most {limit} steps, so with a delay of {delay} no decision is ever executed: "
            f"pass a delay below {limit}"
        )


_RANGES = {
    "learning_rate": (0.0, math.inf),
    "learning_rate_fall": (0.0, 1.0),
    "adam_epsilon": (0.0, 1.0),
    "discount": (0.0, 1.0),
    "target_rate": (0.0, 1.0),
    "epsilon_decay": (0.0, 1.0),
    "epsilon_floor": (0.0, 1.0),
    "exploration": (0.0, 1.0),
}


def like(usual: Any, name: str, value: Any) -> Any:
    """Return a learner's setting as the type that its preset has, or raise."""
    kinds = {
        bool: "true or false",
        int: "a whole number, 1 or more",
        float: "a number",
        tuple: "a list of whole numbers, 1 or more each and at least one",
        str: "a word",
    }
    kind = type(usual)
    if kind is tuple:
        good = isinstance(value, list | tuple) and value and all(type(one) is int and one > 0 for one in value)
    elif kind is int:
        least = 0 if name in ("target_period_updates", "skipped_delays", "learning_starts") else 1
        good = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
        good = good and value == int(value) and value >= least
    elif kind is float:
        good = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
    else:
        good = isinstance(value, kind)
    if good and name in _RANGES and not _RANGES[name][0] <= value <= _RANGES[name][1]:
        low, high = _RANGES[name]
        raise ValueError(f"{name} lies from {low:g} to {high:g}; got {value!r}: its preset has {usual!r}")
    if not good:
        raise ValueError(f"{name} is {kinds[kind]}; got {value!r}: its preset has {usual!r}")
    return kind(value)


def plain(value: Any) -> Any:
    """Return a setting as JSON has it, with all numbers of one kind."""
    if isinstance(value, tuple | list):
        return list(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
