"""Look-aheads through the queue of an Atari game.

Without sticky actions every prediction comes true. So one emulator is enough: it plays each action
when it is chosen, and `Present` shows its steps again when they are due.

With sticky actions `Paths` uses a second emulator, which starts from the state of the first one and
runs the pending actions with random numbers of its own. So it knows the present, but nothing of
the real future. Each decision needs a new run through the queue. Keeping a path while it comes true
would select the paths that led to the last action; `look_ahead="kept"` does that nonetheless.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from deadtime._support import files
from deadtime.envs.atari.emulator import Emulator
from deadtime.envs.atari.games import SIDE, STACK, Game

Saved = tuple[dict[str, np.ndarray], Any]
"""A saved state: arrays, and what JSON holds."""


class _Step(NamedTuple):
    """A step that the emulator has played and the present has not reached."""

    frame: UInt8[np.ndarray, "84 84"]
    reward: float
    lives: int
    over: bool
    screen: UInt8[np.ndarray, "height width 3"] | None
    """The screen in colours, if it may be drawn."""


class Present:
    """The present of a game whose emulator has already played the pending actions.

    It has the observation, the lives and the end of the game that an emulator of the present has.
    """

    def __init__(self, ahead: Emulator, game: Game, draws: bool):
        """Follow the emulator `ahead`, and keep its screens if the game `draws` them."""
        self._ahead = ahead
        self._delay = game.delay
        self._limit = game.max_steps
        self._draws = draws
        self._steps: deque[_Step] = deque()
        self._played = 0
        self._at_limit: Any = None
        self._screen: np.ndarray | None = None
        self.stack = ahead.stack.copy()
        self.over = False
        self.lives = 0

    def rewind(self) -> None:
        """Put the emulator where the time limit ended the episode, if it has played beyond.

        Some games start differently after different states.
        """
        if self._at_limit is not None:
            self._ahead.ale.restoreState(self._at_limit)

    def reset(self, noops: int) -> None:
        """Start a game with `noops` frames of doing nothing."""
        self._ahead.reset(noops)
        self._steps.clear()
        self._played = 0
        self._at_limit = None
        self.stack[:] = self._ahead.stack
        self.over = False
        self.lives = self._ahead.lives
        self._screen = self._ahead.screen() if self._draws else None

    def play(self, action: int, rng: np.random.Generator) -> int:
        """Play a chosen action ahead; return the number of emulated steps."""
        ahead = self._ahead
        ended = ahead.over
        reward = 0.0 if ended else ahead.step(action, rng)
        screen = ahead.screen() if self._draws else None
        self._steps.append(_Step(ahead.stack[-1].copy(), reward, ahead.lives, ahead.over, screen))
        self._played += 1
        if self._played == self._limit and not ahead.over:
            self._at_limit = ahead.ale.cloneState()
        return int(not ended)

    def step(self) -> float:
        """Reach the next step, and return its reward."""
        step = self._steps.popleft()
        self.stack[:-1] = self.stack[1:]
        self.stack[-1] = step.frame
        self.lives = step.lives
        self.over = step.over
        self._screen = step.screen
        return step.reward

    def screen(self) -> UInt8[np.ndarray, "height width 3"]:
        """Return the screen as an RGB array."""
        assert self._screen is not None, "screens are kept for games that draw them"
        return self._screen

    def saved(self) -> Saved:
        """Return the whole state but the emulator's."""
        frames = np.zeros((len(self._steps), SIDE, SIDE), np.uint8)
        for i, step in enumerate(self._steps):
            frames[i] = step.frame
        arrays = {"stack": self.stack, "frames": frames}
        if self._at_limit is not None:
            arrays["limit"] = np.frombuffer(self._at_limit.__getstate__(), np.uint8)
        numbers = {
            "now": [int(self.over), self.lives, self._played],
            "rewards": [step.reward for step in self._steps],
            "lives": [step.lives for step in self._steps],
            "overs": [int(step.over) for step in self._steps],
        }
        return arrays, numbers

    def restore(self, arrays: dict[str, np.ndarray], numbers: dict[str, Any]) -> None:
        """Restore the state that `saved` returned; screens in colours are not saved."""
        due = np.zeros((self._delay, SIDE, SIDE), np.uint8)
        files.check_fit(arrays, {"stack": self.stack, "frames": due})
        over, lives, played = files.listed(numbers["now"], int)
        rewards = files.listed(numbers["rewards"], float)
        rows = zip(
            arrays["frames"],
            rewards,
            files.listed(numbers["lives"], int),
            files.listed(numbers["overs"], int),
            strict=True,
        )
        blank = self._ahead.screen() if self._draws else None
        self._steps = deque(
            _Step(frame.copy(), reward, left, bool(end), blank) for frame, reward, left, end in rows
        )
        self._at_limit = self._ahead.state(arrays["limit"]) if "limit" in arrays else None
        self.stack[:] = arrays["stack"]
        self.over = bool(over)
        self.lives = lives
        self._played = played
        self._screen = blank


class Paths:
    """A second emulator that runs the pending actions with random numbers of its own."""

    def __init__(self, game: Game):
        """Load the game."""
        self._keeps = game.look_ahead == "kept"
        self._kept: deque[tuple[Any, int]] = deque()
        self._delay = game.delay
        self.emulator = Emulator(game)

    def seed(self, seed: int) -> None:
        """Seed the random numbers of the predictions."""
        self.rng = np.random.default_rng([seed, 1, 0xA7A])

    def look(self, real: Emulator, queue: np.ndarray) -> int:
        """Predict after a step, and return the number of emulated steps."""
        if self._keeps and self._kept and real.same(*self._kept.popleft()):
            return self._advance(int(queue[-1]))
        return self.run(real, queue)

    def run(self, real: Emulator, queue: np.ndarray) -> int:
        """Run the pending actions from the present; return the number of emulated steps.

        Only the last four steps update the observation.
        """
        self._kept.clear()
        self.emulator.follow(real)
        before = self.rng.bit_generator.state
        emulated = 0
        for left in range(self._delay, 0, -1):
            emulated += self._advance(int(queue[-left]), seen=left <= STACK)
        if self.emulator.over:  # the last four steps may not have updated the observation
            self._kept.clear()
            self.rng.bit_generator.state = before
            self.emulator.follow(real)
            for action in queue:
                emulated += self._advance(int(action))
        return emulated

    def _advance(self, action: int, seen: bool = True) -> int:
        emulated = int(not self.emulator.over)
        if emulated:
            self.emulator.step(action, self.rng, seen)
        if self._keeps:
            self._kept.append(self.emulator.point())
        return emulated

    def saved(self) -> Saved:
        """Return the whole state but the random numbers'."""
        arrays, numbers = self.emulator.saved()
        arrays |= {
            f"path/{i}": np.frombuffer(state.__getstate__(), np.uint8)
            for i, (state, _) in enumerate(self._kept)
        }
        return arrays, {"emulator": numbers, "path": [last for _, last in self._kept]}

    def restore(self, arrays: dict[str, np.ndarray], numbers: dict[str, Any]) -> None:
        """Restore the state that `saved` returned."""
        self.emulator.restore(arrays, numbers["emulator"])
        lasts = files.listed(numbers["path"], int)[: self._delay]
        self._kept = deque(
            (self.emulator.state(arrays[f"path/{i}"]), last) for i, last in enumerate(lasts)
        )
