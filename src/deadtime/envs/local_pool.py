"""The pool of Gymnasium environments in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from deadtime.envs.pools import LARGEST_RETURN, Played

if TYPE_CHECKING:
    import gymnasium as gym


class _Step(NamedTuple):
    """The numbers of one step of a lane."""

    executed: Any
    reward: float
    earned: float
    terminated: bool
    truncated: bool
    action_age: int
    next_age: int


class LocalPool:
    """A pool that steps Gymnasium environments in this process, one after the other.

    Each lane is a scalar environment under its own delay. After an episode the next one starts.
    Gymnasium's SyncVectorEnv takes twice the time for eight environments, and six times for one.
    """

    saves = False

    def __init__(self, envs: Sequence[gym.Env], seeds: Sequence[int], name: str, capacity: int = 0):
        """Take environments that are wrapped in `ActionDelay`, with ages observed "now".

        `name` is for error messages. Queues have the length of the longest one, and at least
        `capacity`.
        """
        self.envs = list(envs)
        self._seeds = list(seeds)
        self._name = name
        self._capacity = capacity
        self._chosen = np.zeros(0)
        self._resting: list[bool] = [False] * len(self.envs)
        self.unreported = np.zeros(len(self.envs), bool)
        self.calls: np.ndarray = np.zeros(len(self.envs), np.int64)
        """The number of steps and resets of each lane so far."""

    def reset(self) -> Played:
        """Start a new episode on every lane."""
        count = len(self.envs)
        pairs = zip(self.envs, self._seeds, strict=True)
        starts = [env.reset(seed=seed) for env, seed in pairs]
        self.calls += 1
        queues = [info["pending_actions"] for _, info in starts]
        self._kind = np.float32 if queues[0].dtype.kind == "f" else np.int32
        action_shape = queues[0].shape[1:]
        longest = max(self._capacity, *map(len, queues))
        shape = np.shape(starts[0][0])
        self._frames = len(shape) > 1
        self._shown = np.zeros((count, *shape), np.uint8 if self._frames else np.float32)
        self._queue = np.zeros((count, longest, *action_shape), self._kind)
        self._earned = [0.0] * count
        self._ages = [0] * count
        self._age_now = [0] * count
        for i, (obs, info) in enumerate(starts):
            self._keep(i, obs, info)
        self._check_shown()
        nothing = _Step(np.zeros(action_shape), 0.0, 0.0, False, False, 0, 0)
        self._last = [nothing] * count
        return self._played(self._shown, self._queue)

    def send(self, actions: np.ndarray, resting: np.ndarray | None = None) -> None:
        """Keep the action of every lane for `receive`, except those that are `resting`."""
        self._chosen = actions
        self._resting = [False] * len(self.envs) if resting is None else resting.tolist()

    def receive(self) -> Played:
        """Step each lane once, and start the next episode where one ended."""
        self._shown = self._shown.copy()  # the arrays of earlier steps stay as they are
        self._queue = self._queue.copy()
        actions = self._chosen.tolist() if self._chosen.ndim == 1 else self._chosen
        over = []
        for i, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            if self._resting[i]:
                continue
            obs, reward, terminated, truncated, info = env.step(action)
            self.calls[i] += 1
            self._keep(i, obs, info)
            self._note(i, reward, terminated, truncated, info)
            if terminated or truncated:
                over.append(i)
        self._check_shown()
        after, queue_after = self._shown, self._queue
        if over:
            self._start(over)
        return self._played(after, queue_after)

    def _keep(self, i: int, obs: ArrayLike, info: dict[str, Any]) -> None:
        """Store the observation and the pending actions of lane `i`, for `Played`."""
        self._shown[i] = obs
        self._age_now[i] = info["action_age"]
        queue = info["pending_actions"]
        self._queue[i, self._queue.shape[1] - len(queue) :] = queue

    def _note(
        self, i: int, reward: SupportsFloat, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """Keep the numbers of a step."""
        paid = float(reward)
        if not abs(paid) <= LARGEST_RETURN:  # the learner computes in single precision
            rule = f"rewards are finite numbers; {self._name} gave {paid}"
            raise ValueError(f"{rule}: fix the environment")
        self._ages[i] += 1
        self._earned[i] += paid
        self._last[i] = _Step(
            info["executed_action"],
            paid,
            self._earned[i],
            bool(terminated),
            bool(truncated),
            info["executed_age"],
            info["action_age"],
        )

    def _start(self, over: list[int]) -> None:
        """Start the next episode on the lanes `over`."""
        self._shown = self._shown.copy()
        self._queue = self._queue.copy()
        for i in over:
            self._earned[i] = 0.0
            self._ages[i] = 0
            self._keep(i, *self.envs[i].reset())
            self.calls[i] += 1
        self._check_shown()

    def _check_shown(self) -> None:
        finite = np.isfinite(self._shown)
        if not finite.all():
            bad = self._shown[~finite.all(axis=1)][0]
            raise ValueError(
                f"observations are finite numbers; {self._name} gave {bad!r}: "
                "fix the environment, or wrap it"
            )

    def _played(self, after: np.ndarray, queue_after: np.ndarray) -> Played:
        rows: list[tuple[Any, ...]] = list(zip(*self._last, strict=True))
        last = dict(zip(_Step._fields, rows, strict=True))
        return Played(
            self._shown,
            self._queue,
            np.array(self._ages),
            np.array(last["executed"], self._kind),
            np.array(last["reward"], np.float32),
            np.array(last["earned"]),
            np.array(last["terminated"]),
            np.array(last["truncated"]),
            self.unreported,
            self.unreported,
            self._shown[:, -1] if self._frames else None,
            None if self._frames else after,
            queue_after,
            np.array(last["action_age"], np.int32),
            np.array(last["next_age"], np.int32),
            np.array(self._age_now, np.int32),
        )

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
