"""The compiled loop: environment, queue, forward model, replay and learner in one program.

The functions for one run are mapped over runs. A turn is a rollout of every actor and an update;
for Deep Q it is one step of one actor. A program is compiled for a kind of environment, the shapes
of the networks, the capacity of the queue and a view. Each run has its own seed, delay up to the
capacity, environment parameters (its noise), numbers such as the learning rate, and length.

A program can also be compiled for all views at once, and each run then carries its own. On GPUs,
more runs in a batch cost no time, but each further program does.

All random numbers come from the run's key folded with the environment step, counted over actors. So
chunks of any length give the same bits.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from deadtime.delays.convention import push
from deadtime.envs import channel
from deadtime.envs.start_queue import start_queue
from deadtime.learn.credits import action_age, executed_age, later_history, new_history
from deadtime.learn.inferred_ages import first_trail, later_trail, settled
from deadtime.learn.program import Actor, Done, Program, Setup, compiled
from deadtime.learn.ways import known_after, known_at_start


class Run(NamedTuple):
    """One run between two turns; several actors are stacked on the first axis."""

    actors: Actor
    earned: Float[Array, " actors"]
    """The return of each actor's episode so far."""
    learner: Any
    replay: Any


class Ahead(NamedTuple):
    """The inputs of a step that do not depend on learning, made for a whole chunk at once."""

    t: Int[Array, ""]
    keys: Array
    channel: Any
    """The draw of the channel (see `channel.step_draw`)."""
    start: Any
    """The start of the next episode, if this step ends one."""


def stride(program: Program) -> int:
    """Return the environment steps of a turn."""
    return program.learner.actors(program) * program.learner.rollout(program)


def begin(program: Program, setup: Setup) -> Run:
    """Return a run before its first turn."""
    of = program.learner
    key_learner, key_env = jax.random.split(jax.random.fold_in(setup.key, 0))
    learner = of.init(program, setup, key_learner)
    if not of.updates_once:
        actors, earned = fresh(program, setup, key_env), jnp.zeros(())
    else:
        numbered = jnp.arange(of.actors(program))
        each = jax.vmap(lambda i: jax.random.fold_in(key_env, i))(numbered)
        actors = jax.vmap(partial(fresh, program, setup))(each)
        earned = jnp.zeros(len(numbered))
    return Run(actors, earned, learner, of.new_replay(program))


def fresh(program: Program, setup: Setup, key: Array) -> Actor:
    """Return an actor at the start of a new episode."""
    return actor_at(program, *start(program, setup, key))


def actor_at(
    program: Program,
    env: PyTree,
    obs: Array,
    queue: Array,
    channel: PyTree = (),
    first_age: PyTree = (),
) -> Actor:
    """Return an actor at the start of the given episode."""
    known = known_at_start(program, first_age)
    history = new_history(program, obs, queue, known)
    age = jnp.zeros((), jnp.int32)
    memory = program.learner.new_memory(program)
    actor = Actor(env, obs, queue, history, age, memory, channel, known)
    return actor._replace(trail=first_trail(program, actor))


def start(program: Program, setup: Setup, key: Array) -> tuple[Any, Array, Array, Any, Any]:
    """Return the start of an episode: environment state, observation, queue, channel, first age."""
    key_env, key_queue = jax.random.split(key)
    obs, env = program.env.reset_env(key_env, setup.params)
    space = program.env.action_space(program.env.default_params)
    pending = setup.delay if program.hidden is None else program.hidden.longest
    queue = start_queue(program.env, space, obs, key_queue, program.capacity, pending)
    ages = channel.first_state(program.channel, key)
    first_age = action_age(program, setup, ages) if program.uses_ages else ()
    return env, obs, queue, ages, first_age


