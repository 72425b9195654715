"""A policy that acts with a network, on numbers or frames, with or without a memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from deadtime.runtime.decision import Decision, Parts, head_of, input_layout_of
from deadtime.runtime.forward_models import models_of
from deadtime.runtime.frame_layers import FRAMES
from deadtime.runtime.lstm_cell import Memory
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.network import network_of
from deadtime.runtime.policy import Policy, fitting

if TYPE_CHECKING:
    from jaxtyping import Float

_NO_QUEUE = np.zeros(0, np.int64)


class NetworkPolicy(Policy):
    """A policy that acts with a network.

    It acts on the observation and, for some agents, on the pending actions. A policy with a memory
    acts on all observations since `reset`.
    """

    parts: Parts
    """The parts of which a decision consists."""

    def __init__(self, manifest: Manifest, arrays: Mapping[str, np.ndarray]):
        """Build the policy, or raise if the arrays do not fit the manifest.

        The module `network` lists the names of the arrays.
        """
        if manifest.states:
            got = f"{manifest.states} numbered states"
            raise ValueError(f"a NetworkPolicy observes arrays; got {got}: use TablePolicy")
        frames = manifest.encoder == "frames"
        self._describe(manifest, arrays)
        self.plays_one_game = frames
        self.looks_ahead = manifest.model if frames and manifest.predicts else ""
        self.needs_queue = self.sees_queue or not frames
        if manifest.memory and not manifest.predicts:
            self.needs_queue = self.sees_queue
        with fitting():
            network = network_of(manifest, arrays)
            layout = input_layout_of(manifest, network)
            self.parts = Parts(network, models_of(manifest, arrays), layout, head_of(manifest))
        self._waits = self._ways_on()
        self.reset()

    def reset(self) -> None:
        """Start an episode: a policy with a memory clears it."""
        self._memory = self._empty_memory()

    def _empty_memory(self) -> Memory | None:
        lstm = self.parts.network.lstm
        return lstm.empty() if lstm else None

    def act(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike = (),
        predicted_observation: ArrayLike | None = None,
        ages: ArrayLike | None = None,
    ) -> int | np.ndarray:
        """Return the action to choose now, which is executed after the pending actions.

        A policy with a memory remembers the observation. A policy with a look-ahead acts on
        `predicted_observation`. `ages` is the age that the agent knows, -1 if it knows none yet.
        Under a delay that varies, a policy that predicts or was trained with ages needs it, unless
        ages are never observed (see `sees_ages`).
        """
        return self._choice(self.see(observation, pending_actions, predicted_observation, ages))

    def see(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike = (),
        predicted_observation: ArrayLike | None = None,
        ages: ArrayLike | None = None,
    ) -> Float[np.ndarray, " A"]:
        """Return the values, the logits or the bounded action, and update the memory."""
        given = observation, pending_actions, predicted_observation
        outputs, self._memory = self._step(*given, self._memory, ages)
        return outputs

    def decision(self) -> Decision:
        """Return the computation of this policy's decisions, which does not allocate arrays."""
        return Decision(self.parts)

    def q_values(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike = (),
        predicted_observation: ArrayLike | None = None,
        ages: ArrayLike | None = None,
    ) -> Float[np.ndarray, " A"]:
        """Return the value of each action, averaged over the predictions."""
        if self._manifest.head not in ("values", "dueling"):
            rule = "only networks whose head is values or dueling have q_values"
            raise ValueError(f"{rule}; got {self._manifest.head}: use act")
        return self.see(observation, pending_actions, predicted_observation, ages)

    def predicted_observation(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike = (),
        ages: ArrayLike | None = None,
    ) -> np.ndarray:
        """Return the observation predicted for the time when the next action is executed.

        A policy without a forward model returns the present observation.
        """
        obs, queue = self._checked(observation, pending_actions)
        queue = self._before(queue, ages)
        if not self.parts.models:
            return obs
        with np.errstate(all="ignore"):
            return np.mean([model.roll(obs, queue) for model in self.parts.models], axis=0)

    def _decide(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike,
        memory: Memory | None,
        age: ArrayLike | None,
    ) -> tuple[int | np.ndarray, Memory | None]:
        outputs, memory = self._step(observation, pending_actions, None, memory, age)
        return self._choice(outputs), memory

    def _step(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike,
        ahead: ArrayLike | None,
        memory: Memory | None,
        ages: ArrayLike | None,
    ) -> tuple[np.ndarray, Memory | None]:
        """Return the values, the logits or the bounded action, and the next memory."""
        if ahead is not None and not self.looks_ahead and np.shape(ahead) != FRAMES:
            rule = "this policy acts on the observation and the pending actions alone"
            raise ValueError(f"{rule}; got predicted_observation={ahead!r:.99}: leave it out")
        if self.looks_ahead and (self.delay or ahead is not None):
            observation = self._foreseen(ahead)
        obs, queue = self._checked(observation, pending_actions)
        return self.decision().outputs(obs, self._before(queue, ages), memory, self.known(ages))

    @property
    def sees_ages(self) -> bool:
        """Whether the policy needs the age that the agent knows."""
        if self.sees_queue:
            return self._manifest.age_inputs > 0 and self.process is not None
        return super().sees_ages

    def known(self, ages: ArrayLike | None) -> int:
        """Return 1 + the age that the network sees, 0 for none; raise if `ages` does not fit.

        Under a constant delay the age is the delay.
        """
        constant = self._manifest.age_inputs > 0 and self.process is None
        return self.delay + 1 if constant else self._code(ages)

    def _before(self, queue: np.ndarray, ages: ArrayLike | None) -> np.ndarray:
        """Return the pending actions that are executed before the one to choose."""
        return queue[self._places(self._code(ages))] if self.follows_ways else queue

    def _foreseen(self, ahead: ArrayLike | None) -> ArrayLike:
        if ahead is None:
            raise ValueError(
                "this policy acts on the emulator's prediction after the pending actions; "
                "got no predicted_observation: pass info['predicted_observation'] of "
                "deadtime.envs.atari.AtariEnv(game, delay, 'fresh')"
            )
        return ahead

    def _checked(
        self, observation: ArrayLike, pending_actions: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the observation and the queue as arrays, or raise if they do not fit."""
        obs = np.asarray(observation)
        if self.plays_one_game:
            self._check_frames(obs)
        else:
            numbers = obs.shape == self.observation_shape and obs.dtype.kind in "iuf"
            if not numbers or not np.isfinite(obs).all():
                raise ValueError(
                    f"an observation is {self.observation_shape[0]} finite numbers; "
                    f"got {observation!r}: pass the environment's observation"
                )
            obs = obs.astype(np.float32)
        return obs, self._checked_queue(pending_actions) if self.needs_queue else _NO_QUEUE

    def _check_frames(self, frames: np.ndarray) -> None:
        if frames.shape != self.observation_shape or frames.dtype != np.uint8:
            count, side, _ = self.observation_shape
            raise ValueError(
                f"an observation is the last {count} frames, {side} by {side} bytes each; got "
                f"{frames.dtype} of shape {frames.shape}: "
                "pass the observation of deadtime.envs.atari.AtariEnv or deadtime.envs.adapted(env)"
            )

    def _choice(self, headed: np.ndarray) -> int | np.ndarray:
        return headed if self.action_shape else int(np.argmax(headed))
