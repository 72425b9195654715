"""Learned one-step forward models, and rolling any model through the queue.

"learned" is the paper's: a network from (s, a as one number) to s'. "change" predicts how s changes, in units of how much each
number usually changes, from inputs of unit scale and a one-hot action; an ensemble of those can also show its spread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from deadtime.learn import roll_kernel
from deadtime.learn.networks import MLP, new_mlp


class Scale(eqx.Module):
    """Running mean and variance of numbers (Welford's, exact far from 0 too), which give inputs and outputs unit scale."""

    count: Array
    mean: Array
    variance: Array

    def seen(self, x: Float[Array, " n"], keep: Any) -> Scale:
        """Take in one more."""
        count = self.count + keep
        rate = keep / jnp.maximum(count, 1.0)
        mean = self.mean + rate * (x - self.mean)
        return Scale(count, mean, self.variance + rate * ((x - self.mean) * (x - mean) - self.variance))

    @property
    def deviation(self) -> Float[Array, " n"]:
        """The standard deviation; 1 before there is one, and for numbers that do not vary beyond their rounding."""
        varies = (self.count > 1) & (self.variance > 1e-12 + 1e-10 * self.mean**2)
        return jnp.where(varies, jnp.sqrt(self.variance), 1.0)


class ForwardModel(eqx.Module):
    """One or several networks (stacked on the first axis) and the scales of their inputs and outputs."""

    nets: MLP
    inputs: Scale
    changes: Scale


def new_model(key: Array, kind: str, observation: int, actions: int, hidden: tuple[int, ...], members: int) -> ForwardModel:
    """A model that knows nothing; of kind "simulator" it has nothing to know, and is small."""
    inputs = observation + (actions if kind == "change" else 1)
    widths = (inputs, *hidden, observation) if kind != "simulator" else (1, 1)
    nets = jax.vmap(lambda k: new_mlp(k, widths, inputs))(jax.random.split(key, members))
    zeros = Scale(jnp.zeros(()), jnp.zeros(observation), jnp.zeros(observation))
    return ForwardModel(nets, zeros, zeros)


def predict(model: ForwardModel, net: MLP, kind: str, actions: int, obs: Float[Array, " D"], action: Int[Array, ""]) -> Array:
    """The next observation, as one of the networks sees it."""
    if kind == "learned":
        return net(jnp.append(obs, action.astype(jnp.float32)))
    units = (obs - model.inputs.mean) / model.inputs.deviation
    change = net(jnp.concatenate([units, jax.nn.one_hot(action, actions)]))
    return obs + model.changes.mean + model.changes.deviation * change


def error(model: ForwardModel, net: MLP, kind: str, actions: int, obs: Array, action: Array, next_obs: Array) -> Array:
    """The mean squared error of one prediction, in units of usual changes where the model knows them."""
    off = predict(model, net, kind, actions, obs, action) - next_obs
    return jnp.mean((off / model.changes.deviation if kind == "change" else off) ** 2)


def rolled(
    model: ForwardModel, net: MLP, kind: str, actions: int, obs: Float[Array, " D"], queue: Int[Array, " C"], delay: Any
) -> Float[Array, " D"]:
    """Where one of the networks goes from `obs` through the last `delay` actions of the queue."""
    if len(queue) and roll_kernel.available():
        ones, zeros = jnp.ones_like(obs), jnp.zeros_like(obs)
        if kind == "learned":
            return roll_kernel.roll(net, (ones, zeros, zeros, ones), False, obs, queue, delay)
        bias = net.biases[-1] + model.changes.mean / model.changes.deviation
        net = MLP(net.weights, [*net.biases[:-1], bias])
        scales = 1 / model.inputs.deviation, zeros, ones, model.changes.deviation
        state = model.inputs.mean + roll_kernel.roll(net, scales, True, obs - model.inputs.mean, queue, delay)
        return jnp.where(delay > 0, state, obs)  # to the bit: less the mean and plus the mean is rounded
    if not len(queue) or len(net.weights) == 1:
        return roll(lambda state, action, i: predict(model, net, kind, actions, state, action), obs, queue, delay)
    return _joined(model, net, kind, actions, obs, queue, delay)


def _joined(
    model: ForwardModel, net: MLP, kind: str, actions: int, obs: Float[Array, " D"], queue: Int[Array, " C"], delay: Any
) -> Float[Array, " D"]:
    """`rolled` in fewer operations: the last layer of one step and the first of the next are one matrix.

    A state goes into the network only through `inward` @ state (in the network's units), so that is what is carried, with
    the hidden layer that the state itself comes from: the last one, or the sum of all where changes add up.
    """
    (first, *middle, last), (first_bias, *middle_biases, last_bias) = net.weights, net.biases
    d, residual = obs.shape[0], kind == "change"
    inward, outward, constant, unit, state = first[:, :d], last, last_bias, jnp.ones(d), obs
    pushed = queue.astype(jnp.float32)[:, None] * first[:, d] + first_bias
    if residual:
        unit, state = model.inputs.deviation, (obs - model.inputs.mean) / model.inputs.deviation
        outward, constant = model.changes.deviation[:, None] * last, model.changes.deviation * last_bias + model.changes.mean
        pushed = first[:, d:].T[queue] + first_bias
    around, along = inward @ (outward / unit[:, None]), inward @ (constant / unit)
    start, capacity = inward @ state, queue.shape[0]
    seen, hidden = start, jnp.zeros(outward.shape[1])
    for i in range(capacity):
        x = jax.nn.relu(seen + pushed[i])
        for weight, bias in zip(middle, middle_biases, strict=True):
            x = jax.nn.relu(weight @ x + bias)
        live = i >= capacity - delay  # once it is, it stays so: before, the state is where it starts
        seen = jnp.where(live, around @ x + along + (seen if residual else 0.0), start)
        hidden = jnp.where(live, x + hidden, 0.0) if residual else x
    if residual:
        return obs + outward @ hidden + delay * constant
    return jnp.where(delay > 0, outward @ hidden + constant, obs)


def roll(step: Callable[[Any, Array, Array], Any], start: Any, queue: Int[Array, " C"], delay: Any) -> Any:
    """Apply `step(state, action, i)` for each pending action, the last `delay` of the queue, oldest first."""
    capacity = queue.shape[0]

    def one(state: Any, i: Array) -> tuple[Any, None]:
        after = step(state, queue[i], i)
        return jax.tree.map(lambda new, old: jnp.where(i >= capacity - delay, new, old), after, state), None

    if capacity == 0:
        return start
    return jax.lax.scan(one, start, jnp.arange(capacity), unroll=True)[0]
