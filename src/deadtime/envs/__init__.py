"""Environments by name: deadtime's own, and those of gymnax, Gymnasium and Atari.

`make` returns an environment by name. `Acrobot`, `CartPole`, `Maze` and `Walk` are the classes of
deadtime's own environments, pure functions that follow the protocol `Environment`. `delayed` puts a
delay on such an environment. They need JAX, so they are imported on first use.

A `Family` is a kind of environment. A family whose environments run outside compiled programs uses
`Lane`, `Played`, `Pool` and `LocalPool`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from deadtime.envs.families import FAMILIES, environment_names, family_of, make, register
from deadtime.envs.family import Family
from deadtime.envs.pools import Lane, LocalPool, Played, Pool

if TYPE_CHECKING:
    from deadtime.envs.acrobot import Acrobot
    from deadtime.envs.cartpole import CartPole
    from deadtime.envs.functional import Environment, delayed
    from deadtime.envs.maze import Maze
    from deadtime.envs.walk import Walk

__all__ = [
    "FAMILIES",
    "Acrobot",
    "CartPole",
    "Environment",
    "Family",
    "Lane",
    "LocalPool",
    "Maze",
    "Played",
    "Pool",
    "Walk",
    "delayed",
    "environment_names",
    "family_of",
    "make",
    "register",
]
_LAZY = {
    "Acrobot": "acrobot",
    "CartPole": "cartpole",
    "Environment": "functional",
    "Maze": "maze",
    "Walk": "walk",
    "delayed": "functional",
}
"""The modules of names that need JAX."""


def __getattr__(name: str) -> object:
    """Import a name that needs JAX on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from deadtime._support.extras import extras_needed  # noqa: PLC0415

    with extras_needed("learn"):
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return __all__
