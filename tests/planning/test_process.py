from itertools import product

import numpy as np
import pytest
from brute import policy_value

from deadtime.planning import (
    MDP,
    at_queue,
    exact_values,
    law_at,
    markov,
    path_probability,
    queue_aware,
    recursive_values,
    simulate,
    solve,
    stationary,
)
from deadtime.planning.augmented import pending_reward
from deadtime.planning.examples import random_mdp
from deadtime.planning.policies import Policy


def policies(mdp, delay, rng):
    yield stationary(mdp, rng.integers(mdp.actions, size=mdp.states))
    yield stationary(mdp, rng.dirichlet(np.ones(mdp.actions), mdp.states))
    yield markov(mdp, rng.integers(mdp.actions, size=(3, mdp.states)))
    yield markov(mdp, rng.dirichlet(np.ones(mdp.actions), (2, mdp.states)))
    shape = (mdp.states, *[mdp.actions] * delay)
    yield queue_aware(mdp, delay, rng.integers(mdp.actions, size=shape))
    yield queue_aware(mdp, delay, rng.dirichlet(np.ones(mdp.actions), shape))


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 1, 2])
def test_laws_by_enumerating_paths(delay):
    """The law of (s_t, executed actions so far), from path probabilities, against the propagated
    law and its queue.
    """
    rng = np.random.default_rng(delay)
    mdp = random_mdp(rng, 2, 2, 0.9)
    queue, steps = rng.integers(2, size=delay), 3
    for policy in policies(mdp, delay, rng):
        law = np.zeros((2, *[2] * delay))
        for states in product(range(2), repeat=steps + delay):
            for actions in product(range(2), repeat=steps + delay):
                path = [0] + [x for pair in zip(actions, states, strict=True) for x in pair]
                law[(([0, *states])[steps], *actions[steps : steps + delay])] += path_probability(
                    mdp, policy, delay, queue, path
                )
        np.testing.assert_allclose(law, law_at(mdp, policy, delay, 0, queue, steps), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 1, 3])
def test_simulated_frequencies_match_the_exact_law(delay):
    rng = np.random.default_rng(delay)
    mdp = random_mdp(rng, 3, 2, 0.9, 2)
    queue, steps, paths = rng.integers(2, size=delay), 5, 100_000
    for k, policy in enumerate(policies(mdp, delay, rng)):
        states, actions = simulate(
            mdp, policy, delay, 0, queue, steps=steps + delay, paths=paths, seed=k
        )
        assert states.shape == (paths, steps + delay + 1)
        law = law_at(mdp, policy, delay, 0, queue, steps)
        seen = np.zeros_like(law)
        np.add.at(seen, (states[:, steps], *actions[:, steps : steps + delay].T), 1 / paths)
        np.testing.assert_allclose(seen, law, atol=5 * 0.5 / paths**0.5)
        if delay:
            assert (actions[:, :delay] == queue).all()


@pytest.mark.slow
def test_simulation_starts_from_laws_and_is_seeded():
    mdp = random_mdp(np.random.default_rng(0), 3, 2, 0.9)
    policy = stationary(mdp, [0, 1, 0])
    start, queue = np.array([0.2, 0.0, 0.8]), np.array([[0.25, 0.75]])
    states, actions = simulate(mdp, policy, 1, start, queue, steps=1, paths=50_000, seed=1)
    assert (states[:, 0] == 2).mean() == pytest.approx(0.8, abs=0.01)
    assert (actions[:, 0] == 1).mean() == pytest.approx(0.75, abs=0.01)
    again, _ = simulate(mdp, policy, 1, start, queue, steps=1, paths=50_000, seed=1)
    assert (states == again).all()
    other, _ = simulate(mdp, policy, 1, start, queue, steps=1, paths=50_000, seed=2)
    assert (states != other).any()


def test_history_dependent_paths_sum_to_one_and_respect_the_queue():
    mdp = random_mdp(np.random.default_rng(0), 2, 2, 0.9)

    def policy(history):
        return np.eye(2)[sum(history) % 2] * 0.7 + 0.15

    total = 0.0
    for states in product(range(2), repeat=4):
        for actions in product(range(2), repeat=4):
            path = [0] + [x for pair in zip(actions, states, strict=True) for x in pair]
            probability = path_probability(mdp, policy, 2, [1, 0], path)
            assert probability == 0 or actions[:2] == (1, 0)
            total += probability
    assert total == pytest.approx(1)
    assert path_probability(mdp, policy, 0, [], [0, 1, 1]) == pytest.approx(
        policy((0,))[1] * mdp.dense[0, 1, 1]
    )
    assert path_probability(mdp, policy, 0, [], [1], start=[0.3, 0.7]) == 0.7


