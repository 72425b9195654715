"""Advantage actor-critic with an LSTM (A2C): networks, losses, and one update.

The network is the one of Stable-Baselines' recurrent policies. Fully connected layers and an LSTM
lead to the policy's outputs and one value. Every function takes one item; callers map it over more.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from deadtime.learn.learner_code import never
from deadtime.learn.networks import new_orthogonal
from deadtime.learn.settings import A2C, PixelA2C


class ActorCriticState(NamedTuple):
    """The networks and counters that learning changes."""

    net: Any
    moments: Any
    """The moments of RMSprop."""
    updates: Int[Array, ""]
    diverged_at: Int[Array, ""]
    """The step at which a loss was no longer finite; -1 if it never happened."""


def new_state(net: PyTree, settings: A2C | PixelA2C) -> ActorCriticState:
    """Return the state of a learner before its first update."""
    return ActorCriticState(net, _rms(settings).init(net), jnp.zeros((), jnp.int32), never())


def updated(
    state: ActorCriticState,
    loss: Callable[[PyTree], Array],
    settings: A2C | PixelA2C,
    longest: float | Array,
    rate: float | Array,
) -> tuple[ActorCriticState, Any]:
    """Return the state after one update, and whether loss and gradient were finite.

    `loss` is a function of the network; longer gradients than `longest` are clipped to that norm.
    """
    value, gradient = jax.value_and_grad(loss)(state.net)
    gradient, norm = shortened(gradient, longest)
    change, moments = _rms(settings).update(gradient, state.moments)
    net = jax.tree.map(lambda weight, by: weight - rate * by, state.net, change)
    new = ActorCriticState(net, moments, state.updates + 1, state.diverged_at)
    return new, jnp.isfinite(value) & jnp.isfinite(norm)


def _rms(settings: A2C | PixelA2C) -> optax.GradientTransformation:
    start = settings.rms_start
    return optax.scale_by_rms(settings.rms_decay, settings.rms_epsilon, initial_scale=start)


class Memory(NamedTuple):
    """The state of an LSTM."""

    cell: Float[Array, " H"]
    output: Float[Array, " H"]


class Norm(eqx.Module):
    """Layer normalization: zero mean and unit deviation, then a gain and a shift for each unit."""

    gain: Array
    shift: Array

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """Normalise one vector."""
        return (x - x.mean()) * jax.lax.rsqrt(x.var() + 1e-5) * self.gain + self.shift


class LSTM(eqx.Module):
    """An LSTM with its gates in the order input, forget, output, candidate.

    `norms` normalize the contribution of the input, that of the last output, and the cell.
    """

    from_input: Float[Array, "gates inputs"]
    from_output: Float[Array, "gates H"]
    bias: Float[Array, " gates"]
    norms: tuple[Norm, Norm, Norm] | None

    def __call__(self, memory: Memory, x: Float[Array, " inputs"]) -> Memory:
        """Return the memory after one step."""
        keep = lambda x: x  # noqa: E731
        of_input, of_output, of_cell = self.norms or (keep, keep, keep)
        gates = (
            of_input(self.from_input @ x) + of_output(self.from_output @ memory.output) + self.bias
        )
        take, hold, show, candidate = jnp.split(gates, 4)
        cell = jax.nn.sigmoid(hold) * memory.cell + jax.nn.sigmoid(take) * jnp.tanh(candidate)
        return Memory(cell, jax.nn.sigmoid(show) * jnp.tanh(of_cell(cell)))


class ActorCritic(eqx.Module):
    """A network: tanh layers, an LSTM, and a last layer with the policy's outputs and the value.

    The policy has a logit for each numbered action, or the outputs of a squashed Gaussian.
    """

    weights: list[Array]
    biases: list[Array]
    lstm: LSTM

    def __call__(
        self, memory: Memory, obs: Float[Array, " D"]
    ) -> tuple[Memory, Float[Array, " A"], Float[Array, ""]]:
        """Return the memory after an observation, the policy's outputs, and the value."""
        x = obs
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jnp.tanh(weight @ x + bias)
        memory = self.lstm(memory, x)
        out = self.weights[-1] @ memory.output + self.biases[-1]
        return memory, out[:-1], out[-1]


def nothing(units: int) -> Memory:
    """Return the memory at the start of an episode."""
    return Memory(jnp.zeros(units), jnp.zeros(units))


