import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime.envs.maze import Maze
from deadtime.planning import MDP, solve
from deadtime.planning.beliefs import belief_values, nested_laws
from deadtime.planning.examples import random_mdp


def slippery(rng, states, actions, gamma, coins):
    """Deterministic but for `coins` pairs (s, a) that toss a fair coin: augmented states merge, and
    not trivially.
    """
    P = np.eye(states)[rng.integers(states, size=(states, actions))]
    for _ in range(coins):
        s, a = rng.integers(states), rng.integers(actions)
        P[s, a] = np.eye(states)[rng.integers(states, size=2)].mean(axis=0)
    return MDP(P, rng.normal(size=(states, actions)), gamma)


@pytest.mark.slow
@given(
    st.integers(0, 10_000),
    st.integers(2, 6),
    st.integers(2, 3),
    st.integers(0, 4),
    st.integers(0, 3),
)
@settings(deadline=None, max_examples=80)
def test_merged_and_augmented_planning_agree_where_states_merge(
    seed, states, actions, delay, coins
):
    mdp = slippery(np.random.default_rng(seed), states, actions, 0.9, coins)
    merged, plain = solve(mdp, delay, "beliefs"), solve(mdp, delay)
    assert merged.classes <= plain.values.size
    np.testing.assert_allclose(belief_values(merged), plain.values, atol=3e-8)
    if coins == 0:
        assert merged.classes <= states
    for x in list(np.ndindex(*plain.values.shape))[:40]:
        assert merged.delayed_value(x[0], x[1:]) == pytest.approx(plain.delayed_values[x], abs=3e-7)


def test_merging_really_happens():
    mdp = slippery(np.random.default_rng(0), 6, 2, 0.9, 2)
    assert solve(mdp, 8, "beliefs").classes < 6 * 2**8 / 4


@given(st.integers(0, 10_000), st.integers(0, 4), st.integers(0, 7))
@settings(deadline=None, max_examples=60)
def test_horizon_agrees_too(seed, delay, horizon):
    mdp = slippery(np.random.default_rng(seed), 4, 2, 1.0, 2)
    merged, plain = (
        solve(mdp, delay, "beliefs", horizon=horizon),
        solve(mdp, delay, horizon=horizon),
    )
    np.testing.assert_allclose(belief_values(merged), plain.values, atol=1e-10)


def test_dense_random_problems_never_merge_and_agree():
    mdp = random_mdp(np.random.default_rng(0), 3, 2, 0.9)
    merged = solve(mdp, 3, "beliefs")
    assert merged.classes == 3 * 2**3
    np.testing.assert_allclose(belief_values(merged), solve(mdp, 3).values, atol=2e-8)


def test_greedy_actions_earn_the_value():
    mdp = slippery(np.random.default_rng(4), 5, 2, 0.8, 2)
    delay = 3
    merged, plain = solve(mdp, delay, "beliefs"), solve(mdp, delay)
    policy = np.array([merged.action(x[0], x[1:]) for x in np.ndindex(*plain.policy.shape)])
    from deadtime.planning.augmented import Operator
    from deadtime.planning.iteration import evaluate

    operator = Operator(mdp, delay)
    earned = evaluate(operator, policy.reshape(operator.shape))
    np.testing.assert_allclose(earned.ravel(), plain.values.ravel(), atol=3e-8)


def test_equal_laws_of_the_end_are_not_enough():
    """From 0 the coin falls at once and the agent sees it; from 3 it falls a step later.

    Both end in 5 or 6, evenly.
    """
    P, r = np.zeros((9, 2, 9)), np.zeros((9, 2))
    P[0, :, [1, 2]] = P[4, :, [5, 6]] = 0.5
    for s, after in ((1, 5), (2, 6), (3, 4), (5, 7), (6, 8), (7, 7), (8, 8)):
        P[s, :, after] = 1
    r[7, 0] = r[8, 1] = 1
    mdp = MDP(P, r, 0.5)
    beliefs = nested_laws(mdp, 2, 1000)
    early, late = beliefs.find(0, (0, 0)), beliefs.find(3, (0, 0))
    np.testing.assert_allclose(beliefs.laws.toarray()[early], beliefs.laws.toarray()[late])
    assert early != late
    merged, plain = solve(mdp, 2, "beliefs"), solve(mdp, 2)
    assert merged.delayed_value(0, (0, 0)) == pytest.approx(plain.delayed_values[0, 0, 0])
    assert merged.delayed_value(3, (0, 0)) == pytest.approx(plain.delayed_values[3, 0, 0])
    assert merged.delayed_value(0, (0, 0)) > merged.delayed_value(3, (0, 0)) + 0.1


