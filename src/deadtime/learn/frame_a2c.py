"""A2C with an LSTM on frames: the network and its loss, for one item (see `a2c`).

The network is the one of Stable-Baselines for frames: convolutions, a hidden layer and an LSTM lead
to the policy's logits and one value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt8

from deadtime.learn.a2c import LSTM, Memory, forget, new_lstm, returns, step_loss
from deadtime.learn.frame_networks import MOST_ACTIONS, Torso, new_torso, torso_outputs
from deadtime.learn.networks import new_orthogonal
from deadtime.learn.settings import PixelA2C

NEVER = -1e9
"""The logit of an action that a game lacks; with -∞ the entropy would be NaN."""


class FrameActorCriticNetwork(eqx.Module):
    """A torso, a hidden layer, an LSTM, and a last layer with a row for each logit and one for the
    value.
    """

    torso: Torso
    hidden: Float[Array, "H n"]
    hidden_bias: Float[Array, " H"]
    lstm: LSTM
    out: Float[Array, "A+1 units"]
    out_bias: Float[Array, " A+1"]

    def __call__(
        self, memory: Memory, frames: UInt8[Array, "4 84 84"], actions: Int[Array, ""]
    ) -> tuple[Memory, Float[Array, " A"], Float[Array, ""]]:
        """Return the memory after these frames, the logits of the game's actions, and the value."""
        return self.decide(memory, self.look(frames), actions)

    def look(self, frames: UInt8[Array, "4 84 84"]) -> Float[Array, " H"]:
        """Return the hidden layer, which needs no memory."""
        return jax.nn.relu(self.hidden @ self.torso(frames) + self.hidden_bias)

    def decide(
        self, memory: Memory, looked: Float[Array, " H"], actions: Int[Array, ""]
    ) -> tuple[Memory, Float[Array, " A"], Float[Array, ""]]:
        """Return the memory, the logits and the value from the hidden layer."""
        memory = self.lstm(memory, looked)
        out = self.out @ memory.output + self.out_bias
        return memory, jnp.where(jnp.arange(MOST_ACTIONS) < actions, out[:-1], NEVER), out[-1]


def new_frame_actor_critic(key: Array, settings: PixelA2C) -> FrameActorCriticNetwork:
    """Return a new network, initialized as in Stable-Baselines.

    Weights are orthogonal, of gain √2 up to the hidden layer and 1 after it; biases are 0.
    """
    key_torso, key_hidden, key_input, key_output, key_policy, key_value = jax.random.split(key, 6)
    hidden, units = settings.hidden, settings.lstm
    return FrameActorCriticNetwork(
        new_torso(key_torso, settings.channels),
        new_orthogonal(key_hidden, hidden, torso_outputs(settings.channels), 2.0**0.5),
        jnp.zeros(hidden),
        new_lstm(key_input, key_output, hidden, units, settings.layer_norm),
        jnp.concatenate(
            [new_orthogonal(key_policy, MOST_ACTIONS, units), new_orthogonal(key_value, 1, units)]
        ),
        jnp.zeros(MOST_ACTIONS + 1),
    )


class Seen(NamedTuple):
    """The frames and the action of each step of a rollout."""

    frames: UInt8[Any, "*T 4 84 84"]
    first: Bool[Any, " *T"]
    """Whether an episode began at this step, which resets the memory."""
    action: Int[Any, " *T"]


class Came(NamedTuple):
    """The outcome of each step of a rollout."""

    reward: Float[Any, " *T"]
    terminal: Bool[Any, " *T"]
    known: Bool[Any, " *T"]
    """Whether the outcome is known.

    It is unknown if a worker died, or if the episode was truncated: its last frames are not seen.
    """


def rollout_loss(
    net: FrameActorCriticNetwork,
    memory: Memory,
    seen: Seen,
    came: Came,
    after: Float[Array, ""],
    actions: Int[Array, ""],
    settings: PixelA2C,
) -> Float[Array, ""]:
    """Return the mean loss of one actor's rollout, which begins with `memory`.

    `after` is the value after the rollout. A step without a known outcome has no loss; its value
    ends the returns of the steps before it.
    """

    def step(memory: Memory, item: tuple[Array, ...]) -> tuple[Memory, tuple[Array, Array]]:
        looked, first = item
        memory, logits, value = net.decide(forget(memory, first), looked, actions)
        return memory, (logits, value)

    looked = jax.vmap(net.look)(seen.frames)
    _, (logits, values) = jax.lax.scan(step, memory, (looked, seen.first), unroll=True)
    following = jax.lax.stop_gradient(jnp.append(values[1:], after))
    cut = jnp.append(~came.known[1:], False)
    gained = returns(came.reward, following, came.terminal, cut, settings.gamma)
    losses = jax.vmap(step_loss, (0, 0, 0, 0, None, None))(
        logits, values, seen.action, gained, settings.value_weight, settings.entropy_weight
    )
    return (losses * came.known).mean()
