"""Policies of runs on frames: a Q-network, and an actor-critic with a memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deadtime._support.files import check_fit
from deadtime.runtime.array_forms import Form
from deadtime.runtime.frame_layers import (
    FRAMES,
    MOST_ACTIONS,
    look,
    torso_forms,
    torso_of,
    torso_outputs,
)
from deadtime.runtime.lstm_cell import Lstm, Memory, normalised
from deadtime.runtime.policy import Policy, check_sees

if TYPE_CHECKING:
    from jaxtyping import Float


class PixelPolicy(Policy):
    """A policy that acts on the last four frames, on them and the queue, or on foreseen frames."""

    observation_shape = FRAMES
    plays_one_game = True

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        agent: str,
        sees: str,
        delay: int,
        actions: int,
        *,
        channels: Sequence[int],
        hidden: int,
        dueling: bool = True,
        layer_norm: bool = True,
        model: str = "fresh",
    ):
        """Build the policy from the arrays of one seed's record.

        `sees` says what the network is shown (see `policy.SEES`), and `actions` how many the game
        has. `channels`, `hidden`, `dueling` and `layer_norm` are the network's settings. `model` is
        the look-ahead of the emulator for agents that predict.
        """
        predicts = check_sees(sees)
        self.agent = agent
        self.delay = delay
        self.sees_queue = sees == "queue"
        self.num_actions = _checked_actions(actions)
        self.looks_ahead = model if predicts else ""
        self._seen = torso_outputs(channels)
        self._room = max(arrays[".hidden"].shape[1] - self._seen, 0) // MOST_ACTIONS
        if self.sees_queue and self._room < delay:
            raise ValueError(f"this policy has room for {self._room} pending actions, and its delay is {delay}: train it again")
        self._inputs = self._seen + MOST_ACTIONS * self._room
        wanted = torso_forms(channels) | {
            ".hidden": Form(np.float32, hidden, self._inputs),
            ".hidden_bias": Form(np.float32, hidden),
            ".out": Form(np.float32, MOST_ACTIONS + dueling, hidden),
            ".out_bias": Form(np.float32, MOST_ACTIONS + dueling),
        }
        if layer_norm:
            wanted |= _norm_forms(".norm", hidden)
        check_fit(arrays, wanted)
        self._torso = torso_of(arrays)
        self._hidden = arrays[".hidden"], arrays[".hidden_bias"]
        self._norm = _norm_of(arrays, ".norm") if layer_norm else None
        self._out = arrays[".out"], arrays[".out_bias"]
        self._dueling = dueling

    def act(self, observation: Any, pending_actions: Any = (), predicted_observation: Any = None) -> int:
        """Return the action to choose now, which is executed after the pending ones."""
        return int(np.argmax(self.q_values(observation, pending_actions, predicted_observation)))

    def q_values(
        self, observation: Any, pending_actions: Any = (), predicted_observation: Any = None
    ) -> Float[np.ndarray, " A"]:
        """Return the value of each action."""
        if self.looks_ahead and self.delay and predicted_observation is None:
            raise ValueError(
                "this agent acts on where the queue leads, which only the emulator knows; "
                "got no predicted_observation: pass info['predicted_observation'] of "
                "deadtime.envs.atari.AtariEnv(game, delay, 'fresh')"
            )
        foreseen = self.looks_ahead and predicted_observation is not None
        frames = _checked_frames(predicted_observation if foreseen else observation)
        x = np.zeros(self._inputs, np.float32)
        if self.sees_queue and self.delay:
            queue = _checked_queue(pending_actions, self.delay, self.num_actions)
            places = np.arange(self._room - self.delay, self._room)
            x[self._seen + MOST_ACTIONS * places + queue] = 1.0
        with np.errstate(all="ignore"):
            x[: self._seen] = look(self._torso, frames)
            return self._valued(x)

    def _valued(self, x: np.ndarray) -> np.ndarray:
        """Return the value of each action, from the convolutions' outputs and the queue."""
        weight, bias = self._hidden
        x = weight @ x + bias
        if self._norm is not None:
            x = normalised(x, self._norm)
        weight, bias = self._out
        scores = weight @ np.maximum(x, np.float32(0.0)) + bias
        found = scores[: self.num_actions]
        return scores[-1] + found - found.sum() / self.num_actions if self._dueling else found

    def predicted_observation(self, observation: Any, pending_actions: Any = ()) -> Any:
        """Return the observation: only the emulator knows what lies ahead."""
        return observation


