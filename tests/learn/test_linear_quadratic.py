"""SAC under delay on a linear system with a quadratic cost, against exact answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import deadtime
from deadtime.envs import FAMILIES, Family
from deadtime.envs.functional import delayed
from tests.commands import full
from tests.learn.linear_quadratic import (
    LinearQuadratic,
    LqParams,
    best,
    fixed_point,
    predicted,
    return_of,
)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [full(0), full(1), 3])
def test_the_returns_of_linear_policies_are_exact(delay):
    """Against episodes of the functional environment under its own warm-up."""
    env = LinearQuadratic(LqParams(max_steps_in_episode=12))
    _, gains = best(env, delay)
    rng = np.random.default_rng(0)
    under = delayed(env, delay, "own")
    for moved in (gains, [gain + 0.2 * rng.normal(size=1 + delay) for gain in gains]):

        def episode(key, moved=moved):
            obs, state = under.reset_env(key, env.default_params)
            total = 0.0
            for t in range(12):
                z = jnp.concatenate([obs, state.queue[:, 0]])
                action = -jnp.dot(jnp.float32(moved[t]), z)[None]
                now = jax.random.fold_in(key, 100 + t)
                step = under.step_env(now, state, action, env.default_params)
                obs, state, reward, *_ = step
                total += reward
            return total

        found = jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(1), 20_000))
        error = np.std(found) / np.sqrt(len(found))
        assert abs(np.mean(found) - return_of(env, delay, moved)) < 4 * error


@pytest.mark.parametrize("delay", [0, 1, 2, 5])
def test_no_other_linear_policy_is_better_than_riccatis(delay):
    env = LinearQuadratic(LqParams(a=1.1, b=0.6))
    ceiling, gains = best(env, delay)
    np.testing.assert_allclose(return_of(env, delay, gains), ceiling, rtol=1e-12)
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1):
        for _ in range(20):
            others = [gain + size * rng.normal(size=gain.shape) for gain in gains]
            assert return_of(env, delay, others) < ceiling
    # far from the end the optimum acts on the predicted state, with the undelayed gain
    undelayed = best(env, 0)[1][0][0]
    np.testing.assert_allclose(gains[0], undelayed * predicted(env.params, delay), rtol=1e-6)


def test_the_fixed_point_of_projected():
    """It is the optimum of the discounted problem up to a delay of one step, and not beyond."""
    params = LqParams()
    value = 1.0
    for _ in range(5000):  # the discounted Riccati equation
        inner = params.cost + 0.99 * params.b**2 * value
        gain = 0.99 * params.a * params.b * value / inner
        value = 1.0 + 0.99 * params.a**2 * value - gain**2 * inner
    for delay in (0, 1):
        np.testing.assert_allclose(fixed_point(params, delay, 0.99, 0.2), gain, rtol=1e-6)
    assert fixed_point(params, 3, 0.99, 0.2) > 1.05 * gain
    still = LqParams(noise=0.0)
    np.testing.assert_allclose(fixed_point(still, 3, 0.99, 0.2), gain, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [2, 3])
def test_the_fixed_point_is_that_of_regressions_on_a_long_run(delay):
    """The critic of the fixed point satisfies its own regression on a simulated run."""
    params, gamma, spread = LqParams(), 0.99, 0.2
    k = fixed_point(params, delay, gamma, spread)
    rng = np.random.default_rng(3)
    steps = 400_000
    noise = params.noise * rng.normal(size=steps + delay)
    explored = spread * rng.normal(size=steps)
    powers = params.a ** np.arange(delay)[::-1]
    x, xs, errors, actions = 0.0, [], [], []
    for t in range(steps):
        error = powers @ noise[t : t + delay]
        action = -k * (x - error) + explored[t]
        xs.append(x)
        errors.append(error)
        actions.append(action)
        x = params.a * x + params.b * action + noise[t + delay]
    x, a = np.array(xs), np.array(actions)
    rows = slice(1000, steps - 1)
    after = slice(1001, steps)
    shown = np.stack([x * x, x * a, a * a, np.ones(steps)], axis=1)[rows]
    costs = -(x[rows] ** 2 + params.cost * a[rows] ** 2)
    greedy = -k * (x - np.array(errors))
    weights = np.array([-1.0, 0.0, -params.cost, 0.0])
    for _ in range(60):
        then = np.stack([x * x, x * greedy, greedy**2, np.ones(steps)], axis=1)[after]
        weights = np.linalg.lstsq(shown, costs + gamma * then @ weights, rcond=None)[0]
    np.testing.assert_allclose(weights[1] / (2 * weights[2]), k, rtol=0.02)


@pytest.fixture
def system(monkeypatch):
    """The linear system as an environment that agents are trained in."""
    env = LinearQuadratic()

    class SystemFamily(Family):
        """The linear system."""

        name = "linear-quadratic"
        loop = "compiled"
        members = {"linear-quadratic": {}}  # noqa: RUF012
        action_kinds = ("box",)

        def setting_names(self, name):
            return []

        def make(self, name, settings):
            return env

    monkeypatch.setitem(FAMILIES, "linear-quadratic", SystemFamily())
    return env


def gain_of(policy, delay):
    """Return the gain K of the linear policy that fits a policy best near the origin."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.6, 0.6, (400, 1 + delay))
    actions = [policy.act(point[:1], point[1:, None])[0] for point in points]
    return -np.linalg.lstsq(points, np.array(actions), rcond=None)[0]


@pytest.mark.full
@pytest.mark.parametrize(("agent", "share"), [("augmented", 0.9), ("projected", 0.97)])
def test_sac_reaches_a_share_of_the_exact_ceiling(system, agent, share):
    """The greedy mean action's exact return, between that of no action (0) and the best one (1)."""
    delay, steps = 3, system.params.max_steps_in_episode
    settings = {"hidden": (64, 64), "batch_size": 64, "random_steps": 500, "learning_rate": 1e-3}
    result = deadtime.train(
        "linear-quadratic", agent, delay, steps=15_000, evaluation_episodes=500, **settings
    )
    gain = gain_of(result.policy(0), delay)
    ceiling, _ = best(system, delay)
    nothing = return_of(system, delay, [np.zeros(1 + delay)] * steps)
    found = return_of(system, delay, [gain] * steps)
    assert (found - nothing) / (ceiling - nothing) > share
    assert abs(result.scores[0] - found) < 0.1 * (ceiling - nothing)
    if agent == "projected":
        own = fixed_point(system.params, delay, 0.99, 0.2)
        np.testing.assert_allclose(gain, own * predicted(system.params, delay), rtol=0.12)
