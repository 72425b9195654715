"""Checks of what a spec says: the settings of its environment and of its learner.

A spec that a user makes is checked against its environment. A spec that a record holds is data, and only its form is
checked: nothing that it names is imported, made or downloaded.
"""

from __future__ import annotations

import json
import math
from typing import Any

from deadtime.envs.families import family_of


def check_recorded(env: str, settings: Any) -> None:
    """Raise if a record's environment has no name of the right form, or if its settings are not plain data."""
    family_of(env).check_name(env)
    if not isinstance(settings, dict):
        raise ValueError(
            f"settings are a table of names and values; got {settings!r:.100}: train it again"
        )
    json.dumps(settings)


def differing(environment: Any, usual: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, as the environment has them, in which it differs from the usual one."""
    given = {name: getattr(environment, name, settings[name]) for name in sorted(settings)}
    return {name: value for name, value in given.items() if value != getattr(usual, name, None)}


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
    "gamma": (0.0, 1.0),
    "tau": (0.0, 1.0),
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
        good = (
            isinstance(value, list | tuple)
            and value
            and all(type(one) is int and one > 0 for one in value)
        )
    elif kind is int:
        least = 0 if name in ("target_period_updates", "skipped_delays", "learning_starts") else 1
        good = (
            not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
        )
        good = good and value == int(value) and value >= least
    elif kind is float:
        good = (
            not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
        )
    else:
        good = isinstance(value, kind)
    if good and name in _RANGES and not _RANGES[name][0] <= value <= _RANGES[name][1]:
        low, high = _RANGES[name]
        raise ValueError(
            f"{name} lies from {low:g} to {high:g}; got {value!r}: its preset has {usual!r}"
        )
    if not good:
        raise ValueError(f"{name} is {kinds[kind]}; got {value!r}: its preset has {usual!r}")
    return kind(value)


def plain(value: Any) -> Any:
    """Return a setting as JSON has it, with all numbers of one kind."""
    if isinstance(value, tuple | list):
        return list(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
