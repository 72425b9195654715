"""The base class of trained policies, and checks of the environments in which they act."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, Self

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from deadtime._support.files import printable
from deadtime.delays import Delay, DelayProcess, as_process
from deadtime.delays.waits import Observed as WhenObserved
from deadtime.delays.waits import Waits, waits_of
from deadtime.runtime.lstm_cell import Memory
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.predict_inputs import Observed, State, joined, memories_of, rows_of


class Policy:
    """A trained policy, which chooses an action from an observation and the pending actions."""

    delay: int
    """The delay in steps; of a delay that varies, the longest age."""
    process: DelayProcess | None
    """The process of the ages; None for a constant delay."""
    agent: str
    num_actions: int = 0
    """The number of actions; 0 if an action is an array of numbers within a box."""
    action_shape: tuple[int, ...] = ()
    observation_shape: tuple[int, ...] = ()
    num_states: int = 0
    """The number of states, if an observation is the number of a state."""
    sees_queue: bool = False
    """Whether the policy was trained on the pending actions themselves."""
    needs_queue: bool = True
    """Whether the policy checks and uses the pending actions."""
    plays_one_game: bool = False
    """Whether the policy acts on frames: of Atari games it plays only that of its training."""
    env: str = ""
    """The name of the environment of the training, if known."""
    looks_ahead: str = ""
    """The kind of look-ahead by an emulator; "" if there is none."""
    _waits: Waits | None = None
    _likely_ways = False
    """Whether the ways have the most likely ages (see `waits_of`)."""
    _manifest: Manifest
    _arrays: dict[str, np.ndarray]
    _low: np.ndarray
    _high: np.ndarray

    def _describe(self, manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the attributes from a manifest and arrays."""
        self._manifest = manifest
        self._arrays = dict(arrays)
        self.agent = manifest.agent
        self.delay = manifest.delay
        self.process = manifest.process
        self.env = manifest.env
        self.sees_queue = manifest.sees == "queue"
        self.num_states = manifest.states
        self.observation_shape = manifest.observation_shape
        self.num_actions = manifest.actions
        self._low = np.array(manifest.low, np.float32)
        self._high = np.array(manifest.high, np.float32)
        self.action_shape = () if manifest.actions else self._low.shape

    @property
    def manifest(self) -> Manifest:
        """The policy's manifest, with its present delay and environment."""
        return replace(self._manifest, delay=self.delay, process=self.process, env=self.env)

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The arrays that make up the policy, together with its manifest."""
        return self._arrays

    @property
    def channel(self) -> Delay:
        """The process of the ages or, if it is constant, the delay."""
        return self.delay if self.process is None else self.process

    @property
    def observed(self) -> WhenObserved:
        """When the policy must be given the age of a step."""
        return self._manifest.observed

    @property
    def follows_ways(self) -> bool:
        """Whether the policy predicts along expected ages, since the delay varies."""
        return self._waits is not None

    @property
    def sees_ages(self) -> bool:
        """Whether the policy needs the age that the agent knows."""
        return self.follows_ways and self.observed != "never"

    def act(self, observation: ArrayLike, pending_actions: ArrayLike = ()) -> Any:
        """Return the action to choose now, which is executed after the pending actions."""
        raise NotImplementedError

    def predict(
        self,
        observation: Observed,
        state: State | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, State | None]:
        """Return the action for an observation of `AugmentObservation`, and the next state.

        The arguments are those of Stable-Baselines3's `predict`. `observation` is a dict or a flat
        vector, or a batch of them; without a delay it may be the observation alone. `state` is the
        memory that the previous call returned, and None at the start of an episode. The memory is
        cleared where `episode_start` is true. The call does not change the memory of `act`. A
        policy that needs ages takes the dict form.
        """
        if not deterministic:
            rule = f"{self.agent} has a greedy policy, which is deterministic"
            raise ValueError(f"{rule}; got deterministic={deterministic!r}: pass True")
        rows, lead = rows_of(self, observation)
        before = memories_of(state, episode_start, self._empty_memory(), lead)
        known = self._known_ages(observation, len(rows))
        inputs = zip(rows, before, known, strict=True)
        decided = [self._decide(*row, memory, age) for row, memory, age in inputs]
        actions = [action for action, _ in decided]
        after = joined([memory for _, memory in decided if memory is not None], lead)
        kind = np.float32 if self.action_shape else np.int64
        shape = *lead, *self.action_shape
        return np.array(actions, kind).reshape(shape), state if after is None else after

    def _decide(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike,
        memory: Memory | None,
        age: ArrayLike | None,
    ) -> tuple[Any, Memory | None]:
        """Return the action to choose with this memory, and the next memory."""
        ages = {"ages": age} if self.sees_ages else {}
        return self.act(observation, pending_actions, **ages), memory

    def _known_ages(self, observation: Observed, count: int) -> list[Any]:
        """Return the known age of each row, or raise if one is needed and missing."""
        if not self.sees_ages:
            return [None] * count
        if not isinstance(observation, Mapping) or "action_age" not in observation:
            raise ValueError(
                f"{self.agent} needs the age of the action, observed "
                f'{self.observed!r}; got an observation without "action_age": pass a dict of '
                f"AugmentObservation around ActionDelay(env, process, observed={self.observed!r})"
            )
        return list(np.asarray(observation["action_age"]).reshape(count, -1)[:, -1])

    def _empty_memory(self) -> Memory | None:
        """Return the memory at the start of an episode, or None if the policy has no memory."""
        return None

    def reset(self) -> None:
        """Start an episode: a policy with a memory clears it."""

    def at_delay(self, delay: Delay | str) -> Self:
        """Return the same policy under another delay, at the start of an episode.

        A policy that predicts expects the ages of that delay. A policy that sees the queue has
        learned its values under the delay of its training.
        """
        process = as_process(delay)
        if self.sees_queue and process.longest != self.delay:
            raise ValueError(
                f"{self.agent} has learned only from queues of exactly {self.delay} actions; "
                f"got a delay of {process}: train it with that delay, or pass one whose longest "
                f"age is {self.delay}"
            )
        self._check_constant(process)
        twin = copy(self)
        twin.delay = process.longest
        twin.process = process if process.constant is None else None
        twin._waits = twin._ways_on()
        twin.reset()
        return twin

    def _check_constant(self, process: DelayProcess) -> None:
        """Raise if an emulator predicts the end of the queue and the delay varies."""
        if self.looks_ahead and process.constant is None:
            raise ValueError(
                f"{self.agent} predicts the end of the queue, so the delay must be constant; got "
                f"{process}: pass a whole number such as {process.longest}"
            )

    def _ways_on(self) -> Waits | None:
        """Return the ways to the first execution of an action, if predictions depend on ages."""
        if self.process is None or not self._manifest.predicts or self.looks_ahead:
            return None
        every = self._manifest.sees == "law"
        return waits_of(self.process, self.observed, likely=self._likely_ways, every=every)

    def _places(self, code: int, way: int = 0) -> np.ndarray:
        """Return the places in the queue of the actions on a way, from `_code` of the age."""
        assert self._waits is not None
        steps = int(self._waits.steps[code, way])
        return np.arange(steps) + self.delay - self._waits.ages[code, way, :steps]

    @property
    def ways(self) -> list[np.ndarray] | None:
        """The places in the queue of the actions that are executed before the next one is.

        Row 0 is for no known age, row i for a known age of i - 1. None stands for all actions of
        the queue, oldest first.
        """
        if self._waits is None:
            return None
        return [self._places(code) for code in range(len(self._waits.steps))]

    def _code(self, ages: ArrayLike | None) -> int:
        """Return 1 + the known age, 0 if none is known or needed; raise if it does not fit."""
        if not self.sees_ages:
            return 0
        known = ages if type(ages) is int else -2
        if ages is not None and type(ages) is not int:
            age = np.asarray(ages)
            known = age.item() if age.size == 1 and age.dtype.kind in "iu" else -2
        least = 0 if self.observed == "now" else -1
        if not least <= known <= self.delay:
            raise ValueError(
                f"{self.agent} needs the age of the action, {least} to {self.delay}, observed "
                f"{self.observed!r}; got ages={ages!r}: pass info['action_age'] of "
                f"ActionDelay(env, process, observed={self.observed!r})"
            )
        return known + 1

    def fits(self, actions: spaces.Space, observations: spaces.Space) -> bool:
        """Return whether the policy can act with these Gymnasium spaces."""
        if not self._fits_actions(actions):
            return False
        if isinstance(observations, spaces.Discrete):
            return (observations.start, observations.n) == (0, self.num_states)
        return not self.num_states and observations.shape == self.observation_shape

    def _fits_actions(self, actions: spaces.Space) -> bool:
        """Return whether the action space contains every action of the policy."""
        if self.action_shape:
            return (
                isinstance(actions, spaces.Box)
                and actions.shape == self.action_shape
                and bool((actions.low.astype(np.float32) <= self._low).all())
                and bool((actions.high.astype(np.float32) >= self._high).all())
            )
        if not isinstance(actions, spaces.Discrete):
            return False
        return (actions.start, actions.n) == (0, self.num_actions)

    @property
    def sizes(self) -> str:
        """The sizes of observations and actions as text."""
        if self.num_states:
            seen = f"{self.num_states} states"
        elif len(self.observation_shape) == 1:
            seen = f"{self.observation_shape[0]} numbers"
        else:
            seen = f"frames of shape {self.observation_shape}"
        if self.action_shape:
            return f"{seen} -> actions of shape {self.action_shape}"
        return f"{seen} -> {self.num_actions} actions"

    def _checked_queue(self, pending_actions: ArrayLike) -> np.ndarray:
        """Return the pending actions as an array, or raise if they do not fit."""
        queue = np.asarray(pending_actions)
        kinds, dtype = ("iuf", np.float32) if self.action_shape else ("iu", np.int64)
        if queue.size == 0:
            queue = np.zeros((0, *self.action_shape), dtype)
        good = queue.shape == (self.delay, *self.action_shape) and queue.dtype.kind in kinds
        if good and self.action_shape:
            good = bool(np.isfinite(queue).all())
        elif good:
            # for a short queue, count_nonzero is several times faster than any
            good = not np.count_nonzero((queue < 0) | (queue >= self.num_actions))
        if not good:
            kind = f"each from 0 to {self.num_actions - 1}"
            if self.action_shape:
                kind = f"each {self.action_shape[0]} finite numbers"
            raise ValueError(
                f"pending_actions are the last {self.delay} actions, oldest first, {kind}; "
                f"got {pending_actions!r}: "
                "pass info['pending_actions'], or use policy.at_delay(m) for another delay"
            )
        return queue if queue.dtype == dtype else queue.astype(dtype)

    def __repr__(self) -> str:
        """Return the agent, the environment if known, the delay and the sizes."""
        where = f" on {self.env}" if self.env else ""
        about = f"{self.agent}{where}, delay={self.channel}, {self.sizes}"
        return printable(f"{type(self).__name__}({about})")


@contextmanager
def fitting() -> Iterator[None]:
    """Turn errors of missing or malformed arrays into a ValueError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        rule = "a policy has the arrays that its agent learns"
        raise ValueError(f"{rule}; got others ({error!r:.99}): train it again") from error


def check_game(policy: object, name: str) -> None:
    """Raise if a deadtime policy was not trained on the Atari game `name`."""
    if isinstance(policy, Policy) and policy.plays_one_game and policy.env not in ("", name):
        raise ValueError(
            f"an Atari game is played by a policy that was trained on it; got {name} and a policy "
            f"of {policy.env}: train a policy on {name}, or pass {policy.env}"
        )


def check_place(policy: object, env: gym.Env, name: str = "") -> None:
    """Raise if a deadtime policy can't act in a Gymnasium environment.

    `name` is the environment's name in deadtime. By default it is read from the attribute
    `deadtime_name`, if the environment has one.
    """
    if not isinstance(policy, Policy):
        return
    own = str(getattr(env.unwrapped, "deadtime_name", ""))
    if own:
        check_game(policy, own)
    name = name or own or str(env)
    if not policy.fits(env.action_space, env.observation_space):
        other = "" if policy.num_states else ", or wrap the environment in deadtime.envs.adapted"
        raise ValueError(
            f"a policy needs the observations and actions of its training, {policy.sizes}; "
            f"{name} has observations {env.observation_space} and actions {env.action_space}: "
            f"train a policy there{other}"
        )
