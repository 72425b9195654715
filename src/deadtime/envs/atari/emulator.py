"""One Atari game under a delay: an emulator, the queue of pending actions, and a second emulator that runs ahead through it.

Preprocessing is the field's: each action for 4 frames, the brighter of the last two, grey, 84 by 84, the last 4 of them; an
episode begins with 1 to 30 frames of doing nothing. Stochasticity is ours: in each frame the last action is repeated with
probability `sticky` (the emulator's own setting is 0, since copies of its state would not carry what is repeated).

The second emulator is restored from the first one's state and runs the pending actions with random numbers of its own, so it
knows the present and nothing of the real future. Without stickiness what it predicted comes true, so it stays where it is
and takes one new step a decision. With it every decision needs a new run through the queue: to keep a path for as long as it
comes true would keep those paths more often that led to the action chosen last. `look_ahead="kept"` does so nonetheless.
"""

from __future__ import annotations

import io
import json
import math
from collections import deque
from functools import cache
from typing import Any

import numba
import numpy as np
from gymnasium import spaces
from jaxtyping import UInt8

from deadtime._support import files
from deadtime.delays.pending import PendingActions
from deadtime.delays.warm_up import WarmUp
from deadtime.envs.atari.games import NOOPS, SIDE, SKIP, STACK, Game, games, library


class Emulator:
    """An emulator and what the emulator's own state lacks: the frames that are seen, and the action that may be repeated."""

    def __init__(self, game: Game):
        """Load the game."""
        ale_py = library()
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("random_seed", 0)
        self.ale.loadROM(ale_py.roms.get_rom_path(games()[game.name]))
        self.ale.act(
            0
        )  # in some games a frame is half done now, which no copy of a state tells, and the next would go wrong
        self._new = self.ale.cloneState()
        self.actions = [action.value for action in self.ale.getMinimalActionSet()]
        self.meanings = [action.name for action in self.ale.getMinimalActionSet()]
        self._sticky = game.sticky
        self._screens = np.zeros((2, *self.ale.getScreenDims()), np.uint8)
        self._weights = _weights(*self.ale.getScreenDims())
        self.stack: UInt8[np.ndarray, "4 84 84"] = np.zeros((STACK, SIDE, SIDE), np.uint8)
        self._last, self.over, self.lives = 0, False, 0

    def renew(self) -> None:
        """Forget how often a game was begun, on which the memory of some depends when they begin."""
        self.ale.restoreState(self._new)

    def reset(self, noops: int) -> None:
        """Begin a game, and do nothing for so many frames."""
        self.ale.reset_game()
        for _ in range(noops):
            self.ale.act(0)
            if self.ale.game_over():
                self.ale.reset_game()
        self._last, self.over, self.lives = 0, False, self.ale.lives()
        self.ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = 0
        shrink(self._screens, self.stack[0], *self._weights)
        self.stack[1:] = self.stack[0]

    def step(self, action: int, rng: np.random.Generator, seen: bool = True) -> float:
        """Four frames of an action, or fewer if the game ends; a step that is not `seen` leaves the frames as they were."""
        wanted, earned = self.actions[action], 0.0
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

    def same(self, state: Any, last: int) -> bool:
        """Whether this is where a path of the other one went through: its state, and what it may repeat."""
        return self._last == last and bool(self.ale.cloneState().equals(state))

    def point(self) -> tuple[Any, int]:
        """What `same` compares with."""
        return self.ale.cloneState(), self._last

    def follow(self, other: Emulator) -> None:
        """Become a copy of another emulator of the same game."""
        self.ale.restoreState(other.ale.cloneState())
        self._screens[:], self.stack[:] = other._screens, other.stack
        self._last, self.over, self.lives = other._last, other.over, other.lives

    def saved(self) -> tuple[dict[str, np.ndarray], list[int]]:
        """All of it, as arrays and numbers."""
        state = np.frombuffer(self.ale.cloneState().__getstate__(), np.uint8)
        return {"state": state, "screens": self._screens, "stack": self.stack}, [
            self._last,
            int(self.over),
            self.lives,
        ]

    def restore(self, arrays: dict[str, np.ndarray], numbers: list[int]) -> None:
        """Go on from what `saved` gave."""
        last, over, lives = files.listed(numbers, int)
        files.check_fit(arrays, {"screens": self._screens, "stack": self.stack})
        if last not in (0, *self.actions):
            raise ValueError(f"the action that may be repeated is one of the game's; got {last}")
        self.ale.restoreState(self.state(arrays["state"]))
        self._screens[:], self.stack[:] = arrays["screens"], arrays["stack"]
        self._last, self.over, self.lives = last, bool(over), lives

    def state(self, saved: UInt8[np.ndarray, " n"]) -> Any:
        """The emulator's own state; its parser trusts what it is given, which at least has about the right length."""
        files.check_fit({"state": saved}, {"state": np.zeros(0, np.uint8)}, ("state",))
        if abs(len(saved) - len(self._new.__getstate__())) > 64:
            raise ValueError(f"its state has {len(saved)} bytes, which no state of this game has")
        kind = library().ALEState
        state = kind.__new__(kind)
        try:
            state.__setstate__(saved.tobytes())
        except Exception as error:  # of several kinds, as C++ throws them
            raise ValueError(f"the emulator can't read its state ({error})") from error
        return state


