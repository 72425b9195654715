"""The family `gym:ID`: Gymnasium environments with observations of numbers or of images.

These environments run outside compiled programs and can't be copied, so no agent looks ahead.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from deadtime._support.machine import cores
from deadtime.delays import Delay
from deadtime.envs.family import ActionKind, Arrows, Draw, Family, Loop, ObservationKind
from deadtime.envs.gym_given import is_given
from deadtime.envs.gym_outside import (
    LONGEST_EPISODE,
    PREFIX,
    Outside,
    accepted_settings,
    outside,
)
from deadtime.envs.local_pool import LocalPool
from deadtime.envs.pools import Lane, Pool
from deadtime.envs.process_pool import ProcessPool
from deadtime.wrappers.scalar import ActionDelay

_FORM = r"([\w.]+:)?([\w:-]+/)?[\w:.-]+"
"""The form of an id in a record, after the prefix."""
ALLOWED = "DEADTIME_IMPORT"
"""The environment variable with the modules that records may import, separated by commas."""
_STUDIES = "deadtime.studies."
_LEAST_IN_PROCESSES = 8
"""The number of environments from which a pool runs in worker processes."""


def local_pool(
    name: str, specs: Collection[EnvSpec], lanes: Sequence[Lane], capacity: int = 0
) -> LocalPool:
    """Return a pool of lanes in this process, after registering `specs` that are missing."""
    for spec in specs:
        gym.registry.setdefault(spec.id, spec)
    envs = [ActionDelay(lane.environment.make(), lane.delay) for lane in lanes]
    return LocalPool(envs, [lane.seed for lane in lanes], name, capacity)


class GymFamily(Family[Outside]):
    """Environments of Gymnasium, and of a module that registers its own: ``gym:MODULE:ID``."""

    name = "gym"
    loop: ClassVar[Loop] = "host"
    prefix = PREFIX
    word = "ID"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("numbered", "box")
    observation_kinds: ClassVar[tuple[ObservationKind, ...]] = ("numbers", "frames")
    most_drawn = 1000

    def setting_names(self, name: str) -> list[str] | None:
        """Return the arguments that `gymnasium.make` takes for an id; None for any name."""
        return accepted_settings(name.removeprefix(self.prefix))[0]

    def make(self, name: str, settings: dict[str, Any]) -> Outside:
        """Return the description of an environment; it is made once to read it, then closed."""
        return outside(name, settings)

    def check_name(self, name: str) -> None:
        """Raise if an id from a record has the wrong form."""
        if not re.fullmatch(_FORM, name.removeprefix(self.prefix)):
            raise ValueError(
                f"an environment's name is a word such as {self.prefix}CartPole-v1; got "
                f"{name!r:.100}: "
                "train it again"
            )

    def check_import(self, name: str, allowed: Collection[str] = ()) -> None:
        """Raise if a name from a file needs a module that the user neither imported nor allowed.

        Modules of this library's studies, which only register environments, may be imported.
        """
        module = name.removeprefix(self.prefix).rpartition(":")[0]
        if module.startswith(_STUDIES):
            return
        if module and module not in {
            *sys.modules,
            *allowed,
            *os.environ.get(ALLOWED, "").split(","),
        }:
            raise ValueError(
                "a file can't import modules by itself; this one needs "
                f"{module!r:.100}: if you trust it, import it first, or set {ALLOWED}={module:.100}"
            )

    def longest_episode(self, environment: Outside) -> int:
        """Return the time limit, or `LONGEST_EPISODE` if there is none."""
        return environment.limit or LONGEST_EPISODE

    def gymnasium_form(
        self,
        environment: Outside,
        delay: Delay,
        policy: object = None,
        render_mode: str | None = None,
    ) -> gym.Env:
        """Return the environment under a delay and with a time limit."""
        env = environment.make(render_mode)
        limited = env.spec is not None and env.spec.max_episode_steps is not None
        observed: Any = getattr(policy, "observed", "now")
        limited_env = env if limited else gym.wrappers.TimeLimit(env, LONGEST_EPISODE)
        return ActionDelay(limited_env, delay, observed=observed)

    def provenance(self, environment: Outside) -> dict[str, str]:
        """Return what made the environment, and its spaces."""
        return environment.provenance()

    def check_processes(self, name: str) -> None:
        """Raise if `name` stands for a function or an instance, which this process alone has."""
        if is_given(name.removeprefix(self.prefix)):
            raise ValueError(
                f"other processes get runs as data, which can't hold the environment {name}: "
                'train it in this process, Where(engine="inline"), or register it with Gymnasium '
                f"in a module, and pass {self.prefix}MODULE:ID"
            )

    def pool(self, lanes: Sequence[Lane], name: str) -> Pool:
        """Make one environment per lane, each under its delay: here, or in worker processes."""
        if cores() == 1 or len(lanes) < _LEAST_IN_PROCESSES:
            return local_pool(name, (), lanes)
        ids = {lane.environment.id.rpartition(":")[2] for lane in lanes}
        specs = [gym.registry[one] for one in sorted(ids)]
        return ProcessPool(lanes, partial(local_pool, name, specs), name)

    def can_draw(self, environment: Outside) -> bool:
        """Return whether the environment renders pictures."""
        return environment.draws

    def scene(self, environment: Outside, env: gym.Env) -> tuple[Draw, Arrows]:
        """Return a function that renders the environment; actions are shown as numbers."""
        from deadtime.envs import scenes  # noqa: PLC0415  (Pillow)

        return scenes.rendered(env)
