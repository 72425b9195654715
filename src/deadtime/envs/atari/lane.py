"""An Atari game under a delay: an emulator, the queue of pending actions, and a look-ahead."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from gymnasium import spaces
from jaxtyping import UInt8

from deadtime._support import files
from deadtime.delays.pending import PendingActions
from deadtime.delays.warm_up import WarmUp
from deadtime.envs.atari.emulator import Emulator
from deadtime.envs.atari.games import NOOPS, Game
from deadtime.envs.atari.look_ahead import Paths, Present


class Lane:
    """A game under its delay, with the observations that an agent sees."""

    def __init__(self, game: Game, draws: bool = False):
        """Load the game; `reset` starts it. If it `draws`, screens in colours are kept."""
        self.game = game
        self._emulator = Emulator(game)
        looks = bool(game.look_ahead and game.delay)
        self._paths = Paths(game) if looks and game.sticky else None
        self._present = Present(self._emulator, game, draws) if looks and not game.sticky else None
        self.num_actions = len(self._emulator.actions)
        self.meanings = self._emulator.meanings
        space: spaces.Discrete = spaces.Discrete(self.num_actions)
        self._pending = PendingActions(space, game.delay)
        self._warmup = WarmUp("random", space, game.delay)
        self.steps = 0
        self.emulated = 0
        self.executed = 0
        self.reward = 0.0
        self.earned = 0.0
        self.terminated = self.truncated = self.life_lost = False
        self.seed(game.seed)

    def seed(self, seed: int) -> None:
        """Seed the game, its warm-up and, separately, its look-ahead."""
        self._rng = np.random.default_rng([seed, 0, 0xA7A])
        if self._paths is not None:
            self._paths.seed(seed)
        self._warmup.seed(seed)
        self._emulator.renew()

    @property
    def queue(self) -> np.ndarray:
        """The pending actions, oldest first."""
        return self._pending.actions

    @property
    def real(self) -> Emulator | Present:
        """The game at present."""
        return self._present or self._emulator

    @property
    def ahead(self) -> Emulator:
        """The emulator that has run the pending actions; without a look-ahead, the real one."""
        return self._emulator if self._paths is None else self._paths.emulator

    @property
    def shown(self) -> UInt8[np.ndarray, "4 84 84"]:
        """The observation predicted by the look-ahead; without one, the present observation."""
        return self.ahead.stack

    def reset(self) -> None:
        """Start an episode."""
        if self._present is not None and self.truncated:
            self._present.rewind()
        self.real.reset(int(self._rng.integers(1, NOOPS + 1)))
        self._pending.fill(self._warmup.draw(None))
        self.steps = 0
        self.earned = 0.0
        self.terminated = self.truncated = self.life_lost = False
        if self._present is not None:
            for action in self.queue:
                self.emulated += self._present.play(int(action), self._rng)
        if self._paths is not None:
            self.emulated += self._paths.run(self._emulator, self.queue)

    def step(self, chosen: int) -> None:
        """Execute the oldest pending action, and append the chosen one to the queue."""
        self.executed, _ = self._pending.push(chosen)
        lives = self.real.lives
        if self._present is None:
            self.reward = self._emulator.step(self.executed, self._rng)
            self.emulated += 1
        else:
            self.reward = self._present.step()
        self.steps += 1
        self.earned += self.reward
        self.life_lost = self.real.lives < lives
        self.terminated = self.real.over
        self.truncated = not self.terminated and self.steps >= self.game.max_steps
        if not (self.terminated or self.truncated):
            self._look(chosen)

    def _look(self, chosen: int) -> None:
        """Update the look-ahead after a step."""
        if self._present is not None:
            self.emulated += self._present.play(chosen, self._rng)
        if self._paths is not None:
            self.emulated += self._paths.look(self._emulator, self.queue)

    def saved(self) -> bytes:
        """Return the exact state of the lane as bytes."""
        parts = {"emulator": self._emulator.saved()}
        if self._present is not None:
            parts["present"] = self._present.saved()
        if self._paths is not None:
            parts["paths"] = self._paths.saved()
        arrays = {
            f"{part}/{name}": array
            for part, (named, _) in parts.items()
            for name, array in named.items()
        }
        numbers: dict[str, Any] = {part: numbers for part, (_, numbers) in parts.items()}
        numbers |= {"steps": self.steps, "earned": self.earned, "emulated": self.emulated}
        numbers["rngs"] = [rng.bit_generator.state for rng in self._rngs()]
        file = io.BytesIO()
        text = np.frombuffer(json.dumps(numbers).encode(), np.uint8)
        np.savez(file, said=text, queue=self.queue, **arrays)  # type: ignore[arg-type]
        return file.getvalue()

    def restore(self, content: bytes) -> None:
        """Restore the state that `saved` returned."""
        arrays = files.arrays(content)
        try:
            self._restore(arrays, files.from_json(arrays["said"].tobytes()))
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"a part of the saved state is missing ({error!r:.100})") from error

    def _restore(self, arrays: dict[str, np.ndarray], numbers: dict[str, Any]) -> None:
        files.check_fit(arrays, {"queue": self.queue})
        if ((arrays["queue"] < 0) | (arrays["queue"] >= self.num_actions)).any():
            raise ValueError(
                f"pending actions are from 0 to {self.num_actions - 1}; got {arrays['queue']}"
            )
        self._emulator.restore(_part(arrays, "emulator"), numbers["emulator"])
        self._pending.fill(arrays["queue"])
        self.steps, self.emulated = files.listed([numbers["steps"], numbers["emulated"]], int)
        (self.earned,) = files.listed([numbers["earned"]], float)
        for rng, state in zip(self._rngs(), numbers["rngs"], strict=True):
            rng.bit_generator.state = state
        if self._present is not None:
            self._present.restore(_part(arrays, "present"), numbers["present"])
        if self._paths is not None:
            self._paths.restore(_part(arrays, "paths"), numbers["paths"])

    def _rngs(self) -> list[np.random.Generator]:
        further = [] if self._paths is None else [self._paths.rng]
        return [self._rng, *further, self._warmup.queue_space.np_random]


def _part(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {
        key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{name}/")
    }
