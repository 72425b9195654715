"""Pendulum as pure functions against Gymnasium's Pendulum-v1."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deadtime.envs import family_of, make
from deadtime.envs.functional import delayed
from deadtime.envs.pendulum import Pendulum, PendulumState


def gym_steps(env, steps, seed=0):
    """Yield random steps with resets: (state, time, action, next state, obs, reward, ends)."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    time = 0
    for _ in range(steps):
        before = env.unwrapped.state.copy()
        action = rng.uniform(-3, 3, 1).astype(np.float32)  # some torques are clipped
        obs, reward, terminated, truncated, _ = env.step(action)
        yield before, time, action, env.unwrapped.state.copy(), obs, reward, terminated, truncated
        time += 1
        if terminated or truncated:
            env.reset()
            time = 0


def the_state(before, time):
    angle, speed = jnp.asarray(before, jnp.float32)
    return PendulumState(angle, speed, jnp.int32(time))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "name", "others"),
    [
        ({}, "Pendulum-v1", {}),
        ({"gravity": 9.81}, "Pendulum-v1", {"g": 9.81}),
        (
            {"mass": 0.7, "length": 1.3},
            "deadtime/NoisyPendulum-v1",
            {"noise": 0.0, "mass": 0.7, "length": 1.3},
        ),
    ],
)
def test_pendulum_is_gymnasiums_step_by_step(settings, name, others):
    env = Pendulum(**settings)
    step = jax.jit(env.step_env)
    ends = 0
    for before, time, action, after, obs, reward, terminated, truncated in gym_steps(
        gym.make(name, **others), 450
    ):
        seen, state, ours, end, _ = step(
            jax.random.key(0), the_state(before, time), action, env.default_params
        )
        np.testing.assert_allclose(seen, obs, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose([state.angle, state.speed], after, rtol=2e-5, atol=2e-5)
        assert abs(ours - reward) < 2e-4
        assert not end
        assert not terminated
        assert bool(env.is_truncated(state, env.default_params)) == truncated
        ends += truncated
    assert ends == 2


def test_episodes_start_as_in_gymnasium():
    env = make("pendulum")
    obs, state = jax.vmap(lambda k: env.reset_env(k, env.default_params))(
        jax.random.split(jax.random.key(1), 4000)
    )
    assert abs(np.abs(state.angle).max() - np.pi) < 0.01
    assert abs(np.abs(state.speed).max() - 1) < 0.01
    np.testing.assert_allclose(np.std(state.angle), np.pi / np.sqrt(3), rtol=0.03)
    np.testing.assert_allclose(obs[:, 0] ** 2 + obs[:, 1] ** 2, 1.0, atol=1e-5)
    theirs = gym.make("Pendulum-v1")
    assert env.action_space() == theirs.action_space
    assert env.observation_space() == theirs.observation_space


@pytest.mark.parametrize("perturb", ["masses", "masses+lengths"])
def test_noise_has_the_law_of_the_gymnasium_form(perturb):
    """The mean and the deviation of the next speed, from one state."""
    settings = {"noise": 0.3, "perturb": perturb}
    env = make("noisy-pendulum", **settings)
    action = jnp.array([2.0])
    keys = jax.random.split(jax.random.key(0), 20_000)
    state = the_state([1.0, 0.5], 0)
    ours = jax.vmap(lambda k: env.step_env(k, state, action, env.default_params)[1].speed)(keys)
    theirs = gym.make("deadtime/NoisyPendulum-v1", **settings).unwrapped
    theirs.reset(seed=0)
    speeds = []
    for _ in range(20_000):
        theirs.state = np.array([1.0, 0.5])
        theirs.step(np.array([2.0], np.float32))
        speeds.append(theirs.state[1])
    spread = np.std(speeds)
    assert spread > 0.1
    np.testing.assert_allclose(np.median(ours), np.median(speeds), atol=0.05 * spread)
    within = np.mean(np.abs(ours - np.median(speeds)) < spread)
    assert abs(within - np.mean(np.abs(speeds - np.median(speeds)) < spread)) < 0.02


def test_a_delay_executes_the_action_of_m_steps_ago():
    env = delayed(make("pendulum"), 2, warmup=np.zeros(1, np.float32))
    obs, state = env.reset(jax.random.key(0))
    executed = []
    for action in (1.0, -1.0, 0.5, 2.0):
        obs, state, *_, info = env.step(jax.random.key(1), state, jnp.array([action]))
        executed.append(float(info["executed_action"][0]))
    assert executed == [0.0, 0.0, 1.0, -1.0]


def test_settings_are_checked():
    for name, value in {"mass": 0, "length": -1.0, "gravity": "heavy"}.items():
        with pytest.raises(ValueError, match=f"{name} is a number above 0; got"):
            make("pendulum", **{name: value})
    with pytest.raises(ValueError, match="pendulum has no setting 'weight'"):
        make("pendulum", weight=2)
    assert family_of("noisy-pendulum").describe("noisy-pendulum", {}).noise == 0.1
