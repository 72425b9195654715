from fractions import Fraction

import numpy as np
import pytest
from brute import augmented_arrays, horizon_values, optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from deadtime.delays import RandomWalk, Uniform
from deadtime.planning import MDP, augment, bellman_operator, solve
from deadtime.planning.augmented import Operator, delayed_reward, pending_reward
from deadtime.planning.examples import chain, random_mdp, stretched, two_state, two_state_optimum

METHODS = ["modified_policy_iteration", "policy_iteration", "value_iteration"]
problems = st.builds(
    lambda seed, states, actions, gamma, sparse: random_mdp(
        np.random.default_rng(seed), states, actions, gamma, min(2, states) if sparse else None
    ),
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.3, 0.9, 0.99]),
    st.booleans(),
)
small_delays = st.integers(0, 4)


def fits(mdp, delay):
    return mdp.states * mdp.actions**delay <= 200


@given(problems, small_delays)
@settings(deadline=None, max_examples=60)
def test_explicit_augmented_mdp_is_the_definition(mdp, delay):
    if fits(mdp, delay):
        F, g = augmented_arrays(mdp, delay)
        explicit = augment(mdp, delay)
        np.testing.assert_allclose(explicit.dense, F)
        np.testing.assert_array_equal(explicit.r, g)


@pytest.mark.parametrize("method", METHODS)
@given(problems, small_delays)
@settings(deadline=None, max_examples=40)
def test_every_method_agrees_with_brute_force(method, mdp, delay):
    if not fits(mdp, delay):
        return
    v, q = optimum(mdp, delay)
    solution = solve(mdp, delay, method)
    assert solution.converged
    assert solution.values.shape == solution.policy.shape == (mdp.states, *[mdp.actions] * delay)
    error = np.abs(solution.values.ravel() - v).max()
    assert error <= 1e-8
    assert error <= solution.error_bound + 1e-13 * max(1, np.abs(v).max()) / (1 - mdp.gamma), (
        "the bound is honest"
    )
    unique = (q >= q.max(axis=1, keepdims=True) - 1e-6).sum(axis=1) == 1
    np.testing.assert_array_equal(solution.policy.ravel()[unique], q.argmax(axis=1)[unique])
    F, g = augmented_arrays(mdp, delay)
    backed_up = (g + mdp.gamma * F @ solution.values.ravel()).max(axis=1)
    assert np.abs(backed_up - solution.values.ravel()).max() == pytest.approx(
        solution.residual, abs=1e-12
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6, 1e-10])
def test_the_error_bound_is_honest_at_any_tolerance(method, tol):
    rng = np.random.default_rng(5)
    for _ in range(10):
        mdp = random_mdp(rng, 4, 2, 0.9, 2)
        v, _ = optimum(mdp, 2)
        solution = solve(mdp, 2, method, tol=tol)
        assert np.abs(solution.values.ravel() - v).max() <= solution.error_bound <= tol


@given(problems, small_delays, st.integers(0, 8))
@settings(deadline=None, max_examples=60)
def test_horizon_is_solved_backwards(mdp, delay, horizon):
    if fits(mdp, delay):
        solution = solve(mdp, delay, horizon=horizon)
        np.testing.assert_allclose(
            solution.values.ravel(), horizon_values(mdp, delay, horizon), atol=1e-10
        )
        assert solution.policy.shape == (horizon, *solution.values.shape)


def test_horizon_policy_earns_the_horizon_value():
    mdp = random_mdp(np.random.default_rng(3), 3, 2, 1.0, 2)
    delay, horizon = 2, 6
    solution = solve(mdp, delay, horizon=horizon)
    F, g = augmented_arrays(mdp, delay)
    v = np.zeros(len(g))
    for t in range(horizon - 1, -1, -1):
        rows = np.arange(len(g)), solution.policy[t].ravel()
        v = g[rows] + F[rows] @ v
    np.testing.assert_allclose(v, solution.values.ravel())


def test_delay_0_is_the_ordinary_problem():
    mdp = random_mdp(np.random.default_rng(0), 5, 3, 0.9)
    v = np.zeros(5)
    for _ in range(500):
        v = (mdp.r + 0.9 * mdp.dense @ v).max(axis=1)
    np.testing.assert_allclose(solve(mdp, 0).values, v, atol=1e-8)