def new_actor_critic(key: Array, observation: int, outputs: int, settings: A2C) -> ActorCritic:
    """Return a new network with some outputs of the policy, initialized as in Stable-Baselines.

    Weights are orthogonal, of gain √2 in the first layers and 1 in the others; biases are 0.
    """
    units, widths = settings.lstm, (observation, *settings.hidden)
    key_policy, key_value, key_input, key_output, *keys = jax.random.split(
        key, 4 + len(settings.hidden)
    )
    weights = [
        new_orthogonal(k, out, into, 2.0**0.5)
        for k, (into, out) in zip(keys, pairwise(widths), strict=True)
    ]
    weights.append(
        jnp.concatenate(
            [new_orthogonal(key_policy, outputs, units), new_orthogonal(key_value, 1, units)]
        )
    )
    lstm = new_lstm(key_input, key_output, widths[-1], units, settings.layer_norm)
    return ActorCritic(weights, [jnp.zeros(weight.shape[0]) for weight in weights], lstm)


def new_lstm(
    key_input: Array, key_output: Array, inputs: int, units: int, layer_norm: bool
) -> LSTM:
    """Return a new LSTM: orthogonal weights of gain 1, zero biases, norms of gain 1 and shift 0."""
    from_input = new_orthogonal(key_input, 4 * units, inputs)
    from_output = new_orthogonal(key_output, 4 * units, units)
    of_gates = Norm(jnp.ones(4 * units), jnp.zeros(4 * units))
    of_cell = Norm(jnp.ones(units), jnp.zeros(units))
    norms = (of_gates, of_gates, of_cell) if layer_norm else None
    return LSTM(from_input, from_output, jnp.zeros(4 * units), norms)


def returns(
    rewards: Float[Array, " T"],
    after: Float[Array, " T"],
    terminated: Bool[Array, " T"],
    ended: Bool[Array, " T"],
    discount: float | Array,
) -> Float[Array, " T"]:
    """Return the discounted return from each step of a rollout.

    A return ends with the episode or the rollout, with the value `after` the last step. The value
    is 0 where the episode terminated, and the value of the final observation where it was
    truncated.
    """

    def back(later: Array, step: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, value, stop, over = step
        gained = reward + discount * jnp.where(stop, 0.0, jnp.where(over, value, later))
        return gained, gained

    return jax.lax.scan(back, after[-1], (rewards, after, terminated, ended), reverse=True)[1]


Judge = Callable[[Array, Array], tuple[Array, Array]]
"""A function of the policy's outputs and an action that returns log π(a) and the entropy."""


def numbered(logits: Float[Array, " A"], action: Int[Array, ""]) -> tuple[Array, Array]:
    """Return the log-probability of a numbered action, and the policy's entropy."""
    log_policy = jax.nn.log_softmax(logits)
    return log_policy[action], -jnp.sum(jnp.exp(log_policy) * log_policy)


def step_loss(
    outputs: Float[Array, " A"],
    value: Float[Array, ""],
    action: Array,
    gained: Array,
    value_weight: float | Array,
    entropy_weight: float | Array,
    judge: Judge = numbered,
) -> Float[Array, ""]:
    """Return -log π(a) · advantage + value error² - entropy, each with its weight.

    The advantage is not normalized, and no gradient goes through it.
    """
    log_policy, entropy = judge(outputs, action)
    advantage = jax.lax.stop_gradient(gained - value)
    return value_weight * (gained - value) ** 2 - advantage * log_policy - entropy_weight * entropy


def rollout_loss(
    net: ActorCritic,
    memory: Memory,
    obs: Float[Array, "T D"],
    actions: Array,
    gained: Float[Array, " T"],
    ended: Bool[Array, " T"],
    value_weight: float | Array,
    entropy_weight: float | Array,
    judge: Judge = numbered,
) -> Float[Array, ""]:
    """Return the mean loss of one actor's rollout, which begins with `memory`.

    The memory is reset after each step that ended an episode.
    """

    def step(memory: Memory, item: tuple[Array, ...]) -> tuple[Memory, Array]:
        obs, action, gained, over = item
        memory, outputs, value = net(memory, obs)
        loss = step_loss(outputs, value, action, gained, value_weight, entropy_weight, judge)
        return forget(memory, over), loss

    return jax.lax.scan(step, memory, (obs, actions, gained, ended), unroll=True)[1].mean()


def forget(memory: Memory, over: Array | np.ndarray) -> Memory:
    """Return the memory, reset where the episode is over."""
    return jax.tree.map(lambda kept: jnp.where(over, 0.0, kept), memory)


def shortened(gradient: PyTree, longest: float | Array) -> tuple[Any, Float[Array, ""]]:
    """Return the gradient, clipped to the norm `longest`, and its norm before that."""
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
    scale = jnp.minimum(1.0, longest / jnp.maximum(norm, 1e-6))
    return jax.tree.map(lambda leaf: scale * leaf, gradient), norm
