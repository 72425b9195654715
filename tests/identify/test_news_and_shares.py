"""The news of actions, rows at limits, and fractions of a step under feedback."""

import numpy as np
import pytest

from deadtime import identify_delay
from deadtime.delays import Constant, Uniform, timeline
from deadtime.identify.features import Form, state_features
from deadtime.identify.log import make_log
from deadtime.identify.news import action_news
from deadtime.identify.shares import LEAST_ERROR, fraction_near, shows_other_ages
from deadtime.identify.transitions import at_limits, transitions
from deadtime.identify.trees import held_out_predictions
from tests.identify.systems import limited_log, linear_log, motor_log, pendulum_log


def interleaved(rows, count=5):
    return [np.arange(rows) % count == fold for fold in range(count)]


def test_trees_learn_steps_and_products():
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1, 1, (3000, 3))
    targets = np.stack([np.sign(inputs[:, 1]), (inputs[:, 0] > 0) * (inputs[:, 2] > 0.5)], axis=1)
    noisy = targets + 0.2 * rng.normal(size=targets.shape)
    found = held_out_predictions(inputs, noisy, interleaved(3000))
    assert np.sqrt(((found - targets) ** 2).mean(0)) == pytest.approx([0, 0], abs=0.12)


def test_trees_predict_nothing_of_noise():
    rng = np.random.default_rng(1)
    inputs, targets = rng.normal(size=(500, 4)), rng.normal(size=(500, 1))
    assert not held_out_predictions(inputs, targets, interleaved(500)).any()


def test_a_tree_predicts_held_out_rows_from_other_rows_alone():
    """A value that stands in one fold only is not predicted there."""
    inputs = np.arange(100.0)[:, None]
    targets = np.zeros((100, 1))
    targets[40:60] = 5.0
    alone = np.zeros(100, bool)
    alone[40:60] = True
    assert not held_out_predictions(inputs, targets, [alone, ~alone])[40:60].any()


def test_the_news_of_a_relay_is_its_dither():
    """Polynomials do not fit a relay; what they miss would count as news."""
    rng = np.random.default_rng(0)
    dither = np.zeros((2000, 1))

    def policy(state, _):
        dither[policy.step] = 0.3 * rng.normal()
        policy.step += 1
        return -np.sign(state[:1]) + dither[policy.step - 1]

    policy.step = 0
    seen, chosen = linear_log(3, rows=2000, policy=policy)
    data = transitions(make_log(seen, chosen), 6)
    cubic = Form(squares=True, cubes=True)
    features = state_features(data, cubic)
    missed = data.lagged[0] - features @ np.linalg.lstsq(features, data.lagged[0], rcond=None)[0]
    news = action_news(data, cubic)
    assert np.corrcoef(news[:, 0], dither[:, 0])[0, 1] > 0.9
    assert np.var(news) < 1.25 * np.var(dither) / np.var(chosen)
    assert np.var(missed) > 2 * np.var(dither) / np.var(chosen)


def test_limits_are_extremes_that_many_rows_share():
    rng = np.random.default_rng(0)
    speed = np.clip(3 * rng.normal(size=500), -4, 4)
    contact = (rng.random(500) < 0.3).astype(float)
    coarse = np.round(rng.normal(size=500), 1).clip(-1, 1)
    assert at_limits(speed[:, None]).tolist() == (np.abs(speed) == 4).tolist()
    assert not at_limits(np.stack([contact, coarse], axis=1)).any()
    held = np.where(rng.random(500) < 0.9, 4.0, speed)  # hardly a row is free
    assert not at_limits(held[:, None]).any()


def test_rows_at_limits_have_no_known_action():
    seen = np.linspace(0, 1, 41)[:, None] ** 2
    seen[10:14] = 1.0
    data = transitions(make_log(seen, np.sin(np.arange(40.0))), 2)
    assert np.flatnonzero(~data.free).tolist() == [9, 10, 11, 12, 13, 39]
    assert not data.known[:, ~data.free].any()
    assert data.lagged[1, 11, 0] == data.lagged[0, 10, 0]


@pytest.mark.parametrize("delay", [0.4, 2.2, 4])
def test_feedback_at_a_limit_of_speed(delay):
    """At the limit actions have no effect, and one-step models miss that."""
    found = identify_delay(*limited_log(delay), max_delay=8)
    assert found.identifiable
    assert not found.varies
    assert found.steps == pytest.approx(delay, abs=0.05)
    low, high = found.steps_interval
    assert low <= delay <= high
    assert high - low < 0.2