def test_the_maximum_stands_outside_the_expectation():
    """Inside it, the value would be that of a shorter delay: knowing s' before choosing."""
    mdp = two_state(0.8, 0.5)
    for delay in (1, 2, 3):
        assert solve(mdp, delay).delayed_values[0].max() == pytest.approx(
            two_state_optimum(0.8, 0.5, delay)
        )
        assert two_state_optimum(0.8, 0.5, delay) < two_state_optimum(0.8, 0.5, delay - 1)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("delay", range(6))
def test_two_state_closed_form_at_every_state_and_queue(p, delay):
    values = solve(two_state(p, 0.5), delay, "policy_iteration").delayed_values
    np.testing.assert_allclose(values, two_state_optimum(p, 0.5, delay), rtol=1e-10)


@given(problems, st.integers(0, 3))
@settings(deadline=None, max_examples=30)
def test_pending_and_delayed_rewards_by_following_the_queue(mdp, delay):
    if not fits(mdp, delay):
        return
    earned, later = pending_reward(mdp, delay), delayed_reward(mdp, delay)
    for flat, queue in enumerate(np.ndindex(*[mdp.actions] * delay)):
        for s in range(mdp.states):
            law, total = np.eye(mdp.states)[s], 0.0
            for k, a in enumerate(queue):
                total += mdp.gamma**k * law @ mdp.r[:, a]
                law = law @ mdp.dense[:, a]
            assert earned[s, flat] == pytest.approx(total, abs=1e-12)
            np.testing.assert_allclose(later[s, flat], law @ mdp.r, atol=1e-12)


@pytest.mark.parametrize("states", [2, 5, 12, 30])
def test_howards_chain_counts_evaluations(states):
    solution = solve(chain(states, 0.9), 0, "policy_iteration")
    assert solution.iterations == states, "S evaluations, S - 1 policy changes"
    np.testing.assert_allclose(solution.values[:-1], 0.9 ** np.arange(states - 2, -1, -1))


def test_counts_on_augmented_chains():
    assert [solve(chain(12), m, "policy_iteration").iterations - 1 for m in range(4)] == [
        11,
        10,
        9,
        8,
    ]


@pytest.mark.parametrize(("states", "delay"), [(2, 3), (7, 1), (12, 0), (12, 3), (24, 2), (40, 1)])
def test_counts_on_stretched_chains_do_not_depend_on_the_delay(states, delay):
    mdp = stretched(chain(states), delay)
    assert mdp.states == states * (delay + 1)
    assert solve(mdp, delay, "policy_iteration").iterations - 1 == states - 1


def test_a_stretched_chain_by_hand():
    """Two states, action 1 pays 0.75 in the first; one dummy before each, γ = ¼ becomes ½."""
    mdp = stretched(chain(2, 0.25), 1)
    assert mdp.gamma == 0.5
    assert mdp.r.tolist() == [[0, 0], [0, 0.75], [0, 0], [0, 0]]
    assert mdp.dense.argmax(axis=-1).tolist() == [[1, 1], [2, 0], [3, 3], [2, 2]]


@pytest.mark.parametrize("seed", range(12))
def test_stretching_an_mdp_undoes_its_delay(seed):
    """Compare policy iteration with delay to Howard's without: equal steps, equal decisions."""
    rng = np.random.default_rng(seed)
    mdp, delay = random_mdp(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4)), 0.8, 2), seed % 4
    undelayed = solve(mdp, 0, "policy_iteration")
    delayed = solve(stretched(mdp, delay), delay, "policy_iteration")
    assert delayed.iterations == undelayed.iterations
    first = delayed.values[:: delay + 1].reshape(mdp.states, -1)
    scale = mdp.gamma ** (delay / (delay + 1))
    assert np.abs(first - scale * undelayed.values[:, None]).max() < 1e-9
    chosen = delayed.policy[:: delay + 1].reshape(mdp.states, -1)
    assert (chosen == undelayed.policy[:, None]).all()


def test_ties_go_to_the_lowest_index():
    mdp = MDP(np.ones((3, 3, 3)) / 3, np.ones((3, 3)), 0.9)
    for method in METHODS:
        assert not solve(mdp, 2, method).policy.any()


