"""Deep Q-learning on numbers: a Double DQN with a forward model, for every view except "law".

Each step decides, stores a transition and updates all networks once. Every function takes one run.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from deadtime.learn import double_q
from deadtime.learn.credits import credited, is_fresh, projected_row, shifted_row
from deadtime.learn.double_q import Adam, Batch
from deadtime.learn.forward_model import SIMULATOR, ForwardModel, TrainedModel
from deadtime.learn.learner_code import Keys, kept, learning_rate, never
from deadtime.learn.networks import MLP, layer_arrays, new_mlp
from deadtime.learn.program import Actor, Done, Known, Program, Setup
from deadtime.learn.projection import Projected, deciding, projected_loss, valuing
from deadtime.learn.replay import (
    DECIDED,
    Replay,
    Transition,
    layout_of,
    new_replay,
    sample,
    store,
)
from deadtime.learn.settings import forward_model
from deadtime.learn.ways import known_after, on_the_way, shown_age


class Numbers(NamedTuple):
    """The settings that may differ between runs of one program, named as in `DoubleQ`."""

    learning_rate: Any
    learning_rate_fall: Any
    gamma: Any
    target_period_updates: Any
    tau: Any
    epsilon_decay: Any
    epsilon_floor: Any
    shaped: Any
    shaped_bonus: Any
    centre: Any
    scaled: Any
    double: Any
    terminals: Any
    skipped_delays: Any

    @property
    def clip_rewards(self) -> bool:
        """Whether learning sees only the sign of rewards."""
        return False


class QState(NamedTuple):
    """The networks and counters that learning changes."""

    q: Any
    """The network, or a `Projected` pair of networks."""
    target: Any
    model: Any
    moments: Any
    """The moments of Adam, for all trained weights."""
    updates: Int[Array, ""]
    diverged_at: Int[Array, ""]
    """The step at which a loss was no longer finite; -1 if it never happened."""


class Kept(NamedTuple):
    """The recorded transition of a step."""

    item: Transition
    valid: Any
    """Whether the view can form a transition at this step."""
    age: Int[Array, ""]
    action_age: Any
    """The age of the action that the step executed."""


def _adam(program: Program) -> Adam:
    return Adam(program.settings.adam_epsilon, joined=True)


def _model(program: Program) -> ForwardModel:
    """Return the program's forward model; the simulator, which has no weights, if none is used."""
    return forward_model(program.settings.model) if program.predicts else SIMULATOR


def q_values(
    program: Program,
    q: MLP,
    obs: Float[Array, " D"],
    queue: Array,
    setup: Setup,
    known: Known = (),
) -> Float[Array, " A"]:
    """Return the values of all actions at an observation, real or predicted, and the queue.

    `known` is what the agent knows of ages (see `Actor.known`).
    """
    if program.queue_room == 0:
        return q(obs)
    if program.view is not None and program.view.shown is not None:
        return q(program.view.shown.inputs(obs, queue, setup.delay))
    seen = jnp.arange(program.capacity) >= program.capacity - setup.delay
    pending = (seen & program.code(setup).sees_queue).astype(jnp.float32)
    shown = queue.astype(jnp.float32) * pending
    if program.settings.one_hot_queue:
        shown = (jax.nn.one_hot(queue, program.env.num_actions) * pending[:, None]).ravel()
    return q(jnp.concatenate([obs, *shown_age(program, known), shown]))


def predicted(
    program: Program, setup: Setup, state: QState, actor: Actor, key: Array
) -> Float[Array, "members D"]:
    """Return the predicted observation at which the next action is executed, for each member."""
    if not program.predicts:
        return actor.obs[None]
    run, at = on_the_way(program, setup, actor)
    states = _model(program).predict(program, run, state.model, at, key)
    return states if program.view is not None else jnp.where(setup.view.predicts, states, actor.obs)


def greedy(
    program: Program, setup: Setup, state: QState, actor: Actor, key: Array
) -> Int[Array, ""]:
    """Return the action with the highest mean value over the predictions."""
    states = predicted(program, setup, state, actor, key)
    q = deciding(state.q)

    def values_at(obs: Array) -> Array:
        return q_values(program, q, obs, actor.queue, setup, actor.known)

    return jnp.argmax(jax.vmap(values_at)(states).mean(axis=0))


def transition(program: Program, setup: Setup, actor: Actor, done: Done) -> tuple[Transition, Any]:
    """Return the transition that the view learns from, and whether there is one at this step."""
    if program.projects and program.view is not None:
        return projected_row(program, setup, actor, done)
    if program.view is not None and program.view.credits == "shifted":
        return shifted_row(program, setup, actor, done)
    nothing = jnp.zeros(0, jnp.int32)
    before, after = (actor.queue, done.queue) if program.queue_room else (nothing, nothing)
    action = jnp.where(program.code(setup).executed, done.executed, done.action)
    item = Transition(actor.obs, before, action, done.reward, done.obs, after, done.terminated)
    if program.process is not None:
        item = item._replace(fresh=is_fresh(program, setup, done))
    if program.age_inputs:
        then = known_after(program, done.action_age, done.next_age)
        item = item._replace(known=actor.known, next_known=then)
    valid = credited(program, setup, actor.age, done.action_age)
    if not program.projects:
        return item, valid
    row, follows = projected_row(program, setup, actor, done)
    decided = {name: getattr(row, name) for name in DECIDED}
    return item._replace(**decided), valid & (follows | (program.code(setup).projects == 0))


