"""Soft actor-critic on numbers (Haarnoja et al.), for actions within a box and for every view.

The actor decides from the inputs of the view: the state, the state with the queue, or a predicted
state. Twin critics value what the view values: the same inputs, or the state alone. Networks see
and choose actions from -1 to 1. Each step decides, stores a transition and updates all weights
once, from gradients at the same weights. Every function takes one run.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from deadtime.learn.box_scale import BoxScale
from deadtime.learn.deep_q import transition
from deadtime.learn.double_q import Adam
from deadtime.learn.forward_model import ForwardModel, TrainedModel
from deadtime.learn.learner_code import Keys, kept, never
from deadtime.learn.networks import MLP, layer_arrays, new_mlp
from deadtime.learn.program import Actor, Done, Program, Setup
from deadtime.learn.replay import Replay, Transition, layout_of, new_replay, sample, store
from deadtime.learn.sac_inputs import Inputs, inputs, inputs_of, scale_of
from deadtime.learn.settings import forward_model
from deadtime.learn.squashed_gaussian import gaussian, sampled
from deadtime.learn.ways import on_the_way

_ADAM = Adam(1e-8)
_CRITICS = 2


class Numbers(NamedTuple):
    """The settings that may differ between runs of one program, named as in `SAC`."""

    learning_rate: Any
    gamma: Any
    tau: Any
    target_entropy: Any
    random_steps: Any


class Weights(NamedTuple):
    """The weights that gradients change."""

    actor: MLP
    critics: MLP
    """Both critics, stacked on the first axis."""
    log_temperature: Float[Array, ""]
    model: Any
    """The networks of the forward model; () if none is trained."""


class SacState(NamedTuple):
    """The networks and counters that learning changes."""

    weights: Weights
    targets: MLP
    """The target networks of both critics."""
    model: Any
    """The state of the forward model; () if there is none."""
    moments: Any
    pending: Int[Array, ""]
    """The delay of the training, which says how many inputs of the queue the actor uses."""
    updates: Int[Array, ""]
    diverged_at: Int[Array, ""]


class Kept(NamedTuple):
    """The recorded transition of a step."""

    item: Transition
    valid: Any
    """Whether the view has a transition of this step."""


def _model(program: Program) -> ForwardModel | None:
    """Return the program's forward model, or None if the view does not predict."""
    return forward_model(program.settings.model) if program.predicts else None


def values(critics: MLP, valued: Array, action: Array) -> Float[Array, "2 B"]:
    """Return the values of actions by both critics."""
    x = jnp.concatenate([valued, action], axis=-1)
    return jax.vmap(lambda net: jax.vmap(net)(x)[:, 0])(critics)


def target_values(
    state: SacState, batch: Transition, given: Inputs, noise: Array, gamma: float | Array
) -> Float[Array, " B"]:
    """Return r + γ (min Q'(s', a') - α log π(a')), where a' is the action executed next.

    The end of an episode has no value. A held action is known, so it has no entropy term.
    """
    law = gaussian(jax.vmap(state.weights.actor)(given.next_decided))
    action, log_density = sampled(law, noise)
    if batch.fresh is not None:
        action = jnp.where(batch.fresh[:, None], action, given.action)
        log_density = jnp.where(batch.fresh, log_density, 0.0)
    value = values(state.targets, given.next_valued, action).min(axis=0)
    soft = value - jnp.exp(state.weights.log_temperature) * log_density
    return batch.reward + gamma * (1.0 - batch.terminated) * soft


def critic_loss(critics: MLP, given: Inputs, target: Array) -> Float[Array, ""]:
    """Return half the mean squared error of both critics, summed over them."""
    return 0.5 * jnp.mean((values(critics, given.valued, given.action) - target) ** 2, axis=1).sum()


def actor_losses(
    weights: Weights, batch: Transition, given: Inputs, noise: Array, target_entropy: float | Array
) -> tuple[Array, Array]:
    """Return the losses of the actor and of the temperature.

    They are means over the first executions of actions.
    """
    action, log_density = sampled(gaussian(jax.vmap(weights.actor)(given.decided)), noise)
    fixed = jax.lax.stop_gradient
    value = values(fixed(weights.critics), given.valued, action).min(axis=0)
    used = jnp.ones_like(value) if batch.first is None else jnp.float32(batch.first)
    count = jnp.maximum(used.sum(), 1.0)
    temperature = fixed(jnp.exp(weights.log_temperature))
    actor = jnp.sum(used * (temperature * log_density - value)) / count
    surplus = fixed(jnp.sum(used * (log_density + target_entropy)) / count)
    return actor, -weights.log_temperature * surplus


