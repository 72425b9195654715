"""Checks of a spec's settings: those of its environment and those of its learner.

A user's spec is checked against its environment. Of a record's spec only the form is checked:
nothing that it names is imported, made or downloaded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from deadtime.delays import DelayProcess, from_json
from deadtime.delays.waits import OBSERVED
from deadtime.envs.families import family_of


def check_recorded(env: str, settings: object) -> None:
    """Raise if the name of a record's environment is malformed, or if its settings are no table."""
    family_of(env).check_name(env)
    if not isinstance(settings, dict):
        raise ValueError(
            f"settings are a table of names and values; got {settings!r:.100}: train it again"
        )
    json.dumps(settings)


def differing(environment: object, usual: object, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in which `environment` differs from the usual one."""
    given = {name: getattr(environment, name, settings[name]) for name in sorted(settings)}
    return {name: value for name, value in given.items() if value != getattr(usual, name, None)}


def read_process(process: object) -> DelayProcess | None:
    """Return the delay process of a spec, which may be JSON; None for a constant delay."""
    found = from_json(process) if isinstance(process, Mapping) else process
    if found is not None and not isinstance(found, DelayProcess):
        raise ValueError(
            f"process is a delay process; got {process!r}: pass one of deadtime.delays"
        )
    return found


def check_observed(observed: object) -> None:
    """Raise if a spec does not say when the agent learns the age of a step."""
    if observed not in OBSERVED:
        raise ValueError(
            f'observed is "now", "hindsight" or "never"; got {observed!r}: '
            'pass "now" for an agent that knows the age before it chooses'
        )


def check_endless(process: DelayProcess) -> None:
    """Raise if a delay process has an end, since training has none."""
    if not process.chain.endless:
        raise ValueError(
            "training needs a delay without an end; got a trace of "
            f"{process.chain.size} steps: pass Trace(…, repeat=True)"
        )


def check_executed(delay: int, limit: int) -> None:
    """Raise if episodes of at most `limit` steps are over before the first decision is executed."""
    if delay >= limit:
        raise ValueError(
            f"an episode has at most {limit} steps, so with a delay of {delay} no decision is ever "
            f"executed: pass a delay below {limit}"
        )


_RANGES: dict[str, tuple[float, float]] = {
    "learning_rate": (0.0, math.inf),
    "learning_rate_fall": (0.0, 1.0),
    "adam_epsilon": (0.0, 1.0),
    "gamma": (0.0, 1.0),
    "tau": (0.0, 1.0),
    "epsilon_decay": (0.0, 1.0),
    "epsilon_floor": (0.0, 1.0),
    "exploration": (0.0, 1.0),
}
"""The least and the largest value of a setting."""
_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number, 1 or more",
    float: "a number",
    tuple: "a list of whole numbers, 1 or more each and at least one",
    str: "a word",
}
"""The types of settings, in words."""
_FROM_ZERO = ("target_period_updates", "skipped_delays", "learning_starts", "random_steps")
"""The whole numbers that may be 0."""


def like(usual: Any, name: str, value: Any) -> Any:
    """Return a learner's setting with the type of the preset's value `usual`, or raise."""
    kind = type(usual)
    if not _has_kind(kind, name, value):
        raise ValueError(f"{name} is {_KINDS[kind]}; got {value!r}: its preset has {usual!r}")
    low, high = _RANGES.get(name, (-math.inf, math.inf))
    if name in _RANGES and not low <= value <= high:
        raise ValueError(
            f"{name} lies from {low:g} to {high:g}; got {value!r}: its preset has {usual!r}"
        )
    return kind(value)


def _has_kind(kind: type, name: str, value: object) -> bool:
    """Return whether a value can be converted to the type of a setting."""
    if kind is tuple:
        if not isinstance(value, list | tuple) or not all(type(one) is int for one in value):
            return False
        return bool(value) and min(value) > 0
    if kind not in (int, float):
        return isinstance(value, kind)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    least = 0 if name in _FROM_ZERO else 1
    return kind is float or (value == int(value) and value >= least)


def plain(value: object) -> Any:
    """Return a setting as JSON holds it, with every number as a float."""
    if isinstance(value, tuple | list):
        return list(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