def test_large_enough_for_several_blocks_and_the_iterative_evaluation():
    mdp = random_mdp(np.random.default_rng(1), 5, 3, 0.8, 2)
    answers = [solve(mdp, 7, method, tol=1e-9) for method in METHODS]
    assert answers[0].values.size == 10_935
    for other in answers[1:]:
        np.testing.assert_allclose(other.values, answers[0].values, atol=2e-9)
    operator, v = Operator(mdp, 7), answers[1].values.reshape(5, -1)
    after, policy = np.empty_like(v), np.zeros(v.shape, np.uint8)
    operator.improve(v, after, policy)
    ahead = (mdp.P @ v).reshape(5, 3, 3**6, 3).max(axis=-1)
    np.testing.assert_allclose(after.reshape(5, 3, -1), mdp.r[:, :, None] + 0.8 * ahead)


def test_the_same_bits_twice():
    mdp = random_mdp(np.random.default_rng(1), 5, 3, 0.9, 2)
    assert solve(mdp, 6).values.tobytes() == solve(mdp, 6).values.tobytes()


def test_one_action_and_one_state():
    assert solve(MDP([[[1.0]]], [[2.0]], 0.5), 3).values.ravel() == pytest.approx([4.0])


def test_not_converged_says_so():
    solution = solve(
        random_mdp(np.random.default_rng(0), 6, 2, 0.99, 2), 2, "value_iteration", max_iterations=5
    )
    assert not solution.converged
    assert "after 5 iterations the error may be" in solution.message
    assert "raise max_iterations" in solution.message


def test_a_tolerance_below_rounding_is_not_claimed():
    solution = solve(
        random_mdp(np.random.default_rng(0), 4, 2, 0.9), 1, "policy_iteration", tol=1e-18
    )
    assert not solution.converged
    assert "raise tol, double precision allows no less" in solution.message


def test_a_solution_prints_as_a_line():
    mdp = two_state(0.8, 0.9)
    for delay, method in ((3, "policy_iteration"), (3, "beliefs"), ("walk:0-2", "value_iteration")):
        plan = solve(mdp, delay, method)
        kind = type(plan).__name__
        assert str(plan) == f"{kind}(2 states, 2 actions, delay {delay}: {plan.message})"


