"""Statistics against published and hand-computed examples, and their intervals' coverage."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from deadtime.runs import records, statistics
from deadtime.runs.limits import return_limits

SLEEP = (
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
)
"""Student's own example (1908): hours of sleep gained with two drugs by ten patients."""


def test_students_example():
    found = statistics.difference(np.array(SLEEP[1]), np.array(SLEEP[0]))
    assert found == pytest.approx((1.58, 0.7001142, 2.4598858), abs=1e-6)
    assert str(found) == "1.580 [0.700, 2.460]"
    assert statistics.improvement([SLEEP[1]], [SLEEP[0]]).value == pytest.approx(
        0.95
    )  # nine of ten, and one tie


def test_interquartile_mean():
    assert statistics.iqm([[5, 8, 4, 38, 8, 6, 9, 7, 7, 3, 1, 6]]).value == 6.5
    assert statistics.iqm([[1, 2, 3, 100], [4, 5, 6, -50]]).value == pytest.approx(
        (2 + 3 + 4 + 5) / 4
    )
    assert statistics.median([[1, 2, 3, 100], [4, 5, 6, -50]]).value == 3.5
    assert statistics.mean_over([[1, 2, 3], [10]]).value == 6


def test_fewer_than_three_seeds_have_no_interval():
    """With two seeds of Qbert Student's interval was [-2238, 3098]."""
    few = (
        statistics.mean([3.0]),
        statistics.mean([220.0, 640.0]),
        statistics.difference([1.0, 2.0], [0.0, 0.0]),
    )
    for found in (*few, statistics.iqm([[3.0, 4.0], [1.0, 2.0, 3.0]]), statistics.median([[3.0]])):
        assert np.isnan(found[1:]).all()
    assert str(few[1]) == "430.000"
    assert not np.isnan(statistics.mean([220.0, 640.0, 430.0])[1:]).any()
    assert statistics.mean([3.0]).to_json() == {"mean": 3.0, "low": None, "high": None}
    assert np.isnan(statistics.improvement([[1.0]], [[0.0]]).low)


def test_words_of_seeds():
    shown = [statistics.seeds_shown(count) for count in (1, 2, 3)]
    assert shown == ["1 seed", "2 seeds", "3 seeds, 95% intervals"]


def test_no_interval_goes_beyond_what_returns_can_be():
    values = [-500.0, -499.0, -181.0]
    assert statistics.mean(values).low < -500
    assert statistics.mean(values).high > 0
    assert statistics.mean(values, (-500, 0))[1:] == (-500, 0)
    assert statistics.mean([-300.0, -301, -302], (-500, 0)) == statistics.mean([-300.0, -301, -302])
    assert statistics.difference(values, [0.0, -500, -500], (-500, 0))[1:] == (-500, 500)


@pytest.mark.parametrize(
    ("env", "settings", "limits"),
    [
        ("cartpole", {}, (0, 500)),
        ("noisy-cartpole", {}, (0, 500)),
        ("acrobot", {}, (-500, 0)),
        ("noisy-maze", {}, (-1, 1)),
        ("walk", {}, (0, 40)),
        ("walk", {"length": 25}, (0, 25)),
        ("atari:Pong", {}, (-np.inf, np.inf)),
        ("gym:CartPole-v1", {}, (-np.inf, np.inf)),
    ],
)
def test_limits_of_returns(env, settings, limits):
    assert return_limits(SimpleNamespace(env=env, settings=settings)) == limits


@pytest.mark.slow
def test_records_lie_within_the_limits():
    root = Path(__file__).parents[2] / "results" / "paper"
    for name in records.names(root):
        record = records.read(root / name)
        low, high = return_limits(SimpleNamespace(settings={}, env=record.spec["env"]))
        scores = [x for x in record.scores + record.training_scores if not np.isnan(x)]
        assert low <= min(scores, default=low), name
        assert max(scores, default=high) <= high, name


def test_a_probability_stays_one():
    assert statistics.improvement([[2.0, 3, 4]], [[1.0, 2, 3]]) == (1, 1, 1)
    found = statistics.improvement([[2.0, 3, 0], [1, 5, 5]], [[1.0, 2, 3], [1, 4, 6]])
    assert found.value == pytest.approx((2 / 3 + 0.5) / 2)
    assert 0 <= found.low < found.value < found.high <= 1


def test_the_same_seed_gives_the_same_interval():
    tasks = np.random.default_rng(0).normal(size=(3, 10))
    assert statistics.iqm(tasks) == statistics.iqm(tasks)
    assert statistics.iqm(tasks, seed=1)[1:] != statistics.iqm(tasks)[1:]


def test_tasks_are_resampled_by_themselves():
    """Between tasks nothing varies: two constant tasks far apart have an interval of no width."""
    assert statistics.mean_over([[0.0] * 5, [100.0] * 5]) == (50, 50, 50)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interval", "tasks", "truth"),
    [
        (lambda x: statistics.mean(x[0]), [(0, 1)], 0.0),
        (statistics.mean_over, [(0, 1), (5, 3), (-2, 0.5), (9, 2)], 3.0),
        (statistics.iqm, [(0, 1), (0, 1), (0, 1), (0, 1)], 0.0),
        (statistics.median, [(0, 1), (0, 1), (0, 1), (0, 1)], 0.0),
        (
            lambda x: statistics.improvement(x[:3], x[3:]),
            [(0.5, 1)] * 3 + [(0, 1)] * 3,
            stats.norm.cdf(0.5 / np.sqrt(2)),
        ),
    ],
    ids=["mean", "mean over tasks", "iqm", "median", "improvement"],
)
def test_intervals_cover_the_truth_as_often_as_they_say(interval, tasks, truth, monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 600)
    rng, covered, times = np.random.default_rng(7), 0, 800
    for _ in range(times):
        found = interval([rng.normal(centre, spread, 10) for centre, spread in tasks])
        covered += found.low <= truth <= found.high
    assert 0.93 <= covered / times <= 0.975
