"""Atari games by name. The library ale-py is imported only to list or play them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from gymnasium import spaces

from deadtime._support.names import nearest

SIDE = 84
"""The width and height of a frame in pixels."""
STACK = 4
"""The number of frames in an observation."""
SKIP = 4
"""The number of frames in a step."""
NOOPS = 30
"""The largest number of no-op frames at the start of an episode."""
LOOKS = ("", "fresh", "kept")
"""The kinds of look-ahead: none; a new path for each decision; one path while it comes true."""
_FOR_TWO = {"combat", "joust", "maze_craze", "warlords"}
"""Games for two players only. Loading one of them ends the process."""


@dataclass(frozen=True)
class Game:
    """A game to play: its name, delay, settings and seed."""

    name: str
    delay: int = 0
    sticky: float = 0.25
    look_ahead: str = ""
    max_steps: int = 27_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise if the look-ahead is unknown."""
        if self.look_ahead not in LOOKS:
            raise ValueError(
                'look_ahead is "fresh", "kept", or "" for none; '
                f'got {self.look_ahead!r}: pass "fresh"'
            )


def installed() -> bool:
    """Return whether ale-py is installed."""
    return find_spec("ale_py") is not None


def library() -> Any:
    """Return the module ale-py, or raise with the command that installs it."""
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
    """Return the names of all games as Gymnasium writes them, each with the name of its ROM."""
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
    """The description of a game: its name, its settings and its spaces."""

    game: str
    sticky: float = 0.25
    """The probability, in each frame, that the last action is repeated."""
    max_episode_steps: int = 27_000
    """The step limit of an episode; the default is half an hour of play."""

    default_params = ()
    """Empty: a compiled program passes no parameters."""

    def __post_init__(self) -> None:
        """Raise if there is no such game or a setting is out of range."""
        # without ale-py a record can be read but not played, so any plain name will do
        known = games() if installed() else [self.game][: self.game.isalnum()]
        if self.game not in known:
            raise ValueError(
                f"Atari has no game {self.game!r}{nearest(self.game, known)}: use a name of "
                "Gymnasium such as MsPacman; deadtime.envs.atari.games.games() lists them"
            )
        good = (
            isinstance(self.sticky, int | float)
            and not isinstance(self.sticky, bool)
            and 0 <= self.sticky < 1
        )
        if not good:
            raise ValueError(
                f"sticky is a probability from 0 to below 1; got {self.sticky!r}: "
                "pass 0.25, the usual value, or 0 for none"
            )
        most = self.max_episode_steps
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(
                f"max_episode_steps is a whole number, 1 or more; got {most!r}: "
                "pass 27000, the usual value"
            )
        object.__setattr__(self, "sticky", float(self.sticky))

    @property
    def num_actions(self) -> int:
        """The number of actions that have an effect in this game."""
        return len(meanings(self.game))

    def observation_space(self, params: object = None) -> spaces.Box:
        """Return the space of observations: the last four frames, oldest first."""
        return spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)

    def played(self, delay: int, seed: int, look_ahead: str = "") -> Game:
        """Return the game to play under a delay."""
        return Game(self.game, delay, self.sticky, look_ahead, self.max_episode_steps, seed)
