"""Exact planning under delay processes, against brute force on the definition."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime.delays import (
    Buffered,
    Categorical,
    Chain,
    Constant,
    DelayProcess,
    GilbertElliott,
    PerEpisode,
    RandomWalk,
    Trace,
    Uniform,
)
from deadtime.planning import MDP, solve
from deadtime.planning.channel import channel_of
from deadtime.planning.channel_operator import ChannelOperator
from deadtime.planning.examples import random_mdp
from deadtime.planning.iteration import METHODS, solve_operator
from tests.planning import brute

PROCESSES = [
    Uniform(1, 2),
    Uniform(0, 3),
    Uniform(0, 0),
    Uniform(0, 2, in_order=False),
    Categorical((0.2, 0.0, 0.8)),
    RandomWalk(0, 3),
    PerEpisode(Uniform(1, 3)),
    Trace((2, 0, 1, 1, 3, 1), repeat=True),
]


def clock(gamma=0.9):
    """State t mod 2, and a reward for the action that matches it."""
    return MDP(np.repeat(np.array([[0.0, 1.0], [1.0, 0.0]])[:, None], 2, axis=1), np.eye(2), gamma)


class FromChain(DelayProcess):
    """A process of any chain."""

    kind = "from-chain"

    def __init__(self, chain):
        object.__setattr__(self, "given", chain)

    def make_chain(self):
        return self.given


def whole(solution):
    """The values with the last K actions in every channel state."""
    mdp, longest = solution.mdp, solution.channel.longest
    shape = (mdp.states, *[mdp.actions] * longest)
    parts = []
    for values in solution.values:
        unseen = [1] * (longest + 1 - values.ndim)
        parts.append(np.broadcast_to(values.reshape(mdp.states, *unseen, *values.shape[1:]), shape))
    return np.stack(parts)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
@pytest.mark.parametrize(("states", "actions"), [(3, 2), (2, 3), (2, 1)])
def test_the_optimum_is_that_of_brute_force(process, states, actions):
    mdp = random_mdp(np.random.default_rng(states), states, actions, 0.8)
    for method in METHODS:
        solution = solve(mdp, process, method, tol=1e-9)
        assert solution.converged
        np.testing.assert_allclose(whole(solution), brute.process_optimum(mdp, process), atol=2e-9)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_hindsight_is_that_of_brute_force_and_worth_no_more_than_now(process):
    mdp = random_mdp(np.random.default_rng(1), 3, 2, 0.8)
    solution = solve(mdp, process, observed="hindsight", tol=1e-9)
    expected = brute.process_optimum(mdp, process, hindsight=True)
    np.testing.assert_allclose(np.stack(solution.values), expected, atol=2e-9)
    now = solve(mdp, process, tol=1e-9)
    for state, queue in product(range(3), product(range(2), repeat=process.longest)):
        assert solution.value(state, queue) <= now.value(state, queue) + 1e-8


@pytest.mark.parametrize("observed", ["now", "hindsight"])
def test_a_horizon_counts_its_rewards(observed):
    mdp = random_mdp(np.random.default_rng(2), 3, 2, 1.0)
    process = RandomWalk(0, 2)
    for horizon in (0, 1, 5):
        solution = solve(mdp, process, horizon=horizon, observed=observed)
        hindsight = observed == "hindsight"
        expected = brute.process_optimum(mdp, process, horizon, hindsight)
        found = np.stack(solution.values) if hindsight else whole(solution)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert all(len(rule) == horizon for rule in solution.policy)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_chain(data):
    """Ages that jump, channel states of equal age, states that are never reached."""
    size = data.draw(st.integers(1, 4))
    ages = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    weights = st.lists(st.sampled_from([0, 0, 1, 3]), min_size=size, max_size=size)
    rows = [data.draw(weights.filter(any)) for _ in range(size + 1)]
    laws = np.array(rows, float) / np.sum(rows, axis=1, keepdims=True)
    chain = Chain(np.array(ages), laws[:-1], laws[-1])
    process = FromChain(chain)
    mdp = random_mdp(np.random.default_rng(data.draw(st.integers(0, 99))), 2, 2, 0.7)
    solution = solve(mdp, process, tol=1e-10)
    expected = np.tensordot(chain.start, brute.process_optimum(mdp, process), 1)
    for place in np.ndindex(*expected.shape):
        assert solution.value(place[0], place[1:]) == pytest.approx(expected[place], abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("states", "actions", "delay"), [(5, 3, 0), (5, 3, 5), (25, 4, 3), (3, 2, 1)]
)
def test_a_constant_through_the_general_path_gives_the_same_bits(states, actions, delay, method):
    mdp = random_mdp(np.random.default_rng(delay), states, actions, 0.9)
    usual = solve(mdp, delay, method)
    operator = ChannelOperator(mdp, channel_of(Constant(delay)))
    answer = solve_operator(operator, method, 1e-8, None, 100_000)
    assert np.array_equal(answer.values, usual.values.ravel())
    assert np.array_equal(answer.policy, usual.policy.ravel())
    assert (answer.iterations, answer.residual) == (usual.iterations, usual.residual)


def test_channel_states_of_one_age_are_a_constant_delay():
    mdp = random_mdp(np.random.default_rng(0), 3, 2, 0.9)
    usual = solve(mdp, 2, tol=1e-10)
    moves = np.array([[0.3, 0.7], [0.6, 0.4]])
    solution = solve(
        mdp, FromChain(Chain(np.array([2, 2]), moves, np.array([0.5, 0.5]))), tol=1e-10
    )
    for values in solution.values:
        np.testing.assert_allclose(values, usual.values, atol=1e-9)


def test_processes_that_are_constant_are_solved_as_whole_numbers():
    mdp = random_mdp(np.random.default_rng(0), 3, 2, 0.9)
    usual = solve(mdp, 3)
    for process in (Constant(3), Buffered(Uniform(1, 2), 3)):
        solution = solve(mdp, process)
        assert solution.delay == 3
        assert np.array_equal(solution.values, usual.values)


def test_a_large_problem_in_pieces_and_on_threads():
    """Compare with the written-out problem at many pieces of queues and several threads."""
    from deadtime.planning.channel_solution import written_out

    mdp = random_mdp(np.random.default_rng(3), 40, 3, 0.9, 3)
    process = RandomWalk(3, 6)
    solution = solve(mdp, process)
    channel = channel_of(process)
    plain = solve(written_out(mdp, channel), 0).values.reshape(4, 40, *[3] * 6)
    np.testing.assert_allclose(whole(solution), plain, atol=2e-8)


def test_a_channel_keeps_only_the_actions_that_may_still_be_executed():
    assert channel_of(Uniform(2, 6)).lengths.tolist() == [2, 3, 4, 5, 6]
    anew = channel_of(Uniform(1, 3, in_order=False))
    assert anew.lengths.tolist() == [2, 2, 3]
    assert channel_of(Trace((0, 3, 1), repeat=True)).lengths.tolist() == [2, 3, 1]
    solution = solve(random_mdp(np.random.default_rng(0), 5, 2, 0.9), Uniform(2, 6))
    assert solution.states == 5 * (4 + 8 + 16 + 32 + 64)


def test_the_clock_earns_half_observed_and_all_of_it_buffered():
    """A receiver that waits can earn more than one that does not: `Buffered` bounds nothing."""
    mdp, process = clock(), Uniform(1, 2, in_order=False)
    observed = solve(mdp, process, tol=1e-10)
    waiting = solve(mdp, Buffered(process, 2), tol=1e-10)
    assert observed.value(0, (1, 0)) == pytest.approx(0.5 / (1 - mdp.gamma))
    assert waiting.delayed_value(0, (0, 1)) == pytest.approx(1 / (1 - mdp.gamma))
    assert waiting.value(0, (0, 1)) == pytest.approx(1 / (1 - mdp.gamma))
    steps = {h: solve(clock(1.0), process, horizon=h).value(0, (0, 0)) for h in (50, 51)}
    assert steps[51] - steps[50] == pytest.approx(0.5), "half a reward a step"


def test_policies_attain_the_values():
    """Following `action` from each start earns `value`."""
    mdp = random_mdp(np.random.default_rng(4), 3, 2, 0.8)
    process = RandomWalk(0, 2)
    solution = solve(mdp, process, tol=1e-10)
    F, g = brute.process_arrays(mdp, process)
    shape = (3, 3, 2, 2)
    rule = np.array([solution.action(s, q, c) for c, s, *q in np.ndindex(*shape)])
    rows = np.arange(len(g)), rule
    values = np.linalg.solve(np.eye(len(g)) - mdp.gamma * F[rows], g[rows]).reshape(shape)
    for c, s, *q in np.ndindex(*shape):
        assert solution.value(s, q, c) == pytest.approx(values[(c, s, *q)], abs=1e-9)


def test_hidden_channel_states_are_said_and_refused_in_hindsight():
    process = GilbertElliott(Uniform(1, 2), 2, 0.2, 0.3)
    mdp = random_mdp(np.random.default_rng(0), 2, 2, 0.9)
    solution = solve(mdp, process)
    assert "an upper bound" in solution.message
    with pytest.raises(ValueError, match="has hidden states: use bounds"):
        solve(mdp, process, observed="hindsight")


@pytest.mark.parametrize(
    ("delay", "keywords", "message"),
    [
        (Uniform(1, 2), {"method": "beliefs"}, "'beliefs' is for constant delays; got uniform:1-2"),
        (Uniform(1, 2), {"observed": "never"}, 'got observed="never": use bounds'),
        (Uniform(1, 2), {"observed": "later"}, 'observed is "now" or "hindsight"; got \'later\''),
        (Trace((1, 2)), {}, "a trace of 2 steps: pass repeat=True"),
        (Uniform(1, 70), {}, "got a longest age of 70: pass a process of shorter ages"),
        (-1, {}, "delay is a whole number of steps, 0 or more; got -1"),
    ],
)
def test_bad_input(delay, keywords, message):
    mdp = random_mdp(np.random.default_rng(0), 2, 2, 0.9)
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        solve(mdp, delay, **keywords)


@pytest.mark.parametrize("observed", ["now", "hindsight"])
def test_what_does_not_fit_is_refused_before_it_is_allocated(observed):
    mdp = random_mdp(np.random.default_rng(0), 2, 2, 0.9)
    with pytest.raises(
        MemoryError, match="must fit into memory; .* pass a process of shorter ages"
    ):
        solve(mdp, RandomWalk(0, 60), observed=observed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, (0,)), "a queue holds the last 2 actions, as many as the longest age"),
        ((0, (0, 5)), "each pending action is a whole number from 0 to 1; got 5"),
        ((7, (0, 0)), "each state is a whole number from 0 to 1; got 7"),
        ((0, (0, 0), 3), "each channel state is a whole number from 0 to 1; got 3"),
    ],
)
def test_bad_states_are_refused(arguments, message):
    solution = solve(random_mdp(np.random.default_rng(0), 2, 2, 0.9), Uniform(1, 2))
    with pytest.raises(ValueError, match=message):
        solution.value(*arguments)
