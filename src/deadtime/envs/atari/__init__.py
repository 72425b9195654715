"""Atari games: emulators with a look-ahead, their pool of processes, the family `atari:NAME`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deadtime.envs.atari.games import Game
    from deadtime.envs.atari.gym_env import AtariEnv
    from deadtime.envs.atari.pool import AtariPool

__all__ = ["AtariEnv", "AtariPool", "Game"]
_LAZY = {"AtariEnv": "gym_env", "AtariPool": "pool", "Game": "games"}
"""The module of each name."""


def __getattr__(name: str) -> object:
    """Import a name on first use, because they take a while to load."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
