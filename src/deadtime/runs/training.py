"""`deadtime.train`: from an environment and the name of an agent to a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from deadtime._support.progress import bar
from deadtime.delays import DelayProcess
from deadtime.envs.gym_given import Given
from deadtime.runs.record import joined
from deadtime.runs.result import Result
from deadtime.runs.specs import Spec, make_spec
from deadtime.runs.tabular_specs import TabularSpec, check_seeds
from deadtime.runs.units import Keep, Unit, trained


def train(
    env: Given,
    agent: str = "delayed",
    delay: int | str | DelayProcess = 0,
    seeds: int | Sequence[int] = 1,
    *,
    observation_delay: int | str | DelayProcess = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    **options: object,
) -> Result:
    """Train an agent under a delay; `seeds` is a number or a list.

    `env` is a name such as "maze", an id of Gymnasium, a function that makes an environment, or an
    instance that can be copied. A record names a function by its qualified name and by a
    fingerprint of its code and of the values that it holds.

    `delay` is a number of steps or a process of `deadtime.delays`, such as ``Uniform(2, 6)``.
    Agents can be trained under a process, except on frames.
    `observation_delay` is the delay of what the agent sees. It is added to the delay of actions.
    That is equivalent if both are constant, or drawn once per episode (`PerEpisode`).
    `observed` says when an agent that uses ages learns the age of a step: "now", before it
    chooses, "hindsight", one step later, or "never".

    Options are those of the run (`episodes` and `observed`, or `preset` and `steps`), of the
    learner (`gamma`, `learning_rate`, …) and the environment's own (`size`, `noise`, …; for
    ``gym:ID`` any argument of `gymnasium.make`). The environment's own options may also be in
    `env_kwargs`, and must be if the training has a setting of the same name. `deadtime train` takes
    the same arguments.
    """
    late = options | {"observation_delay": observation_delay}
    spec = make_spec(env, agent, delay, late, env_kwargs)
    return train_spec(spec, check_seeds(seeds))


def train_spec(spec: Spec, chosen: tuple[int, ...]) -> Result:
    """Train the chosen seeds of a run, and keep their policies."""
    unit = Unit(tuple((spec, seed) for seed in chosen), keep=Keep(chosen))
    steps = "episodes" if isinstance(spec, TabularSpec) else "steps"
    with bar(f"{spec.env} {spec.agent} {spec.delay_text}", unit.work, steps) as advance:
        return Result(reduce(joined, trained(unit, None, advance)))
