"""Environment, queue, forward model, replay and learner in one compiled program; many runs side by side.

One step of one run is written here for one item and mapped over runs outside. Static (one program each): the environment's
kind, the networks' shapes, the queue's capacity, and the view. Different in every run: seed, delay up to that capacity, the
environment's parameters (its noise), numbers such as the learning rate, and how long it runs. A program may also be compiled
for no view in particular; then it does the work of all, and every run says which it has. That is for GPUs, where a batch of
other runs is free and another program is not.

All random numbers come from the run's key folded with the step, so chunks of any length give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from deadtime.delays.convention import push
from deadtime.learn.deep_q import choose, decide, learn, new_learner, transition
from deadtime.learn.program import Learner, Program, Run, Setup, compiled
from deadtime.learn.replay import new_replay


def begin(program: Program, setup: Setup) -> Run:
    """A run before its first step."""
    key_learner, key_env = jax.random.split(jax.random.fold_in(setup.key, 0))
    learner = new_learner(program, setup, key_learner)
    replay = new_replay(program.settings.replay_transitions, program.observation, program.queue_room)
    return fresh(program, setup._replace(key=key_env), learner)._replace(replay=replay)


def fresh(program: Program, setup: Setup, learner: Learner) -> Run:
    """A run at the beginning of an episode, with nothing in its replay and no room there."""
    env, obs, queue = start(program, setup, setup.key)
    past = program.capacity + 1 if program.view is not None and program.view.credits == "shifted" else 0
    zero = jnp.zeros((), jnp.int32)
    replay = new_replay(0, program.observation, program.queue_room)
    return Run(env, obs, queue, jnp.tile(obs, (past, 1)), zero, jnp.zeros(()), learner, replay, zero - 1)


def start(program: Any, setup: Setup, key: Array) -> tuple[Any, Array, Array]:
    """An episode's beginning: environment state, observation, queue."""
    key_env, key_queue = jax.random.split(key)
    obs, env = program.env.reset_env(key_env, setup.params)
    if program.capacity == 0:
        return env, obs, jnp.zeros(0, jnp.int32)
    if hasattr(program.env, "warm_up"):
        return env, obs, program.env.warm_up(obs, program.capacity, setup.delay)
    return env, obs, (jax.random.bits(key_queue, (program.capacity,)) % program.env.num_actions).astype(jnp.int32)


class Ahead(NamedTuple):
    """What a step needs and nothing that is learned can change: made for a whole chunk at once."""

    t: Int[Array, ""]
    keys: Array
    start: Any
    """The episode that begins if this step ends one."""


def ahead(program: Program, setup: Setup, t: Int[Array, ""]) -> Ahead:
    """That of step t."""
    *keys, key_start = jax.random.split(jax.random.fold_in(setup.key, t + 1), 5)
    return Ahead(t, jnp.stack(keys), start(program, setup, key_start))


def step(program: Program, setup: Setup, run: Run, now: Ahead) -> tuple[Run, Float[Array, ""]]:
    """One step: decide, execute, store, learn. Returns the episode's return if it ended, else NaN."""
    t, (key_explore, key_env, key_model, key_batch) = now.t, now.keys
    action = choose(program, setup, run, key_model, key_explore)
    executed, queue = push(run.queue, action, setup.delay)
    obs, env, reward, terminated, _ = program.env.step_env(key_env, run.env, executed, setup.params)
    ended = terminated | program.env.is_truncated(env, setup.params)
    earned = run.earned + reward
    if hasattr(program.env, "shaped_reward"):
        reward = jnp.where(setup.numbers.shaped, program.env.shaped_reward(obs) + setup.numbers.shaped_bonus, reward)
    item, valid = transition(program, setup, run, executed, action, reward, obs, queue, terminated)
    run = learn(program, setup, run, item, valid, t, key_batch)
    after = obs
    env, obs, queue = jax.tree.map(lambda new, old: jnp.where(ended, new, old), now.start, (env, obs, queue))
    history = run.history
    if history.shape[0]:
        history = jnp.where(ended, jnp.broadcast_to(obs, history.shape), jnp.concatenate([history[1:], after[None]]))
    age, left = jnp.where(ended, 0, run.age + 1), jnp.where(ended, 0.0, earned)
    run = run._replace(env=env, obs=obs, queue=queue, history=history, age=age, earned=left)
    return run, jnp.where(ended & (t < setup.steps), earned, jnp.nan)


@partial(compiled, static_argnums=(0, 4), donate_argnums=(2,))
def run_chunk(
    program: Program, setups: Setup, runs: Run, first: Int[Array, ""], length: int
) -> tuple[Run, Float[Array, "length runs"]]:
    """`length` steps of every run from step `first` on; the second result has the returns of episodes that ended."""

    def all_runs(runs: Run, now: Ahead) -> tuple[Run, Array]:
        return jax.vmap(partial(step, program))(setups, runs, now)

    at = jax.vmap(partial(ahead, program), in_axes=(0, None))
    return jax.lax.scan(all_runs, runs, jax.vmap(at, in_axes=(None, 0))(setups, first + jnp.arange(length)))


@partial(compiled, static_argnums=(0,))
def begin_all(program: Program, setups: Setup) -> Run:
    """Every run before its first step."""
    return jax.vmap(partial(begin, program))(setups)


@partial(compiled, static_argnums=(0, 3, 4))
def evaluate_all(
    program: Program, setups: Setup, learners: Learner, episodes: int, limit: int
) -> Float[Array, "runs episodes"]:
    """The plain return of each episode of each run; none lasts longer than `limit` steps."""

    def one_run(setup: Setup, learner: Learner) -> Array:
        run = fresh(program, setup, learner)

        def act(memory: None, env: Any, obs: Array, queue: Array, key: Array) -> tuple[None, Array]:
            return None, decide(program, run._replace(env=env, obs=obs, queue=queue), setup, key)

        return held_out(program, setup, act, None, episodes, limit)

    return jax.vmap(one_run)(setups, learners)


def held_out(
    program: Any, setup: Setup, act: Callable[..., tuple[Any, Array]], begun: Any, episodes: int, limit: int
) -> Float[Array, " episodes"]:
    """The plain returns of one run's held-out episodes.

    `act(memory, env, obs, queue, key)` gives the next memory and an action; `begun` is an episode's first memory.
    """

    def episode(key: Array) -> Array:
        def step(carry: Any, t: Array) -> tuple[Any, None]:
            memory, (env, obs, queue), earned, going = carry
            key_model, key_env = jax.random.split(jax.random.fold_in(key, t))
            memory, action = act(memory, env, obs, queue, key_model)
            executed, queue = push(queue, action, setup.delay)
            obs, env, reward, terminated, _ = program.env.step_env(key_env, env, executed, setup.params)
            earned = earned + jnp.where(going, reward, 0.0)
            return (memory, (env, obs, queue), earned, going & ~terminated & ~program.env.is_truncated(env, setup.params)), None

        before = begun, start(program, setup, key), jnp.zeros(()), jnp.ones((), bool)
        return jax.lax.scan(step, before, 1 + jnp.arange(limit))[0][2]

    keys = jax.random.split(jax.random.fold_in(setup.key, 2**31 - 1), episodes)
    return jax.vmap(episode)(keys)