@pytest.mark.parametrize("delay", [0, 1, 2, 3])
def test_delayed_values_by_recursion_linear_system_and_following_paths(delay):
    rng = np.random.default_rng(10 + delay)
    mdp = random_mdp(rng, 3, 2, 0.6, 2)
    for policy in policies(mdp, delay, rng):
        exact = exact_values(mdp, policy, delay)
        recursive, error = recursive_values(mdp, policy, delay, tol=1e-9)
        assert error <= 1e-9
        assert np.abs(exact - recursive).max() <= error + 1e-12
        coarse, coarse_error = recursive_values(mdp, policy, delay, tol=1e-1)
        assert np.abs(exact - coarse).max() <= coarse_error <= 1e-1
    rules = rng.integers(2, size=(3, 3))
    exact = exact_values(mdp, markov(mdp, rules), delay)
    queue, steps = rng.integers(2, size=delay), 8
    followed = policy_value(mdp, delay, rules, 1, queue, steps)
    assert at_queue(mdp, delay, exact, 1, queue) == pytest.approx(
        followed, abs=0.6**steps * np.abs(mdp.r).max() / 0.4
    )


def test_delayed_value_by_simulation():
    rng = np.random.default_rng(1)
    mdp, delay, steps = random_mdp(rng, 3, 2, 0.7), 2, 40
    policy = markov(mdp, rng.dirichlet(np.ones(2), (2, 3)))
    states, actions = simulate(mdp, policy, delay, 0, [0, 1], steps=steps, paths=100_000, seed=0)
    returns = (
        mdp.r[states[:, delay:-1], actions[:, delay:]] * 0.7 ** np.arange(steps - delay)
    ).sum(axis=1)
    exact = at_queue(mdp, delay, exact_values(mdp, policy, delay), 0, [0, 1])
    assert returns.mean() == pytest.approx(exact, abs=5 * returns.std() / 100_000**0.5)


def test_the_optimal_queue_aware_policy_has_the_optimal_delayed_value():
    mdp = random_mdp(np.random.default_rng(2), 3, 2, 0.8)
    solution = solve(mdp, 2, tol=1e-10)
    policy = queue_aware(mdp, 2, solution.policy.astype(int))
    np.testing.assert_allclose(exact_values(mdp, policy, 2), solution.delayed_values, atol=1e-8)


def test_laws_in_the_queue_average_over_it():
    mdp = random_mdp(np.random.default_rng(3), 2, 2, 0.8)
    values = exact_values(mdp, stationary(mdp, [0, 1]), 2)
    mixed = at_queue(mdp, 2, values, 0, np.array([[0.3, 0.7], [1.0, 0.0]]))
    assert mixed == pytest.approx(0.3 * values[0, 0, 0] + 0.7 * values[0, 1, 0])


def test_policies_repeat_and_can_begin_later():
    mdp = random_mdp(np.random.default_rng(3), 2, 2, 0.8)
    policy = markov(mdp, [[0, 0], [0, 1], [1, 1]])
    assert isinstance(policy, Policy)
    assert policy.rule(4)[1, 0].tolist() == [0, 1]
    assert policy.after(1).rule(0)[1, 0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda m: markov(m, [[0, 1, 0]]),
            r"a Markov policy of integers .* \(steps, 2\) with at least one step; got \(1, 3\)",
        ),
        (
            lambda m: stationary(m, [[0.5, 0.6], [1, 0]]),
            r"not negative and sum to 1; got a smallest one of 0 and sums \[1.  1.1\]",
        ),
        (
            lambda m: queue_aware(m, 2, [[0, 1], [1, 0]]),
            r"a queue-aware policy of integers \(actions\) has shape "
            r"\(2, 2, 2\) or \(steps, 2, 2, 2\)",
        ),
        (
            lambda m: law_at(m, stationary(m, [0, 1]), 2, 0, [0], 1),
            r"as many actions as the delay, 2, oldest first; got \[0\]",
        ),
        (
            lambda m: law_at(m, stationary(m, [0, 1]), 1, -1, [0], 1),
            "each state is a whole number from 0 to 1; got -1",
        ),
        (
            lambda m: law_at(m, stationary(m, [0, 1]), 1, [0.5, 0.6], [0], 1),
            r"start is given by indices or by laws of shape \(2,\)",
        ),
        (
            lambda m: law_at(m, stationary(m, [0, 1]), 1, 0, [[0.5, 0.6]], 1),
            r"queue is given by indices or by laws of shape \(1, 2\)",
        ),
        (lambda m: stationary(m, [0, -1]), "chooses actions from 0 to 1; got -1 to 0"),
        (
            lambda m: queue_aware(m, 1, np.full((2, 2, 2), 0.9)),
            "sum to 1; got a smallest one of 0.9 and sums",
        ),
        (
            lambda m: queue_aware(m, 1, np.full((2, 2), 2)),
            "chooses actions from 0 to 1; got 2 to 2",
        ),
        (
            lambda m: path_probability(m, stationary(m, [0, 1]), 1, [0], [0], start=[5, 0]),
            "start is given by indices or by laws",
        ),
        (
            lambda m: law_at(m, stationary(m, [0, 1]), 1, 0, [0], -5),
            "time is a whole number of steps, 0 or more; got -5",
        ),
        (
            lambda m: recursive_values(m, stationary(m, [0, 1]), 1, tol=0),
            "tol is the largest error allowed, above 0; got 0",
        ),
        (
            lambda m: at_queue(m, 1, np.zeros(2), 0, [0]),
            r"values have shape \(2, 2\) at delay 1; got \(2,\)",
        ),
        (
            lambda m: path_probability(m, stationary(m, [0, 1]), 1, [0], [0, 1]),
            "an odd number of entries; got 2",
        ),
        (
            lambda m: path_probability(m, stationary(m, [0, 1]), 1, [0], [0, 2, 1]),
            "each action of a path is a whole number from 0 to 1; got 2",
        ),
    ],
)
def test_bad_policies_and_queues(make, message):
    with pytest.raises(ValueError, match=message):
        make(random_mdp(np.random.default_rng(3), 2, 2, 0.8))