def ahead(program: Program, setup: Setup, t: Int[Array, ""]) -> Ahead:
    """Precompute the inputs of environment step t."""
    count = len(program.learner.keys) + 1
    *keys, key_start = jax.random.split(jax.random.fold_in(setup.key, t + 1), count)
    key_env = keys[program.learner.keys.index("environment")]
    drawn = channel.step_draw(program.channel, key_env)
    return Ahead(t, jnp.stack(keys), drawn, start(program, setup, key_start))


def named_keys(program: Program, now: Ahead) -> dict[str, Array]:
    """Return the random keys of a step by their uses."""
    return dict(zip(program.learner.keys, now.keys, strict=True))


def step(
    program: Program, setup: Setup, learner: PyTree, actor: Actor, earned: Array, now: Ahead
) -> tuple[Actor, Array, Any, Array]:
    """Make one step of one actor: decide, execute, record.

    Return the actor, its return so far, the recorded step, and the return of the episode if it
    ended, else NaN.
    """
    of, env = program.learner, program.env
    keys = named_keys(program, now)
    action, memory = of.act(program, setup, learner, actor, keys)
    executed, queue = push(actor.queue, action, executed_age(program, setup, actor.channel))
    obs, state, reward, terminated, _ = env.step_env(
        keys["environment"], actor.env, executed, setup.params
    )
    moved = channel.next_state(program.channel, actor.channel, now.channel)
    ended = terminated | env.is_truncated(state, setup.params)
    earned = earned + reward
    if hasattr(env, "shaped_reward"):
        shaped = env.shaped_reward(obs) + setup.numbers.shaped_bonus
        reward = jnp.where(setup.numbers.shaped, shaped, reward)
    age, next_age = (action_age(program, setup, one) for one in (actor.channel, moved))
    if program.hidden is not None:
        executed, _ = push(actor.queue, action, age)
    done = Done(action, executed, reward, terminated, ended, obs, queue, memory, age, next_age)
    kept = of.record(program, setup, learner, *settled(program, actor, done))
    after = actor_after(program, actor, done, state, moved, now.start)
    left = jnp.where(ended, 0.0, earned)
    return after, left, kept, jnp.where(ended & (now.t < setup.steps), earned, jnp.nan)


def actor_after(
    program: Program, actor: Actor, done: Done, state: PyTree, channel: PyTree, start: PyTree
) -> Actor:
    """Return the actor after a step: in the same episode, or at the `start` of the next one."""
    ended = done.ended

    def chosen(new: PyTree, old: PyTree) -> Any:
        return jax.tree.map(lambda a, b: jnp.where(ended, a, b), new, old)

    *starting, first_age = start
    _, first_obs, first_queue, _ = starting
    env, obs, queue, channel = chosen(tuple(starting), (state, done.obs, done.queue, channel))
    first_known = known_at_start(program, first_age)
    history = actor.history
    if len(history.obs):
        first_history = new_history(program, first_obs, first_queue, first_known)
        history = chosen(first_history, later_history(program, actor, done))
    age = jnp.where(ended, 0, actor.age + 1)
    memory = chosen(program.learner.new_memory(program), done.memory)
    known = chosen(first_known, known_after(program, done.action_age, done.next_age))
    trail = later_trail(program, actor, done)
    return Actor(env, obs, queue, history, age, memory, channel, known, trail)


def turn(
    program: Program, setup: Setup, run: Run, now: Ahead
) -> tuple[Run, Float[Array, " stride"]]:
    """Return the run after one turn, and the returns of episodes that ended.

    With several actors or steps, `now` has the axes (step, actor).
    """
    of = program.learner
    if not of.updates_once:
        actor, earned, kept, ended = step(program, setup, run.learner, run.actors, run.earned, now)
        keys = named_keys(program, now)
        learned = of.update(program, setup, run.learner, run.replay, kept, now.t, keys)
        return Run(actor, earned, *learned), ended
    every = jax.vmap(partial(step, program, setup, run.learner))

    def all_actors(before: PyTree, now: Ahead) -> tuple[Any, Any]:
        actors, earned = before
        actors, earned, kept, ended = every(actors, earned, now)
        return (actors, earned), (kept, ended)

    before = run.actors, run.earned
    (actors, earned), (kept, ended) = jax.lax.scan(all_actors, before, now)
    rollout = run.actors.memory, kept
    last = now.t[-1, -1]
    learned = of.update(program, setup, run.learner, run.replay, rollout, last, {})
    return Run(actors, earned, *learned), ended.ravel()


