"""The table of pairs, exploration and the count model, each against something plainer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime.learn.counts import empty, observe, roll, roll_law, roll_on
from deadtime.learn.exploration import epsilon_greedy, uniform
from deadtime.learn.q_table import by_queue, find, pack, push_key, with_room
from deadtime.learn.settings import QLearning
from deadtime.runtime.queue_keys import bits_of


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(st.integers(2, 18), st.integers(0, 70), st.integers(0, 2**32 - 1))
def test_the_table_is_a_dict(actions, delay, seed):
    rng = np.random.default_rng(seed)
    log = rng.integers(actions, size=delay + 3000)
    table, known, key, other = by_queue(actions, delay), {}, None, None
    for t in range(400):
        state = int(rng.integers(3))
        if key is None:
            key, other = np.zeros((2, table.keys.shape[1]), np.uint64)
            pack(key, state, log, delay, bits_of(actions))
        else:
            push_key(key, state, log, t, delay, bits_of(actions))
        pack(other, state, log[t:], delay, bits_of(actions))
        np.testing.assert_array_equal(key, other)
        plain = (state, *log[t : t + delay].tolist())
        table = with_room(table, 2)
        if plain not in known:
            assert find(table.slots, table.keys, table.used, key, False) == 0
        row = find(table.slots, table.keys, table.used, key, True)
        assert known.setdefault(plain, row) == row
    assert len(set(known.values())) == len(known) == table.used[0] - 1


def test_growth_keeps_rows_and_values():
    table, key = by_queue(4, 30), np.zeros(2, np.uint64)
    rows = []
    for i in range(20_000):
        table = with_room(table, 1)
        key[0], key[1] = i, i * 7919
        rows.append(find(table.slots, table.keys, table.used, key, True))
        table.q[rows[-1]] = i
    assert rows == list(range(1, 20_001))
    for i in range(0, 20_000, 97):
        key[0], key[1] = i, i * 7919
        assert (table.q[find(table.slots, table.keys, table.used, key, False)] == i).all()


def test_uniform_is_uniform_and_streams_are_apart():
    streams = np.array([1, 2], np.uint64)
    draws = np.array([[uniform(streams, 0), uniform(streams, 1)] for _ in range(20_000)])
    assert (draws >= 0).all()
    assert (draws < 1).all()
    counts = np.histogram(draws[:, 0], 20, (0, 1))[0]
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("values", "epsilon", "expected"),
    [
        ([1.0, 3.0, 2.0], 0.0, [0, 1, 0]),
        ([1.0, 3.0, 3.0], 0.0, [0, 0.5, 0.5]),
        ([0.0, 0.0, 0.0], 0.0, [1 / 3, 1 / 3, 1 / 3]),
        ([1.0, 3.0, 3.0], 0.3, [0.1, 0.45, 0.45]),
        ([5.0, 1.0, 1.0], 1.0, [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_epsilon_greedy(values, epsilon, expected):
    grid = (np.arange(30_000) + 0.5) / 30_000
    chosen = [epsilon_greedy(np.array([values]), 0, epsilon, u) for u in grid]
    np.testing.assert_allclose(np.bincount(chosen, minlength=3) / 30_000, expected, atol=2e-4)


def model_of(rng, states=6, actions=3, outcomes=3, steps=400):
    model = empty(states, actions, outcomes)
    P = rng.dirichlet(np.ones(outcomes), (states, actions))
    to = np.array(
        [[rng.permutation(states)[:outcomes] for _ in range(actions)] for _ in range(states)]
    )
    for _ in range(steps):
        s, a = rng.integers(states), rng.integers(actions)
        after = to[s, a, rng.choice(outcomes, p=P[s, a])]
        observe(*model, s, a, 1.0, after, False)
    return model


def frequencies(model):
    states, actions, _ = model.visits.shape
    P = np.zeros((states, actions, states))
    for s, a in np.ndindex(states, actions):
        for after, visits in zip(model.successors[s, a], model.visits[s, a], strict=True):
            if after >= 0:
                P[s, a, after] += visits
        P[s, a] = P[s, a] / P[s, a].sum() if P[s, a].sum() else np.eye(states)[s]
    return P


def in_turn(m):
    """The way that takes m actions one after the other, as steps and places of `roll_law`."""
    return np.full((1, 1), m), np.arange(m).reshape(1, 1, m)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.integers(0, 400))
def test_the_law_is_a_product_of_frequencies(seed, m, steps):
    rng = np.random.default_rng(seed)
    model = model_of(rng, steps=steps)
    P, actions = frequencies(model), rng.integers(3, size=m + 2)
    expected = np.eye(6)[1]
    for a in actions[2:]:
        expected = expected @ P[:, a]
    law, members = np.zeros((2, 6)), np.zeros((2, 6), np.int32)
    n = roll_law(model.successors, model.visits, 1, actions, 2, *in_turn(m), 0, 0, law, members)
    np.testing.assert_allclose(law[0], expected, atol=1e-14)
    assert set(members[0, :n]) == set(np.flatnonzero(expected))
    assert (law[1] == 0).all()


def test_a_law_so_long_that_probabilities_vanish():
    model = empty(2, 1, 2)
    observe(*model, 0, 0, 0.0, 0, False)
    for _ in range(3):
        observe(*model, 0, 0, 0.0, 1, False)
    observe(*model, 1, 0, 0.0, 1, False)
    law, members = np.zeros((2, 2)), np.zeros((2, 2), np.int32)
    counts, actions = (model.successors, model.visits), np.zeros(2000, np.int64)
    n = roll_law(*counts, 0, actions, 0, *in_turn(2000), 0, 0, law, members)
    assert n == 1
    assert law[0].tolist() == [0.0, pytest.approx(1.0)]


def test_most_visited_is_most_likely():
    rng = np.random.default_rng(0)
    model, counts = empty(4, 1, 4), np.zeros(4, int)
    for _ in range(300):
        after = int(rng.integers(4))
        leader, counts[after] = int(model.likely[0, 0]), counts[after] + 1
        changed = observe(*model, 0, 0, 0.5, after, after == 3)
        assert counts[model.likely[0, 0]] == counts.max()
        assert changed == (model.likely[0, 0] != leader)
    assert model.rewards[0, 0] == 150
    assert model.terminal.tolist() == [False, False, False, True]
    assert model.likely[1:, 0].tolist() == [1, 2, 3]


def test_rolling_on_is_rolling():
    rng = np.random.default_rng(1)
    model, m = model_of(rng), 5
    actions, believed = rng.integers(3, size=200), np.zeros(200, np.int32)
    roll(model.likely, believed, actions, 0, 0, m)
    for t in range(1, 150):
        state = int(believed[t]) if rng.random() < 0.7 else int(rng.integers(6))
        end = roll_on(model.likely, believed, actions, state, t, m, False)
        again = np.zeros(200, np.int32)
        assert end == roll(model.likely, again, actions, state, t, m)
        np.testing.assert_array_equal(believed[t : t + m + 1], again[t : t + m + 1])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"learning_rate": 0}, "learning_rate is a number above 0, at most 1; got 0"),
        ({"gamma": 1.5}, "gamma is a number in \\[0, 1\\]; got 1.5"),
        ({"epsilon": "0.1"}, "epsilon is a number in \\[0, 1\\]; got '0.1'"),
        ({"epsilon": float("nan")}, "got nan"),
    ],
)
def test_settings_that_cannot_learn(wrong, words):
    with pytest.raises(ValueError, match=words):
        QLearning(**wrong)
