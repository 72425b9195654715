"""An Atari game under a delay: an emulator, the queue of pending actions, and a look-ahead.

Preprocessing is the usual one. An action lasts 4 frames. The observation is the last 4 screens,
each the maximum of two frames, grey and 84 by 84. An episode starts with 1 to 30 no-op frames. This
module implements sticky actions: in each frame the last action is repeated with probability
`sticky`. The emulator's own setting is 0, because copies of its state lack the repeated action.

For the look-ahead, a second emulator starts from the first one's state and runs the pending actions
with random numbers of its own. So it knows the present, but nothing of the real future. Without
sticky actions every prediction comes true, and the second emulator takes one new step per decision.
With sticky actions each decision needs a new run through the queue. Keeping a path while it comes
true would select the paths that led to the last action; `look_ahead="kept"` does that nonetheless.
"""

from __future__ import annotations

import io
import json
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from jaxtyping import UInt8

from deadtime._support import files
from deadtime.delays.pending import PendingActions
from deadtime.delays.warm_up import WarmUp
from deadtime.envs.atari.games import NOOPS, SIDE, SKIP, STACK, Game, games, library
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


class Lane:
    """A game under its delay, with the observations that an agent sees."""

    def __init__(self, game: Game):
        """Load the game; `reset` starts it."""
        self.game = game
        self.real = Emulator(game)
        self._ahead = Emulator(game) if game.look_ahead and game.delay else None
        self.num_actions = len(self.real.actions)
        self.meanings = self.real.meanings
        space: spaces.Discrete = spaces.Discrete(self.num_actions)
        self._pending = PendingActions(space, game.delay)
        self._warmup = WarmUp("random", space, game.delay)
        self._path: deque[tuple[Any, int]] = deque()
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
        self._rng_ahead = np.random.default_rng([seed, 1, 0xA7A])
        self._warmup.seed(seed)
        self.real.renew()

    @property
    def queue(self) -> np.ndarray:
        """The pending actions, oldest first."""
        return self._pending.actions

    @property
    def shown(self) -> UInt8[np.ndarray, "4 84 84"]:
        """The observation predicted by the look-ahead; without one, the present observation."""
        return self.real.stack if self._ahead is None else self._ahead.stack

    @property
    def ahead(self) -> Emulator:
        """The emulator that has run the pending actions; without a look-ahead, the real one."""
        return self._ahead or self.real

    def reset(self) -> None:
        """Start an episode."""
        self.real.reset(int(self._rng.integers(1, NOOPS + 1)))
        self._pending.fill(self._warmup.draw(None))
        self.steps = 0
        self.earned = 0.0
        self.terminated = self.truncated = self.life_lost = False
        if self._ahead is not None:
            self._run_ahead()

    def step(self, chosen: int) -> None:
        """Execute the oldest pending action, and append the chosen one to the queue."""
        self.executed, _ = self._pending.push(chosen)
        lives = self.real.lives
        self.reward = self.real.step(self.executed, self._rng)
        self.emulated += 1
        self.steps += 1
        self.earned += self.reward
        self.life_lost = self.real.lives < lives
        self.terminated = self.real.over
        self.truncated = not self.terminated and self.steps >= self.game.max_steps
        if self._ahead is not None and not (self.terminated or self.truncated):
            self._look(chosen)

    def _look(self, chosen: int) -> None:
        """Update the look-ahead after a step."""
        assert self._ahead is not None
        came_true = not self.game.sticky
        if self.game.look_ahead == "kept" and self._path:
            came_true = came_true or self.real.same(*self._path.popleft())
        if came_true:
            self._advance(chosen)
        else:
            self._run_ahead()

    def _advance(self, action: int, seen: bool = True) -> None:
        ahead = self._ahead
        assert ahead is not None
        if not ahead.over:
            ahead.step(action, self._rng_ahead, seen)
            self.emulated += 1
        if self.game.look_ahead == "kept" and self.game.sticky:
            self._path.append(ahead.point())

    def _run_ahead(self) -> None:
        """Run the pending actions ahead; only the last four steps update the observation."""
        assert self._ahead is not None
        self._path.clear()
        self._ahead.follow(self.real)
        before = self._rng_ahead.bit_generator.state
        for left in range(self.game.delay, 0, -1):
            self._advance(int(self.queue[-left]), seen=left <= STACK)
        if self._ahead.over:  # the last four steps may not have updated the observation
            self._path.clear()
            self._rng_ahead.bit_generator.state = before
            self._ahead.follow(self.real)
            for action in self.queue:
                self._advance(int(action))

    def saved(self) -> bytes:
        """Return the exact state of the lane as bytes."""
        real, numbers = self.real.saved()
        arrays = {f"real/{name}": array for name, array in real.items()} | {"queue": self.queue}
        lane_numbers: dict[str, Any] = {
            "real": numbers,
            "steps": self.steps,
            "earned": self.earned,
            "emulated": self.emulated,
        }
        lane_numbers["rngs"] = [rng.bit_generator.state for rng in self._rngs()]
        if self._ahead is not None:
            ahead, lane_numbers["ahead"] = self._ahead.saved()
            arrays |= {f"ahead/{name}": array for name, array in ahead.items()}
            arrays |= {
                f"path/{i}": np.frombuffer(one.__getstate__(), np.uint8)
                for i, (one, _) in enumerate(self._path)
            }
            lane_numbers["path"] = [last for _, last in self._path]
        file = io.BytesIO()
        np.savez(file, said=np.frombuffer(json.dumps(lane_numbers).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
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
        self.real.restore(_part(arrays, "real"), numbers["real"])
        self._pending.fill(arrays["queue"])
        self.steps, self.emulated = files.listed([numbers["steps"], numbers["emulated"]], int)
        (self.earned,) = files.listed([numbers["earned"]], float)
        for rng, state in zip(self._rngs(), numbers["rngs"], strict=True):
            rng.bit_generator.state = state
        if self._ahead is not None:
            self._ahead.restore(_part(arrays, "ahead"), numbers["ahead"])
            lasts = files.listed(numbers["path"], int)[: self.game.delay]
            self._path = deque(
                (self._ahead.state(arrays[f"path/{i}"]), last) for i, last in enumerate(lasts)
            )

    def _rngs(self) -> tuple[np.random.Generator, ...]:
        return self._rng, self._rng_ahead, self._warmup.queue_space.np_random


def _part(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {
        key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{name}/")
    }