class Lane:
    """A game under its delay, one episode after the other, and what an agent is shown of it."""

    def __init__(self, game: Game):
        """Nothing is begun before `reset`."""
        self.game, self.real = game, Emulator(game)
        self._ahead = Emulator(game) if game.look_ahead and game.delay else None
        self.num_actions, self.meanings = len(self.real.actions), self.real.meanings
        space: spaces.Discrete = spaces.Discrete(self.num_actions)
        self._pending, self._warmup = (
            PendingActions(space, game.delay),
            WarmUp("random", space, game.delay),
        )
        self._path: deque[tuple[Any, int]] = deque()
        self.steps, self.emulated = 0, 0
        self.executed, self.reward, self.earned = 0, 0.0, 0.0
        self.terminated = self.truncated = self.life_lost = False
        self.seed(game.seed)

    def seed(self, seed: int) -> None:
        """Make all that follows a function of `seed`: the game's own random numbers, and apart from them the look-ahead's."""
        self._rng, self._rng_ahead = (
            np.random.default_rng([seed, stream, 0xA7A]) for stream in (0, 1)
        )
        self._warmup.seed(seed)
        self.real.renew()

    @property
    def queue(self) -> np.ndarray:
        """The pending actions, oldest first."""
        return self._pending.actions

    @property
    def shown(self) -> UInt8[np.ndarray, "4 84 84"]:
        """What the next action is expected to meet, where there is a look-ahead; else what is there now."""
        return self.real.stack if self._ahead is None else self._ahead.stack

    @property
    def ahead(self) -> Emulator:
        """The emulator that stands where the queue leads; without a look-ahead the real one."""
        return self._ahead or self.real

    def reset(self) -> None:
        """Begin an episode."""
        self.real.reset(int(self._rng.integers(1, NOOPS + 1)))
        self._pending.fill(self._warmup.draw(None))
        self.steps, self.earned = 0, 0.0
        self.terminated = self.truncated = self.life_lost = False
        if self._ahead is not None:
            self._run_ahead()

    def step(self, chosen: int) -> None:
        """Execute the oldest pending action; the chosen one joins the queue."""
        self.executed, _ = self._pending.push(chosen)
        lives = self.real.lives
        self.reward = self.real.step(self.executed, self._rng)
        self.emulated += 1
        self.steps, self.earned = self.steps + 1, self.earned + self.reward
        self.life_lost = self.real.lives < lives
        self.terminated = self.real.over
        self.truncated = not self.terminated and self.steps >= self.game.max_steps
        if self._ahead is not None and not (self.terminated or self.truncated):
            self._look(chosen)

    def _look(self, chosen: int) -> None:
        """Bring the emulator ahead to where the queue leads now."""
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
        """From here through the queue; frames that will not be among the last four are not looked at."""
        assert self._ahead is not None
        self._path.clear()
        self._ahead.follow(self.real)
        before = self._rng_ahead.bit_generator.state
        for left in range(self.game.delay, 0, -1):
            self._advance(int(self.queue[-left]), seen=left <= STACK)
        if self._ahead.over:  # its last frames were perhaps not looked at
            self._path.clear()
            self._rng_ahead.bit_generator.state = before
            self._ahead.follow(self.real)
            for action in self.queue:
                self._advance(int(action))

    def saved(self) -> bytes:
        """All of it, to go on from later to the same bits."""
        real, numbers = self.real.saved()
        arrays = {f"real/{name}": array for name, array in real.items()} | {"queue": self.queue}
        said: dict[str, Any] = {
            "real": numbers,
            "steps": self.steps,
            "earned": self.earned,
            "emulated": self.emulated,
        }
        said["rngs"] = [rng.bit_generator.state for rng in self._rngs()]
        if self._ahead is not None:
            ahead, said["ahead"] = self._ahead.saved()
            arrays |= {f"ahead/{name}": array for name, array in ahead.items()}
            arrays |= {
                f"path/{i}": np.frombuffer(one.__getstate__(), np.uint8)
                for i, (one, _) in enumerate(self._path)
            }
            said["path"] = [last for _, last in self._path]
        file = io.BytesIO()
        np.savez(file, said=np.frombuffer(json.dumps(said).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
        return file.getvalue()

    def restore(self, content: bytes) -> None:
        """Go on from what `saved` gave."""
        arrays = files.arrays(content)
        try:
            self._restore(arrays, files.from_json(arrays["said"].tobytes()))
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"what it should say is not there ({error!r:.100})") from error

    def _restore(self, arrays: dict[str, np.ndarray], said: dict[str, Any]) -> None:
        files.check_fit(arrays, {"queue": self.queue})
        if ((arrays["queue"] < 0) | (arrays["queue"] >= self.num_actions)).any():
            raise ValueError(
                f"pending actions are from 0 to {self.num_actions - 1}; got {arrays['queue']}"
            )
        self.real.restore(_part(arrays, "real"), said["real"])
        self._pending.fill(arrays["queue"])
        self.steps, self.emulated = files.listed([said["steps"], said["emulated"]], int)
        (self.earned,) = files.listed([said["earned"]], float)
        for rng, state in zip(self._rngs(), said["rngs"], strict=True):
            rng.bit_generator.state = state
        if self._ahead is not None:
            self._ahead.restore(_part(arrays, "ahead"), said["ahead"])
            lasts = files.listed(said["path"], int)[: self.game.delay]
            self._path = deque(
                (self._ahead.state(arrays[f"path/{i}"]), last) for i, last in enumerate(lasts)
            )

    def _rngs(self) -> tuple[np.random.Generator, ...]:
        return self._rng, self._rng_ahead, self._warmup.queue_space.np_random


def _part(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {
        key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{name}/")
    }


@cache
def _weights(height: int, width: int) -> tuple[np.ndarray, ...]:
    """For each row and each column of the small picture the places that it covers, and how much of each."""
    places: list[np.ndarray] = []
    for size in (height, width):
        taps = [_covered(i * size / SIDE, i * size / SIDE + size / SIDE, size) for i in range(SIDE)]
        most = max(3, *map(len, taps))
        padded = [one + [(one[-1][0], 0.0)] * (most - len(one)) for one in taps]
        places += [np.array([[tap[0] for tap in one] for one in padded]).T.astype(np.uint64).copy()]
        places += [
            np.array([[tap[1] for tap in one] for one in padded]).T.astype(np.float32).copy()
        ]
    return tuple(places)


def _covered(begin: float, end: float, size: int) -> list[tuple[int, float]]:
    """The places from `begin` to `end`, each with the part that it makes up."""
    whole = min(end - begin, size - begin)
    first, last = min(math.ceil(begin), size - 1), min(math.floor(end), size - 1)
    found = [(first - 1, (first - begin) / whole)] if first - begin > 1e-3 else []
    found += [(place, 1.0 / whole) for place in range(first, last)]
    return found + ([(last, min(end - last, 1.0) / whole)] if end - last > 1e-3 else [])


@numba.njit(cache=True)
def shrink(screens, out, rows, row_weights, columns, column_weights):  # type: ignore[no-untyped-def]
    """The brighter of two screens (kept in the first), averaged over areas: the very numbers of OpenCV's INTER_AREA."""
    np.maximum(screens[0], screens[1], screens[0])
    lines = np.empty((screens.shape[1], out.shape[1]), np.float32)
    (first, second, third), (a, b, c) = columns, column_weights
    for y in range(lines.shape[0]):
        screen, line = screens[0, y], lines[y]
        for x in range(line.shape[0]):
            line[x] = screen[first[x]] * a[x] + screen[second[x]] * b[x] + screen[third[x]] * c[x]
    total = np.empty(out.shape[1], np.float32)
    for y in range(out.shape[0]):
        total[:] = np.float32(0.0)
        for i in range(rows.shape[0]):
            line, weight = lines[rows[i, y]], row_weights[i, y]
            for x in range(line.shape[0]):
                total[x] += weight * line[x]
        for x in range(line.shape[0]):
            out[y, x] = np.uint8(np.rint(total[x]))
