"""An emulator of Atari games, with the usual preprocessing.

An action lasts 4 frames. The observation is the last 4 screens, each the maximum of two frames,
grey and 84 by 84. An episode starts with 1 to 30 no-op frames. This module implements sticky
actions: in each frame the last action is repeated with probability `sticky`. The emulator's own
setting is 0, because copies of its state lack the repeated action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from deadtime._support import files
from deadtime.envs.atari.games import SIDE, SKIP, STACK, Game, games, library
from deadtime.envs.atari.shrinking import pixel_weights, shrink

if TYPE_CHECKING:
    from ale_py import ALEState


class Emulator:
    """An emulator, its last frames, and the action that a sticky step repeats."""

    def __init__(self, game: Game):
        """Load the game."""
        ale_py = library()
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("random_seed", 0)
        self.ale.loadROM(ale_py.roms.get_rom_path(games()[game.name]))
        # Some games load with an unfinished frame, which a copied state does not contain.
        self.ale.act(0)
        self._new = self.ale.cloneState()
        self.actions = [action.value for action in self.ale.getMinimalActionSet()]
        self.meanings = [action.name for action in self.ale.getMinimalActionSet()]
        self._sticky = game.sticky
        self._screens = np.zeros((2, *self.ale.getScreenDims()), np.uint8)
        self._weights = pixel_weights(*self.ale.getScreenDims())
        self.stack: UInt8[np.ndarray, "4 84 84"] = np.zeros((STACK, SIDE, SIDE), np.uint8)
        self._last = 0
        self.over = False
        self.lives = 0

    def renew(self) -> None:
        """Restore the state after loading: some games start differently after earlier episodes."""
        self.ale.restoreState(self._new)

    def reset(self, noops: int) -> None:
        """Start a game with `noops` frames of doing nothing."""
        self.ale.reset_game()
        for _ in range(noops):
            self.ale.act(0)
            if self.ale.game_over():
                self.ale.reset_game()
        self._last = 0
        self.over = False
        self.lives = self.ale.lives()
        self.ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = 0
        shrink(self._screens, self.stack[0], *self._weights)
        self.stack[1:] = self.stack[0]

    def step(self, action: int, rng: np.random.Generator, seen: bool = True) -> float:
        """Play four frames of an action, fewer if the game ends, and return the reward.

        Unless the step is `seen`, the observation stays as it was.
        """
        wanted = self.actions[action]
        earned = 0.0
        for frame in range(SKIP):
            if not self._sticky or rng.random() >= self._sticky:
                self._last = wanted
            earned += self.ale.act(self._last)
            if self.ale.game_over():
                self.over = True
                break
            if seen and frame >= SKIP - 2:
                self.ale.getScreenGrayscale(self._screens[SKIP - 1 - frame])
        self.lives = self.ale.lives()
        if seen:
            self.stack[:-1] = self.stack[1:]
            shrink(self._screens, self.stack[-1], *self._weights)
        return earned

    def screen(self) -> UInt8[np.ndarray, "height width 3"]:
        """Return the screen as an RGB array."""
        return self.ale.getScreenRGB()

    def same(self, state: ALEState, last: int) -> bool:
        """Return whether this emulator is at a point (see `point`) of another one's path."""
        return self._last == last and bool(self.ale.cloneState().equals(state))

    def point(self) -> tuple[ALEState, int]:
        """Return the emulator's state and the action that may be repeated, for `same`."""
        return self.ale.cloneState(), self._last

    def follow(self, other: Emulator) -> None:
        """Become a copy of another emulator of the same game."""
        self.ale.restoreState(other.ale.cloneState())
        self._screens[:] = other._screens
        self.stack[:] = other.stack
        self._last = other._last
        self.over = other.over
        self.lives = other.lives

    def saved(self) -> tuple[dict[str, np.ndarray], list[int]]:
        """Return the whole state as arrays and numbers."""
        state = np.frombuffer(self.ale.cloneState().__getstate__(), np.uint8)
        arrays = {"state": state, "screens": self._screens, "stack": self.stack}
        return arrays, [self._last, int(self.over), self.lives]

    def restore(self, arrays: dict[str, np.ndarray], numbers: list[int]) -> None:
        """Restore the state that `saved` returned."""
        last, over, lives = files.listed(numbers, int)
        files.check_fit(arrays, {"screens": self._screens, "stack": self.stack})
        if last not in (0, *self.actions):
            raise ValueError(f"the action that may be repeated is one of the game's; got {last}")
        self.ale.restoreState(self.state(arrays["state"]))
        self._screens[:] = arrays["screens"]
        self.stack[:] = arrays["stack"]
        self._last = last
        self.over = bool(over)
        self.lives = lives

    def state(self, saved: UInt8[np.ndarray, " n"]) -> Any:
        """Return an ALE state from its bytes; check the length, because ALE's parser does not."""
        files.check_fit({"state": saved}, {"state": np.zeros(0, np.uint8)}, ("state",))
        if abs(len(saved) - len(self._new.__getstate__())) > 64:
            raise ValueError(
                f"a state of this game has about {len(self._new.__getstate__())} bytes; "
                f"got {len(saved)}"
            )
        kind = library().ALEState
        state = kind.__new__(kind)
        try:
            state.__setstate__(saved.tobytes())
        except Exception as error:  # ALE's C++ code throws several kinds
            raise ValueError(f"the emulator can't read its state ({error})") from error
        return state