@pytest.mark.slow
def test_a_deterministic_maze_at_any_delay():
    """At most S classes, and the optimum is the shortest path after the pending actions have been
    walked.
    """
    maze = Maze(size=8, maze_seed=3)
    P, r = maze.model()
    mdp = MDP(P, r, 1.0)
    undelayed = solve(mdp, 0, horizon=2000).values
    rng = np.random.default_rng(0)
    for delay in (1, 7, 25, 60):
        merged = solve(mdp, delay, "beliefs", horizon=2000 + delay)
        assert merged.classes <= 64
        queue = rng.integers(4, size=delay)
        cell, earned = 0, 0.0
        for action in queue:
            earned += r[cell, action]
            cell = int(P[cell, action].argmax())
        assert merged.value(0, queue) == pytest.approx(earned + undelayed[cell])


def test_too_many_classes_are_refused():
    with pytest.raises(
        ValueError,
        match=r"level \d of 9 has [\d,]+ distinct nested laws, above max_classes = 500: raise it",
    ):
        solve(random_mdp(np.random.default_rng(0), 4, 3, 0.9), 9, "beliefs", max_classes=500)


def test_laws_that_differ_stay_apart():
    P = np.zeros((4, 2, 4))
    P[0, 0, [2, 3]], P[0, 1, [2, 3]] = [0.3, 0.7], [0.3 + 1e-6, 0.7 - 1e-6]
    P[1], P[2, :, 2], P[3, :, 3] = P[0], 1, 1
    beliefs = nested_laws(MDP(P, np.zeros((4, 2)), 0.9), 1, 100)
    assert beliefs.find(0, (0,)) != beliefs.find(0, (1,))
    assert beliefs.find(0, (0,)) == beliefs.find(1, (0,))


def test_the_bound_counts_what_merging_moved():
    P, r = np.zeros((4, 2, 4)), np.zeros((4, 2))
    P[0, 0, [2, 3]], P[0, 1, [2, 3]] = [0.3, 0.7], [0.3 + 4e-13, 0.7 - 4e-13]
    P[1], P[2, :, 2], P[3, :, 3], r[2] = P[0], 1, 1, 1e12
    mdp = MDP(P, r, 0.9)
    merged, plain = solve(mdp, 1, "beliefs", tol=0.5), solve(mdp, 1, "policy_iteration", tol=0.5)
    assert (
        abs(merged.delayed_value(0, (1,)) - plain.delayed_value(0, (1,)))
        <= merged.error_bound + plain.delayed.error_bound
    )
    assert not merged.converged
    assert "merging may have moved a value" in merged.message


def test_decisions_change_with_time_as_the_plain_ones_do():
    """One step pays 1, waiting a step pays 3 later: worth it only while there is time."""
    P, r = np.zeros((3, 2, 3)), np.zeros((3, 2))
    P[0, 0, 2] = P[0, 1, 1] = P[1, :, 2] = P[2, :, 2] = 1
    r[0, 0], r[1] = 1, 3
    mdp = MDP(P, r, 1.0)
    for delay in (0, 1):
        merged, plain = (
            solve(mdp, delay, "beliefs", horizon=4 + delay),
            solve(mdp, delay, horizon=4 + delay),
        )
        start = (0,) if delay == 0 else (0, 0)
        for time in range(4):
            for x in np.ndindex(*plain.values.shape):
                values = [merged.action(x[0], x[1:], time), plain.action(x[0], x[1:], time)]
                assert values[0] == values[1], (time, x, start)
    undelayed = solve(mdp, 0, "beliefs", horizon=4)
    assert [undelayed.action(0, (), time) for time in range(4)] == [1, 1, 1, 0]