def updated(
    program: Program, setup: Setup, state: SacState, batch: Transition, key: Array
) -> tuple[SacState, Any]:
    """Return the state after one update from a batch, and whether the losses were finite."""
    numbers, model = setup.numbers, _model(program)
    size = scale_of(program).size
    given = inputs_of(program, setup, batch)
    noise = jax.random.normal(key, (2, len(batch.reward), size))
    target = target_values(state, batch, given, noise[0], numbers.gamma)
    wanted = numbers.target_entropy * size

    def loss(weights: Weights) -> Array:
        total = critic_loss(weights.critics, given, target)
        total += sum(actor_losses(weights, batch, given, noise[1], wanted))
        if model is not None and model.learns:
            trained = cast("TrainedModel", model)
            off = trained.loss(program, state.model, weights.model, batch)
            total += off if program.view is not None else jnp.where(setup.view.predicts, off, 0.0)
        return total

    found, gradient = jax.value_and_grad(loss)(state.weights)
    weights, moments = _ADAM.descend(state.weights, gradient, state.moments, numbers.learning_rate)
    targets = jax.tree.map(
        lambda old, new: old + numbers.tau * (new - old), state.targets, weights.critics
    )
    new = state._replace(
        weights=weights, targets=targets, moments=moments, updates=state.updates + 1
    )
    if model is not None and model.learns:
        learned = cast("TrainedModel", model).with_weights(state.model, weights.model)
        new = new._replace(model=learned)
    return new, jnp.isfinite(found)


def law_of(program: Program, setup: Setup, state: SacState, actor: Actor, key: Array) -> Any:
    """Return the Gaussian of the next action; outputs are averaged over the predictions."""
    net, model, code = state.weights.actor, _model(program), program.code(setup)
    queue = actor.queue if program.queue_room else actor.queue[:0]

    def outputs_at(obs: Array) -> Array:
        return net(inputs(program, setup, obs, queue, actor.known, code.sees_queue))

    if model is None:
        return gaussian(outputs_at(actor.obs))
    run, at = on_the_way(program, setup, actor)
    seen = model.predict(program, run, state.model, at, key)
    if program.view is None:
        seen = jnp.where(code.predicts, seen, actor.obs)
    outputs = jax.vmap(outputs_at)(seen)
    # equal outputs have exactly themselves as this mean
    return gaussian(outputs[0] + (outputs - outputs[0]).mean(axis=0))


