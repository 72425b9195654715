"""Laws of delay processes against messages, closed forms and many draws."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from deadtime.delays import (
    AgeStream,
    Buffered,
    Categorical,
    Chain,
    Constant,
    GilbertElliott,
    Held,
    PerEpisode,
    RandomWalk,
    Seconds,
    Trace,
    Uniform,
    rlrd_wifi,
    timeline,
)

PROCESSES = [
    Constant(0),
    Constant(3),
    Uniform(0, 0),
    Uniform(2, 6),
    Uniform(2, 6, in_order=False),
    Categorical([0, 0.25, 0, 0, 0.75]),
    Categorical({0: 0.5, 3: 0.5}, in_order=False),
    RandomWalk(0, 4),
    RandomWalk(1, 3, move=1.0),
    RandomWalk(2, 2),
    GilbertElliott(1, Uniform(3, 5), to_bad=0.1, to_good=0.3),
    GilbertElliott(Uniform(0, 2), 4, to_bad=0.5, to_good=0.5),
    PerEpisode(Uniform(1, 4)),
    PerEpisode(Trace([3, 1, 1, 2])),
    Trace([2, 3, 0, 1], repeat=True),
    Buffered(RandomWalk(0, 4), 5),
    Held(0, 3, hold=0.25),
    Held(1, 3, hold=0.5, period=3),
    Seconds(0.035, step=0.02),
    rlrd_wifi(),
]
RANDOM = [p for p in PROCESSES if not p.chain.deterministic]
IN_ORDER = [
    p for p in PROCESSES if getattr(p, "in_order", True) and not isinstance(p, Held | Trace)
]
DRAWS = 60_000
ERROR = 1e-6
"""The probability with which a right law fails one test of draws."""


def drawn(process, steps, seed=0):
    return timeline(process, steps, seed).ages


def deviates(counts, law):
    """Whether independent draws deviate from a law, by a chi-square test at `ERROR`."""
    assert (counts[law == 0] == 0).all(), "an outcome of probability 0 was drawn"
    expected = counts.sum() * law[law > 0]
    statistic = ((counts[law > 0] - expected) ** 2 / expected).sum()
    return len(expected) > 1 and statistic > chi2.isf(ERROR, len(expected) - 1)


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_a_chain_is_stationary_and_its_longest_age_is_reached(process):
    chain = process.chain
    matrix = chain.matrix()
    np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-12)
    if not isinstance(process, Trace):
        np.testing.assert_allclose(chain.start @ matrix, chain.start, atol=1e-12)
        np.testing.assert_allclose(process.age_law, chain.age_law, atol=1e-12)
    reached = chain.start > 0
    for _ in range(chain.size):
        reached |= matrix[reached].sum(0) > 0
    assert reached.all(), "each state occurs"
    assert process.longest == chain.longest == chain.ages.max()
    assert process.age_law[-1] > 0
    assert process.age_law.sum() == pytest.approx(1)
    assert process.mean_age == pytest.approx(np.arange(process.longest + 1) @ process.age_law)


@pytest.mark.parametrize("process", RANDOM, ids=repr)
def test_first_ages_have_the_stationary_law(process):
    stream = AgeStream(process)
    stream.seed(1)
    counts = np.bincount([stream.start() for _ in range(20_000)], minlength=process.longest + 1)
    assert not deviates(counts, process.chain.age_law)


@pytest.mark.parametrize("process", RANDOM, ids=repr)
def test_moves_have_the_chains_law(process):
    """The next state from each state, a chi-square test for each row."""
    chain = process.chain
    rng = np.random.default_rng(2)
    for state in range(chain.size):
        after = chain.next(np.full(4000, state), rng.random(4000))
        counts = np.bincount(after, minlength=chain.size)
        assert not deviates(counts, chain.matrix()[state])


@pytest.mark.parametrize("process", IN_ORDER, ids=repr)
def test_processes_in_order_never_go_back(process):
    assert process.chain.in_order
    made = timeline(process, 3000, seed=4).made
    assert (np.diff(made) >= 0).all()


@pytest.mark.parametrize(
    "process",
    [Uniform(1, 3, in_order=False), Categorical({0: 0.5, 2: 0.5}, False), Held(0, 2)],
    ids=repr,
)
def test_ages_drawn_anew_go_back(process):
    assert not process.chain.in_order
    assert (np.diff(timeline(process, 200).made) < 0).any()


def newest_arrivals(latencies, before):
    """The ages of a receiver that uses the newest message, by a list of arrival times.

    `before` messages were sent before step 0.
    """
    ages = []
    for t in range(len(latencies) - before):
        sent = before + t
        arrived = [s for s in range(sent + 1) if s + latencies[s] <= sent]
        ages.append(sent - max(arrived))
    return ages


@pytest.mark.parametrize(
    "process", [Uniform(2, 6), Categorical([0.3, 0, 0.2, 0.5]), rlrd_wifi()], ids=repr
)
def test_the_newest_of_independent_messages_is_the_chain(process):
    """Messages are simulated one by one: their pairs (z_t, z_{t+1}) have the law of the chain.

    Pairs that are far apart are independent, so that a chi-square test applies.
    """
    law, longest = process.latency_law, process.longest
    rng = np.random.default_rng(3)
    apart = 2 * longest + 2
    latencies = rng.choice(longest + 1, size=4000 * apart, p=law)
    sent = np.arange(len(latencies))
    newest = np.full(len(latencies) + longest + 1, -1)
    np.maximum.at(newest, sent + latencies, sent)
    ages = sent - np.maximum.accumulate(newest)[: len(sent)]
    assert ages[longest : longest + 300].tolist() == newest_arrivals(
        latencies[: longest + 300], longest
    )
    pairs = ages[longest:-1][::apart], ages[longest + 1 :][::apart]
    counts = np.zeros((longest + 1, longest + 1))
    np.add.at(counts, pairs, 1)
    chain = process.chain
    joint = np.zeros_like(counts)
    places = np.ix_(chain.ages, chain.ages)
    joint[places] = chain.start[:, None] * chain.matrix()
    assert not deviates(counts.ravel(), joint.ravel())


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7).filter(any))
@settings(deadline=None, max_examples=60)
def test_in_order_laws_are_exact(weights):
    """Exact fractions: the chain min(z + 1, D), solved by its survival function."""
    law = [Fraction(weight, sum(weights)) for weight in weights]
    process = Categorical([float(p) for p in law])
    tails = [sum(law[j:]) for j in range(len(law))]
    at_least = [Fraction(1)]
    for j in range(1, process.longest + 1):
        at_least.append(at_least[-1] * tails[j])
    exact = [a - b for a, b in zip(at_least, [*at_least[1:], Fraction(0)], strict=True)]
    np.testing.assert_allclose(process.age_law, [float(p) for p in exact], atol=1e-12)
    chain = process.chain
    matrix = chain.matrix()
    for i, z in enumerate(chain.ages):
        for j, after in enumerate(chain.ages):
            arrives = law[after] if after <= z else tails[after] if after == z + 1 else 0
            assert matrix[i, j] == pytest.approx(float(arrives), abs=1e-12)


def test_the_laws_that_the_docs_state():
    process = Uniform(2, 6)
    np.testing.assert_allclose(process.latency_law, [0, 0, 0.2, 0.2, 0.2, 0.2, 0.2])
    np.testing.assert_allclose(process.age_law[2:], [0.2, 0.32, 0.288, 0.1536, 0.0384])
    assert process.mean_age == pytest.approx(3.5104)
    assert Uniform(2, 6, in_order=False).mean_age == 4
    np.testing.assert_allclose(RandomWalk(1, 4).age_law, [0, 0.25, 0.25, 0.25, 0.25])


def test_gilbert_elliott_against_messages_with_the_channels_hazards():
    """Each message under way arrives with the hazard of the present channel state's law."""
    process = GilbertElliott(Categorical([0.5, 0.5]), Uniform(1, 3), to_bad=0.2, to_good=0.4)
    laws = process._laws()
    with np.errstate(invalid="ignore"):
        hazards = np.nan_to_num(laws / laws[:, ::-1].cumsum(1)[:, ::-1], nan=1.0)
    rng = np.random.default_rng(5)
    longest, steps, apart = process.longest, 40_000, 12
    bad, waiting, ages = 0, [], []  # waiting: ages of messages under way, newest first
    last = 0
    for _ in range(steps):
        bad = (
            int(rng.random() < process.to_bad) if not bad else int(rng.random() >= process.to_good)
        )
        last += 1
        waiting = [0, *(age + 1 for age in waiting)]
        arrived = [age for age in waiting if rng.random() < hazards[bad, min(age, longest)]]
        last = min([last, *arrived])
        waiting = [age for age in waiting if age < last]
        ages.append((bad, last))
    pairs = np.array(ages[100::apart])
    counts = np.zeros((2, longest + 1))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    chain = process.chain
    law = process._stationary(np.array([[0.8, 0.2], [0.4, 0.6]]), laws)
    assert law.sum() == pytest.approx(1)
    np.testing.assert_allclose(law.sum(0), chain.age_law, atol=1e-12)
    assert not deviates(counts.ravel(), law.ravel())


