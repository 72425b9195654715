"""Forward models of deep agents: predictions of the observation after the pending actions.

`FORWARD_MODELS` in `settings` names them. "learned" is the paper's: a network from (s, a as one
number) to s'. "change" predicts s' - s, in units of its usual deviation, from normalized inputs
and a one-hot action. Both scale an action within a box to numbers from -1 to 1. "simulator" is the
environment itself, with new noise. An emulator that looks ahead is part of its environment (see
`envs.atari.emulator`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from deadtime.learn import roll_kernel
from deadtime.learn.box_scale import BoxScale
from deadtime.learn.networks import MLP, layer_arrays, new_mlp
from deadtime.learn.program import Actor, Program, Setup
from deadtime.learn.replay import Transition


class ForwardModel(Protocol):
    """A kind of forward model; the state of a run holds its weights and scales."""

    learns: bool
    """Whether it has weights to train; then it is a `TrainedModel`."""

    def init(self, program: Program, key: Array) -> Any:
        """Return the state of a new model."""

    def predict(
        self, program: Program, setup: Setup, state: PyTree, actor: Actor, key: Array
    ) -> Float[Array, "members D"]:
        """Return each member's prediction of the observation when the next action is executed."""

    def arrays(self, state: PyTree) -> dict[str, Any]:
        """Return the arrays of a policy's model (see `runtime.forward_models`).

        "inputs/mean" is among the arrays, with the shape of an observation.
        """


class TrainedModel(ForwardModel, Protocol):
    """A forward model with weights to train."""

    def weights(self, state: PyTree) -> Any:
        """Return the weights to train."""

    def with_weights(self, state: PyTree, weights: PyTree) -> Any:
        """Return the state with other weights."""

    def seen(self, state: PyTree, item: Transition, keep: bool | Array) -> Any:
        """Return the state after one more transition if `keep`; weights stay the same."""

    def loss(self, program: Program, state: PyTree, weights: PyTree, batch: Transition) -> Any:
        """Return the loss of weights on a batch."""


class Scale(eqx.Module):
    """The running mean and variance of numbers (Welford's), to normalize inputs and outputs."""

    count: Array
    mean: Array
    variance: Array

    def seen(self, x: Float[Array, " n"], keep: bool | Array) -> Scale:
        """Return the scale after one more sample if `keep`."""
        count = self.count + keep
        rate = keep / jnp.maximum(count, 1.0)
        mean = self.mean + rate * (x - self.mean)
        variance = self.variance + rate * ((x - self.mean) * (x - mean) - self.variance)
        return Scale(count, mean, variance)

    @property
    def deviation(self) -> Float[Array, " n"]:
        """The standard deviation; 1 if it is unknown or as small as rounding errors."""
        varies = (self.count > 1) & (self.variance > 1e-12 + 1e-10 * self.mean**2)
        return jnp.where(varies, jnp.sqrt(self.variance), 1.0)


class ModelState(eqx.Module):
    """One or several networks (stacked on the first axis) and the scales of inputs and outputs."""

    nets: MLP
    inputs: Scale
    changes: Scale

    def arrays(self) -> dict[str, Any]:
        """Return the networks and scales by their names in a record."""
        arrays: dict[str, Any] = layer_arrays("model", self.nets)
        for part, scale in (("inputs", self.inputs), ("changes", self.changes)):
            arrays |= {f"{part}/mean": scale.mean, f"{part}/deviation": scale.deviation}
        return arrays


Actions = int | BoxScale
"""The number of actions, or the scale of actions within a box."""


def new_model(
    key: Array, kind: str, observation: int, actions: Actions, hidden: tuple[int, ...], members: int
) -> ModelState:
    """Return a new model; one of kind "simulator" has the smallest possible network."""
    if isinstance(actions, BoxScale):
        inputs = observation + actions.size
    else:
        inputs = observation + (actions if kind == "change" else 1)
    widths = (inputs, *hidden, observation) if kind != "simulator" else (1, 1)
    nets = jax.vmap(lambda k: new_mlp(k, widths, inputs))(jax.random.split(key, members))
    zeros = Scale(jnp.zeros(()), jnp.zeros(observation), jnp.zeros(observation))
    return ModelState(nets, zeros, zeros)


