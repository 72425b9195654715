"""Pools: environments outside a program that are stepped together, and the pool of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    import gymnasium as gym
    from jaxtyping import Bool, Float, Int

LARGEST_RETURN = float(np.finfo(np.float32).max)
"""The largest reward or return in size: learners and curves hold single precision."""


class Lane(NamedTuple):
    """One environment of a pool, as it is asked for."""

    environment: Any
    """What the family's `make` returned."""
    delay: int
    seed: int
    look_ahead: str = ""
    """How a family that can looks ahead through the queue; "" for not at all."""


class Played(NamedTuple):
    """A step of a pool, a row a lane. Where an episode ended, `shown` to `age` are of the next one."""

    shown: Any
    """What agents see."""
    queue: Int[np.ndarray, "n C"]
    age: Int[np.ndarray, " n"]
    """Steps since the episode began."""
    executed: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    earned: Float[np.ndarray, " n"]
    """The episode's return so far; where it ended, all of it."""
    terminated: Bool[np.ndarray, " n"]
    truncated: Bool[np.ndarray, " n"]
    life_lost: Bool[np.ndarray, " n"]
    lost: Bool[np.ndarray, " n"]
    """Whether a worker died, and with it the episode; the rest is then of a new one."""
    frame: Any = None
    """The newest frame alone, where agents see frames."""
    after: Any = None
    """What the step led to, before any reset; None where it is not seen."""
    queue_after: Any = None

    @property
    def over(self) -> Bool[np.ndarray, " n"]:
        """Whether an episode ended by itself, and not with its worker."""
        return (self.terminated | self.truncated) & ~self.lost


class Pool(Protocol):
    """Environments that are stepped together."""

    saves: bool
    """Whether `save` and `load` bring environments back to where they were."""
    untold: np.ndarray
    """Which lanes began anew while they were saved; the next step tells of them."""

    def reset(self) -> Played:
        """Begin episodes everywhere."""

    def send(self, actions: np.ndarray) -> None:
        """Give every lane its action (-1: it rests); `receive` waits for what comes of it."""

    def receive(self) -> Played:
        """Return what came of the actions that were sent."""

    def save(self) -> list[bytes]:
        """Return what each lane needs to go on from here."""

    def load(self, states: Sequence[bytes]) -> Played:
        """Go on from what `save` returned."""

    def close(self) -> None:
        """End all environments."""


class LocalPool:
    """Gymnasium environments of this process, one after the other; an episode that ends is followed
    by the next.

    Each is a scalar environment under its own delay. Gymnasium's SyncVectorEnv would step them in
    turn as well, at twice the price for eight and six times for one.
    """

    saves = False

    def __init__(self, envs: Sequence[gym.Env], seeds: Sequence[int], name: str):
        """Hold environments with `ActionDelay` around them; `name` is for errors."""
        self.envs = list(envs)
        self._seeds = list(seeds)
        self._name = name
        self._chosen = np.zeros(0)
        self.untold = np.zeros(len(self.envs), bool)

    def reset(self) -> Played:
        """Begin episodes everywhere."""
        pairs = zip(self.envs, self._seeds, strict=True)
        self._seen = [self._view(*env.reset(seed=seed)) for env, seed in pairs]
        count = len(self.envs)
        self._earned = [0.0] * count
        self._ages = [0] * count
        nothing = [0.0] * count
        return self._played(nothing, nothing, nothing, [False] * count, [False] * count, self._seen)

    def send(self, actions: np.ndarray) -> None:
        """Note the action of every lane."""
        self._chosen = actions

    def receive(self) -> Played:
        """Make one step of each lane."""
        after, executed, rewards, earned, ends, cuts = [], [], [], [], [], []
        actions = self._chosen.tolist() if self._chosen.ndim == 1 else self._chosen
        for i, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            obs, reward, terminated, truncated, info = env.step(action)
            self._seen[i] = self._view(obs, info)
            after.append(self._seen[i])
            reward = float(reward)
            if not abs(reward) <= LARGEST_RETURN:  # the learner computes in single precision
                rule = f"rewards are finite numbers; {self._name} gave {reward}"
                raise ValueError(f"{rule}: mend the environment")
            executed.append(info["executed_action"])
            rewards.append(reward)
            self._earned[i] += reward
            self._ages[i] += 1
            earned.append(self._earned[i])
            ends.append(bool(terminated))
            cuts.append(bool(truncated))
            if terminated or truncated:
                self._earned[i] = 0.0
                self._ages[i] = 0
                self._seen[i] = self._view(*env.reset())
        return self._played(executed, rewards, earned, ends, cuts, after)

    def _played(
        self,
        executed: Sequence[Any],
        reward: list[float],
        earned: list[float],
        terminated: list[bool],
        truncated: list[bool],
        after: list[tuple[np.ndarray, np.ndarray]],
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
            self.untold,
            self.untold,
            None,
            led_to,
            queue_after,
        )

    def _view(self, obs: Any, info: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        seen = np.array(obs, np.float32)
        if not np.isfinite(seen).all():
            raise ValueError(
                f"observations are finite numbers; {self._name} gave {obs!r}: mend the environment, or wrap it"
            )
        return seen, info["pending_actions"]

    def save(self) -> list[bytes]:
        """Raise: a Gymnasium environment can't be saved in general."""
        raise NotImplementedError

    def load(self, states: Sequence[bytes]) -> Played:
        """Raise: a Gymnasium environment can't be saved in general."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all environments."""
        for env in self.envs:
            env.close()


def _rows(seen: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return observations and queues, a row a lane, in single precision."""
    queue = np.array([queue for _, queue in seen])
    kind = np.float32 if queue.dtype.kind == "f" else np.int32
    return np.array([obs for obs, _ in seen]), queue.astype(kind)