def test_the_bad_state_of_a_channel_lasts():
    process = GilbertElliott(0, 4, to_bad=0.01, to_good=0.1)
    np.testing.assert_allclose(process.channel_law, [10 / 11, 1 / 11])
    ages = drawn(process, 20_000)
    late = ages > 0
    assert (late[1:] & late[:-1]).mean() > 0.8 * late.mean(), "late steps come in bursts"


def test_an_age_is_held_for_an_episode():
    stream = AgeStream(PerEpisode(Uniform(2, 6)))
    stream.seed(0)
    firsts = []
    for _ in range(50):
        firsts.append(stream.start())
        assert {stream.advance() for _ in range(20)} == {firsts[-1]}
    assert set(firsts) == {2, 3, 4, 5, 6}


def test_a_held_age_changes_only_at_its_period():
    ages = drawn(Held(0, 5, period=4), 400, seed=1)
    changes = np.flatnonzero(np.diff(ages)) + 1
    assert len(changes) > 60
    assert len(set(changes % 4)) == 1


def test_a_walk_moves_by_one_and_stays_within_its_bounds():
    ages = drawn(RandomWalk(1, 4, move=0.6), 20_000)
    assert set(np.diff(ages)) == {-1, 0, 1}
    assert set(ages) == {1, 2, 3, 4}
    within = ages[:-1][(ages[:-1] > 1) & (ages[:-1] < 4)]
    moved = np.diff(ages)[(ages[:-1] > 1) & (ages[:-1] < 4)] != 0
    assert moved.mean() == pytest.approx(0.6, abs=5 * np.sqrt(0.24 / len(within)))


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_the_three_forms_give_the_same_ages(process):
    """Host loop, NumPy and JAX, from the same uniform numbers."""
    import jax
    import jax.numpy as jnp

    chain = process.chain
    numbers = np.random.default_rng(7).random(300, np.float32)

    def one(state, u):
        after = chain.next(state, u)
        return after, chain.age(after)

    first = jax.jit(chain.initial)(jnp.asarray(numbers)[0])
    _, scanned = jax.jit(lambda s, u: jax.lax.scan(one, s, u))(first, jnp.asarray(numbers[1:]))
    state = chain.initial(numbers[0])
    assert int(first) == int(state)
    ages = []
    for u in numbers[1:]:
        state = chain.next(state, u)
        ages.append(int(chain.age(state)))
    assert scanned.tolist() == ages

    stream = AgeStream(process)
    given = iter(numbers[0 if chain.starts_randomly else 1 :].tolist())
    stream._rng = type("Given", (), {"random": lambda self: next(given)})()
    assert stream.start() == int(chain.age(chain.initial(numbers[0])))
    assert [stream.advance() for _ in ages] == ages


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
@pytest.mark.parametrize("twin", [copy.deepcopy, lambda stream: pickle.loads(pickle.dumps(stream))])
def test_copies_of_a_stream_go_on_alike_and_apart(process, twin):
    stream = AgeStream(process)
    stream.seed(3)
    stream.start()
    for _ in range(5):
        stream.advance()
    other = twin(stream)
    ahead = [stream.advance() for _ in range(30)]
    assert [other.advance() for _ in range(30)] == ahead


