"""Functions that make specs from names and from records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deadtime.delays import DelayProcess, as_process
from deadtime.delays.equivalence import bridged
from deadtime.envs.families import environment_name, family_of
from deadtime.envs.gym_given import Given
from deadtime.runs.deep_specs import DeepSpec, deep_spec
from deadtime.runs.record import Record
from deadtime.runs.tabular_specs import TabularSpec, tabular_from, tabular_spec

Spec = TabularSpec | DeepSpec


def make_spec(
    env: Given,
    agent: str,
    delay: int | str | DelayProcess,
    options: dict[str, Any],
    env_kwargs: Mapping[str, Any] | None = None,
) -> Spec:
    """Return the spec of a run, tabular if the environment is for tabular agents, else deep.

    `env` is a name, an id of Gymnasium, a function that makes an environment, or an instance.
    The option `observation_delay` is added to the delay of actions, where that is equivalent.
    """
    env = environment_name(env)
    late = options.get("observation_delay", 0)
    options = {name: value for name, value in options.items() if name != "observation_delay"}
    channel = bridged(delay, late)
    if as_process(late).constant != 0 and isinstance(channel, DelayProcess):
        _check_observed(env, channel, options.get("observed", "now"))
    if family_of(env).loop != "tabular":
        return deep_spec(env, agent, channel, options, env_kwargs)
    return tabular_spec(env, agent, channel, options, env_kwargs)


def _check_observed(env: str, delay: DelayProcess, observed: str) -> None:
    """Raise unless the agent is tabular and sees the age of each episode before it chooses."""
    if family_of(env).loop != "tabular":
        raise ValueError(
            "deep agents are trained with late observations only if both delays are constant; "
            f"got {delay} as their sum: pass constant delays"
        )
    if observed != "now":
        raise ValueError(
            "late observations are trained as late actions if the agent sees the age of the "
            f"episode; got observed={observed!r} with {delay}: leave it out, or pass constant "
            "delays"
        )


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