def test_a_delay_may_be_text():
    mdp = two_state(0.8, 0.9)
    assert np.array_equal(solve(mdp, "3").values, solve(mdp, 3).values)
    by_text = solve(mdp, "walk:0-2").value(0, [0, 1])
    assert by_text == solve(mdp, RandomWalk(0, 2)).value(0, [0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delay": -1}, "delay is a whole number of steps, 0 or more; got -1"),
        (
            {"delay": 1, "method": "magic"},
            "no method is called 'magic': choose one of modified_policy_iteration",
        ),
        ({"delay": 1, "tol": 0}, "tol is the largest error allowed, above 0; got 0"),
        ({"delay": 1, "horizon": -2}, "horizon is a whole number of steps, 0 or more; got -2"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve(two_state(), **arguments)


def test_no_discount_without_a_horizon():
    with pytest.raises(
        ValueError,
        match=r"gamma 1.0 without a horizon has no finite value: pass gamma < 1 or a horizon",
    ):
        solve(two_state(0.8, 1.0), 1)


@pytest.mark.parametrize(
    "call", [lambda m: solve(m, 40), lambda m: solve(m, 2000), lambda m: augment(m, 30)]
)
def test_too_large_is_refused_before_allocating(call):
    with pytest.raises(
        MemoryError,
        match=r"S·A\^m = 2·2\^\d+ = 10\^.* states and needs .* GiB; .* are free: shorten the delay",
    ):
        call(two_state())


@pytest.mark.parametrize("method", ["policy_iteration", "beliefs"])
@pytest.mark.parametrize(
    ("state", "queue"),
    [(-1, (0, 0)), (2, (0, 0)), (0, (0,)), (0, (0, 2)), (0, (0, -1)), (0.5, (0, 0))],
)
def test_nothing_wraps_around(method, state, queue):
    solution = solve(two_state(), 2, method)
    for ask in (solution.value, solution.delayed_value, solution.action):
        with pytest.raises(
            ValueError,
            match="is a whole number from 0 to 1; got|as many actions as the delay, 2, oldest",
        ):
            ask(state, queue)


@pytest.mark.parametrize("method", ["policy_iteration", "beliefs"])
@pytest.mark.parametrize("time", [-1, 5, 1.5])
def test_no_decision_outside_the_horizon(method, time):
    with pytest.raises(ValueError, match="time is a step from 0 to below the horizon, 5; got"):
        solve(two_state(), 2, method, horizon=5).action(0, (0, 0), time=time)


def test_a_long_horizon_is_refused_as_that():
    with pytest.raises(
        MemoryError,
        match=r"the problem with horizon 1000000 has .* are free: shorten the horizon or the delay",
    ):
        solve(two_state(), 16, horizon=10**6)


def test_more_axes_than_arrays_have():
    with pytest.raises(ValueError, match="arrays have at most 63 queue axes; got delay 70"):
        solve(MDP([[[1.0]]], [[2.0]], 0.5), 70)
    assert solve(MDP([[[1.0]]], [[2.0]], 0.5), 70, "beliefs").value(0, [0] * 70) == pytest.approx(4)


def exact(mdp, delay):
    """v* in rational arithmetic by enumerating policies is too slow; policy iteration with
    fractions is not.
    """
    F, g = augmented_arrays(mdp, delay)
    n, gamma = len(g), Fraction(mdp.gamma)
    F = [[[Fraction(x) for x in row] for row in block] for block in F]
    g = [[Fraction(x) for x in row] for row in g]
    policy = [0] * n
    while True:
        rows = [
            [Fraction(int(i == j)) - gamma * F[i][policy[i]][j] for j in range(n)]
            + [g[i][policy[i]]]
            for i in range(n)
        ]
        for i in range(n):
            pivot = next(k for k in range(i, n) if rows[k][i] != 0)
            rows[i], rows[pivot] = rows[pivot], rows[i]
            rows[i] = [x / rows[i][i] for x in rows[i]]
            for k in range(n):
                if k != i and rows[k][i] != 0:
                    rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
        v = [row[-1] for row in rows]
        q = [
            [g[i][a] + gamma * sum(F[i][a][j] * v[j] for j in range(n)) for a in range(mdp.actions)]
            for i in range(n)
        ]
        after = [max(range(mdp.actions), key=lambda a, i=i: (q[i][a], -a)) for i in range(n)]
        if all(q[i][after[i]] == q[i][policy[i]] for i in range(n)):
            return v
        policy = [after[i] if q[i][after[i]] > q[i][policy[i]] else policy[i] for i in range(n)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.999])
def test_bounds_hold_against_rational_arithmetic(method, scale, gamma):
    rng = np.random.default_rng(3)
    for _ in range(3):
        P = rng.multinomial(4, [1 / 3] * 3, size=(3, 2)) / 4
        mdp = MDP(P, rng.integers(-3, 4, size=(3, 2)) * scale, gamma)
        truth = exact(mdp, 1)
        solution = solve(mdp, 1, method, tol=1e-8 * scale)
        assert (
            max(
                abs(Fraction(float(x)) - y)
                for x, y in zip(solution.values.ravel(), truth, strict=True)
            )
            <= solution.error_bound
        )
        assert solution.converged or "double precision allows no less" in solution.message


def test_cancellation_does_not_hide_an_error():
    """A reward of -1e9 that is never taken: the values end small, and their error is measured
    there.
    """
    mdp = MDP([[[1.0]] * 2], [[0.1, -1e9]], 0.999)
    for method in METHODS:
        for delay in (0, 1):
            solution = solve(mdp, delay, method)
            truth = 100.0 if delay == 0 else solution.values[0, 0]
            assert abs(solution.values.ravel()[0] - truth) <= solution.error_bound
    assert solve(mdp, 0).values[0] == pytest.approx(100, abs=1e-8)


def test_rows_that_almost_sum_to_one_are_normalised():
    mdp = random_mdp(np.random.default_rng(0), 3, 2, 0.999)
    nearly = MDP(mdp.P * (1 + 9e-10), mdp.r, 0.999)
    answers = [solve(nearly, 1, method).values for method in METHODS]
    np.testing.assert_allclose(answers[0], answers[1], atol=2e-8)
    np.testing.assert_allclose(answers[0], solve(mdp, 1).values, atol=2e-8)
    leaking = MDP(mdp.P * 0.9, mdp.r, 0.9, check=False)
    answers = [solve(leaking, 1, method) for method in METHODS]
    for other in answers[1:]:
        assert (
            np.abs(other.values - answers[0].values).max()
            <= other.error_bound + answers[0].error_bound
        )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("scale", "gamma"), [(1e-12, 0.9), (1e-11, 0.9), (1.0, 0.99999)])
def test_policy_iteration_stops_among_ties(seed, scale, gamma):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        P = rng.multinomial(3, [0.5, 0.5], size=(2, 3)) / 3
        solution = solve(
            MDP(P, rng.integers(0, 3, size=(2, 3)) * scale, gamma),
            1,
            "policy_iteration",
            max_iterations=60,
        )
        assert solution.iterations < 60


def test_policy_iteration_that_is_cut_short_is_honest():
    mdp = chain(8, 0.9)
    solution = solve(mdp, 0, "policy_iteration", max_iterations=2)
    assert np.abs(solution.values - solve(mdp, 0).values).max() <= solution.error_bound
    assert "raise max_iterations" in solution.message


@pytest.mark.slow
def test_many_actions_do_not_wrap():
    r = np.zeros((1, 66_000))
    r[0, 65_999] = 1
    mdp = MDP(csr_array(np.ones((66_000, 1))), r, 1.0)
    assert solve(mdp, 0, horizon=2).action(0, ()) == 65_999


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.0, 0.01, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("delay", [1, 6, 14])
@pytest.mark.parametrize("method", METHODS)
def test_delayed_values_keep_their_digits_at_any_discount(gamma, delay, method):
    """Taken from v by subtraction they would lose them all at γ = 0.1, m = 14."""
    solution = solve(two_state(0.8, gamma), delay, method)
    closed = two_state_optimum(0.8, gamma, delay)
    error = np.abs(solution.delayed_values - closed).max()
    assert error <= solution.delayed.error_bound <= 1e-8
    assert error <= 1e-8


def test_a_horizon_shorter_than_the_delay_decides_nothing():
    for method in ("policy_iteration", "beliefs"):
        solution = solve(two_state(), 5, method, horizon=2)
        assert solution.delayed_value(0, [0] * 5) == 0
        assert solution.value(0, [0] * 5) == pytest.approx(1 + 0.5 * 0.2)


@pytest.mark.parametrize("max_iterations", [0, -1, 2.5])
def test_bad_max_iterations(max_iterations):
    with pytest.raises(ValueError, match="max_iterations is a whole number, 1 or more; got"):
        solve(two_state(), 1, max_iterations=max_iterations)


def test_horizon_bound_against_rational_arithmetic():
    rng = np.random.default_rng(1)
    P = rng.multinomial(4, [0.5, 0.5], size=(2, 2)) / 4
    mdp = MDP(P, rng.normal(size=(2, 2)), 1.0)
    F, g = augmented_arrays(mdp, 1)
    v = [Fraction(0)] * 4
    for _ in range(12):
        ahead = [
            [
                Fraction(float(g[i, a])) + sum(Fraction(float(F[i, a, j])) * v[j] for j in range(4))
                for a in range(2)
            ]
            for i in range(4)
        ]
        v = [max(row) for row in ahead]
    solution = solve(mdp, 1, horizon=12)
    error = max(
        abs(Fraction(float(x)) - y) for x, y in zip(solution.values.ravel(), v, strict=True)
    )
    assert error <= solution.error_bound
    assert solution.error_bound < 1e-11


@pytest.mark.parametrize("method", METHODS)
def test_values_that_have_no_bound_are_refused(method):
    mdp = random_mdp(np.random.default_rng(0), 3, 2, 0.9)
    with pytest.raises(
        ValueError,
        match="largest row sum of P must be below 1; got 1.8, so values grow without end",
    ):
        solve(MDP(mdp.P * 2, mdp.r, 0.9, check=False), 1, method)


def test_rewards_that_are_no_numbers_are_noticed():
    mdp = random_mdp(np.random.default_rng(0), 3, 2, 0.9)
    with pytest.raises(ValueError, match="the values do not stay finite"):
        solve(MDP(mdp.P, mdp.r * np.nan, 0.9, check=False), 1)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 2, Uniform(0, 2)])
def test_optimal_values_are_a_fixed_point_of_the_bellman_operator(delay):
    mdp = random_mdp(np.random.default_rng(0), 4, 2, 0.8, 2)
    operator = bellman_operator(mdp, delay)
    solution = solve(mdp, delay, tol=1e-10)
    parts = solution.values if isinstance(solution.values, tuple) else (solution.values,)
    values = np.concatenate([part.ravel() for part in parts]).reshape(operator.shape)
    after = np.empty_like(values)
    policy = np.zeros(operator.shape, operator.policy_type)
    operator.improve(values, after, policy)
    np.testing.assert_allclose(after, values, atol=1e-9)
    operator.follow(values, after, policy)
    np.testing.assert_allclose(after, values, atol=1e-9)
    operator.follow(values, after, 1 - policy)
    assert (after < values - 1e-3).any()