def test_streams_are_apart():
    def ages(seed, name):
        stream = AgeStream(Uniform(0, 50), name)
        stream.seed(seed)
        return [stream.start(), *(stream.advance() for _ in range(20))]

    assert ages(0, 1) == ages(0, 1)
    assert ages(0, 1) != ages(0, 2)
    assert ages(0, 1) != ages(1, 1)


def brute_readable(chain):
    """The oldest action that may still be read from each state, by following all paths."""
    matrix, longest = chain.matrix(), chain.longest
    found = chain.ages.copy()
    reached = np.eye(chain.size, dtype=bool)
    for ahead in range(1, longest + 1):
        reached = reached @ matrix > 0
        for state in range(chain.size):
            found[state] = max(found[state], (chain.ages[reached[state]] - ahead).max())
    return found


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_how_many_pending_actions_may_still_be_executed(process):
    chain, oldest = process.chain, brute_readable(process.chain)
    matrix = chain.matrix()
    for age in set(chain.ages.tolist()):
        states = chain.ages == age
        assert chain.pending_now[age] == oldest[states].max()
        assert chain.pending_after[age] == oldest[matrix[states].sum(0) > 0].max()
    if chain.in_order:
        for age in set(chain.ages.tolist()):
            assert chain.pending_now[age] == age


