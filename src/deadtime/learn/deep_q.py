"""How a run decides and learns, for one item; `fused` and `host` put an environment to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from deadtime.learn import double_q, forward_model
from deadtime.learn.networks import MLP, new_mlp
from deadtime.learn.program import Flags, Learner, Program, Run, Setup, flags_of
from deadtime.learn.replay import Replay, Transition, sample, store
from deadtime.learn.roll_kernel import on_gpu


def _adam(program: Program) -> optax.GradientTransformation:
    return optax.scale_by_adam(eps=program.settings.adam_epsilon)


def new_learner(program: Program, setup: Setup, key: Array) -> Learner:
    """One that knows nothing."""
    key_q, key_model = jax.random.split(key)
    settings, d, actions = program.settings, program.observation, program.env.num_actions
    per_action = actions if settings.one_hot_queue else 1
    inputs = d + per_action * program.queue_room
    used = d + per_action * setup.delay * _flags(program, setup).sees_queue
    q = new_mlp(key_q, (inputs, *settings.hidden, actions), used)
    kind, members = (settings.model, settings.members) if program.predicts else ("simulator", 1)
    model = forward_model.new_model(key_model, kind, d, actions, settings.hidden, members)
    weights, _ = _joined((q, model.nets) if _learns_model(program) else q)
    return Learner(q, q, model, _adam(program).init(weights), jnp.zeros((), jnp.int32))


def _learns_model(program: Program) -> bool:
    return program.predicts and program.settings.model != "simulator"


def _flags(program: Program, setup: Setup) -> Flags:
    return setup.flags if program.view is None else flags_of(program.view)


def q_values(program: Program, q: MLP, obs: Float[Array, " D"], queue: Int[Array, " C"], setup: Setup) -> Float[Array, " A"]:
    """Q of what the view shows it: an observation (real or predicted), and the queue if it sees that."""
    if program.queue_room == 0:
        return q(obs)
    seen = (jnp.arange(program.capacity) >= program.capacity - setup.delay) & _flags(program, setup).sees_queue
    pending = seen.astype(jnp.float32)
    shown = queue.astype(jnp.float32) * pending
    if program.settings.one_hot_queue:
        shown = (jax.nn.one_hot(queue, program.env.num_actions) * pending[:, None]).ravel()
    return q(jnp.concatenate([obs, shown]))


def predicted(program: Program, run: Run, setup: Setup, key: Array) -> Float[Array, "members D"]:
    """The observations that the next action may be executed in: one for each forward model."""
    settings, model, actions = program.settings, run.learner.model, program.env.num_actions
    if not program.predicts:
        return run.obs[None]
    if settings.model == "simulator":
        step = partial(_simulate, program, setup, key)

        def member(k: Array) -> Array:
            return forward_model.roll(partial(step, k), (run.obs, run.env), run.queue, setup.delay)[0]

        states = jax.vmap(member)(jnp.arange(settings.members))
    else:

        def roll(net: MLP) -> Array:
            return forward_model.rolled(model, net, settings.model, actions, run.obs, run.queue, setup.delay)

        states = jax.vmap(roll)(model.nets)
    return states if program.view is not None else jnp.where(setup.flags.predicts, states, run.obs)


def _simulate(program: Program, setup: Setup, key: Array, member: Array, state: Any, action: Array, i: Array) -> Any:
    """One step of the environment itself with fresh noise."""
    fresh = jax.random.fold_in(jax.random.fold_in(key, member), i)
    obs, env, *_ = program.env.step_env(fresh, state[1], action, setup.params)
    return obs, env


def decide(program: Program, run: Run, setup: Setup, key: Array) -> Int[Array, ""]:
    """The greedy action: the best on average over the predictions."""
    states = predicted(program, run, setup, key)
    values = jax.vmap(lambda obs: q_values(program, run.learner.q, obs, run.queue, setup))(states)
    return jnp.argmax(values.mean(axis=0))


def choose(program: Program, setup: Setup, run: Run, key_model: Array, key_explore: Array) -> Int[Array, ""]:
    """The greedy action or, as often as exploration wants, any."""
    numbers, greedy = setup.numbers, decide(program, run, setup, key_model)
    draw = jax.random.uniform(key_explore, (2,))
    epsilon = jnp.maximum(numbers.epsilon_floor, numbers.epsilon_decay**run.learner.updates)
    return jnp.where(draw[0] < epsilon, (draw[1] * program.env.num_actions).astype(jnp.int32), greedy)


def transition(
    program: Program,
    setup: Setup,
    run: Run,
    executed: Array,
    chosen: Array,
    reward: Array,
    obs: Array,
    queue: Array,
    terminated: Array,
) -> tuple[Transition, Any]:
    """The transition that the view learns from, and whether there is one yet."""
    nothing = jnp.zeros(0, jnp.int32)
    before, after = (run.queue, queue) if program.queue_room else (nothing, nothing)
    if program.view is None or program.view.credits != "shifted":
        action = jnp.where(_flags(program, setup).executed, executed, chosen)
        return Transition(run.obs, before, action, reward, obs, after, terminated), True
    past = program.capacity - setup.delay
    extended = jnp.concatenate([run.history, obs[None]])
    return Transition(extended[past], before, executed, reward, extended[past + 1], after, terminated), run.age >= setup.delay


def learn(program: Program, setup: Setup, run: Run, item: Transition, keep: Any, t: Int[Array, ""], key: Array) -> Run:
    """Store step t's transition if it is to be kept, and update everything once there is a batch."""
    live = t < setup.steps
    keep = keep & (run.age >= setup.numbers.skipped_delays * setup.delay) & live
    replay = store(run.replay, item, keep)
    learner, finite = _updated(program, setup, run.learner, replay, item, keep, t, key)
    usable = live & (replay.stored >= program.settings.batch) & (run.diverged_at < 0)
    learner = jax.tree.map(lambda new, old: jnp.where(usable & finite, new, old), learner, run.learner)
    return run._replace(learner=learner, replay=replay, diverged_at=jnp.where(usable & ~finite, t, run.diverged_at))


