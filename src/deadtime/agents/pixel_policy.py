"""What a run on frames learned, as something that acts."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from deadtime.agents.a2c import Memory, nothing
from deadtime.agents.pixel_a2c import PixelActorCritic, new_pixel_actor_critic
from deadtime.agents.pixels import MOST_ACTIONS, PixelA2C, PixelQ, QNetwork, new_q, one_hot_queue, torso_outputs, with_arrays
from deadtime.agents.policy import Policy
from deadtime.agents.views import View
from deadtime.envs.emulator import SIDE, STACK


class PixelPolicy(Policy):
    """Acts on the last four frames, on them and the queue, or on the frames that are foreseen at the queue's end."""

    observation_shape = (STACK, SIDE, SIDE)

    def __init__(self, arrays: dict[str, np.ndarray], view: View, settings: PixelQ, actions: int, delay: int):
        """`arrays` are those of one seed's record; `actions` is the number of the game's own actions."""
        self.delay, self.agent, self.sees_queue = delay, view.name, view.sees == "queue"
        self.num_actions = _checked_actions(actions)
        self.looks_ahead = settings.model if view.predicts else ""
        self._room = max(arrays[".hidden"].shape[1] - torso_outputs(settings.channels), 0) // MOST_ACTIONS
        if self.sees_queue and self._room < delay:
            raise ValueError(f"this policy has room for {self._room} pending actions, and its delay is {delay}: train it again")
        make = partial(new_q, settings=settings, queue_inputs=self._room * MOST_ACTIONS)
        self._q = with_arrays(jax.eval_shape(make, jax.random.key(0)), arrays)

    def act(self, observation: Any, pending_actions: Any = (), predicted_observation: Any = None) -> int:
        """Return the action to choose now, which is executed after the pending ones."""
        return int(np.argmax(self.q_values(observation, pending_actions, predicted_observation)))

    def q_values(
        self, observation: Any, pending_actions: Any = (), predicted_observation: Any = None
    ) -> Float[np.ndarray, " A"]:
        """The value of each action."""
        if self.looks_ahead and self.delay and predicted_observation is None:
            raise ValueError(
                "this agent acts on where the queue leads, which only the emulator knows; got no predicted_observation: "
                "pass info['predicted_observation'] of deadtime.envs.atari.AtariEnv(game, delay, 'fresh')"
            )
        frames = observation if predicted_observation is None or not self.looks_ahead else predicted_observation
        queue = np.zeros(self._room, np.int32)
        if self.sees_queue and self.delay:
            queue[self._room - self.delay :] = _checked_queue(pending_actions, self.delay, self.num_actions)
        pending = self.delay if self.sees_queue else 0
        found = _q_values(self._q, _checked_frames(frames), queue, pending, self.num_actions)
        return np.asarray(found)[: self.num_actions]

    def predicted_observation(self, observation: Any, pending_actions: Any = ()) -> Any:
        """What it was given: what lies ahead only the emulator knows."""
        return observation


@jax.jit
def _q_values(q: QNetwork, frames: Any, queue: Any, pending: Any, actions: Any) -> Any:
    return q(frames, one_hot_queue(queue, pending, True), jnp.int32(actions))


class RecurrentPixelPolicy(Policy):
    """Acts on the frames that it has seen since `reset`; it never looks at the queue."""

    agent = "recurrent"
    observation_shape = (STACK, SIDE, SIDE)

    def __init__(self, arrays: dict[str, np.ndarray], settings: PixelA2C, actions: int, delay: int):
        """`arrays` are those of one seed's record; `actions` is the number of the game's own actions."""
        self.delay, self._units = delay, settings.lstm
        self.num_actions = _checked_actions(actions)
        make = partial(new_pixel_actor_critic, settings=settings)
        self._net = with_arrays(jax.eval_shape(make, jax.random.key(0)), arrays)
        self.reset()

    def reset(self) -> None:
        """Start an episode: forget what was seen."""
        self._memory = nothing(self._units)

    def act(self, observation: Any, pending_actions: Any = ()) -> int:
        """Return the likeliest action, which is executed after the pending ones; the frames are remembered."""
        return int(np.argmax(self.see(observation)))

    def see(self, observation: Any) -> Float[np.ndarray, " A"]:
        """Take in the last four frames; return the policy's logits."""
        self._memory, logits = _seen(self._net, self._memory, _checked_frames(observation), self.num_actions)
        return np.asarray(logits)[: self.num_actions]

    def predicted_observation(self, observation: Any, pending_actions: Any = ()) -> Any:
        """The present: it has no forward model."""
        return observation


@jax.jit
def _seen(net: PixelActorCritic, memory: Memory, frames: Any, actions: Any) -> tuple[Memory, Any]:
    memory, logits, _ = net(memory, frames, actions)
    return memory, logits


def _checked_actions(actions: int) -> int:
    if not 1 <= actions <= MOST_ACTIONS:
        raise ValueError(f"a game has 1 to {MOST_ACTIONS} actions; this policy says {actions}: train it again")
    return actions


def _checked_frames(frames: Any) -> np.ndarray:
    found = np.asarray(frames)
    if found.shape != (STACK, SIDE, SIDE) or found.dtype != np.uint8:
        raise ValueError(
            f"an observation is the last {STACK} frames, {SIDE} by {SIDE} bytes each; got {found.dtype} of shape "
            f"{found.shape}: pass what deadtime.envs.atari.AtariEnv gave"
        )
    return found


def _checked_queue(pending: Any, delay: int, actions: int) -> np.ndarray:
    queue = np.asarray(pending)
    if queue.shape != (delay,) or queue.dtype.kind not in "iu" or ((queue < 0) | (queue >= actions)).any():
        raise ValueError(
            f"pending_actions are the {delay} chosen last, oldest first, each from 0 to {actions - 1}; got {pending!r}: "
            "pass info['pending_actions'], or use policy.at_delay(m) for another delay"
        )
    return queue