@dataclass(frozen=True)
class NeuralModel:
    """A network of kind "learned" or "change", applied to one pending action after the other."""

    kind: str
    learns = True

    def init(self, program: Program, key: Array) -> ModelState:
        """Return new networks."""
        settings = program.settings
        sizes = program.observation, program.actions, settings.hidden, settings.members
        return new_model(key, self.kind, *sizes)

    def predict(
        self, program: Program, setup: Setup, state: ModelState, actor: Actor, key: Array
    ) -> Float[Array, "members D"]:
        """Return the prediction of each network."""

        def one(net: MLP) -> Array:
            queue, actions = actor.queue, program.actions
            return rolled(state, net, self.kind, actions, actor.obs, queue, setup.delay)

        return jax.vmap(one)(state.nets)

    def weights(self, state: ModelState) -> MLP:
        """Return the networks."""
        return state.nets

    def with_weights(self, state: ModelState, weights: MLP) -> ModelState:
        """Return the state with other networks."""
        return eqx.tree_at(lambda m: m.nets, state, weights)

    def seen(self, state: ModelState, item: Transition, keep: bool | Array) -> ModelState:
        """Return the state with its scales updated, if its kind uses them."""
        if self.kind != "change":
            return state
        once = jnp.float32(keep)
        inputs = state.inputs.seen(item.obs, once)
        changes = state.changes.seen(item.next_obs - item.obs, once)
        return eqx.tree_at(lambda m: (m.inputs, m.changes), state, (inputs, changes))

    def loss(self, program: Program, state: ModelState, weights: MLP, batch: Transition) -> Array:
        """Return the sum of the networks' mean errors on the batch."""
        actions = program.actions

        def one(net: MLP, b: Transition) -> Array:
            return error(state, net, self.kind, actions, b.obs, b.action, b.next_obs)

        def member(net: MLP) -> Array:
            return jax.vmap(partial(one, net))(batch).mean()

        return jax.vmap(member)(weights).sum()

    def arrays(self, state: ModelState) -> dict[str, Any]:
        """Return the arrays that a policy needs to predict."""
        return state.arrays()


@dataclass(frozen=True)
class SimulatorModel:
    """The environment itself, stepped with new noise; it has no weights."""

    learns = False

    def init(self, program: Program, key: Array) -> ModelState:
        """Return the smallest possible state."""
        sizes = program.observation, program.actions, program.settings.hidden
        members = program.settings.members if program.predicts else 1
        return new_model(key, "simulator", *sizes, members)

    def predict(
        self, program: Program, setup: Setup, state: ModelState, actor: Actor, key: Array
    ) -> Float[Array, "members D"]:
        """Return the environment's observation after the pending actions, once for each member."""

        def step(k: Array, at: PyTree, action: Array, i: Array) -> Any:
            fresh = jax.random.fold_in(jax.random.fold_in(key, k), i)
            obs, env, *_ = program.env.step_env(fresh, at[1], action, setup.params)
            return obs, env

        def member(k: Array) -> Array:
            start = actor.obs, actor.env
            return roll(partial(step, k), start, actor.queue, setup.delay)[0]

        return jax.vmap(member)(jnp.arange(program.settings.members))

    def arrays(self, state: ModelState) -> dict[str, Any]:
        """Return the arrays that a policy needs to predict."""
        return state.arrays()


LEARNED = NeuralModel("learned")
CHANGE = NeuralModel("change")
SIMULATOR = SimulatorModel()


def predict(
    model: ModelState,
    net: MLP,
    kind: str,
    actions: Actions,
    obs: Float[Array, " D"],
    action: Array,
) -> Array:
    """Return the next observation that one network predicts."""
    shown = _shown(kind, actions, action)
    if kind == "learned":
        return net(jnp.concatenate([obs, shown]))
    units = (obs - model.inputs.mean) / model.inputs.deviation
    change = net(jnp.concatenate([units, shown]))
    return obs + model.changes.mean + model.changes.deviation * change


def _shown(kind: str, actions: Actions, action: Array) -> Float[Array, " width"]:
    """Return an action as inputs of a network."""
    if isinstance(actions, BoxScale):
        return actions.inward(action)
    return jax.nn.one_hot(action, actions) if kind == "change" else jnp.float32(action)[None]


