"""The registry of environment families, and functions that find environments by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from typing import Any

import gymnasium

from deadtime._support.extras import extras_needed
from deadtime._support.names import nearest
from deadtime.envs.acrobot_family import AcrobotFamily
from deadtime.envs.atari.family import AtariFamily
from deadtime.envs.cartpole_family import CartPoleFamily
from deadtime.envs.family import Family
from deadtime.envs.gym_family import GymFamily
from deadtime.envs.gym_given import Given, given_id
from deadtime.envs.gym_outside import PREFIX
from deadtime.envs.gymnax_family import GymnaxFamily
from deadtime.envs.maze_family import MazeFamily
from deadtime.envs.pendulum_family import PendulumFamily
from deadtime.envs.table_family import TableFamily
from deadtime.envs.walk_family import WalkFamily

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        MazeFamily(),
        WalkFamily(),
        CartPoleFamily(),
        AcrobotFamily(),
        PendulumFamily(),
        GymnaxFamily(),
        GymFamily(),
        TableFamily(),
        AtariFamily(),
    )
}
"""All families by name. Every command finds its environments here."""


_MODULE_ID = r"(\w+)[\w.]*:([\w:-]+/)?[\w.-]+-v\d+"
"""The form of an id with its module, as `gymnasium.make` takes it."""


def environment_names() -> tuple[str, ...]:
    """Return the environment names that help and messages show."""
    return tuple(name for family in FAMILIES.values() for name in family.shown)


def environment_name(env: object) -> str:
    """Return the name of an environment, which may be given in other ways.

    `env` is a name, an id of Gymnasium, a function that makes an environment, or an instance.
    """
    if not isinstance(env, str):
        return f"{PREFIX}{given_id(env)}"
    if any(family.owns(env) for family in FAMILIES.values()):
        return env
    named = re.fullmatch(_MODULE_ID, env)
    is_id = env in gymnasium.registry or (named and find_spec(named[1]) is not None)
    return f"{PREFIX}{env}" if is_id else env


def family_of(name: object) -> Family:
    """Return the family that owns an environment name; raise with the nearest name if none does."""
    for family in FAMILIES.values():
        if isinstance(name, str) and family.owns(name):
            return family
    known = environment_names()
    gym = FAMILIES["gym"]
    hint = nearest(str(name), [*known, *(f"{gym.prefix}{one}" for one in gymnasium.registry)])
    raise ValueError(
        f"no environment is called {name!r:.200}{hint}: choose one of {', '.join(known)}"
    )


def make(env: Given, /, env_kwargs: Mapping[str, Any] | None = None, **settings: object) -> Any:
    """Make an environment by name, or from an id, a function or an instance of Gymnasium.

    The environments of deadtime and gymnax are pure functions. For ``gym:ID`` and ``atari:NAME``
    the result describes an environment, which a pool starts. Pass the environment's own arguments
    by name or in `env_kwargs`.
    """
    name = environment_name(env)
    family = family_of(name)
    settings = environment_settings(name, settings, (), env_kwargs)
    try:
        with extras_needed():
            return family.make(name, settings)
    except (ValueError, ImportError):
        raise
    except Exception as error:  # each gymnax environment raises its own kind of error
        raise ValueError(
            f"{name} can't be made with {settings or 'no settings'} ({error!r:.200}): "
            "give it settings that it takes"
        ) from error


def check_options(
    name: str, options: Collection[str], others: set[str], elsewhere: Collection[str] = ()
) -> None:
    """Raise if an option is neither a setting of the environment nor among `others`.

    Options that are only known `elsewhere` are not checked here.
    """
    asked = {option: None for option in options if option not in elsewhere or option in others}
    family_of(name).check_settings(name, asked, others)


def environment_settings(
    name: str,
    options: Mapping[str, Any],
    training: Collection[str],
    env_kwargs: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the environment's own arguments, from `env_kwargs` and from `options`.

    `training` names the settings of the training. Raise if an option could be meant for both and
    `env_kwargs` does not hold the environment's value.
    """
    inside = {} if env_kwargs is None else env_kwargs
    if not isinstance(inside, Mapping) or not all(isinstance(key, str) for key in inside):
        raise ValueError(
            f"env_kwargs holds the environment's arguments by name; got {inside!r:.200}: "
            "pass a dict such as {'size': 10}"
        )
    own = {option: value for option, value in options.items() if option not in training}
    twice = sorted(own.keys() & inside.keys())
    if twice:
        raise ValueError(
            f"an argument of an environment is given once; got {twice[0]} in env_kwargs and "
            "outside it: leave one out"
        )
    if inside:
        family_of(name).check_settings(name, inside)
    shared = [option for option in options if option in training and option not in inside]
    for option in sorted({*shared} & {*(family_of(name).setting_names(name) or ())}):
        raise ValueError(
            f"{option} is a setting of the training and an argument of {name}; got "
            f"{option}={options[option]!r:.100}: pass the argument in env_kwargs "
            f"(--env-kwargs {option}=... on the command line), then {option} sets the training"
        )
    return {**own, **inside}


def register() -> None:
    """Register deadtime's environments with Gymnasium."""
    where = "deadtime.envs.registered"
    gymnasium.register("deadtime/Maze-v0", f"{where}:MazeEnv")
    gymnasium.register(
        "deadtime/NoisyCartPole-v1", f"{where}:NoisyCartPoleEnv", max_episode_steps=500
    )
    gymnasium.register(
        "deadtime/NoisyAcrobot-v1", f"{where}:NoisyAcrobotEnv", max_episode_steps=500
    )
    gymnasium.register(
        "deadtime/NoisyPendulum-v1", f"{where}:NoisyPendulumEnv", max_episode_steps=200
    )
