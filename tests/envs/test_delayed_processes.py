"""Delay processes on functional environments, under jit, vmap and scan."""

from functools import cache

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from deadtime import ActionDelay
from deadtime.delays import Constant, GilbertElliott, PerEpisode, RandomWalk, Trace, Uniform
from deadtime.envs import make
from deadtime.envs.cartpole import CartPole
from deadtime.envs.functional import delayed
from deadtime.envs.maze import Maze

PROCESSES = [
    Uniform(2, 5),
    Uniform(0, 3, in_order=False),
    RandomWalk(0, 3),
    GilbertElliott(1, 4, to_bad=0.2, to_good=0.3),
    PerEpisode(Uniform(0, 3)),
    Trace([2, 0, 1, 4], repeat=True),
]


@cache
def runner(env):
    @jax.jit
    def run(actions, seed):
        def one(state, now):
            key, action = now
            before = state.queue
            obs, state, reward, terminated, truncated, info = env.step(key, state, action)
            told = {name: value for name, value in info.items() if name != "final_observation"}
            return state, (before, reward, terminated | truncated, state.queue, told)

        _, state = env.reset(jax.random.key(seed))
        keys = jax.random.split(jax.random.key(seed + 1), len(actions))
        return env.action_age(state), jax.lax.scan(one, state, (keys, actions))[1]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_a_step_executes_the_action_of_its_age_across_automatic_resets(process):
    env = delayed(CartPole(noise=0.1), process)
    actions = np.random.default_rng(0).integers(0, 2, 300)
    first, (queues, _, ended, after, info) = runner(env)(jnp.asarray(actions), 3)
    ages = np.asarray(info["executed_age"])
    slots = np.concatenate([np.asarray(queues), actions[:, None]], axis=1)
    executed = slots[np.arange(300), process.longest - ages]
    np.testing.assert_array_equal(info["executed_action"], executed)
    np.testing.assert_array_equal(info["final_pending_actions"], slots[:, 1:])
    np.testing.assert_array_equal(info["pending_actions"], after)
    np.testing.assert_array_equal(ages, [first, *info["action_age"][:-1]])
    going = ~np.asarray(ended)
    np.testing.assert_array_equal(info["final_action_age"][going], info["action_age"][going])
    assert 5 < ended.sum() < 60
    assert len(set(ages)) > 1
    made = np.arange(300) - ages
    if process.chain.in_order:
        within = going[:-1]
        assert (np.diff(made)[within] >= 0).all()


@pytest.mark.slow
def test_a_constant_through_the_general_path_is_the_constant_bit_for_bit():
    actions = jnp.asarray(np.random.default_rng(1).integers(0, 2, 200))
    general = runner(delayed(CartPole(noise=0.1), Uniform(4, 4)))(actions, 0)
    constant = runner(delayed(CartPole(noise=0.1), 4))(actions, 0)
    for one, other in zip(jax.tree.leaves(general), jax.tree.leaves(constant), strict=True):
        np.testing.assert_array_equal(one, other)


def test_first_ages_and_moves_have_the_laws_of_the_chain():
    process = Uniform(2, 5)
    env = delayed(Maze(size=3), process)
    keys = jax.random.split(jax.random.key(0), 20_000)

    @jax.jit
    @jax.vmap
    def two(key):
        reset, step = jax.random.split(key)
        _, state = env.reset_env(reset, env.default_params)
        _, after, *_ = env.step_env(step, state, 0, env.default_params)
        return env.action_age(state), env.action_age(after)

    first, second = (np.asarray(ages) for ages in two(keys))
    chain = process.chain
    counts = np.zeros((6, 6))
    np.add.at(counts, (first, second), 1)
    law = chain.start[:, None] * chain.matrix()
    expected = 20_000 * law[law > 0]
    assert counts.sum() == counts[2:, 2:][law > 0].sum()
    statistic = ((counts[2:, 2:][law > 0] - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-6, len(expected) - 1)


@pytest.mark.slow
def test_ages_are_apart_from_the_environment_and_the_warm_up():
    key = jax.random.key(7)
    obs, state = delayed(CartPole(), Uniform(0, 4)).reset(key)
    other, constant = delayed(CartPole(), 4).reset(key)
    np.testing.assert_array_equal(obs, other)
    np.testing.assert_array_equal(state.queue, constant.queue)


@pytest.mark.parametrize("process", [Trace([2, 0, 1, 3, 3], repeat=True), Constant(3)], ids=repr)
def test_functional_delay_is_the_wrappers(process):
    """The same maze, queue, ages and choices give the same cells, rewards and ends."""
    choices = np.random.default_rng(3).integers(0, 4, 150)
    warmup = choices[:3]
    functional = delayed(Maze(size=3, maze_seed=5), process, lambda obs, m, key: warmup)
    wrapped = ActionDelay(
        gym.make("deadtime/Maze-v0", size=3, maze_seed=5), process, lambda obs, m, rng: warmup
    )
    _, told = wrapped.reset()
    step = jax.jit(functional.step)
    _, state = functional.reset(jax.random.key(0))
    for action in choices:
        assert told["action_age"] == int(functional.action_age(state))
        cell, reward, terminated, truncated, told = wrapped.step(int(action))
        _, state, ours, end, cut, info = step(jax.random.key(0), state, int(action))
        assert int(info["final_observation"]) == cell
        assert int(info["executed_age"]) == told["executed_age"]
        assert float(ours) == pytest.approx(reward)
        assert (bool(end), bool(cut)) == (terminated, truncated)
        if terminated or truncated:
            _, told = wrapped.reset()


def test_processes_are_known_by_their_values():
    assert delayed(CartPole(), 3) == delayed(CartPole(), Constant(3)) == delayed(CartPole(), "3")
    assert delayed(CartPole(), "walk:0-3") == delayed(CartPole(), RandomWalk(0, 3))
    assert hash(delayed(CartPole(), Uniform(0, 3))) == hash(delayed(CartPole(), Uniform(0, 3)))
    assert delayed(CartPole(), Uniform(0, 3)) != delayed(CartPole(), Uniform(1, 3))
    assert delayed(CartPole(), Uniform(1, 3)).delay == 3


def test_a_trace_that_ends_is_refused():
    with pytest.raises(
        ValueError, match=r"can't stop when a trace of delays is used up; got trace of 2 .*: pass"
    ):
        delayed(CartPole(), Trace([1, 2]))


@pytest.mark.slow
def test_random_actions_fill_a_box():
    env = delayed(make("gymnax:Pendulum-v1"), Uniform(2, 400))
    queue = np.asarray(env.reset(jax.random.key(0))[1].queue)
    assert queue.shape == (400, 1)
    assert queue.dtype == np.float32
    assert -2 <= queue.min() < -1.9
    assert 1.9 < queue.max() <= 2
