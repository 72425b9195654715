"""Greedy returns of fixed parameters on held-out episodes, at the delay of training or another."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from deadtime.delay import push
from deadtime.training.fused import decide, fresh
from deadtime.training.program import Learner, Program, Run, Setup


@partial(jax.jit, static_argnums=(0, 3, 4))
def evaluate(program: Program, setups: Setup, learners: Learner, episodes: int, limit: int) -> Float[Array, "runs episodes"]:
    """The plain return of each episode of each run; none lasts longer than `limit` steps."""

    def one_run(setup: Setup, learner: Learner) -> Array:
        keys = jax.random.split(jax.random.fold_in(setup.key, 2**31 - 1), episodes)
        return jax.vmap(partial(_episode, program, setup, learner, limit))(keys)

    return jax.vmap(one_run)(setups, learners)


def _episode(program: Program, setup: Setup, learner: Learner, limit: int, key: Array) -> Array:
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