class SoftActorCritic:
    """The code of the learner (see `learner_code`)."""

    keys = ("explore", "environment", "model", "batch")
    numbers = Numbers
    updates_once = False

    def actors(self, program: Program) -> int:
        """Return 1: a run has one environment inside the program."""
        return 1

    def rollout(self, program: Program) -> int:
        """Return 1: each step is followed by an update."""
        return 1

    def init(self, program: Program, setup: Setup, key: Array) -> SacState:
        """Return the state of a new learner."""
        key_actor, key_critics, key_model = jax.random.split(key, 3)
        hidden, d, n = program.settings.hidden, program.observation, scale_of(program).size
        code = program.code(setup)
        seen = d + program.age_inputs
        used = seen + n * setup.delay * code.sees_queue
        actor = new_mlp(key_actor, (seen + n * program.queue_room, *hidden, 2 * n), used)
        apart = program.projects and program.view is not None
        room = 0 if apart else program.queue_room
        valued = d if apart else seen
        widths = valued + n * room + n, *hidden, 1
        fan_in = valued + n * setup.delay * code.values_queue + n
        critics = jax.vmap(lambda k: new_mlp(k, widths, fan_in))(
            jax.random.split(key_critics, _CRITICS)
        )
        model, trained = _model(program), ()
        model_state = () if model is None else model.init(program, key_model)
        if model is not None and model.learns:
            trained = cast("TrainedModel", model).weights(model_state)
        weights = Weights(actor, critics, jnp.zeros(()), trained)
        delay = jnp.int32(setup.delay)
        moments, zero = _ADAM.init(weights), jnp.zeros((), jnp.int32)
        return SacState(weights, critics, model_state, moments, delay, zero, never())

    def new_replay(self, program: Program) -> Replay:
        """Return an empty replay buffer."""
        return new_replay(program.settings.buffer_size, layout_of(program))

    def new_memory(self, program: Program) -> tuple[()]:
        """Return (), since the agent has no memory."""
        return ()

    def act(
        self, program: Program, setup: Setup, state: SacState, actor: Actor, keys: Keys
    ) -> tuple[Array, Any]:
        """Return an action drawn from the actor or, before the first update, a uniform one."""
        key_noise, key_uniform = jax.random.split(keys["explore"])
        law = law_of(program, setup, state, actor, keys["model"])
        drawn, _ = sampled(law, jax.random.normal(key_noise, law.mean.shape))
        uniform = jax.random.uniform(key_uniform, law.mean.shape, minval=-1.0)
        return scale_of(program).outward(jnp.where(state.updates > 0, drawn, uniform)), ()

    def decide(
        self, program: Program, setup: Setup, state: SacState, actor: Actor, key: Array
    ) -> tuple[Array, Any]:
        """Return the action at the mean of the actor's Gaussian."""
        law = law_of(program, setup, state, actor, key)
        return scale_of(program).outward(jnp.tanh(law.mean)), ()

    def record(
        self, program: Program, setup: Setup, state: SacState, actor: Actor, done: Done
    ) -> Kept:
        """Return the transition of a step.

        A view of executed actions has one only if the action was chosen in this episode.
        """
        item, valid = transition(program, setup, actor, done)
        age = setup.delay if program.process is None else done.action_age
        return Kept(item, valid & ((age <= actor.age) | ~jnp.asarray(program.code(setup).executed)))

    def update(
        self,
        program: Program,
        setup: Setup,
        state: SacState,
        replay: Replay,
        step: Kept,
        t: Int[Array, ""],
        keys: Keys,
    ) -> tuple[SacState, Replay]:
        """Store the transition of step t, and update once the random steps are over."""
        live = t < setup.steps
        keep = step.valid & live
        layout, model = layout_of(program), _model(program)
        replay = store(replay, step.item, keep, layout)
        if model is not None and model.learns:
            seen = keep & (state.diverged_at < 0)
            trained = cast("TrainedModel", model)
            state = state._replace(model=trained.seen(state.model, step.item, seen))
        started = t + 1 >= setup.numbers.random_steps
        usable = live & started & (replay.stored >= program.settings.batch_size)

        def learn(state: SacState) -> SacState:
            key_batch, key_noise = jax.random.split(keys["batch"])
            batch = sample(replay, key_batch, program.settings.batch_size, layout)
            new, finite = updated(program, setup, state, batch, key_noise)
            return kept(new, state, finite, t)

        # outside a map over runs, the random steps then cost no update
        return jax.lax.cond(usable, learn, lambda state: state, state), replay

    def policy_arrays(self, program: Program, state: SacState) -> dict[str, np.ndarray]:
        """Return the arrays of a policy, whose networks see actions in the environment's units."""
        scale, d, model = scale_of(program), program.observation, _model(program)
        numbers = d + program.age_inputs
        found: dict[str, Any] = dict(layer_arrays("layer", state.weights.actor))
        pending = int(state.pending) if program.queue_room else 0
        first = np.asarray(found["layer/0/weight"])
        used = first.shape[1] - pending * scale.size
        found["layer/0/weight"] = np.concatenate([first[:, :numbers], first[:, used:]], axis=1)
        _unscale(scale, found, "layer", numbers, pending)
        if model is not None:
            found |= model.arrays(state.model)
            if "model/0/weight" in found:
                _unscale(scale, found, "model", d, 1)
        found |= {"low": scale.low, "high": scale.high, "capacity": pending}
        if program.age_inputs:
            found["age_inputs"] = program.age_inputs
        return {name: np.asarray(array) for name, array in found.items()}


def _unscale(scale: BoxScale, arrays: dict[str, Any], part: str, first: int, pending: int) -> None:
    """Change a network's first layer in place (see `BoxScale.unscaled`)."""
    names = f"{part}/0/weight", f"{part}/0/bias"
    weight, bias = (np.asarray(arrays[name]) for name in names)
    arrays.update(zip(names, scale.unscaled(weight, bias, first, pending), strict=True))


SOFT_ACTOR_CRITIC = SoftActorCritic()