def test_blocks_of_draws_change_no_path(monkeypatch):
    from deadtime.planning import process

    mdp = random_mdp(np.random.default_rng(0), 3, 2, 0.9)
    policy = stationary(mdp, [0, 1, 0])
    whole = simulate(mdp, policy, 2, 0, [0, 1], steps=7, paths=50, seed=3)
    monkeypatch.setattr(process, "_DRAWS", 30)
    parts = simulate(mdp, policy, 2, 0, [0, 1], steps=7, paths=50, seed=3)
    np.testing.assert_array_equal(whole[0], parts[0])
    np.testing.assert_array_equal(whole[1], parts[1])


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_policy_of_another_problem_or_delay_is_refused_everywhere(delay):
    mdp, other = (
        random_mdp(np.random.default_rng(0), 3, 2, 0.8),
        random_mdp(np.random.default_rng(0), 2, 2, 0.8),
    )
    queue = [0] * delay
    for policy in (queue_aware(mdp, 2, np.zeros((3, 2, 2), int)), stationary(other, [0, 1])):
        for use in (
            lambda p: law_at(mdp, p, delay, 0, queue, 2),
            lambda p: simulate(mdp, p, delay, 0, queue, steps=3, paths=2, seed=0),
            lambda p: path_probability(mdp, p, delay, queue, [0, 0, 1]),
            lambda p: exact_values(mdp, p, delay),
            lambda p: recursive_values(mdp, p, delay),
        ):
            with pytest.raises(
                ValueError, match="this policy is for .*make it with the same MDP and delay"
            ):
                use(policy)


def test_a_policy_with_a_horizon_can_be_followed():
    mdp = random_mdp(np.random.default_rng(4), 3, 2, 1.0, 2)
    solution = solve(mdp, 1, horizon=6)
    states, actions = simulate(mdp, solution.as_policy(), 1, 0, [1], steps=6, paths=100_000, seed=0)
    returns = mdp.r[states[:, :-1], actions].sum(axis=1)
    assert returns.mean() == pytest.approx(
        solution.value(0, (1,)), abs=5 * returns.std() / 100_000**0.5
    )


def earned(mdp, policy, delay, horizon, at):
    """Return the discounted sum of `horizon` rewards from the state `at`, path by path."""

    def follow(t, state, pending):
        if t == horizon:
            return 0.0
        rule = policy.rule(t)
        queue = 0
        for action in pending if rule.shape[1] > 1 else ():
            queue = queue * mdp.actions + action
        total = 0.0
        for chosen in np.flatnonzero(rule[state, queue]):
            now, *rest = (*pending, int(chosen))
            row = mdp.dense[state, now]
            later = sum(row[s] * follow(t + 1, s, tuple(rest)) for s in np.flatnonzero(row))
            total += rule[state, queue, chosen] * (mdp.r[state, now] + mdp.gamma * later)
        return total

    return follow(0, at[0], tuple(at[1:]))