@partial(compiled, static_argnums=(0, 4), donate_argnums=(2,))
def run_chunk(
    program: Program, setups: Setup, runs: Run, first: Int[Array, ""], length: int
) -> tuple[Run, Float[Array, "length runs"]]:
    """Make `length` environment steps (whole turns) of every run, beginning at step `first`.

    Return the runs, and the returns of episodes that ended.
    """

    def all_runs(runs: Run, now: Ahead) -> tuple[Run, Array]:
        return jax.vmap(partial(turn, program))(setups, runs, now)

    at = jax.vmap(partial(ahead, program), in_axes=(0, None))
    every = jax.vmap(at, in_axes=(None, 0))(setups, first + jnp.arange(length))
    if not program.learner.updates_once:
        return jax.lax.scan(all_runs, runs, every)
    of, width = program.learner, len(setups.delay)
    shape = length // stride(program), of.rollout(program), of.actors(program), width
    every = jax.tree.map(
        lambda leaf: jnp.moveaxis(leaf.reshape(*shape, *leaf.shape[2:]), 3, 1), every
    )
    runs, ended = jax.lax.scan(all_runs, runs, every)
    return runs, jnp.swapaxes(ended, 1, 2).reshape(length, -1)


@partial(compiled, static_argnums=(0,))
def begin_all(program: Program, setups: Setup) -> Run:
    """Return every run before its first turn."""
    return jax.vmap(partial(begin, program))(setups)


@partial(compiled, static_argnums=(0, 3, 4))
def evaluate_all(
    program: Program, setups: Setup, learners: PyTree, episodes: int, limit: int
) -> Float[Array, "runs episodes"]:
    """Return the unshaped returns of held-out episodes, of at most `limit` steps, of each run."""

    def one_run(setup: Setup, learner: PyTree) -> Array:
        return held_out(program, setup, learner, episodes, limit)

    return jax.vmap(one_run)(setups, learners)


def held_out(
    program: Program, setup: Setup, learner: PyTree, episodes: int, limit: int
) -> Float[Array, " episodes"]:
    """Return the unshaped returns of the held-out episodes of one run."""
    env = program.env

    def episode(key: Array) -> Array:
        def step(carry: PyTree, t: Array) -> tuple[Any, None]:
            actor, earned, going = carry
            key_model, key_env = jax.random.split(jax.random.fold_in(key, t))
            action, memory = program.learner.decide(program, setup, learner, actor, key_model)
            age = action_age(program, setup, actor.channel)
            executed, queue = push(actor.queue, action, age)
            drawn = channel.step_draw(program.channel, key_env)
            moved = channel.next_state(program.channel, actor.channel, drawn)
            obs, state, reward, terminated, _ = env.step_env(
                key_env, actor.env, executed, setup.params
            )
            earned = earned + jnp.where(going, reward, 0.0)
            going = going & ~terminated & ~env.is_truncated(state, setup.params)
            known = known_after(program, age, action_age(program, setup, moved))
            actor = Actor(state, obs, queue, actor.history, actor.age, memory, moved, known)
            return (actor, earned, going), None

        before = fresh(program, setup, key), jnp.zeros(()), jnp.ones((), bool)
        return jax.lax.scan(step, before, 1 + jnp.arange(limit))[0][1]

    keys = jax.random.split(jax.random.fold_in(setup.key, 2**31 - 1), episodes)
    return jax.vmap(episode)(keys)
