"""Functions that make specs from names and from records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deadtime.delays import DelayProcess, as_delay
from deadtime.envs.families import family_of
from deadtime.runs.deep_specs import DeepSpec, deep_spec
from deadtime.runs.record import Record
from deadtime.runs.tabular_specs import TabularSpec, tabular_from, tabular_spec

Spec = TabularSpec | DeepSpec


def make_spec(
    env: str,
    agent: str,
    delay: int | str | DelayProcess,
    options: dict[str, Any],
    env_kwargs: Mapping[str, Any] | None = None,
) -> Spec:
    """Return the spec of a run, tabular if the environment is for tabular agents, else deep."""
    channel = as_delay(delay)
    if family_of(env).loop != "tabular":
        return deep_spec(env, agent, channel, options, env_kwargs)
    return tabular_spec(env, agent, channel, options, env_kwargs)


def from_canonical(content: dict[str, Any]) -> Spec:
    """Return the spec of a record after a check of its form; no environment is made.

    Before such a spec is run, `dataclasses.replace(spec)` checks it against its environment.
    """
    given = {name: value for name, value in content.items() if name != "kind"}
    try:
        if content.get("kind") == "deep":
            return DeepSpec(**given, recorded=True)
        return tabular_from(given)
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        rule = f"a record holds the spec of its run; got {content!r:.200} ({error!r:.100})"
        raise ValueError(f"{rule}: train it again") from error


def folder_of(record: Record) -> str:
    """Return the name of a record's folder, with the id that the record states."""
    return f"{from_canonical(record.spec).name.rpartition('-')[0]}-{record.id}"