def updated(
    program: Program,
    setup: Setup,
    state: QState,
    replay: Replay,
    item: Transition,
    keep: Array,
    t: Array,
    key: Array,
) -> tuple[QState, Any]:
    """Return the state after one update from a batch, and whether the losses were finite."""
    numbers = setup.numbers
    batch = sample(replay, key, program.settings.batch_size, layout_of(program))
    loss, gradient = jax.value_and_grad(partial(_loss, program, setup))(
        state.q, state.target, batch
    )
    finite = jnp.isfinite(loss)
    rate = learning_rate(setup, t)
    model = state.model
    if not _model(program).learns:
        q, moments = _adam(program).descend(state.q, gradient, state.moments, rate)
    else:
        trained = cast("TrainedModel", _model(program))
        model = trained.seen(model, item, keep)
        weights = trained.weights(model)
        error, slope = jax.value_and_grad(partial(trained.loss, program, model))(weights, batch)
        finite &= jnp.isfinite(error) | ~jnp.asarray(program.code(setup).predicts)
        both = (state.q, weights), (gradient, slope)
        (q, weights), moments = _adam(program).descend(*both, state.moments, rate)
        model = trained.with_weights(model, weights)
    updates = state.updates + 1
    target = double_q.followed(
        valuing(q), state.target, updates, numbers.target_period_updates, numbers.tau
    )
    return QState(q, target, model, moments, updates, state.diverged_at), finite


def _loss(program: Program, setup: Setup, q: PyTree, target: MLP, batch: Transition) -> Array:
    """Return the loss of a batch."""
    numbers = setup.numbers

    def values(q: MLP, obs: Array, queue: Array, known: Known) -> Array:
        return q_values(program, q, obs, queue, setup, known)

    if isinstance(q, Projected):
        weight = program.settings.projection_weight
        return projected_loss(q, target, values, batch, numbers, weight)
    shown = Batch(
        (batch.obs, batch.queue, batch.known),
        (batch.next_obs, batch.next_queue, batch.next_known),
        batch.action,
        batch.reward,
        batch.terminated,
        held=None if batch.fresh is None else ~batch.fresh,
    )
    return double_q.batch_loss(q, target, lambda q, seen: values(q, *seen), shown, numbers)


class DeepQ:
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

    def init(self, program: Program, setup: Setup, key: Array) -> QState:
        """Return the state of a new learner."""
        key_q, key_model = jax.random.split(key)
        settings, d, actions = program.settings, program.observation, program.env.num_actions
        if program.view is not None and program.view.shown is not None:
            inputs = used = program.view.shown.size(d, actions)
        else:
            per_action = actions if settings.one_hot_queue else 1
            numbers = d + program.age_inputs
            inputs = numbers + per_action * program.queue_room
            used = numbers + per_action * setup.delay * program.code(setup).sees_queue
        q: Any = new_mlp(key_q, (inputs, *settings.hidden, actions), used)
        target = q
        if program.projects and program.capacity:  # without a delay, Q is its own projection
            target = new_mlp(jax.random.fold_in(key, 2), (d, *settings.hidden, actions), d)
            q = Projected(target, q)
        model = _model(program).init(program, key_model)
        weights: Any = q
        if _model(program).learns:
            weights = q, cast("TrainedModel", _model(program)).weights(model)
        moments = _adam(program).init(weights)
        return QState(q, target, model, moments, jnp.zeros((), jnp.int32), never())

    def new_replay(self, program: Program) -> Replay:
        """Return an empty replay buffer."""
        return new_replay(program.settings.buffer_size, layout_of(program))

    def new_memory(self, program: Program) -> tuple[()]:
        """Return (), since the agent has no memory."""
        return ()

    def act(
        self, program: Program, setup: Setup, state: QState, actor: Actor, keys: Keys
    ) -> tuple[Int[Array, ""], Any]:
        """Return the greedy action or, with the probability of exploration, a random one."""
        best = greedy(program, setup, state, actor, keys["model"])
        draw = jax.random.uniform(keys["explore"], (2,))
        numbers = setup.numbers
        epsilon = jnp.maximum(numbers.epsilon_floor, numbers.epsilon_decay**state.updates)
        random = (draw[1] * program.env.num_actions).astype(jnp.int32)
        return jnp.where(draw[0] < epsilon, random, best), ()

    def decide(
        self, program: Program, setup: Setup, state: QState, actor: Actor, key: Array
    ) -> tuple[Int[Array, ""], Any]:
        """Return the greedy action."""
        return greedy(program, setup, state, actor, key), ()

    def record(
        self, program: Program, setup: Setup, state: QState, actor: Actor, done: Done
    ) -> Kept:
        """Return the transition of a step."""
        action_age = setup.delay if program.process is None else done.action_age
        return Kept(*transition(program, setup, actor, done), actor.age, action_age)

    def update(
        self,
        program: Program,
        setup: Setup,
        state: QState,
        replay: Replay,
        step: Kept,
        t: Int[Array, ""],
        keys: Keys,
    ) -> tuple[QState, Replay]:
        """Store the transition of step t, and update if there are enough for a batch.

        The first steps of an episode are not stored (see `skipped_delays`).
        """
        live = t < setup.steps
        keep = step.valid & (step.age >= setup.numbers.skipped_delays * step.action_age) & live
        replay = store(replay, step.item, keep, layout_of(program))
        new, finite = updated(program, setup, state, replay, step.item, keep, t, keys["batch"])
        usable = live & (replay.stored >= program.settings.batch_size)
        return kept(new, state, finite, t, usable), replay

    def policy_arrays(self, program: Program, state: QState) -> dict[str, np.ndarray]:
        """Return the arrays of a policy."""
        model = _model(program).arrays(state.model)
        layers = layer_arrays("q", deciding(state.q))
        arrays = {**layers, **model, "capacity": program.capacity}
        if program.age_inputs:
            arrays["age_inputs"] = program.age_inputs
        return jax.tree.map(np.asarray, arrays)


DEEP_Q = DeepQ()
