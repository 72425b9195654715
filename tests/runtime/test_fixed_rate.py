"""A loop at a fixed rate, with a simulated clock."""

import pytest

from deadtime.runtime import FixedRate


class Clock:
    """A simulated clock, which goes on only when somebody sleeps or works."""

    def __init__(self):
        self.now = 100.0
        self.sleeps = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.sleeps.append(seconds)
        self.now += seconds


def looped(work, number):
    """Return the loop, the steps and the times at which they began; step t works `work[t]` s."""
    clock = Clock()
    rate = FixedRate(0.02, clock, clock.sleep)
    began = []
    for step in rate.steps(number):
        began.append((step, round(clock.now - 100.0, 6)))
        clock.now += work.get(step, 0.001)
    return rate, began


def test_steps_begin_on_time():
    rate, began = looped({}, 5)
    assert began == [(0, 0.0), (1, 0.02), (2, 0.04), (3, 0.06), (4, 0.08)]
    timing = rate.timing
    assert (timing.steps, timing.overruns, timing.skipped) == (5, 0, 0)
    assert timing.work_mean == timing.work_longest == pytest.approx(0.001)
    assert timing.late_longest == pytest.approx(0, abs=1e-9)


def test_overruns_are_counted_and_delays_do_not_add_up():
    rate, began = looped({1: 0.025}, 5)
    assert began == [(0, 0.0), (1, 0.02), (2, 0.045), (3, 0.06), (4, 0.08)]
    timing = rate.timing
    assert (timing.steps, timing.overruns, timing.skipped) == (5, 1, 0)
    assert timing.late_longest == pytest.approx(0.005)
    assert timing.work_longest == pytest.approx(0.025)


def test_steps_whose_time_has_passed_are_skipped():
    rate, began = looped({1: 0.055}, 6)
    assert began == [(0, 0.0), (1, 0.02), (3, 0.075), (4, 0.08), (5, 0.1)]
    timing = rate.timing
    assert (timing.steps, timing.overruns, timing.skipped) == (5, 1, 1)


def test_a_loop_starts_anew():
    clock = Clock()
    rate = FixedRate(0.02, clock, clock.sleep)
    for _ in range(2):
        assert list(rate.steps(3)) == [0, 1, 2]
        assert rate.timing.steps == 3
    endless = rate.steps()
    assert [next(endless) for _ in range(9)] == [*range(9)]


@pytest.mark.parametrize("wrong", [0, -1, True, "1", float("nan")])
def test_periods_that_are_refused(wrong):
    with pytest.raises(ValueError, match="period is the duration of a step in seconds, above 0"):
        FixedRate(wrong)
    with pytest.raises(ValueError, match="steps is a whole number"):
        next(FixedRate(1).steps(0))
