"""The replay rows of executed actions, as an index beside a replay buffer.

A replay buffer stores one entry per step and environment: the observation, the action chosen there,
the reward, the next observation. Under a delay the action that a step executed stands in an earlier
entry. `ExecutedRows` keeps the age of each step's action, and so finds that entry.

- Step t leaves a row if its action was chosen in the same episode, so if z_t ≤ t.
- The action was decided from the observation of its own entry, t - z_t.
- The next action, executed at t + 1, was decided at t + 1 - z_{t+1}. If that is the same entry, the
  channel held the action. A step that terminates its episode has no next action.
- The first step that executes an action is marked, since a policy learns from that one only.
- A row of n steps sums the rewards of steps t to t + n - 1, and its next action is the one executed
  at t + n. It is shorter where the episode ends, or where the buffer does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

UNKNOWN = -1
"""The age of the next step where it is not known yet."""


class Entries(NamedTuple):
    """The entries of a batch of rows in the replay buffer."""

    chosen: np.ndarray
    """The place where the executed action was chosen."""
    steps: np.ndarray
    """The number of steps whose rewards are summed."""
    last: np.ndarray
    """The place of the last of these steps."""
    next_chosen: np.ndarray
    """The place where the next action was chosen."""
    next_is_now: np.ndarray
    """Whether the next action is decided from the row's next observation instead."""
    held: np.ndarray
    """Whether the next action is the one that the last step executed."""
    first: np.ndarray
    """Whether the step was the first to execute its action."""


class ExecutedRows:
    """The ages of the steps in a replay buffer of `size` steps of `lanes` environments.

    Rewards are summed over `n_steps` steps.
    """

    def __init__(self, size: int, lanes: int, n_steps: int = 1):
        """Start with an empty buffer."""
        self._size, self._lanes = size, lanes
        self._n_steps = n_steps
        self.clear()

    def clear(self) -> None:
        """Forget all steps."""
        shape = self._size, self._lanes
        self._age = np.zeros(shape, np.int64)
        self._next_age = np.zeros(shape, np.int64)
        self._own = np.zeros(shape, bool)
        self._complete = np.zeros(shape, bool)
        self._first = np.zeros(shape, bool)
        self._was_executed = np.zeros(shape, bool)
        self._terminated = np.zeros(shape, bool)
        self._ended = np.zeros(shape, bool)
        self._head = 0
        self._filled = 0
        self._steps = np.zeros(self._lanes, np.int64)

    def restart(self, lanes: np.ndarray) -> None:
        """Begin a new episode in the environments of the mask `lanes`."""
        self._steps[lanes] = 0
        self._ended[self._head - 1, lanes] = True

    def add(
        self,
        ages: np.ndarray,
        next_ages: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> None:
        """Add a step of each environment.

        `ages` are those of the executed actions. `next_ages` are those of the next step, or
        `UNKNOWN` until it is taken.
        """
        place, steps = self._head, self._steps
        every = np.arange(self._lanes)
        before = (place - 1) % self._size
        self._complete_before(before, ages)
        own = (ages <= steps) & (ages < self._size)
        chosen = (place - np.where(own, ages, 0)) % self._size
        self._was_executed[place] = False
        self._age[place] = ages
        self._own[place] = own
        self._first[place] = own & ~self._was_executed[chosen, every]
        self._was_executed[chosen[own], every[own]] = True
        self._terminated[place] = terminated
        self._ended[place] = terminated | truncated
        self._next_age[place] = np.where(terminated, 0, next_ages)
        known = (self._next_age[place] != UNKNOWN) & (self._next_age[place] <= steps + 1)
        self._complete[place] = known
        self._steps = np.where(terminated | truncated, 0, steps + 1)
        self._head = (place + 1) % self._size
        self._filled = min(self._filled + 1, self._size)

    def _complete_before(self, before: int, ages: np.ndarray) -> None:
        """Write the ages of this step as the next ages of the step before, where they waited."""
        waits = (self._next_age[before] == UNKNOWN) & (self._steps > 0)
        self._next_age[before] = np.where(waits, ages, self._next_age[before])
        self._complete[before] |= waits & (ages <= self._steps)

    def usable(self, places: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Return whether each entry is a row whose earlier entries are still in the buffer."""
        back = (self._head - 1 - places) % self._size
        steps = self._lengths(places, lanes)
        next_age = self._next_age[(places + steps - 1) % self._size, lanes]
        reach = np.maximum(self._age[places, lanes], next_age - steps)
        return (
            self._own[places, lanes] & self._complete[places, lanes] & (back + reach < self._size)
        )

    def _lengths(self, places: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Return how many steps the row of each entry has."""
        steps = np.ones_like(places)
        going = np.ones(np.shape(places), bool)
        for _ in range(1, self._n_steps):
            following = (places + steps) % self._size
            going &= ~self._ended[following - 1, lanes] & (following != self._head)
            going &= self._complete[following, lanes]
            steps = steps + going
        return steps

    def draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the places and environments of `count` rows, each with equal probability.

        The random numbers are NumPy's global ones, as in Stable-Baselines3. If every entry is a row
        they are the same numbers.
        """
        places = np.random.randint(0, max(self._filled, 1), size=count)
        lanes = np.random.randint(0, self._lanes, size=count)
        wrong = ~self.usable(places, lanes)
        if wrong.all():
            self._check_any()
        while wrong.any():
            again = np.flatnonzero(wrong)
            places[again] = np.random.randint(0, self._filled, size=len(again))
            lanes[again] = np.random.randint(0, self._lanes, size=len(again))
            wrong[again] = ~self.usable(places[again], lanes[again])
        return places, lanes

    def _check_any(self) -> None:
        grid = np.meshgrid(np.arange(self._filled), np.arange(self._lanes), indexing="ij")
        if not self.usable(*grid).any():
            raise ValueError(
                "a batch is drawn from steps whose executed action was chosen in the same episode; "
                f"got none in {self._filled} steps: raise learning_starts, or the length of "
                "episodes above the delay"
            )

    def entries(self, places: np.ndarray, lanes: np.ndarray) -> Entries:
        """Return the entries of the rows at `places` of the environments `lanes`."""
        steps = self._lengths(places, lanes)
        last = (places + steps - 1) % self._size
        next_age = self._next_age[last, lanes]
        continues = ~self._terminated[last, lanes]
        return Entries(
            chosen=(places - self._age[places, lanes]) % self._size,
            steps=steps,
            last=last,
            next_chosen=(last + 1 - next_age) % self._size,
            next_is_now=next_age == 0,
            held=(next_age == self._age[last, lanes] + 1) & continues,
            first=self._first[places, lanes],
        )
