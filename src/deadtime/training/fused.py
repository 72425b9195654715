"""Environment, queue, forward model, replay and learner in one compiled program; many runs side by side.

One step of one run is written here for one item and mapped over runs outside. Static (one program each): the environment's
kind, the networks' shapes, the queue's capacity, and the view. Different in every run: seed, delay up to that capacity, the
environment's parameters (its noise), numbers such as the learning rate, and how long it runs. A program may also be compiled
for no view in particular; then it does the work of all, and every run says which it has. That is for GPUs, where a batch of
other runs is free and another program is not.

All random numbers come from the run's key folded with the step, so chunks of any length give the same bits.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from deadtime.agents import ddqn
from deadtime.agents.networks import MLP, new_mlp
from deadtime.agents.replay import Replay, Transition, new_replay, sample, store
from deadtime.delay import push
from deadtime.models import neural
from deadtime.training.program import Flags, Learner, Program, Run, Setup, flags_of

_ADAM = optax.scale_by_adam()


def begin(program: Program, setup: Setup) -> Run:
    """A run before its first step."""
    key_q, key_model, key_env = jax.random.split(jax.random.fold_in(setup.key, 0), 3)
    settings, d, actions = program.settings, program.observation, program.env.num_actions
    per_action = actions if settings.one_hot_queue else 1
    inputs = d + per_action * program.queue_room
    used = d + per_action * setup.delay * _flags(program, setup).sees_queue
    q = new_mlp(key_q, (inputs, *settings.hidden, actions), used)
    kind, members = (settings.model, settings.members) if program.predicts else ("simulator", 1)
    model = neural.new_model(key_model, kind, d, actions, settings.hidden, members)
    learner = Learner(q, q, model, _ADAM.init(q), _ADAM.init(model.nets), jnp.zeros((), jnp.int32))
    replay = new_replay(settings.replay_transitions, d, program.queue_room)
    return fresh(program, setup._replace(key=key_env), learner)._replace(replay=replay)


def fresh(program: Program, setup: Setup, learner: Learner) -> Run:
    """A run at the beginning of an episode, with nothing in its replay and no room there."""
    env, obs, queue = _start(program, setup, setup.key)
    past = program.capacity + 1 if program.view is not None and program.view.credits == "shifted" else 0
    zero = jnp.zeros((), jnp.int32)
    replay = new_replay(0, program.observation, program.queue_room)
    return Run(env, obs, queue, jnp.tile(obs, (past, 1)), zero, jnp.zeros(()), learner, replay, zero - 1)


def _start(program: Program, setup: Setup, key: Array) -> tuple[Any, Array, Array]:
    """An episode's beginning: environment state, observation, queue."""
    key_env, key_queue = jax.random.split(key)
    obs, env = program.env.reset_env(key_env, setup.params)
    if program.capacity == 0:
        return env, obs, jnp.zeros(0, jnp.int32)
    if hasattr(program.env, "warm_up"):
        return env, obs, program.env.warm_up(obs, program.capacity, setup.delay)
    return env, obs, (jax.random.bits(key_queue, (program.capacity,)) % program.env.num_actions).astype(jnp.int32)


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
        return jax.vmap(lambda k: neural.roll(partial(step, k), (run.obs, run.env), run.queue, setup.delay)[0])(
            jnp.arange(settings.members)
        )

    def roll(net: MLP) -> Array:
        return neural.roll(
            lambda obs, action, i: neural.predict(model, net, settings.model, actions, obs, action),
            run.obs,
            run.queue,
            setup.delay,
        )

    return jax.vmap(roll)(model.nets)


def _simulate(program: Program, setup: Setup, key: Array, member: Array, state: Any, action: Array, i: Array) -> Any:
    """One step of the environment itself with fresh noise."""
    fresh = jax.random.fold_in(jax.random.fold_in(key, member), i)
    obs, env, *_ = program.env.step_env(fresh, state[1], action, setup.params)
    return obs, env