def _updated(
    program: Program, setup: Setup, learner: Learner, replay: Replay, item: Transition, keep: Any, t: Array, key: Array
) -> tuple[Learner, Any]:
    """One update of Q, its target and the model from one batch; also says whether the losses were finite."""
    numbers, rate = setup.numbers, learning_rate(setup, t)
    batch = sample(replay, key, program.settings.batch, program.observation)

    def q_loss(q: MLP) -> Array:
        def one(b: Transition) -> Array:
            now = q_values(program, q, b.obs, b.queue, setup)
            then = q_values(program, q, b.next_obs, b.next_queue, setup)
            target = q_values(program, learner.target, b.next_obs, b.next_queue, setup)
            ended = b.terminated * numbers.terminals
            reward, discount = double_q.measured(b.reward, ended, numbers.discount, numbers.centre, numbers.scaled)
            chooses = jnp.where(numbers.double, then, target)
            return double_q.double_q_loss(now, b.action, reward, discount, chooses, target)

        return jax.vmap(one)(batch).mean()

    loss, gradient = jax.value_and_grad(q_loss)(learner.q)
    finite = jnp.isfinite(loss)
    if not _learns_model(program):
        q, moments = _descend(program, learner.q, gradient, learner.moments, rate)
        model = learner.model
    else:
        model = _rescaled(program, learner.model, item, keep)
        model_loss, model_gradient = jax.value_and_grad(partial(_model_loss, program, model, batch))(model.nets)
        finite &= jnp.isfinite(model_loss) | ~jnp.asarray(_flags(program, setup).predicts)
        both = (learner.q, model.nets), (gradient, model_gradient)
        (q, nets), moments = _descend(program, *both, learner.moments, rate)
        model = eqx.tree_at(lambda m: m.nets, model, nets)
    updates, period = learner.updates + 1, numbers.target_period_updates
    copied = (period > 0) & (updates % jnp.maximum(period, 1) == 0)
    follow = jnp.where(period > 0, 0.0, numbers.target_rate)
    target = jax.tree.map(lambda new, old: jnp.where(copied, new, old + follow * (new - old)), q, learner.target)
    return Learner(q, target, model, moments, updates), finite


def _descend(program: Program, nets: Any, gradient: Any, moments: Any, learning_rate: Any) -> tuple[Any, Any]:
    """One step of Adam."""
    joined, apart = _joined(gradient)
    change, moments = _adam(program).update(joined, moments)
    return jax.tree.map(lambda weight, by: weight - learning_rate * by, nets, apart(change)), moments


def _joined(weights: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All weights in one row, and the way back: on a CPU fewer operations are faster. A GPU would only copy more."""
    return (weights, lambda same: same) if on_gpu() else ravel_pytree(weights)


def _rescaled(program: Program, model: forward_model.ForwardModel, item: Transition, keep: Any) -> forward_model.ForwardModel:
    """The model with its scales, where it has any, told of one more transition."""
    if program.settings.model != "change":
        return model
    kept = jnp.float32(keep)
    scales = model.inputs.seen(item.obs, kept), model.changes.seen(item.next_obs - item.obs, kept)
    return eqx.tree_at(lambda m: (m.inputs, m.changes), model, scales)


def _model_loss(program: Program, model: forward_model.ForwardModel, batch: Transition, nets: MLP) -> Array:
    """The mean error of each network on the batch, added up."""
    settings, actions = program.settings, program.env.num_actions

    def one(net: MLP, b: Transition) -> Array:
        return forward_model.error(model, net, settings.model, actions, b.obs, b.action, b.next_obs)

    def member(net: MLP) -> Array:
        return jax.vmap(partial(one, net))(batch).mean()

    return jax.vmap(member)(nets).sum()


def learning_rate(setup: Setup, t: Int[Array, ""]) -> Any:
    """It falls linearly, from the whole at the first step to the rest that is left at the last."""
    return setup.numbers.learning_rate * (1.0 - setup.numbers.learning_rate_fall * t / setup.steps)


def policy_arrays(learner: Learner, capacity: int) -> dict[str, np.ndarray]:
    """Return the arrays of a policy: all that acting needs."""
    arrays: dict[str, Any] = {}
    for part, net in (("q", learner.q), ("model", learner.model.nets)):
        for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
            arrays |= {f"{part}/{i}/weight": weight, f"{part}/{i}/bias": bias}
    for part, scale in (("inputs", learner.model.inputs), ("changes", learner.model.changes)):
        arrays |= {f"{part}/mean": scale.mean, f"{part}/deviation": scale.deviation}
    return jax.tree.map(np.asarray, arrays | {"capacity": capacity})
