"""Values of given policies, simulation, and bounds where ages are never seen."""

from itertools import product

import numpy as np
import pytest

from deadtime.delays import GilbertElliott, PerEpisode, RandomWalk, Uniform
from deadtime.planning import (
    bounds,
    exact_values,
    policy_values,
    queue_aware,
    simulate_process,
    solve,
    stationary,
)
from deadtime.planning.augmented import pending_reward
from deadtime.planning.examples import random_mdp
from tests.planning import brute

PROCESSES = [
    Uniform(1, 2),
    RandomWalk(0, 2),
    Uniform(0, 2, in_order=False),
    GilbertElliott(Uniform(0, 1), 2, 0.2, 0.3),
    PerEpisode(Uniform(0, 2)),
]


def in_brute_force(mdp, process, chances):
    """The values of probabilities [x, a], by a dense system."""
    F, g = brute.process_arrays(mdp, process)
    law = np.einsum("xa,xay->xy", chances, F)
    return np.linalg.solve(np.eye(len(g)) - mdp.gamma * law, (chances * g).sum(axis=1))


@pytest.mark.parametrize("process", PROCESSES, ids=str)
@pytest.mark.parametrize("sees", ["state", "queue", "channel"])
@pytest.mark.parametrize("randomized", [False, True])
def test_values_of_given_policies(process, sees, randomized):
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, 3, 2, 0.8)
    shape = (len(process.chain.ages), 3, *[2] * process.longest)
    own = {"state": (3,), "queue": shape[1:], "channel": shape}[sees]
    rule = rng.dirichlet((1, 1), own) if randomized else rng.integers(2, size=own)
    chances = rule if randomized else np.eye(2)[rule]
    if sees == "state":
        chances = chances.reshape(3, *[1] * process.longest, 2)
    chances = np.broadcast_to(chances, (*shape, 2)).reshape(-1, 2)
    expected = in_brute_force(mdp, process, chances).reshape(shape)
    np.testing.assert_allclose(policy_values(mdp, process, rule), expected, atol=1e-10)


def test_a_constant_delay_agrees_with_the_delayed_values():
    rng = np.random.default_rng(1)
    mdp = random_mdp(rng, 4, 3, 0.9)
    for rule, policy in (
        (one := rng.integers(3, size=4), stationary(mdp, one)),
        (two := rng.integers(3, size=(4, 3, 3)), queue_aware(mdp, 2, two)),
    ):
        found = policy_values(mdp, 2, rule)[0]
        pending = pending_reward(mdp, 2).reshape(found.shape)
        np.testing.assert_allclose(
            found, pending + mdp.gamma**2 * exact_values(mdp, policy, 2), atol=1e-10
        )


def test_values_of_larger_problems_are_found_iteratively():
    """More states than are solved directly: the optimal policy has the optimal values."""
    mdp = random_mdp(np.random.default_rng(2), 30, 3, 0.99, 3)
    process = PerEpisode(Uniform(3, 4))
    solution = solve(mdp, process, tol=1e-9)
    rules = [solution.policy[0][:, None].repeat(3, axis=1), solution.policy[1]]
    values = policy_values(mdp, process, np.stack(rules).astype(int))
    np.testing.assert_allclose(values[1], solution.values[1], atol=2e-9)
    np.testing.assert_allclose(values[0][:, 1], solution.values[0], atol=2e-9)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_simulated_returns_have_the_exact_mean(process):
    rng = np.random.default_rng(3)
    mdp = random_mdp(rng, 3, 2, 0.7)
    rule = rng.dirichlet((1, 1), (3, *[2] * process.longest))
    queue = (0, 1)
    paths = simulate_process(mdp, process, rule, 1, queue, steps=60, paths=20_000, seed=0)
    rewards = mdp.r[paths.states[:, :-1], paths.executed]
    returns = rewards @ mdp.gamma ** np.arange(60)
    values = policy_values(mdp, process, rule)[(slice(None), 1, *queue)]
    exact = float(process.chain.start @ values)
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - exact) < 5 * error
    share = np.bincount(paths.ages.ravel(), minlength=process.longest + 1) / paths.ages.size
    np.testing.assert_allclose(share, process.age_law, atol=0.02)