class RecurrentPixelPolicy(Policy):
    """A policy that acts on all frames since `reset`; it never looks at the queue."""

    agent = "recurrent"
    observation_shape = FRAMES
    plays_one_game = True
    _memory: Memory

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        delay: int,
        actions: int,
        *,
        channels: Sequence[int],
        hidden: int,
        lstm: int,
        layer_norm: bool = True,
    ):
        """Build the policy from the arrays of one seed's record.

        `actions` is how many the game has; the others are the network's settings.
        """
        self.delay = delay
        self.num_actions = _checked_actions(actions)
        wanted = torso_forms(channels) | {
            ".hidden": Form(np.float32, hidden, torso_outputs(channels)),
            ".hidden_bias": Form(np.float32, hidden),
            ".lstm.from_input": Form(np.float32, 4 * lstm, hidden),
            ".lstm.from_output": Form(np.float32, 4 * lstm, lstm),
            ".lstm.bias": Form(np.float32, 4 * lstm),
            ".out": Form(np.float32, MOST_ACTIONS + 1, lstm),
            ".out_bias": Form(np.float32, MOST_ACTIONS + 1),
        }
        norms = {f".lstm.norms[{i}]": size for i, size in enumerate((4 * lstm, 4 * lstm, lstm))}
        if layer_norm:
            for name, size in norms.items():
                wanted |= _norm_forms(name, size)
        check_fit(arrays, wanted)
        self._torso = torso_of(arrays)
        self._hidden = arrays[".hidden"], arrays[".hidden_bias"]
        self._lstm = Lstm(
            arrays[".lstm.from_input"],
            arrays[".lstm.from_output"],
            arrays[".lstm.bias"],
            [_norm_of(arrays, name) for name in norms] if layer_norm else [],
        )
        self._out = arrays[".out"], arrays[".out_bias"]
        self.reset()

    def reset(self) -> None:
        """Start an episode with an empty memory."""
        self._memory = self._lstm.empty()

    def act(self, observation: Any, pending_actions: Any = ()) -> int:
        """Return the likeliest action, which is executed after the pending ones.

        The policy remembers the frames.
        """
        return int(np.argmax(self.see(observation)))

    def see(self, observation: Any) -> Float[np.ndarray, " A"]:
        """Take in the last four frames; return the policy's logits."""
        frames = _checked_frames(observation)
        with np.errstate(all="ignore"):
            weight, bias = self._hidden
            x = np.maximum(weight @ look(self._torso, frames) + bias, np.float32(0.0))
            self._memory = self._lstm.step(self._memory, x)
            weight, bias = self._out
            return (weight @ self._memory.output + bias)[: self.num_actions]

    def predicted_observation(self, observation: Any, pending_actions: Any = ()) -> Any:
        """Return the present observation: this policy has no forward model."""
        return observation


def _norm_forms(name: str, size: int) -> dict[str, Form]:
    return {f"{name}.gain": Form(np.float32, size), f"{name}.shift": Form(np.float32, size)}


def _norm_of(arrays: Mapping[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    return arrays[f"{name}.gain"], arrays[f"{name}.shift"]


def _checked_actions(actions: int) -> int:
    if not 1 <= actions <= MOST_ACTIONS:
        raise ValueError(f"a game has 1 to {MOST_ACTIONS} actions; this policy says {actions}: train it again")
    return actions


def _checked_frames(frames: Any) -> np.ndarray:
    found = np.asarray(frames)
    if found.shape != FRAMES or found.dtype != np.uint8:
        count, side, _ = FRAMES
        raise ValueError(
            f"an observation is the last {count} frames, {side} by {side} bytes each; "
            f"got {found.dtype} of shape {found.shape}: pass what deadtime.envs.atari.AtariEnv gave"
        )
    return found


def _checked_queue(pending: Any, delay: int, actions: int) -> np.ndarray:
    queue = np.asarray(pending)
    whole = queue.shape == (delay,) and queue.dtype.kind in "iu"
    if not whole or ((queue < 0) | (queue >= actions)).any():
        raise ValueError(
            f"pending_actions are the {delay} chosen last, oldest first, "
            f"each from 0 to {actions - 1}; got {pending!r}: "
            "pass info['pending_actions'], or use policy.at_delay(m) for another delay"
        )
    return queue.astype(np.int64)