class TestChain:
    def test_a_matrix_finds_its_own_stationary_law(self):
        chain = Chain.from_matrix([0, 2], [[0.5, 0.5], [0.25, 0.75]])
        np.testing.assert_allclose(chain.start, [1 / 3, 2 / 3])
        np.testing.assert_allclose(chain.age_law, [1 / 3, 0, 2 / 3])

    def test_listed_successors_and_a_matrix_are_the_same_chain(self):
        walk = RandomWalk(0, 3).chain
        square = Chain(walk.ages, walk.matrix(), walk.start)
        numbers = np.random.default_rng(0).random(500)
        assert walk.in_order == square.in_order
        for state in range(4):
            states = np.full(500, state)
            counts = [np.bincount(c.next(states, numbers), minlength=4) for c in (walk, square)]
            np.testing.assert_allclose(counts[0], counts[1], atol=60)

    def test_arrays_are_read_only(self):
        with pytest.raises(ValueError, match="read-only"):
            Uniform(0, 2).chain.transitions[0] = 1

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([], np.zeros((0, 0)), []), "one age, 0 or more, for each of its states"),
            (([-1], [[1.0]], [1.0]), "one age, 0 or more"),
            (([0.5], [[1.0]], [1.0]), "ages are whole numbers; got"),
            (([0, 1], [[1.0]], [1.0, 0]), r"has transitions of shape \(2, 2\); got \(1, 1\)"),
            (([0, 1], [[0.5, 0.4], [0, 1]], [1.0, 0]), "sums to 1; got a sum of 0.9: divide"),
            (([0, 1], [[1.5, -0.5], [0, 1]], [1.0, 0]), "pass none that is negative"),
            (([0, 1], np.eye(2), [0.5, 0.4]), "start sums to 1; got a sum of 0.9"),
            (([0, 1], np.eye(2), [1.0]), r"start is a law on 2 outcomes; got shape \(1,\)"),
            (([0], [[1.0]], [1.0], [[3]]), "successors are states, 0 to 0, or -1"),
            (([0], [[np.nan]], [1.0]), "has probabilities, 0 or more"),
        ],
    )
    def test_bad_chains(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            Chain(*arguments)

    def test_a_start_that_does_not_follow_must_be_given(self):
        with pytest.raises(ValueError, match="got a chain that has several: pass start"):
            Chain.from_matrix([0, 1], np.eye(2))


def test_a_trace_of_many_steps_makes_no_square_matrix(monkeypatch):
    monkeypatch.setattr("deadtime.delays.chain.free_memory", lambda: 1e8)
    trace = Trace(np.arange(100_000) % 7, repeat=True)
    assert trace.chain.transitions.shape == (100_000, 1)
    assert drawn(trace, 10).tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
    with pytest.raises(ValueError, match="got 100000 states with 100000 successors each"):
        trace.chain.matrix()


@pytest.mark.parametrize(
    "process", [Uniform(0, 10**6), GilbertElliott(1, 10**6, 0.1, 0.1), Held(0, 10**6)], ids=repr
)
def test_a_longest_age_that_does_not_fit_in_memory(process, monkeypatch):
    monkeypatch.setattr("deadtime.delays.chain.free_memory", lambda: 1e9)
    assert process.longest == 10**6
    with pytest.raises(
        ValueError,
        match=r"the chain of a delay must fit in memory; got .* with 1.0 GB free: pass a smaller",
    ):
        _ = process.chain
