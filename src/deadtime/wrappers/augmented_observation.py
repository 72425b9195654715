"""Augmented states: all that an agent knows, as a Dict or as one vector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike

from deadtime.delays.convention import FixedDelay, check_memory
from deadtime.delays.nested import from_leaves, leaf_spaces, map_leaves, space_leaves
from deadtime.delays.pending import check_action_space
from deadtime.delays.process import DelayProcess
from deadtime.wrappers.knowledge import NOT_YET, AgeKnowledge

WrapperT = TypeVar("WrapperT")
_BYTES = 100
"""The bytes that a space of actions and its samples take for each number of an action."""


def beneath(env: object, kind: type[WrapperT]) -> Iterator[WrapperT]:
    """Yield the wrappers of type `kind` in `env`, outermost first."""
    while isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
        if isinstance(env, kind):
            yield env
        env = env.env


class Augmented(FixedDelay):
    """Mixin of the wrappers that show augmented states."""


def check_outermost(env: object, name: str) -> None:
    """Raise if `env`, to be wrapped by the delay `name`, already shows augmented states."""
    for found in beneath(env, Augmented):
        augments = type(found).__name__
        raise ValueError(
            f"{augments} shows the delays inside it, so it must be the outer wrapper; "
            f"got {name} around it: put {augments} around {name}"
        )


def check_rewards(rewards: object) -> bool:
    """Return whether rewards come with the observation; raise if `rewards` is not valid."""
    if rewards not in ("step", "observation"):
        raise ValueError(
            f'rewards is "step" or "observation"; got {rewards!r}: '
            'pass "observation" for rewards that come with the observation they led to'
        )
    return bool(rewards == "observation")


def second_observation_delay(first: DelayProcess, second: DelayProcess) -> ValueError:
    """Return the error for a delay of observations around another."""
    return ValueError(
        f"one environment has one delay of observations; got {second!r} on top of {first!r}: "
        "use a single delay of their sum"
    )


class Augmentation:
    """The space of augmented states, and the function that builds them.

    `batch` are the leading axes, for vector environments.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        pending_spec: tuple[spaces.Space, int] | None,
        knowledge: AgeKnowledge | None,
        observation_process: DelayProcess | None,
        flat: bool,
    ):
        """Build the space from the entries that the inner wrappers provide.

        `pending_spec` has the space of one action and K, and `knowledge` the entries about ages.
        Both are None without a delay of actions. `action_space` is the space of one action outside
        all wrappers.
        """
        if pending_spec is None and observation_process is None:
            raise ValueError(
                "AugmentObservation shows the pending actions of an ActionDelay; there is none "
                "inside it: write AugmentObservation(ActionDelay(env, delay)) "
                "(VectorActionDelay for a vector environment)"
            )
        self._observation_space, self._flat = observation_space, flat
        self.action_space, self.action_delay = pending_spec or (action_space, 0)
        self.observation_delay = 0 if observation_process is None else observation_process.longest
        self.delay = self.action_delay + self.observation_delay
        self.keeps_actions = pending_spec is None or self.observation_delay > 0
        if self.keeps_actions:
            check_action_space(self.action_space)
            self._check_same_actions(action_space)
        size = sum(int(np.prod(leaf.shape or ())) for leaf in leaf_spaces(self.action_space))
        check_memory("an augmented state", self.delay, _BYTES * self.delay * size)
        parts = {
            "observation": observation_space,
            "pending_actions": batch_space(self.action_space, self.delay),
        }
        self.shows_action_age = knowledge is not None and knowledge.shown
        if knowledge is not None and self.shows_action_age:
            none_yet = self.observation_delay or knowledge.observed == "hindsight"
            shape = (self.observation_delay + 1,)
            low = NOT_YET if none_yet else 0
            parts["action_age"] = spaces.Box(low, self.action_delay, shape, np.int64)
        if self.observation_delay:
            parts["observation_age"] = spaces.Box(0, self.observation_delay, (1,), np.int64)
        self.ages = [part for name, part in parts.items() if name.endswith("_age")]
        self.space: spaces.Space = spaces.Dict(parts)
        if flat:
            self.space = self._flat_space()

    def _check_same_actions(self, action_space: spaces.Space) -> None:
        if action_space != self.action_space:
            raise ValueError(
                "with delayed observations AugmentObservation keeps the chosen actions, so no "
                f"wrapper between it and ActionDelay may change them; got {action_space} outside "
                f"and {self.action_space} inside: put that wrapper beneath ActionDelay"
            )

    @property
    def observation_size(self) -> int:
        """How many numbers of a flat augmented state are the observation; they are the first."""
        return sum(len(_bounds(leaf)[0]) for leaf in leaf_spaces(self._observation_space))

    def _flat_space(self) -> spaces.Box:
        bounds = [_bounds(leaf) for leaf in leaf_spaces(self._observation_space)]
        bounds += [_bounds(leaf) for leaf in leaf_spaces(self.action_space)] * self.delay
        bounds += [_bounds(part) for part in self.ages]
        low, high = (np.concatenate(side) for side in zip(*bounds, strict=True))
        wide = any(leaf.dtype == np.float64 for leaf in leaf_spaces(self._observation_space))
        dtype = np.float64 if wide else np.float32
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype)

    def join(self, observation: object, known: dict[str, Any], batch: tuple[int, ...] = ()) -> Any:
        """Join an observation (with leading axes `batch`) and the agent's knowledge `known`.

        `known` has "pending_actions", with axes `batch` and then K, and the ages that are shown.
        """
        queue = known["pending_actions"]
        if not self._flat:
            copied = map_leaves(np.copy, self.action_space, queue)
            return {"observation": observation, **known, "pending_actions": copied}
        seen = [
            _encode(leaf, part, batch)
            for leaf, part in space_leaves(self._observation_space, observation)
        ]
        lead = (*batch, self.delay)
        pending = [
            _encode(leaf, part, lead) for leaf, part in space_leaves(self.action_space, queue)
        ]
        seen.append(np.concatenate(pending, axis=-1).reshape(*batch, -1))
        seen += [value for name, value in known.items() if name.endswith("_age")]
        return np.concatenate(seen, axis=-1).astype(self.space.dtype)