def error(
    model: ModelState,
    net: MLP,
    kind: str,
    actions: Actions,
    obs: Array,
    action: Array,
    next_obs: Array,
) -> Array:
    """Return the mean squared error of one prediction; for kind "change" in units of deviations."""
    off = predict(model, net, kind, actions, obs, action) - next_obs
    return jnp.mean((off / model.changes.deviation if kind == "change" else off) ** 2)


def rolled(
    model: ModelState,
    net: MLP,
    kind: str,
    actions: Actions,
    obs: Float[Array, " D"],
    queue: Array,
    delay: int | Array,
) -> Float[Array, " D"]:
    """Return the prediction of one network after the last `delay` actions of the queue."""
    if len(queue) and isinstance(actions, int) and roll_kernel.available():
        ones, zeros = jnp.ones_like(obs), jnp.zeros_like(obs)
        if kind == "learned":
            return roll_kernel.roll(net, (ones, zeros, zeros, ones), False, obs, queue, delay)
        bias = net.biases[-1] + model.changes.mean / model.changes.deviation
        net = MLP(net.weights, [*net.biases[:-1], bias])
        scales = 1 / model.inputs.deviation, zeros, ones, model.changes.deviation
        change = roll_kernel.roll(net, scales, True, obs - model.inputs.mean, queue, delay)
        # without a delay nothing may be rounded: obs - mean + mean is not obs
        return jnp.where(delay > 0, model.inputs.mean + change, obs)
    if not len(queue) or len(net.weights) == 1:

        def step(state: Array, action: Array, i: Array) -> Array:
            return predict(model, net, kind, actions, state, action)

        return roll(step, obs, queue, delay)
    return _joined(model, net, kind, actions, obs, queue, delay)


def _joined(
    model: ModelState,
    net: MLP,
    kind: str,
    actions: Actions,
    obs: Float[Array, " D"],
    queue: Array,
    delay: int | Array,
) -> Float[Array, " D"]:
    """Return the prediction of `rolled` in fewer operations.

    The last layer of one step and the first layer of the next one are joined into one matrix. A
    state enters the network only as `inward` @ state, in the network's units. So the loop carries
    this product and a hidden layer: the last one, or the sum of all if the network predicts
    changes.
    """
    (first, *middle, last), (first_bias, *middle_biases, last_bias) = net.weights, net.biases
    d = obs.shape[0]
    residual = kind == "change"
    inward = first[:, :d]
    if residual:
        unit = model.inputs.deviation
        state = (obs - model.inputs.mean) / model.inputs.deviation
        outward = model.changes.deviation[:, None] * last
        constant = model.changes.deviation * last_bias + model.changes.mean
    else:
        unit = jnp.ones(d)
        state = obs
        outward = last
        constant = last_bias
    if isinstance(actions, BoxScale):
        pushed = actions.inward(queue) @ first[:, d:].T + first_bias
    elif residual:
        pushed = first[:, d:].T[queue] + first_bias
    else:
        pushed = queue.astype(jnp.float32)[:, None] * first[:, d] + first_bias
    around, along = inward @ (outward / unit[:, None]), inward @ (constant / unit)
    start, capacity = inward @ state, queue.shape[0]
    seen, hidden = start, jnp.zeros(outward.shape[1])
    for i in range(capacity):
        x = jax.nn.relu(seen + pushed[i])
        for weight, bias in zip(middle, middle_biases, strict=True):
            x = jax.nn.relu(weight @ x + bias)
        live = i >= capacity - delay  # before that, the state stays at its start
        seen = jnp.where(live, around @ x + along + (seen if residual else 0.0), start)
        hidden = jnp.where(live, x + hidden, 0.0) if residual else x
    if residual:
        return obs + outward @ hidden + delay * constant
    return jnp.where(delay > 0, outward @ hidden + constant, obs)


def roll(
    step: Callable[[Any, Array, Array], Any], start: PyTree, queue: Array, delay: int | Array
) -> Any:
    """Return the state after `step(state, action, i)` for the last `delay` actions of the queue."""
    capacity = queue.shape[0]

    def one(state: PyTree, i: Array) -> tuple[Any, None]:
        after = step(state, queue[i], i)
        return jax.tree.map(
            lambda new, old: jnp.where(i >= capacity - delay, new, old), after, state
        ), None

    if capacity == 0:
        return start
    return jax.lax.scan(one, start, jnp.arange(capacity), unroll=True)[0]
