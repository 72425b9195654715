"""Advantage actor-critic with a memory (A2C with an LSTM): networks, losses, and one update.

The network is that of Stable-Baselines' recurrent policies: fully connected layers, an LSTM, and from
its output the preferences of the policy and one value. Functions are for one item.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from deadtime.learn.learner_code import never
from deadtime.learn.networks import new_orthogonal
from deadtime.learn.settings import A2C, PixelA2C


class ActorCriticState(NamedTuple):
    """All that learning changes."""

    net: Any
    moments: Any
    """RMSprop's."""
    updates: Int[Array, ""]
    diverged_at: Int[Array, ""]
    """The step at which a loss was no longer finite; -1 if it never happened."""


def new_state(net: Any, settings: A2C | PixelA2C) -> ActorCriticState:
    """Return the state of a learner before its first update."""
    return ActorCriticState(net, _rms(settings).init(net), jnp.zeros((), jnp.int32), never())


def updated(
    state: ActorCriticState, loss: Any, settings: A2C | PixelA2C, longest: Any, rate: Any
) -> tuple[ActorCriticState, Any]:
    """Return the state after one update, and whether loss and gradient were finite.

    `loss` is a function of the network, and `longest` the length to which gradients are cut.
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
    """What an LSTM carries from step to step."""

    cell: Float[Array, " H"]
    output: Float[Array, " H"]


class Norm(eqx.Module):
    """Layer normalisation: zero mean and unit deviation, then a gain and a shift for each number."""

    gain: Array
    shift: Array

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """Normalise one vector."""
        return (x - x.mean()) * jax.lax.rsqrt(x.var() + 1e-5) * self.gain + self.shift


class LSTM(eqx.Module):
    """Gates in the order input, forget, output, candidate; `norms` are of the input's part, the memory's part and the cell."""

    from_input: Float[Array, "gates inputs"]
    from_output: Float[Array, "gates H"]
    bias: Float[Array, " gates"]
    norms: tuple[Norm, Norm, Norm] | None

    def __call__(self, memory: Memory, x: Float[Array, " inputs"]) -> Memory:
        """One step."""
        keep = lambda x: x  # noqa: E731
        of_input, of_output, of_cell = self.norms or (keep, keep, keep)
        gates = (
            of_input(self.from_input @ x) + of_output(self.from_output @ memory.output) + self.bias
        )
        take, hold, show, candidate = jnp.split(gates, 4)
        cell = jax.nn.sigmoid(hold) * memory.cell + jax.nn.sigmoid(take) * jnp.tanh(candidate)
        return Memory(cell, jax.nn.sigmoid(show) * jnp.tanh(of_cell(cell)))


class ActorCritic(eqx.Module):
    """tanh layers, an LSTM, and one last layer whose outputs are a preference for each action and the value."""

    weights: list[Array]
    biases: list[Array]
    lstm: LSTM

    def __call__(
        self, memory: Memory, obs: Float[Array, " D"]
    ) -> tuple[Memory, Float[Array, " A"], Float[Array, ""]]:
        """What is remembered after an observation, the policy's logits, and the value."""
        x = obs
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jnp.tanh(weight @ x + bias)
        memory = self.lstm(memory, x)
        out = self.weights[-1] @ memory.output + self.biases[-1]
        return memory, out[:-1], out[-1]


def nothing(units: int) -> Memory:
    """What is remembered at the start of an episode."""
    return Memory(jnp.zeros(units), jnp.zeros(units))


def new_actor_critic(key: Array, observation: int, actions: int, settings: A2C) -> ActorCritic:
    """Orthogonal weights (√2 in the first layers, 1 in the others) and zero biases, as in Stable-Baselines."""
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
            [new_orthogonal(key_policy, actions, units), new_orthogonal(key_value, 1, units)]
        )
    )
    lstm = new_lstm(key_input, key_output, widths[-1], units, settings.layer_norm)
    return ActorCritic(weights, [jnp.zeros(weight.shape[0]) for weight in weights], lstm)


def new_lstm(
    key_input: Array, key_output: Array, inputs: int, units: int, layer_norm: bool
) -> LSTM:
    """Orthogonal weights of gain 1, zero biases, and norms that change nothing more."""
    gates = (
        new_orthogonal(key_input, 4 * units, inputs),
        new_orthogonal(key_output, 4 * units, units),
    )
    whole, cell = (
        Norm(jnp.ones(4 * units), jnp.zeros(4 * units)),
        Norm(jnp.ones(units), jnp.zeros(units)),
    )
    return LSTM(*gates, jnp.zeros(4 * units), (whole, whole, cell) if layer_norm else None)


def returns(
    rewards: Float[Array, " T"],
    after: Float[Array, " T"],
    terminated: Bool[Array, " T"],
    ended: Bool[Array, " T"],
    discount: Any,
) -> Float[Array, " T"]:
    """Discounted rewards up to the episode's or the rollout's end, and there the value of what came `after`.

    Where the episode terminated nothing comes after; where it was cut off, the final observation does, not the next episode.
    """

    def back(later: Array, step: Any) -> tuple[Array, Array]:
        reward, value, stop, over = step
        gained = reward + discount * jnp.where(stop, 0.0, jnp.where(over, value, later))
        return gained, gained

    return jax.lax.scan(back, after[-1], (rewards, after, terminated, ended), reverse=True)[1]


def step_loss(
    logits: Float[Array, " A"],
    value: Float[Array, ""],
    action: Int[Array, ""],
    gained: Array,
    value_weight: Any,
    entropy_weight: Any,
) -> Float[Array, ""]:
    """-log π(a) · advantage + value error² - entropy, each with its weight; the advantage is taken as it is."""
    log_policy = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(log_policy) * log_policy)
    advantage = jax.lax.stop_gradient(gained - value)
    return (
        value_weight * (gained - value) ** 2
        - advantage * log_policy[action]
        - entropy_weight * entropy
    )


def rollout_loss(
    net: ActorCritic, memory: Memory, obs: Float[Array, "T D"], actions: Int[Array, " T"], gained: Float[Array, " T"],
    ended: Bool[Array, " T"], value_weight: Any, entropy_weight: Any,
) -> Float[Array, ""]:  # fmt: skip
    """The mean over one actor's rollout, begun with `memory`; after a step that ended an episode nothing is remembered."""

    def step(memory: Memory, item: Any) -> tuple[Memory, Array]:
        obs, action, gained, over = item
        memory, logits, value = net(memory, obs)
        return forget(memory, over), step_loss(
            logits, value, action, gained, value_weight, entropy_weight
        )

    return jax.lax.scan(step, memory, (obs, actions, gained, ended), unroll=True)[1].mean()


def forget(memory: Memory, over: Any) -> Memory:
    """Nothing, where the episode is over."""
    return jax.tree.map(lambda kept: jnp.where(over, 0.0, kept), memory)


def shortened(gradient: Any, longest: Any) -> tuple[Any, Float[Array, ""]]:
    """A gradient cut down to the longest that is allowed, and how long it was."""
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
    scale = jnp.minimum(1.0, longest / jnp.maximum(norm, 1e-6))
    return jax.tree.map(lambda leaf: scale * leaf, gradient), norm
