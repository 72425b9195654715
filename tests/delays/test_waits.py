"""The wait until an action is first executed, against all paths of the ages."""

from itertools import pairwise

import numpy as np
import pytest

from deadtime.delays import GilbertElliott, PerEpisode, RandomWalk, Trace, Uniform
from deadtime.delays.waits import pending_counts, waits_of

PROCESSES = [
    Uniform(1, 3),
    Uniform(0, 2, in_order=False),
    RandomWalk(0, 3, 0.6),
    GilbertElliott(1, 3, 0.2, 0.4),
    PerEpisode(Uniform(1, 3)),
    Trace([3, 1, 1, 2], repeat=True),
]


def enumerated(process, law):
    """The probability of each wait from a law of channel states, by following every path."""
    matrix, ages = process.chain.matrix(), process.chain.ages
    found = np.zeros(process.longest + 1)

    def follow(state, chance, n):
        if ages[state] == n:
            found[n] += chance
        elif ages[state] > n:
            for after in np.flatnonzero(matrix[state]):
                follow(after, chance * matrix[state, after], n + 1)

    for state in np.flatnonzero(law):
        follow(state, law[state], 0)
    return found / found.sum() if found.any() else found


def known_laws(process, observed):
    """The law of the present channel state, for no known age and for each age."""
    chain = process.chain
    matrix = chain.matrix()
    usual = np.mean([chain.start @ np.linalg.matrix_power(matrix, k) for k in range(256)], axis=0)
    if observed == "never":
        return {0: usual}
    given = {1 + age: usual * (chain.ages == age) for age in set(chain.ages.tolist())}
    if observed == "now":
        return given
    return {0: chain.start} | {code: law @ matrix for code, law in given.items()}


@pytest.mark.parametrize("observed", ["now", "hindsight", "never"])
@pytest.mark.parametrize("process", PROCESSES, ids=lambda one: one.kind)
def test_weights_are_those_of_all_paths(process, observed):
    every = waits_of(process, observed, every=True)
    one = waits_of(process, observed)
    for code, law in known_laws(process, observed).items():
        expected = enumerated(process, law)
        found = np.zeros(process.longest + 1)
        np.add.at(found, every.steps[code], every.weights[code])
        np.testing.assert_allclose(found, expected, atol=1e-12)
        if expected.any():
            possible = np.flatnonzero(expected)
            mean = expected @ np.arange(len(expected))
            assert one.steps[code, 0] in possible
            assert abs(one.steps[code, 0] - mean) == abs(possible - mean).min()
            assert one.weights[code].tolist() == [1.0]


@pytest.mark.parametrize("observed", ["now", "hindsight", "never"])
@pytest.mark.parametrize("process", PROCESSES, ids=lambda one: one.kind)
def test_a_way_is_possible_and_uses_actions_that_are_pending(process, observed):
    chain = process.chain
    moves = {
        (int(chain.ages[i]), int(chain.ages[j])) for i, j in np.argwhere(chain.matrix()).tolist()
    }
    every = waits_of(process, observed, every=True)
    counts = pending_counts(process, observed)
    for code, way in np.argwhere(every.weights).tolist():
        steps = int(every.steps[code, way])
        ages = every.ages[code, way, :steps].tolist()
        assert all(age > j for j, age in enumerate(ages))
        assert all(age - j <= counts[code] for j, age in enumerate(ages))
        assert {*pairwise([*ages, steps])} <= moves
        if observed == "now" and steps:
            assert ages[0] == code - 1


def ways_of(process, law, n):
    """The probability of each path of ages of which step n is the first to read age n."""
    matrix, ages = process.chain.matrix(), process.chain.ages
    found = {}

    def follow(state, chance, path):
        if len(path) == n:
            if ages[state] == n:
                found[path] = found.get(path, 0.0) + chance
        elif ages[state] > len(path):
            for after in np.flatnonzero(matrix[state]):
                follow(after, chance * matrix[state, after], (*path, int(ages[state])))

    for state in np.flatnonzero(law):
        follow(state, law[state], ())
    return found


@pytest.mark.parametrize("observed", ["now", "hindsight", "never"])
@pytest.mark.parametrize("process", [*PROCESSES, Uniform(2, 4)], ids=str)
def test_the_ages_of_a_way_are_nearest_to_their_means(process, observed):
    """Of all paths of one length, by following every path."""
    every = waits_of(process, observed, every=True)
    for code, law in known_laws(process, observed).items():
        for way in np.flatnonzero(every.weights[code]):
            n = int(every.steps[code, way])
            paths = ways_of(process, law, n)
            total = sum(paths.values())
            means = [sum(p * path[j] for path, p in paths.items()) / total for j in range(n)]

            def apart(path, means=means):
                return sum((age - mean) ** 2 for age, mean in zip(path, means, strict=True))

            found = tuple(every.ages[code, way, :n].tolist())
            assert found in paths
            assert apart(found) == pytest.approx(min(map(apart, paths)), abs=1e-9)


def test_equally_likely_latencies_skip_no_pending_action():
    """The most likely ages would be 3, 2, 3: they skip one action and repeat another."""
    found = waits_of(Uniform(2, 4), "never")
    assert found.ages[0, 0, : found.steps[0, 0]].tolist() == [3, 3, 3]


def test_an_age_that_never_occurs_has_no_way():
    found = waits_of(Uniform(2, 4), "now")
    assert found.weights[:3].tolist() == [[0.0], [0.0], [0.0]]
    assert found.steps[3:].min() >= 2