SIZES = list(product((1, 2, 3), (1, 2, 3), (0, 1, 2)))


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_the_policy_of_a_solution_with_a_horizon_earns_its_value(horizon):
    """216 problems a horizon; where S = A = horizon, only its type tells actions from
    probabilities.
    """
    rng = np.random.default_rng(horizon)
    for states, actions, delay in SIZES * 8:
        mdp = random_mdp(rng, states, actions, float(rng.choice([0.7, 1.0])))
        solution = solve(mdp, delay, horizon=horizon)
        policy = solution.as_policy()
        assert policy.period == horizon
        for at in [tuple(int(rng.integers(n)) for n in solution.values.shape) for _ in range(3)]:
            optimum = solution.value(at[0], at[1:])
            assert earned(mdp, policy, delay, horizon, at) == pytest.approx(optimum, abs=1e-12)


@pytest.mark.slow
def test_the_policy_of_a_solution_without_a_horizon_earns_its_value():
    rng = np.random.default_rng(0)
    for states, actions, delay in SIZES * 8:
        mdp = random_mdp(rng, states, actions, 0.7)
        solution = solve(mdp, delay, tol=1e-10)
        policy = solution.as_policy()
        assert policy.period == 1
        later = exact_values(mdp, policy, delay).reshape(states, -1)
        values = (pending_reward(mdp, delay) + 0.7**delay * later).reshape(solution.values.shape)
        np.testing.assert_allclose(values, solution.values, atol=1e-8)


def test_actions_are_not_read_as_probabilities_where_shapes_coincide():
    """With horizon = S = A = 2 a rule a step and one rule of probabilities have the same shape."""
    mdp = MDP(np.full((2, 2, 2), 0.5), np.eye(2), 1.0)
    policy = solve(mdp, 0, horizon=2).as_policy()
    assert policy.probabilities[:, :, 0].tolist() == [[[1, 0], [0, 1]]] * 2
    actions = [[0, 1], [1, 0]]
    np.testing.assert_array_equal(
        queue_aware(mdp, 0, actions).probabilities, markov(mdp, actions).probabilities
    )
    floats = np.array(actions, float)
    np.testing.assert_array_equal(
        queue_aware(mdp, 0, floats).probabilities, stationary(mdp, floats).probabilities
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda m: stationary(m, [[1, 0], [0, 1]]),
            r"^a stationary policy of integers \(actions\) has shape \(2\); got \(2, 2\): "
            "reshape it, or give floats for probabilities$",
        ),
        (
            lambda m: stationary(m, [0.0, 1.0]),
            r"of floats \(probabilities\) has shape \(2, 2\); got \(2,\): "
            "reshape it, or give integers for actions$",
        ),
        (
            lambda m: markov(m, [[0.0, 1.0]]),
            r"of floats \(probabilities\) has shape \(steps, 2, 2\) with at least one step; "
            r"got \(1, 2\)",
        ),
        (
            lambda m: queue_aware(m, 1, np.zeros((0, 2, 2), int)),
            r"at least one step; got \(0, 2, 2\)",
        ),
        (lambda m: solve(m, 1, horizon=0).as_policy(), r"at least one step; got \(0, 2, 2\)"),
        (
            lambda m: stationary(m, [True, False]),
            r"^a stationary policy is given as integers \(actions\) or floats \(probabilities\); "
            "got bool: convert it to one of these$",
        ),
        (
            lambda m: stationary(m, [[1.5, -0.5], [1, 0]]),
            r"a smallest one of -0.5 and sums \[1.\]: divide each row by its sum",
        ),
    ],
)
def test_rules_that_are_neither_actions_nor_probabilities(make, message):
    with pytest.raises(ValueError, match=message):
        make(random_mdp(np.random.default_rng(3), 2, 2, 0.8))


@pytest.mark.parametrize("start", [1, [0.5, 0.5]])
@pytest.mark.parametrize("queue", [[-1], [0.7], [2], [True]])
def test_pending_actions_are_indices_whatever_the_start(start, queue):
    mdp = random_mdp(np.random.default_rng(3), 2, 2, 0.8)
    with pytest.raises(ValueError, match="each pending action is a whole number from 0 to 1; got"):
        law_at(mdp, stationary(mdp, [0, 1]), 1, start, queue, 1)


@pytest.mark.parametrize("start", [-1, 2, 0.5])
def test_a_start_is_an_index_whatever_the_queue(start):
    mdp = random_mdp(np.random.default_rng(3), 2, 2, 0.8)
    with pytest.raises(ValueError, match="each state is a whole number from 0 to 1; got"):
        law_at(mdp, stationary(mdp, [0, 1]), 1, start, [[0.5, 0.5]], 1)


def test_long_delays_are_simulated_without_all_queues():
    mdp = random_mdp(np.random.default_rng(4), 3, 2, 0.9)
    _, actions = simulate(
        mdp, stationary(mdp, [0, 1, 0]), 60, 0, [1] * 60, steps=61, paths=4, seed=0
    )
    assert (actions[:, :60] == 1).all()
