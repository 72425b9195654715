"""Atari games: emulators with a look-ahead, their pool of processes, the family `atari:NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadtime._support.lazy import lazy_names

if TYPE_CHECKING:
    from deadtime.envs.atari.games import Game
    from deadtime.envs.atari.gym_env import AtariEnv
    from deadtime.envs.atari.pool import AtariPool

__all__ = ["AtariEnv", "AtariPool", "Game"]
__getattr__ = lazy_names(
    __name__,
    {
        "AtariEnv": "deadtime.envs.atari.gym_env",
        "AtariPool": "deadtime.envs.atari.pool",
        "Game": "deadtime.envs.atari.games",
    },
)
"""Emulators and pools are imported on first use."""
