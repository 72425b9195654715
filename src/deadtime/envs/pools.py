"""The interface of pools of environments, which are stepped together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from deadtime.delays import Delay

LARGEST_RETURN = float(np.finfo(np.float32).max)
"""The largest absolute reward or return; learners and curves use single precision."""


class Lane(NamedTuple):
    """The description of one environment that a pool starts."""

    environment: Any
    """The environment, as the family's `make` returned it."""
    delay: Delay
    seed: int
    look_ahead: str = ""
    """The kind of look-ahead through the queue, for families that have one; "" for none."""


class Played(NamedTuple):
    """One step of a pool, one row per lane.

    Where an episode ended, `shown`, `queue` and `age` belong to the next episode.
    """

    shown: np.ndarray
    """The observations that agents see."""
    queue: np.ndarray
    """The pending actions, oldest first; shorter queues begin with zeros."""
    age: Int[np.ndarray, " n"]
    """The number of steps since the episode began."""
    executed: np.ndarray
    reward: Float[np.ndarray, " n"]
    earned: Float[np.ndarray, " n"]
    """The return of the episode so far, this step included."""
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    life_lost: Bool[np.ndarray, " n"]
    lost: Bool[np.ndarray, " n"]
    """Whether the episode was lost with its worker; other fields then show a new episode."""
    frame: Any = None
    """The newest frame, for agents that see frames."""
    after: Any = None
    """The observation after the step and before any reset; None for frames."""
    queue_after: Any = None
    action_age: Any = None
    """The age of the executed action; None for frames."""
    next_age: Any = None
    """The age of the action that the next step executes, or would execute if the episode went on;
    None for frames."""
    age_now: Any = None
    """The age of the action that the next step executes; None for frames."""

    @property
    def over(self) -> Bool[np.ndarray, " n"]:
        """Whether an episode ended by itself and was not lost."""
        return (self.terminated | self.truncated) & ~self.lost


class Pool(Protocol):
    """A set of environments that are stepped together, one per lane."""

    saves: bool
    """Whether `save` and `load` restore the environments exactly."""
    unreported: np.ndarray
    """The lanes that were restarted during `save`; the next step reports them as lost."""

    def reset(self) -> Played:
        """Start a new episode on every lane."""

    def send(self, actions: np.ndarray, resting: np.ndarray | None = None) -> None:
        """Send an action to every lane that is not `resting`; `receive` returns the outcome."""

    def receive(self) -> Played:
        """Wait for the step that `send` started, and return it."""

    def save(self) -> list[bytes]:
        """Return the state of each lane, for `load`."""

    def load(self, states: Sequence[bytes]) -> Played:
        """Restore the states that `save` returned."""

    def close(self) -> None:
        """Close all environments."""