def decide(program: Program, run: Run, setup: Setup, key: Array) -> Int[Array, ""]:
    """The greedy action: the best on average over the predictions."""
    states = predicted(program, run, setup, key)
    if program.view is None:
        states = jnp.where(setup.flags.predicts, states, run.obs)
    values = jax.vmap(lambda obs: q_values(program, run.learner.q, obs, run.queue, setup))(states)
    return jnp.argmax(values.mean(axis=0))


def step(program: Program, setup: Setup, run: Run, t: Int[Array, ""]) -> tuple[Run, Float[Array, ""]]:
    """One step: decide, execute, store, learn. Returns the episode's return if it ended, else NaN."""
    numbers = setup.numbers
    keys = jax.random.split(jax.random.fold_in(setup.key, t + 1), 5)
    key_explore, key_env, key_model, key_batch, key_reset = keys
    greedy = decide(program, run, setup, key_model)
    draw = jax.random.uniform(key_explore, (2,))
    epsilon = jnp.maximum(numbers.epsilon_floor, numbers.epsilon_decay**run.learner.updates)
    action = jnp.where(draw[0] < epsilon, (draw[1] * program.env.num_actions).astype(jnp.int32), greedy)
    executed, queue = push(run.queue, action, setup.delay)
    obs, env, reward, terminated, _ = program.env.step_env(key_env, run.env, executed, setup.params)
    ended = terminated | program.env.is_truncated(env, setup.params)
    earned = run.earned + reward
    if hasattr(program.env, "shaped_reward"):
        reward = jnp.where(numbers.shaped, program.env.shaped_reward(obs), reward)
    item, valid = _transition(program, setup, run, executed, action, reward, obs, queue, terminated)
    live = t < setup.steps
    keep = valid & (run.age >= numbers.skipped_delays * setup.delay) & live
    replay = store(run.replay, item, keep)
    learner, finite = _learn(program, setup, run.learner, replay, item, keep, key_batch)
    usable = live & (replay.stored >= program.settings.batch) & (run.diverged_at < 0)
    learner = jax.tree.map(lambda new, old: jnp.where(usable & finite, new, old), learner, run.learner)
    diverged_at = jnp.where(usable & ~finite, t, run.diverged_at)
    started = _start(program, setup, key_reset)
    after = obs
    env, obs, queue = jax.tree.map(lambda new, old: jnp.where(ended, new, old), started, (env, obs, queue))
    history = run.history
    if history.shape[0]:
        history = jnp.where(ended, jnp.broadcast_to(obs, history.shape), jnp.concatenate([history[1:], after[None]]))
    age, left = jnp.where(ended, 0, run.age + 1), jnp.where(ended, 0.0, earned)
    return Run(env, obs, queue, history, age, left, learner, replay, diverged_at), jnp.where(ended & live, earned, jnp.nan)


