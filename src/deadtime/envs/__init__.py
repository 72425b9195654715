"""Environments by name: deadtime's own, and those of gymnax, Gymnasium and Atari.

`make` returns an environment by name. `Acrobot`, `CartPole`, `Maze`, `Pendulum` and `Walk` are the
classes of deadtime's own environments, pure functions that follow the protocol `Environment`.
`adapted` gives a Gymnasium environment the observations and actions that agents take. `delayed`
puts a delay on a functional environment. These names need JAX, so they are imported on first use.

A `Family` is a kind of environment. A family whose environments run outside compiled programs uses
`Lane`, `Played`, `Pool` and `LocalPool`.
"""

from typing import TYPE_CHECKING

from deadtime._support.lazy import lazy_names
from deadtime.envs.families import FAMILIES, environment_names, family_of, make, register
from deadtime.envs.family import Family
from deadtime.envs.gym_adapted import adapted
from deadtime.envs.local_pool import LocalPool
from deadtime.envs.pools import Lane, Played, Pool

if TYPE_CHECKING:
    from deadtime.envs.acrobot import Acrobot
    from deadtime.envs.cartpole import CartPole
    from deadtime.envs.functional import Environment, delayed
    from deadtime.envs.maze import Maze
    from deadtime.envs.pendulum import Pendulum
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
    "Pendulum",
    "Played",
    "Pool",
    "Walk",
    "adapted",
    "delayed",
    "environment_names",
    "family_of",
    "make",
    "register",
]
__getattr__ = lazy_names(
    __name__,
    {
        "Acrobot": "deadtime.envs.acrobot",
        "CartPole": "deadtime.envs.cartpole",
        "Environment": "deadtime.envs.functional",
        "Maze": "deadtime.envs.maze",
        "Pendulum": "deadtime.envs.pendulum",
        "Walk": "deadtime.envs.walk",
        "delayed": "deadtime.envs.functional",
    },
)
"""Names that need the extra `learn` are imported on first use."""


def __dir__() -> list[str]:
    return __all__