class Shown:
    """The pending actions and the ages that augmented states show.

    Without delayed observations `info` has all of them. With delayed observations this class keeps
    older actions and ages too, for the steps whose effect is not seen yet.
    """

    def __init__(self, augmentation: Augmentation, batch: tuple[int, ...] = ()):
        """`batch` are the leading axes, for vector environments."""
        self._of, self._batch = augmentation, batch
        self._space = augmentation.action_space
        self._keeps = augmentation.keeps_actions
        self._queue: list[np.ndarray] = []
        self._ages: np.ndarray = np.zeros(0, np.int64)

    def start(self, info: dict[str, Any], rows: np.ndarray | None = None) -> None:
        """Begin an episode with the `info` of its reset; in a batch, only in the environments of
        the mask `rows`.
        """
        if not self._keeps:
            return
        queue = [self._older(leaf) for leaf in leaf_spaces(self._space)]
        if self._of.action_delay:
            pending = [leaf for _, leaf in space_leaves(self._space, info["pending_actions"])]
            axis = len(self._batch)
            queue = [np.concatenate(pair, axis) for pair in zip(queue, pending, strict=True)]
        ages: np.ndarray = np.full(
            (*self._batch, self._of.observation_delay + 1), NOT_YET, np.int64
        )
        if self._of.shows_action_age:
            ages[..., -1] = info["action_age"]
        if rows is not None:
            for new, old in zip(queue, self._queue, strict=True):
                new[~rows] = old[~rows]
            ages[~rows] = self._ages[~rows]
        self._queue, self._ages = queue, ages

    def follow(self, action: object, age: ArrayLike | None) -> None:
        """Add the action just chosen, and the age known after this step unless none is shown."""
        if not self._keeps:
            return
        axis = len(self._batch)
        chosen = [np.asarray(part) for _, part in space_leaves(self._space, action)]
        newest = (slice(None),) * axis + (slice(1, None),)
        self._queue = [
            np.concatenate([old, np.expand_dims(new, axis).astype(old.dtype)], axis)[newest]
            for old, new in zip(self._queue, chosen, strict=True)
        ]
        if age is not None:
            self._ages = np.concatenate([self._ages[..., 1:], np.asarray(age)[..., None]], -1)

    def parts(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return the pending actions and the ages that are shown with the observation of `info`."""
        parts: dict[str, Any] = {}
        if self._keeps:
            parts["pending_actions"] = from_leaves(self._space, iter(self._queue))
        else:
            parts["pending_actions"] = info["pending_actions"]
        if self._of.shows_action_age:
            ages = self._ages if self._keeps else np.asarray(info["action_age"])[..., None]
            parts["action_age"] = ages.copy()
        if self._of.observation_delay:
            parts["observation_age"] = np.array(info["observation_age"])[..., None]
        return parts

    def row(self, parts: dict[str, Any], i: int) -> dict[str, Any]:
        """Return the parts of environment `i` of a batch."""
        queue = map_leaves(lambda leaf: leaf[i], self._space, parts["pending_actions"])
        return {**{name: part[i] for name, part in parts.items() if name.endswith("_age")},
                "pending_actions": queue}  # fmt: skip

    def _older(self, leaf: spaces.Space) -> np.ndarray:
        """Return the entries before the warm-up actions, which no step ever executes."""
        shape = (*self._batch, self._of.observation_delay, *(leaf.shape or ()))
        if isinstance(leaf, spaces.Box):
            return np.broadcast_to(np.clip(0, leaf.low, leaf.high).astype(leaf.dtype), shape).copy()
        first = getattr(leaf, "start", 0)
        return np.broadcast_to(np.asarray(first, leaf.dtype), shape).copy()


def _bounds(leaf: spaces.Space) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(leaf, spaces.Box):
        return leaf.low.ravel().astype(np.float64), leaf.high.ravel().astype(np.float64)
    if isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete):
        size = int(np.sum(_categories(leaf)[0]))
    elif isinstance(leaf, spaces.MultiBinary):
        size = int(np.prod(leaf.shape))
    else:
        raise ValueError(
            f"a flat observation holds Discrete, MultiDiscrete, MultiBinary and Box; got {leaf}: "
            "pass flat=False"
        )
    return np.zeros(size), np.ones(size)


def _categories(leaf: spaces.Discrete | spaces.MultiDiscrete) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(leaf, spaces.Discrete):
        return np.array([leaf.n]), np.array([leaf.start])
    return leaf.nvec.ravel(), leaf.start.ravel()


def _encode(leaf: spaces.Space, value: ArrayLike, lead: tuple[int, ...]) -> np.ndarray:
    """Return one vector for each index of the leading axes, with categories as one-hot vectors."""
    columns = (
        np.asarray(value).reshape(*lead, -1)
        if 0 not in lead
        else np.zeros((*lead, int(np.prod(leaf.shape or ()))))
    )
    if not isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete):
        return columns
    sizes, starts = _categories(leaf)
    hot = [
        np.eye(n)[columns[..., j].astype(int) - start]
        for j, (n, start) in enumerate(zip(sizes, starts, strict=True))
    ]
    return np.concatenate(hot, axis=-1)
