"""Pools of environments that are stepped together, and the pool of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import gymnasium as gym
    from jaxtyping import Bool, Float, Int

    from deadtime.delays import Delay

LARGEST_RETURN = float(np.finfo(np.float32).max)
"""The largest absolute reward or return; learners and curves use single precision."""


class Lane(NamedTuple):
    """The order for one environment of a pool."""

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
    queue: Int[np.ndarray, "n C"]
    age: Int[np.ndarray, " n"]
    """The number of steps since the episode began."""
    executed: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    earned: Float[np.ndarray, " n"]
    """The return of the episode so far, this step included."""
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    life_lost: Bool[np.ndarray, " n"]
    lost: Bool[np.ndarray, " n"]
    """Whether the episode was lost with its worker; the rest then belongs to a new episode."""
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

    def send(self, actions: np.ndarray) -> None:
        """Send an action to every lane, -1 to pause a lane; `receive` returns the outcome."""

    def receive(self) -> Played:
        """Wait for the step that `send` started, and return it."""

    def save(self) -> list[bytes]:
        """Return the state of each lane, for `load`."""

    def load(self, states: Sequence[bytes]) -> Played:
        """Restore the states that `save` returned."""

    def close(self) -> None:
        """Close all environments."""


class LocalPool:
    """A pool that steps Gymnasium environments in this process, one after the other.

    Each lane is a scalar environment under its own delay. After an episode the next one starts.
    Gymnasium's SyncVectorEnv takes twice the time for eight environments, and six times for one.
    """

    saves = False

    def __init__(self, envs: Sequence[gym.Env], seeds: Sequence[int], name: str):
        """Take environments that are wrapped in `ActionDelay`, with ages observed "now".

        `name` is for error messages.
        """
        self.envs = list(envs)
        self._seeds = list(seeds)
        self._name = name
        self._chosen = np.zeros(0)
        self.unreported = np.zeros(len(self.envs), bool)

    def reset(self) -> Played:
        """Start a new episode on every lane."""
        pairs = zip(self.envs, self._seeds, strict=True)
        self._seen = [self._view(*env.reset(seed=seed)) for env, seed in pairs]
        count = len(self.envs)
        self._earned = [0.0] * count
        self._ages = [0] * count
        nothing = [0.0] * count
        none = [0] * count
        ended = [False] * count
        return self._played(nothing, nothing, nothing, ended, ended, self._seen, none, none)

    def send(self, actions: np.ndarray) -> None:
        """Keep the action of every lane for `receive`."""
        self._chosen = actions

    def receive(self) -> Played:
        """Step each lane once, and start the next episode where one ended."""
        after: list[tuple[np.ndarray, np.ndarray]] = []
        executed: list[Any] = []
        action_ages: list[int] = []
        next_ages: list[int] = []
        rewards: list[float] = []
        earned: list[float] = []
        terminations: list[bool] = []
        truncations: list[bool] = []
        actions = self._chosen.tolist() if self._chosen.ndim == 1 else self._chosen
        for i, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            obs, reward, terminated, truncated, info = env.step(action)
            self._seen[i] = self._view(obs, info)
            after.append(self._seen[i])
            reward = float(reward)
            if not abs(reward) <= LARGEST_RETURN:  # the learner computes in single precision
                rule = f"rewards are finite numbers; {self._name} gave {reward}"
                raise ValueError(f"{rule}: fix the environment")
            executed.append(info["executed_action"])
            action_ages.append(info["executed_age"])
            next_ages.append(info["action_age"])
            rewards.append(reward)
            self._earned[i] += reward
            self._ages[i] += 1
            earned.append(self._earned[i])
            terminations.append(bool(terminated))
            truncations.append(bool(truncated))
            if terminated or truncated:
                self._earned[i] = 0.0
                self._ages[i] = 0
                self._seen[i] = self._view(*env.reset())
        return self._played(
            executed, rewards, earned, terminations, truncations, after, action_ages, next_ages
        )

    def _played(
        self,
        executed: Sequence[Any],
        reward: list[float],
        earned: list[float],
        terminated: list[bool],
        truncated: list[bool],
        after: list[tuple[np.ndarray, np.ndarray]],
        action_ages: list[int],
        next_ages: list[int],
    ) -> Played:
        shown, queue = _rows(self._seen)
        goes_on = not any(terminated) and not any(truncated)
        led_to, queue_after = (shown, queue) if goes_on else _rows(after)
        return Played(
            shown,
            queue,
            np.array(self._ages),
            np.array(executed, queue.dtype),
            np.array(reward, np.float32),
            np.array(earned),
            np.array(terminated),
            np.array(truncated),
            self.unreported,
            self.unreported,
            None,
            led_to,
            queue_after,
            np.array(action_ages, np.int32),
            np.array(next_ages, np.int32),
        )

    def _view(self, obs: ArrayLike, info: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        seen = np.array(obs, np.float32)
        if not np.isfinite(seen).all():
            raise ValueError(
                f"observations are finite numbers; {self._name} gave {obs!r}: "
                "fix the environment, or wrap it"
            )
        return seen, info["pending_actions"]

    def save(self) -> list[bytes]:
        """Raise, because a Gymnasium environment can't be saved in general."""
        raise NotImplementedError

    def load(self, states: Sequence[bytes]) -> Played:
        """Raise, because a Gymnasium environment can't be saved in general."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all environments."""
        for env in self.envs:
            env.close()


def _rows(seen: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return observations and queues as arrays with one row per lane."""
    queue = np.array([queue for _, queue in seen])
    kind = np.float32 if queue.dtype.kind == "f" else np.int32
    return np.array([obs for obs, _ in seen]), queue.astype(kind)
