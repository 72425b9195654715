"""Atari games: emulators with a look-ahead, their pool of processes, the family `atari:NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deadtime.envs.atari.gym_env import AtariEnv

__all__ = ["AtariEnv"]


def __getattr__(name: str) -> Any:
    """Import `AtariEnv` on first use, because it takes a while to load."""
    if name == "AtariEnv":
        from deadtime.envs.atari.gym_env import AtariEnv  # noqa: PLC0415

        return AtariEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