def _transition(
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


def _learn(
    program: Program, setup: Setup, learner: Learner, replay: Replay, item: Transition, keep: Any, key: Array
) -> tuple[Learner, Any]:
    """One update of Q, its target and the model from one batch; also says whether the losses were finite."""
    numbers = setup.numbers
    batch = sample(replay, key, program.settings.batch, program.observation)

    def q_loss(q: MLP) -> Array:
        def one(b: Transition) -> Array:
            now = q_values(program, q, b.obs, b.queue, setup)
            then = q_values(program, q, b.next_obs, b.next_queue, setup)
            target = q_values(program, learner.target, b.next_obs, b.next_queue, setup)
            reward, discount = ddqn.centred(b.reward, b.terminated, numbers.discount, numbers.centre)
            return ddqn.double_q_loss(now, b.action, reward, discount, then, target)

        return jax.vmap(one)(batch).mean()

    loss, gradient = jax.value_and_grad(q_loss)(learner.q)
    q, q_moments = _descend(learner.q, gradient, learner.q_moments, numbers.learning_rate)
    updates, period = learner.updates + 1, numbers.target_period_updates
    copied = (period > 0) & (updates % jnp.maximum(period, 1) == 0)
    rate = jnp.where(period > 0, 0.0, numbers.target_rate)
    target = jax.tree.map(lambda new, old: jnp.where(copied, new, old + rate * (new - old)), q, learner.target)
    learner = learner._replace(q=q, target=target, q_moments=q_moments, updates=updates)
    if not program.predicts or program.settings.model == "simulator":
        return learner, jnp.isfinite(loss)
    learner, model_loss = _learn_model(program, setup, learner, batch, item, keep)
    return learner, jnp.isfinite(loss) & jnp.isfinite(model_loss)


def _descend(nets: MLP, gradient: MLP, moments: Any, learning_rate: Any) -> tuple[MLP, Any]:
    """One step of Adam."""
    change, moments = _ADAM.update(gradient, moments)
    return jax.tree.map(lambda weight, by: weight - learning_rate * by, nets, change), moments


def _learn_model(
    program: Program, setup: Setup, learner: Learner, batch: Transition, item: Transition, keep: Any
) -> tuple[Learner, Array]:
    settings, model, actions = program.settings, learner.model, program.env.num_actions
    keep = jnp.float32(keep)
    model = eqx.tree_at(
        lambda m: (m.inputs, m.changes),
        model,
        (model.inputs.seen(item.obs, keep), model.changes.seen(item.next_obs - item.obs, keep)),
    )

    def loss(nets: MLP) -> Array:
        def one(net: MLP, b: Transition) -> Array:
            return neural.error(model, net, settings.model, actions, b.obs, b.action, b.next_obs)

        def member(net: MLP) -> Array:
            return jax.vmap(partial(one, net))(batch).mean()

        return jax.vmap(member)(nets).sum()

    value, gradient = jax.value_and_grad(loss)(model.nets)
    nets, moments = _descend(model.nets, gradient, learner.model_moments, setup.numbers.learning_rate)
    model = eqx.tree_at(lambda m: m.nets, model, nets)
    return learner._replace(model=model, model_moments=moments), value


@partial(jax.jit, static_argnums=(0, 4), donate_argnums=(2,))
def run_chunk(
    program: Program, setups: Setup, runs: Run, first: Int[Array, ""], length: int
) -> tuple[Run, Float[Array, "length runs"]]:
    """`length` steps of every run from step `first` on; the second result has the returns of episodes that ended."""

    def all_runs(runs: Run, t: Array) -> tuple[Run, Array]:
        return jax.vmap(partial(step, program), in_axes=(0, 0, None))(setups, runs, t)

    return jax.lax.scan(all_runs, runs, first + jnp.arange(length))


@partial(jax.jit, static_argnums=(0,))
def begin_all(program: Program, setups: Setup) -> Run:
    """Every run before its first step."""
    return jax.vmap(partial(begin, program))(setups)


@partial(jax.jit, static_argnums=(0, 3, 4))
def evaluate_all(
    program: Program, setups: Setup, learners: Learner, episodes: int, limit: int
) -> Float[Array, "runs episodes"]:
    """The plain return of each episode of each run; none lasts longer than `limit` steps."""

    def one_run(setup: Setup, learner: Learner) -> Array:
        keys = jax.random.split(jax.random.fold_in(setup.key, 2**31 - 1), episodes)
        return jax.vmap(partial(_greedy_episode, program, setup, learner, limit))(keys)

    return jax.vmap(one_run)(setups, learners)


def _greedy_episode(program: Program, setup: Setup, learner: Learner, limit: int, key: Array) -> Array:
    run = fresh(program, setup._replace(key=key), learner)

    def step(carry: tuple[Run, Array], t: Array) -> tuple[tuple[Run, Array], None]:
        run, going = carry
        key_model, key_env = jax.random.split(jax.random.fold_in(key, t))
        executed, queue = push(run.queue, decide(program, run, setup, key_model), setup.delay)
        obs, env, reward, terminated, _ = program.env.step_env(key_env, run.env, executed, setup.params)
        run = run._replace(env=env, obs=obs, queue=queue, earned=run.earned + jnp.where(going, reward, 0.0))
        return (run, going & ~terminated & ~program.env.is_truncated(env, setup.params)), None

    (run, _), _ = jax.lax.scan(step, (run, jnp.ones((), bool)), 1 + jnp.arange(limit))
    return run.earned
