from itertools import product

import numpy as np
import pytest
from brute import policy_value

from deadtime.planning import at_queue, exact_values, stationary
from deadtime.planning.examples import (
    alternating,
    hidden_queue,
    random_mdp,
    two_state,
    two_state_optimum,
)
from deadtime.planning.policies import (
    _MarkovSearch,
    best_markov_deterministic,
    best_queue_aware,
    best_stationary_deterministic,
    best_stationary_randomized,
)
from deadtime.planning.process import initial_law
from deadtime.studies.paper.claims_process import markov_twin_gap
from deadtime.studies.paper.stationary_policies import PAPER, exact_rows, sampled_row


@pytest.mark.parametrize("delay", [0, 1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_best_markov_policy_against_plain_enumeration(delay, seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 2, 2, 0.8, None if seed % 2 else 1 + seed // 2)
    queue, horizon = rng.integers(2, size=delay), 4
    rules = list(product(product(range(2), repeat=2), repeat=horizon))
    brute = max(policy_value(mdp, delay, rule, 0, queue, horizon) for rule in rules)
    found = best_markov_deterministic(mdp, delay, 0, queue, horizon)
    assert found.value == pytest.approx(brute, abs=1e-12)
    own = found.policy.probabilities[:, :, 0].argmax(axis=-1)
    assert policy_value(mdp, delay, own, 0, queue, horizon) == pytest.approx(brute, abs=1e-12)
    assert found.looked_at < len(rules)


def test_negative_rewards_do_not_break_the_bounds():
    rng = np.random.default_rng(9)
    mdp = random_mdp(rng, 2, 2, 0.8)
    mdp = type(mdp)(mdp.P, mdp.r - 5, 0.8)
    rules = product(product(range(2), repeat=2), repeat=3)
    brute = max(policy_value(mdp, 1, rule, 0, [1], 3) for rule in rules)
    found = best_markov_deterministic(mdp, 1, 0, [1], 3)
    assert found.value == pytest.approx(brute)
    longer = best_markov_deterministic(mdp, 1, 0, [1], 6)
    assert longer.value <= found.upper_bound


def test_best_stationary_rule_against_evaluating_each():
    mdp = random_mdp(np.random.default_rng(1), 3, 2, 0.7)
    values = [
        at_queue(mdp, 2, exact_values(mdp, stationary(mdp, rule), 2), 0, [0, 1])
        for rule in product(range(2), repeat=3)
    ]
    found = best_stationary_deterministic(mdp, 2, 0, [0, 1])
    assert found.value == pytest.approx(max(values))
    assert found.looked_at == 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_classes_are_nested(seed):
    mdp = random_mdp(np.random.default_rng(seed), 2, 2, 0.5)
    fixed = best_stationary_deterministic(mdp, 1, 0, [0]).value
    mixed = best_stationary_randomized(mdp, 1, 0, [0], starts=3)
    markov = best_markov_deterministic(mdp, 1, 0, [0], 12)
    best = best_queue_aware(mdp, 1, 0, [0])
    slack = 0.5**12 * np.abs(mdp.r).max() / 0.5
    assert fixed <= mixed.value + 1e-9
    assert mixed.value <= mixed.upper_bound + 1e-9
    assert fixed <= markov.value + slack
    assert markov.value <= best.value + slack
    again = at_queue(mdp, 1, exact_values(mdp, mixed.policy, 1), 0, [0])
    assert again == pytest.approx(mixed.value, abs=1e-9)


@pytest.mark.slow
def test_randomizing_can_help_a_stationary_policy():
    """A deterministic problem where a coin breaks a deadlock that every deterministic stationary
    rule runs into.
    """
    P = np.eye(2)[[[1, 0], [0, 1]]]
    mdp = type(two_state())(P, [[0.0, 2.0], [1.0, 1.0]], 0.9)
    fixed = best_stationary_deterministic(mdp, 1, 0, [0]).value
    assert best_stationary_randomized(mdp, 1, 0, [0], starts=6).value > fixed + 3


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("pending", [0, 1])
def test_hidden_queue_has_its_closed_forms(gamma, pending):
    mdp = hidden_queue(gamma)
    assert best_queue_aware(mdp, 1, 0, [pending]).value == pytest.approx(
        gamma * (0.5 + 0.5 * gamma)
    )
    assert best_markov_deterministic(mdp, 1, 0, [pending], 5).value == pytest.approx(
        gamma * (0.5 + 0.25 * gamma)
    )


def test_hidden_queue_and_the_theorem_of_equal_laws():
    policy = best_queue_aware(hidden_queue(0.9), 1, 0, [0]).policy
    assert markov_twin_gap(hidden_queue(0.9), policy, 1, 0, np.array([0]), 6) < 1e-12
    assert markov_twin_gap(
        hidden_queue(0.9, revealing=True), policy, 1, 0, np.array([0]), 6
    ) == pytest.approx(0.25)


def test_alternating_needs_a_policy_that_is_not_stationary():
    mdp = alternating(0.9)
    rules = [[1, 0]] + [[0, 1]] * 30
    assert policy_value(mdp, 1, rules, 0, [0], 30) == pytest.approx((1 - 0.9**30) / 0.1)
    assert best_queue_aware(mdp, 1, 0, [0]).value == pytest.approx(10)
    assert best_stationary_deterministic(mdp, 1, 0, [0]).value == pytest.approx(1 / (1 - 0.9**2))


def test_limits_are_stated():
    with pytest.raises(
        ValueError, match=r"there are A\^S = 1.02e\+03 stationary rules, above limit = 100"
    ):
        best_stationary_deterministic(
            random_mdp(np.random.default_rng(0), 10, 2, 0.9), 1, 0, [0], limit=100
        )
    with pytest.raises(
        ValueError, match="the search passed max_nodes = 3: raise it, or shorten the horizon of 8"
    ):
        best_markov_deterministic(
            random_mdp(np.random.default_rng(0), 3, 2, 0.9), 1, 0, [0], 8, max_nodes=3
        )


def test_stationarity_table():
    rows = exact_rows()
    closed = [two_state_optimum(0.8, 0.5, m) for m in range(6)]
    np.testing.assert_allclose(rows["best stationary deterministic"], closed)
    np.testing.assert_allclose(rows["best over all policies"], closed, atol=1e-8)
    np.testing.assert_allclose(PAPER["stationary (theoretical)"], closed, atol=1e-3)
    for m, value in enumerate(rows["best Markov deterministic, 10 - m decisions"]):
        assert value == pytest.approx(closed[m] * (1 - 0.5 ** (10 - m)))


@pytest.mark.slow
def test_the_third_row_is_selection_on_noise():
    few, many = sampled_row(33, repeats=2), sampled_row(1000, repeats=1, delays=(4, 5))
    np.testing.assert_allclose(few, PAPER["non-stationary Markov"][1:], atol=0.08)
    exact = np.array(exact_rows()["best over all policies"])
    assert (few[1:] - exact[2:] > 0.2).all()
    assert (many - exact[4:] < 0.1).all(), "with more paths it falls towards the optimum"


def test_the_search_answers_the_same_whatever_it_has_solved_before():
    """Partial results of an earlier, bounded search must never pass for exact ones."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        mdp = random_mdp(rng, 3, 2, 0.5, int(rng.integers(1, 3)))
        law = initial_law(mdp, 1, 0, [0])
        truth = _MarkovSearch(mdp, 1, 3, 10**6).best(0, law, -np.inf)[0]
        search = _MarkovSearch(mdp, 1, 3, 10**6)
        for wanted in truth + rng.normal(scale=0.3, size=4):
            found = search.best(0, law, wanted)
            assert (found is None) == (truth <= wanted)
            assert found is None or found[0] == pytest.approx(truth)
        assert search.best(0, law, -np.inf)[0] == pytest.approx(truth)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_no_discount_and_nothing_but_discount(gamma):
    rng = np.random.default_rng(2)
    mdp = random_mdp(rng, 2, 2, gamma)
    rules = product(product(range(2), repeat=2), repeat=3)
    brute = max(policy_value(mdp, 1, rule, 0, [1], 3) for rule in rules)
    found = best_markov_deterministic(mdp, 1, 0, [1], 3)
    assert found.value == pytest.approx(brute)
    assert found.upper_bound >= brute
    assert np.isinf(found.upper_bound) == (gamma == 1)


def test_bounds_on_what_comes_after_the_horizon():
    mdp = two_state(0.8, 0.5)
    short, long = (
        best_markov_deterministic(mdp, 1, 0, [0], 2),
        best_markov_deterministic(mdp, 1, 0, [0], 9),
    )
    assert short.value < long.value <= short.upper_bound
    best = best_queue_aware(mdp, 1, 0, [0])
    assert best.upper_bound > best.value


@pytest.mark.parametrize("horizon", [0, -1, 1.5])
def test_bad_horizon(horizon):
    with pytest.raises(ValueError, match="horizon is a whole number of decisions, 1 or more; got"):
        best_markov_deterministic(two_state(), 1, 0, [0], horizon)