@pytest.mark.parametrize("delay", [1.4, 2.85, 5])
def test_a_fraction_of_a_step_under_feedback(delay):
    found = identify_delay(*pendulum_log(delay, substeps=20, dither=0.1), max_delay=8)
    assert found.steps == pytest.approx(delay, abs=0.05)
    assert found.interval[0] <= found.delay <= found.interval[1]
    assert found.process == Constant(int(np.ceil(delay)))


def test_lags_beside_the_two_are_the_error_of_the_fraction():
    """Noise in the sensors gives older actions a share, so the fraction is not known."""
    seen, chosen = motor_log(2.5)
    data = transitions(make_log(seen, chosen), 8)
    form = Form()
    clean = fraction_near(data, form, action_news(data, form), (2, 2))
    assert clean.steps == pytest.approx(2.5, abs=0.03)
    assert clean.error == pytest.approx(LEAST_ERROR, abs=0.01)
    noisy = seen + 0.1 * seen.std(0) * np.random.default_rng(1).normal(size=seen.shape)
    data = transitions(make_log(noisy, chosen), 8)
    wrong = fraction_near(data, form, action_news(data, form), (2, 3))
    assert wrong.error > 0.05


def test_without_speeds_a_fraction_is_withheld():
    """A position moves half a step late, which looks like a fraction of a step."""
    seen, chosen = motor_log(3, dither=None)
    whole = identify_delay(seen, chosen, max_delay=8)
    assert whole.steps_interval == pytest.approx((2.95, 3.05), abs=0.01)
    assert not whole.warnings
    found = identify_delay(seen[:, :1], chosen, max_delay=8)
    low, high = found.steps_interval
    assert low <= 3 <= high
    assert high - low >= 1.5
    assert "the fraction of a step is not known: 2.00 to" in found.warnings[-1]
    assert "speeds" in found.warnings[-1]


def test_a_fraction_that_is_not_known_has_a_wide_interval():
    """With hardly any dither a whole delay is the answer, and its interval has the truth."""
    seen, chosen = motor_log(2.4, dither=0.02, noise=0.1)
    found = identify_delay(seen, chosen, max_delay=8)
    if found.identifiable:
        low, high = found.steps_interval
        assert low <= 2.4 <= high
        assert found.steps == round(found.steps)
        assert "the fraction of a step is not known" in found.warnings[-1]
    else:
        assert "delays" in found.reason


def test_errors_of_the_model_under_feedback_are_no_delay_that_varies(monkeypatch):
    """With rows at limits a law of ages fits better, but the news of other ages has no effect."""
    monkeypatch.setattr(
        "deadtime.identify.transitions.at_limits", lambda seen: np.zeros(len(seen), bool)
    )
    found = identify_delay(*limited_log(4), max_delay=8)
    assert (found.delay, found.varies) == (4, False)
    assert "the delay may vary" in "\n".join(found.warnings)


def test_a_delay_that_varies_is_found_under_feedback():
    ages = np.array(timeline(Uniform(1, 3), 1500, seed=0).ages)

    def policy(state, rng):
        return -0.8 * np.sign(state[:1]) + 0.4 * rng.normal(size=1)

    found = identify_delay(*linear_log(ages, rows=1500, policy=policy), max_delay=6)
    assert found.varies
    frequency = np.bincount(ages, minlength=7) / len(ages)
    assert 0.5 * np.abs(np.array(found.posterior) - frequency).sum() < 0.05


@pytest.mark.parametrize("late", [(3, 1), (2, 2), (2, 3)])
def test_actuators_under_feedback(late):
    rng = np.random.default_rng(0)
    chosen = np.zeros((1500, 2))
    speed = np.zeros((1501, 2))
    for t in range(1500):
        chosen[t] = -2 * np.tanh(3 * speed[t]) + 0.3 * rng.normal(size=2)
        acting = [chosen[t - k, i] if t >= k else 0.0 for i, k in enumerate(late)]
        speed[t + 1] = 0.9 * speed[t] + 0.2 * np.array([[1, 0.2], [0.2, 1]]) @ acting
        speed[t + 1] += 0.02 * rng.normal(size=2)
    found = identify_delay(speed, chosen, max_delay=8)
    assert found.actuators == (late if late[0] != late[1] else None)
    assert found.process == Constant(max(late))


@pytest.mark.parametrize(("ages", "varies"), [((2, 2, 2), False), ((1, 2, 3), True)])
def test_the_news_shows_whether_other_ages_are_executed(ages, varies):
    """A law of several ages is refused where one lag has all of the effect."""
    drawn = np.random.default_rng(2).choice(ages, 1500)
    log = linear_log(drawn, rows=1500, policy=lambda s, rng: -s[:1] + rng.normal(size=1))
    data = transitions(make_log(*log), 6)
    law = np.array([0, 1, 1, 1, 0, 0, 0]) / 3
    assert shows_other_ages(data, Form(), action_news(data, Form()), law) == varies