def test_simulated_steps_follow_the_convention():
    """Each executed action is the one that was chosen `age` steps before, and states follow P."""
    mdp = random_mdp(np.random.default_rng(4), 4, 3, 0.9, 2)
    rule = np.random.default_rng(5).integers(3, size=4)
    process = RandomWalk(0, 3)
    paths = simulate_process(mdp, process, rule, 0, (0, 1, 2), steps=50, paths=30, seed=0)
    for states, ages, executed in zip(*paths, strict=True):
        known = [0, 1, 2, *rule[states[:-1]]]
        for t in range(50):
            assert executed[t] == known[t + 3 - ages[t]]
            assert mdp.dense[states[t], executed[t], states[t + 1]] > 0
        assert (np.abs(np.diff(ages)) <= 1).all()


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_bounds_hold_the_best_policy_that_sees_no_age(process):
    mdp = random_mdp(np.random.default_rng(6), 2, 2, 0.8)
    for state, queue in ((0, (0, 1)), (1, (0, 0))):
        found = bounds(mdp, process, state, queue)
        best = brute.best_blind_policy(mdp, process, state, queue)
        assert found.lower <= best + 1e-9
        assert best <= found.upper + 1e-9
        assert found.lower == pytest.approx(best, abs=1e-9), "on these the search finds the best"
        values = policy_values(mdp, process, found.policy)[(slice(None), state, *queue)]
        assert float(process.chain.start @ values) == pytest.approx(found.lower, abs=1e-10)


def test_bounds_meet_where_ages_tell_nothing():
    """With one action, or a constant delay, there is nothing to know."""
    mdp = random_mdp(np.random.default_rng(7), 3, 2, 0.8)
    found = bounds(mdp, 2, 0, (1, 0))
    assert found.lower == pytest.approx(solve(mdp, 2).value(0, (1, 0)), abs=1e-7)
    assert found.upper == pytest.approx(found.lower, abs=1e-7)


def test_bounds_from_laws_are_means():
    mdp = random_mdp(np.random.default_rng(8), 2, 2, 0.8)
    process = Uniform(1, 2)
    law, laws = np.array([0.3, 0.7]), np.full((2, 2), 0.5)
    found = bounds(mdp, process, law, laws)
    solution = solve(mdp, process, tol=1e-10)
    expected = sum(
        law[s] * solution.value(s, queue) / 4
        for s, queue in product(range(2), product(range(2), repeat=2))
    )
    assert found.upper == pytest.approx(expected, abs=1e-7)
    assert found.lower <= found.upper


def test_bad_input():
    mdp = random_mdp(np.random.default_rng(0), 2, 2, 0.9)
    endless = random_mdp(np.random.default_rng(0), 2, 2, 1.0)
    with pytest.raises(ValueError, match="need gamma below 1; got 1.0"):
        bounds(endless, Uniform(1, 2))
    with pytest.raises(ValueError, match="need gamma below 1; got 1.0"):
        policy_values(endless, Uniform(1, 2), [0, 1])
    with pytest.raises(ValueError, match=r"got int64 of shape \(3,\): reshape or convert it"):
        policy_values(mdp, Uniform(1, 2), [0, 1, 0])
    with pytest.raises(ValueError, match="a rule chooses actions from 0 to 1; got 0 to 2"):
        policy_values(mdp, Uniform(1, 2), [0, 2])
    with pytest.raises(MemoryError, match="the explicit MDP under this delay must fit into memory"):
        policy_values(mdp, RandomWalk(0, 40), [0, 1])
    with pytest.raises(ValueError, match="a queue holds as many actions as the delay, 2"):
        bounds(mdp, Uniform(1, 2), 0, (0,))
