"""The recurrent agent with actions within a box: its law, its memory, its policy."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from probe import Probe, RecallState
from scipy.integrate import quad
from scipy.stats import norm

import deadtime
from deadtime.delays import Uniform
from deadtime.learn.actor_critic import ACTOR_CRITIC, Numbers
from deadtime.learn.compiled_loop import begin_all, evaluate_all, run_chunk
from deadtime.learn.program import Program, Setup, split_settings
from deadtime.learn.settings import A2C
from deadtime.learn.squashed_gaussian import Gaussian, judged, sampled
from deadtime.runtime import Manifest, NetworkPolicy
from deadtime.runtime.views import VIEWS

SETTINGS = A2C(hidden=(16,), lstm=16, actors=16, learning_rate=3e-3, rms_start=0.0, gamma=0.5)
LOW, HIGH = -1.0, 3.0


@dataclass(frozen=True)
class Repeat(Probe):
    """An environment that shows 0 or 1 at random and pays for naming the last one, as 2 or 0.

    The reward is minus the squared distance; the first action of an episode earns nothing.
    """

    def action_space(self, params=None):
        return spaces.Box(LOW, HIGH, (1,), np.float32)

    def reset_env(self, key, params):
        shown = jax.random.bernoulli(key).astype(jnp.float32)
        return shown[None], RecallState(shown, -jnp.ones(()), jnp.zeros(()))

    def step_env(self, key, state, action, params):
        off = action[0] - 2.0 * (1.0 - state.before)
        reward = jnp.where(state.before < 0, 0.0, -(off**2))
        shown = jax.random.bernoulli(key).astype(jnp.float32)
        after = RecallState(shown, state.shown, state.time + 1.0)
        return after.shown[None], after, reward, jnp.zeros((), bool), {}


@pytest.mark.slow
def test_the_density_of_an_action_that_was_drawn():
    """The density of a sampled action, and the same from the action alone."""
    rng = np.random.default_rng(0)
    mean, log_std = rng.normal(0, 1, (2, 200, 3)).astype(np.float32)
    noise = rng.normal(size=(200, 3)).astype(np.float32)
    law = Gaussian(jnp.array(mean), jnp.array(log_std))
    action, expected = sampled(law, noise)
    inside = np.abs(np.asarray(action)).max(axis=1) < 0.999
    found, entropy = judged(law, action)
    assert inside.sum() > 100
    np.testing.assert_allclose(found[inside], expected[inside], rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(entropy[inside], -expected[inside], rtol=2e-3, atol=2e-3)


@pytest.mark.slow
def test_the_entropy_and_its_slope():
    """Means over many actions against integrals of the density."""

    def entropy(mean, log_std):
        def at(u):
            slope = np.log(1 - np.tanh(u) ** 2)
            return -norm.pdf(u, mean, np.exp(log_std)) * (
                norm.logpdf(u, mean, np.exp(log_std)) - slope
            )

        return quad(at, mean - 8 * np.exp(log_std), mean + 8 * np.exp(log_std))[0]

    mean, log_std, small = 0.4, -0.5, 1e-3
    noise = np.random.default_rng(0).normal(size=(200_000, 1)).astype(np.float32)
    actions, _ = sampled(Gaussian(jnp.array([mean]), jnp.array([log_std])), noise)

    def estimated(both):
        law = Gaussian(both[:1], both[1:])
        return jax.vmap(partial(judged, law))(actions)[1].mean()

    found, slopes = jax.value_and_grad(estimated)(jnp.array([mean, log_std]))
    assert float(found) == pytest.approx(entropy(mean, log_std), abs=0.01)
    expected = [
        (entropy(mean + a, log_std + b) - entropy(mean - a, log_std - b)) / (2 * small)
        for a, b in ((small, 0), (0, small))
    ]
    np.testing.assert_allclose(slopes, expected, atol=0.01)


def test_an_action_at_a_bound_has_a_finite_density():
    law = Gaussian(jnp.zeros(2), jnp.zeros(2))
    both = jax.value_and_grad(
        lambda mean: judged(law._replace(mean=mean), jnp.array([1.0, -1.0]))[0]
    )
    value, slope = both(jnp.zeros(2))
    assert np.isfinite(value)
    assert np.isfinite(slope).all()


@pytest.mark.slow
def test_what_was_shown_a_step_ago_is_answered_with_a_number():
    """Without a memory the best answer is 1, always one off: -19 in 20 steps."""
    env = Repeat()
    program = Program(env, VIEWS["recurrent"], split_settings(SETTINGS)[0], 0)
    numbers = Numbers(*(jnp.full(1, value) for value in split_settings(SETTINGS)[1]))
    params = jax.tree.map(lambda value: jnp.full(1, value, jnp.float32), env.default_params)
    keys = jax.vmap(jax.random.key)(jnp.arange(1))
    steps = jnp.full(1, 10**6)
    setups = Setup(keys, jnp.zeros(1, jnp.int32), params, steps, numbers, ())
    runs = begin_all(program, setups)
    for i in range(30):
        runs, _ = run_chunk(program, setups, runs, jnp.int32(2000 * i), 2000)
    scores = np.asarray(evaluate_all(program, setups, runs.learner, 50, 20))
    assert scores.mean() > -2.5
    arrays = ACTOR_CRITIC.policy_arrays(program, jax.tree.map(lambda one: one[0], runs.learner))
    manifest = Manifest(
        "recurrent",
        "history",
        observation_shape=(1,),
        low=(LOW,),
        high=(HIGH,),
        head="bounded",
        memory=True,
    )
    policy = NetworkPolicy(manifest, arrays)
    rng = np.random.default_rng(0)
    shown = rng.integers(2, size=200)
    answers = [policy.act([number])[0] for number in shown]
    assert np.mean((answers[1:] - 2.0 * (1 - shown[:-1])) ** 2) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("env", ["pendulum", "gym:Pendulum-v1"])
def test_both_loops_train_record_and_act(env, tmp_path):
    how = {"steps": 400, "evaluation_episodes": 1, "lstm": 8, "hidden": (8,), "envs": 4}
    if env == "pendulum":
        how["actors"] = how.pop("envs")
    result = deadtime.train(env, "recurrent", delay=Uniform(1, 3), **how)
    assert np.isfinite(result.scores).all()
    policy = result.policy(seed=0)
    queue = np.zeros((3, 1))
    first = policy.act([1.0, 0.0, 0.0], queue)
    again = policy.act([1.0, 0.0, 0.0], queue)
    assert not np.array_equal(first, again)
    policy.reset()
    np.testing.assert_array_equal(policy.act([1.0, 0.0, 0.0], queue), first)
    result.save(tmp_path / "run")
    loaded = deadtime.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.act([1.0, 0.0, 0.0], queue), first)


def test_settings_are_the_same_for_numbers_and_boxes():
    boxes = deadtime.runs.make_spec("pendulum", "recurrent", 1, {"lstm": 8}).learner
    numbered = deadtime.runs.make_spec("cartpole", "recurrent", 1, {"lstm": 8}).learner
    assert boxes == replace(numbered)
