"""Atari games by name, as data; ale-py is imported only to list or play them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from gymnasium import spaces

from deadtime._support.names import nearest

SIDE = 84
"""The width and height of a frame."""
STACK = 4
"""The frames of an observation."""
SKIP = 4
"""The frames of a step."""
NOOPS = 30
"""The most frames of doing nothing at the start of an episode."""
LOOKS = ("", "fresh", "kept")
"""No look-ahead; a new path for every decision; the same path for as long as it comes true."""
_FOR_TWO = {"combat", "joust", "maze_craze", "warlords"}
"""ROMs that can't be played alone: to load one ends the process."""


@dataclass(frozen=True)
class Game:
    """What is played, and how."""

    name: str
    delay: int = 0
    sticky: float = 0.25
    look_ahead: str = ""
    max_steps: int = 27_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a look-ahead that there is not."""
        if self.look_ahead not in LOOKS:
            raise ValueError(
                f'look_ahead is "fresh", "kept", or "" for none; got {self.look_ahead!r}: "fresh" is right'
            )


def installed() -> bool:
    """Whether ale-py is there."""
    return find_spec("ale_py") is not None


def library() -> Any:
    """Import ale-py, or say how to install it."""
    try:
        import ale_py  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f"atari:NAME needs ale-py, which can't be imported ({error}): pip install ale-py, "
            "or in a clone of this repository pip install '.[atari]'"
        ) from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py


@cache
def games() -> dict[str, str]:
    """Every game's name, as Gymnasium writes it, and what its ROM is called."""
    roms = {*library().roms.get_all_rom_ids()} - _FOR_TWO
    return {rom.title().replace("_", ""): rom for rom in sorted(roms)}


@cache
def meanings(game: str) -> tuple[str, ...]:
    """Return the names of a game's actions."""
    ale_py = library()
    ale = ale_py.ALEInterface()
    ale.loadROM(ale_py.roms.get_rom_path(games()[game]))
    return tuple(action.name for action in ale.getMinimalActionSet())


@dataclass(frozen=True)
class Atari:
    """A game and how it is played; the learner's view of it."""

    game: str
    sticky: float = 0.25
    """How probable it is, in each frame, that the last action is repeated instead of the new one."""
    max_episode_steps: int = 27_000
    """Episodes are cut off there: half an hour of play."""

    default_params = ()
    """A program has none to give."""

    def __post_init__(self) -> None:
        """Raise if the game can't be played so."""
        known = (
            games() if installed() else [self.game][: self.game.isalnum()]
        )  # then records are read, and nothing is played
        if self.game not in known:
            raise ValueError(
                f"Atari has no game {self.game!r}{nearest(self.game, known)}: names are as in Gymnasium, MsPacman say; "
                "deadtime.envs.atari.games.games() lists them"
            )
        good = (
            isinstance(self.sticky, int | float)
            and not isinstance(self.sticky, bool)
            and 0 <= self.sticky < 1
        )
        if not good:
            raise ValueError(
                f"sticky is a probability from 0 to below 1; got {self.sticky!r}: 0.25 is usual, 0 is none"
            )
        most = self.max_episode_steps
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(
                f"max_episode_steps is a whole number, 1 or more; got {most!r}: 27000 is usual"
            )
        object.__setattr__(self, "sticky", float(self.sticky))

    @property
    def num_actions(self) -> int:
        """Those that do something in this game."""
        return len(meanings(self.game))

    def observation_space(self, params: Any = None) -> spaces.Box:
        """The last four frames, oldest first."""
        return spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)

    def played(self, delay: int, seed: int, look_ahead: str = "") -> Game:
        """The game under a delay."""
        return Game(self.game, delay, self.sticky, look_ahead, self.max_episode_steps, seed)
