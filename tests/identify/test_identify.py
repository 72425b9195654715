"""Identification of delays on systems whose delay is known."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import deadtime
from deadtime import identify_delay
from deadtime.delays import (
    Categorical,
    Constant,
    GilbertElliott,
    PerEpisode,
    Uniform,
    from_json,
    timeline,
)
from deadtime.identify.age_chains import Anew, Bursts, Counts, NewestArrival, OneAge
from deadtime.identify.age_model import AgeModel
from deadtime.identify.evidence import interval_of, tempered
from deadtime.identify.features import Form, state_features
from deadtime.identify.lag_scores import news_gains, ridge_fits
from deadtime.identify.log import make_log
from deadtime.identify.news import action_news
from deadtime.identify.transitions import transitions
from deadtime.identify.varying_ages import Ages, _Model, decorrelated, most_others, varying_ages
from deadtime.studies.identify.logs import record_substeps
from tests.identify.systems import linear_log, pendulum_log


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_a_linear_system(delay):
    found = identify_delay(*linear_log(delay), max_delay=6)
    assert found.identifiable
    assert found.delay == delay
    assert found.interval == (delay, delay)
    assert found.posterior[delay] > 0.99
    assert sum(found.posterior) == pytest.approx(1)
    assert found.steps == delay
    assert found.process == Constant(delay)
    assert found.witness.onset == delay
    assert not found.varies


def test_the_convention_is_that_of_the_wrapper():
    import gymnasium as gym

    env = deadtime.ActionDelay(gym.make("CartPole-v1"), delay=3)
    env.action_space.seed(5)
    episodes = [[], []]
    obs, _ = env.reset(seed=5)
    seen, chosen = [obs], []
    for _ in range(300):
        chosen.append(env.action_space.sample())
        obs, _, terminated, truncated, _ = env.step(chosen[-1])
        seen.append(obs)
        if terminated or truncated:
            episodes[0].append(np.array(seen))
            episodes[1].append(np.array(chosen))
            obs, _ = env.reset()
            seen, chosen = [obs], []
    found = identify_delay(*episodes, max_delay=5)
    assert found.delay == 3
    assert found.identifiable
    assert found.episodes == len(episodes[0])


def test_delays_of_observations_and_actions_add_up():
    state, chosen = linear_log(2)
    found = identify_delay(state[:-3], chosen[3:], max_delay=8)
    assert found.delay == 5


def test_feedback_with_dither():
    def policy(state, rng):
        return -0.5 * state[:1] + 0.3 * rng.normal(size=1)

    assert identify_delay(*linear_log(3, policy=policy), max_delay=6).delay == 3


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_units_do_not_matter(size):
    seen, chosen = linear_log(2)
    found = identify_delay(size * seen + 1e4 * size, chosen / size, max_delay=4)
    assert (found.delay, found.steps) == (2, 2.0)
    assert identify_delay(seen + 1e11, chosen, max_delay=4).delay == 2


def test_only_what_is_new_in_an_action_counts_under_feedback():
    """A model without the sine of the state misses much; feedback of the sine looks like it."""
    rng = np.random.default_rng(0)
    seen = np.zeros((1201, 1))
    chosen = np.zeros((1200, 1))
    for t in range(1200):
        chosen[t] = 0.6 * np.sin(2 * seen[t]) + 0.2 * rng.normal()
        acting = chosen[t - 3] if t >= 3 else 0.0
        seen[t + 1] = 0.5 * seen[t] - 0.4 * np.sin(2 * seen[t]) + acting + 0.3 * rng.normal()
    data = transitions(make_log(seen, chosen), 6)
    gains = news_gains(data, Form(), action_news(data, Form()))
    sums = gains.sum(1)
    assert sums.argmax() == 3
    assert np.abs(np.delete(sums, 3)).max() < 0.1 * sums[3]
    assert (gains[3][~data.known[3]] == 0).all()


@pytest.mark.slow
def test_feedback_gives_no_wrong_delay():
    """Feedback that pumps energy into a pendulum: the delay, or that the log does not show it."""
    made = record_substeps("feedback", 6.4, 1000, seed=5005)
    found = identify_delay(made.observations, made.actions, max_delay=16)
    assert not found.identifiable or abs(found.steps - 6.4) < 0.5


def test_feedback_without_dither_is_not_identifiable():
    found = identify_delay(*linear_log(0, policy=lambda s, _: -0.5 * s[:1]), max_delay=6)
    assert not found.identifiable
    assert found.delay is None
    assert "almost a function of the observations" in found.reason
    assert "dither" in found.advice


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda seen, chosen: (seen, 0 * chosen + 0.3), "the actions are constant"),
        (lambda seen, chosen: (0 * seen, chosen), "the observations never change"),
        (lambda seen, chosen: (seen[:30], chosen[:30]), "too short: it has 29 transitions"),
        (lambda seen, chosen: (seen[:200], chosen[200:]), "no action has a visible effect"),
    ],
)
def test_a_log_that_shows_no_delay(change, reason):
    found = identify_delay(*change(*linear_log(2)), max_delay=6)
    assert not found.identifiable
    assert reason in found.reason
    assert found.process is None
    assert found.advice
    assert str(found).startswith("not identifiable, because ")


@pytest.mark.parametrize("delay", [0.3, 2.5])
def test_a_part_of_a_step(delay):
    found = identify_delay(*pendulum_log(delay), max_delay=6, step=0.05)
    assert found.steps == pytest.approx(delay, abs=0.05)
    assert found.seconds == pytest.approx(delay * 0.05, abs=0.003)
    assert found.process == Constant(int(np.ceil(delay)))


def test_a_part_of_a_step_under_feedback():
    """The change before tells of the action before, which hides the late part of a step."""
    found = identify_delay(*pendulum_log(1.4, dither=0.15), max_delay=6)
    assert found.steps == pytest.approx(1.4, abs=0.05)
    whole = identify_delay(*pendulum_log(2, dither=0.15), max_delay=6)
    assert whole.steps == 2


def test_actuators_with_delays_of_their_own():
    state, chosen = linear_log(1, actions=2)
    logged = np.column_stack([chosen[1:, 0], chosen[:-1, 1]])
    found = identify_delay(state[:-1], logged, max_delay=4)
    assert found.actuators == (2, 1)
    assert found.process == Constant(2)
    assert "actuators differ: delays 2, 1 steps" in str(found)


@pytest.mark.parametrize("late", [(0, 3), (3, 4), (5, 5, 2)])
def test_actuators_of_equal_effect_with_delays_of_their_own(late):
    """No common delay explains such a log, but the delay of each actuator is clear."""
    rng = np.random.default_rng(0)
    force = rng.uniform(-1, 1, (1500, len(late)))
    mixing = np.eye(len(late)) + 0.2
    speed = np.zeros((1501, len(late)))
    for t in range(1500):
        acting = [force[t - k, i] if t >= k else 0.0 for i, k in enumerate(late)]
        speed[t + 1] = 0.95 * speed[t] + 0.2 * mixing @ acting + 0.01 * rng.normal(size=len(late))
    found = identify_delay(speed, force, max_delay=10)
    assert found.actuators == late
    assert found.process == Constant(max(late))
    assert found.interval == (min(late), max(late))


@pytest.mark.slow
@pytest.mark.parametrize(
    "process", [Categorical([0, 0.3, 0.5, 0.2]), Categorical([0.5, 0, 0.5], in_order=False)]
)
def test_a_law_of_latencies(process):
    ages = timeline(process, 600, seed=1).ages
    found = identify_delay(*linear_log(np.array(ages), rows=600), max_delay=4)
    assert found.varies
    frequency = np.bincount(ages, minlength=5) / len(ages)
    assert 0.5 * np.abs(np.array(found.posterior) - frequency).sum() < 0.05
    assert type(found.process) is Categorical
    assert found.process.in_order == process.in_order
    assert found.process.latency_law == pytest.approx(process.latency_law, abs=0.08)


@pytest.mark.slow
def test_a_law_from_short_episodes():
    """Half of the steps execute an action from before the log; nothing is known of it."""
    process = Uniform(1, 4)
    ages = [timeline(process, 9, seed=seed).ages for seed in range(120)]
    logs = [linear_log(np.array(one), rows=9, seed=seed) for seed, one in enumerate(ages)]
    found = identify_delay([s for s, _ in logs], [a for _, a in logs], max_delay=8)
    assert found.varies
    frequency = np.bincount(np.concatenate(ages), minlength=9) / np.size(ages)
    assert 0.5 * np.abs(np.array(found.posterior) - frequency).sum() < 0.08
    assert found.process.in_order
    assert found.process.longest == 4


def test_an_age_for_each_episode():
    logs = [linear_log(age, rows=80, seed=age) for age in (1, 3, 1, 2, 3, 1)]
    found = identify_delay([s for s, _ in logs], [a for _, a in logs], max_delay=5)
    assert found.varies
    assert isinstance(found.process, PerEpisode)
    assert found.posterior[:4] == pytest.approx([0, 3 / 6, 1 / 6, 2 / 6], abs=0.02)


def test_a_constant_delay_with_outliers_does_not_vary():
    seen, chosen = linear_log(2, rows=600)
    seen[::50] += 2.0
    found = identify_delay(seen, chosen, max_delay=6)
    assert (found.delay, found.varies) == (2, False)


def test_stamps_split_the_delay():
    seen, chosen = linear_log(3)
    times = 0.02 * np.arange(len(chosen))
    found = identify_delay(
        seen, chosen, max_delay=6, times=times, observation_stamps=(times, times + 0.02)
    )
    assert found.step == pytest.approx(0.02)
    assert found.split.observation == Constant(1)
    assert found.split.observation_seconds == pytest.approx(0.02)
    assert found.split.action_seconds == pytest.approx(0.04)
    assert "split: action delay 0.04 s, observation delay 0.02 s" in str(found)


def test_a_gap_in_time_begins_an_episode():
    seen, chosen = linear_log(2)
    times = 0.1 * np.arange(len(chosen))
    keep = np.r_[0:150, 200:400]
    found = identify_delay(seen[keep], chosen[keep], times=times[keep], max_delay=6)
    assert found.delay == 2
    assert found.episodes == 2
    assert "1 gaps" in found.warnings[0]


def test_of_a_large_log_stretches_from_all_parts_are_used(monkeypatch):
    """More rows than that, or wide ones; what precedes a stretch is known."""
    seen, chosen = linear_log(2, rows=3000)
    whole = transitions(make_log(seen, chosen), 4)
    monkeypatch.setattr("deadtime.identify.transitions._MOST_NUMBERS", 5 * 3 * 2000)
    some = transitions(make_log(seen, chosen), 4)
    assert (some.rows, some.logged, some.starts.sum()) == (2000, 3000, 20)
    assert (whole.rows, whole.logged, whole.starts.sum()) == (3000, 3000, 1)
    assert some.known.sum() == 5 * 2000 - 10
    found = identify_delay(seen, chosen, max_delay=4)
    assert found.delay == 2
    assert "the log is large: 2,000 transitions, spread over it, were used" in found.warnings
    with pytest.raises(ValueError, match="for 3 numbers per step, max_delay is at most 9; got 10"):
        identify_delay(seen, chosen, max_delay=10)


def test_the_change_before_is_that_of_the_same_episode():
    seen = [np.array([[0.0], [1.0], [3.0]]), np.array([[10.0], [14.0], [15.0], [17.0]])]
    data = transitions(make_log(seen, [np.zeros((2, 1)), np.zeros((3, 1))]), 1)
    assert data.angles[:, 0].tolist() == [0, 1, 10, 14, 15]
    for found, expected in ((data.change, [1, 2, 4, 1, 2]), (data.before, [0, 1, 0, 4, 1])):
        scaled = (expected - np.mean(expected)) / np.std(expected)
        np.testing.assert_allclose(found[:, 0], scaled)


def test_the_answer_is_plain_json():
    found = identify_delay(*linear_log(2), max_delay=4)
    data = json.loads(json.dumps(found.to_json()))
    assert from_json(data["process"]) == Constant(2)
    assert data["delay"] == 2
    assert len(data["posterior"]) == len(data["cross_correlation"]["values"]) == 5
    assert "the delay is 2 steps, 90% interval 2, probability 1.000" in str(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_delay": 0}, "max_delay is 1 to 200 steps; got 0"),
        ({"level": 0.5}, "level is one of 0.9, 0.95, 0.99; got 0.5"),
        ({"step": -1}, "step is a time in seconds, more than 0; got -1"),
        ({"times": [1, 2]}, "times has one entry for each of the 400 actions; got 2"),
        ({"episodes": [1]}, "have one row per step; got 401, 400 and 1"),
        ({"times": np.zeros(400)}, "times grow from row to row"),
        ({"times": 20.0 * np.arange(400), "step": 0.02}, "got 0.02 s, and times differ by 20 s"),
        ({"step": 0.1, "action_stamps": [[1], [2], [3]]}, r"equal length; got lengths \[1, 1, 1\]"),
        ({"step": 0.1, "action_stamps": [["a"], ["b"]]}, "numbers of seconds; got <U1 and <U1"),
    ],
)
def test_wrong_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        identify_delay(*linear_log(1), **given)


@pytest.mark.parametrize(
    ("seen", "chosen", "message"),
    [
        (np.zeros((5, 2)), np.zeros(9), "as many observations as actions, or one more; got 5 and"),
        (np.full((5, 2), np.nan), np.zeros(5), "got nan in row 0: cut these rows"),
        (np.array([["a"]] * 5), np.zeros(5), "observations are numbers"),
        (np.zeros(0), np.zeros(0), "observations have one row per step"),
        (
            np.zeros((5, 600)),
            np.zeros(5),
            "observations have at most 512 numbers per step; got 600",
        ),
        (np.zeros((5, 2)), np.zeros((5, 70)), "actions have at most 64 numbers per step; got 70"),
        ([np.zeros((5, 2))], np.zeros(5), "are both arrays or both lists of arrays"),
        ([np.zeros((1, 2))], [np.zeros(1)], "two steps or more in an episode"),
        ([np.zeros((3, 2)), np.zeros((3, 1))], [np.zeros(3)] * 2, "the same columns"),
    ],
)
def test_wrong_arrays(seen, chosen, message):
    with pytest.raises(ValueError, match=message):
        identify_delay(seen, chosen)


def test_tempered_odds_are_those_of_a_normal_log_likelihood_ratio():
    """A ratio with mean L and variance 2 L is kept; one with a larger variance is reduced."""
    rng = np.random.default_rng(0)
    mean = 0.002
    calibrated = mean + np.sqrt(2 * mean) * rng.normal(size=(200, 2000))
    kept = tempered(calibrated)
    assert np.median(kept / calibrated.sum(1)) > 0.8
    wide = mean + 10 * np.sqrt(2 * mean) * rng.normal(size=(200, 2000))
    assert np.abs(tempered(wide)).mean() < np.abs(wide.sum(1)).mean() / 3


def test_cubes_are_all_products_of_three():
    data = transitions(make_log(*linear_log(0)), 2)
    columns = state_features(data, Form(cubes=True))[:, 3:]
    x, y = data.state.T
    for column, product in zip(columns.T, (x**3, x * x * y, x * y * y, y**3), strict=True):
        assert np.corrcoef(column, product)[0, 1] == pytest.approx(1)


def test_intervals():
    posterior = np.array([0.05, 0.5, 0.42, 0.03])
    assert interval_of(posterior, 0.9) == (1, 2)
    assert interval_of(posterior, 0.96) == (0, 2)
    assert interval_of(np.array([0.0, 1.0]), 0.9) == (1, 1)


def test_latencies_are_estimated_from_moves_of_ages():
    """The law of latencies follows exactly from the exact frequencies of moves."""
    law = np.array([0.1, 0.4, 0.3, 0.2])
    chain = NewestArrival(law)
    moves = chain.start()[:, None] * chain.transitions()
    assert chain.start() @ chain.transitions() == pytest.approx(chain.start())
    process = Categorical(law)
    assert chain.start() == pytest.approx(process.age_law)
    assert chain.transitions() == pytest.approx(process.chain.matrix())
    found = NewestArrival(np.full(4, 0.25)).updated(Counts(moves, np.zeros(4)))
    assert found.law == pytest.approx(law)
    assert OneAge(law).updated(Counts(moves, law)).law == pytest.approx(law)


def test_ridge_of_chosen_rows_is_least_squares():
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(2, 30, 3)), rng.normal(size=(30, 2))
    rows = rng.random((2, 30)) < 0.7
    found = ridge_fits(features, targets, rows, 0.0)
    for i in range(2):
        exact = np.linalg.lstsq(features[i][rows[i]], targets[rows[i]], rcond=None)[0]
        assert found[i] == pytest.approx(exact, abs=1e-6)


def test_a_chain_of_bursts_is_the_channel_with_two_phases():
    """Its ages have the law and the moves of `GilbertElliott`, and its update is the frequency."""
    law = np.array([0, 0, 0.6, 0.1, 0.1, 0.2, 0])
    chain = Bursts(law, to_bad=0.05, to_good=0.1)
    process = chain.process()
    assert process == GilbertElliott(Constant(2), Constant(5), 0.05, 0.1)
    assert chain.start()[:6] == pytest.approx(process.age_law)
    assert chain.start() @ chain.transitions() == pytest.approx(chain.start())
    assert chain.transitions().sum(1) == pytest.approx(1)
    ages = timeline(process, 30_000, seed=1).ages
    moves = np.zeros((7, 7))
    np.add.at(moves, (ages[:-1], ages[1:]), 1)
    assert not moves[chain.transitions() == 0].any()
    found = Bursts.of(law).updated(Counts(moves, np.zeros(7)))
    assert found.to_bad == pytest.approx(moves[2, 3] / moves[2].sum())
    assert found.to_good == pytest.approx(moves[3:, 2].sum() / moves[3:].sum())
    assert (found.to_bad, found.to_good) == pytest.approx((0.05, 0.1), rel=0.1)


@pytest.mark.parametrize("rows", [50, 1000])
def test_steps_with_other_ages_are_excluded_by_the_rule_of_three(rows):
    """Where no row can be of another age, a share π is excluded once (1 - π)^n is below 0.1."""
    sharp = np.zeros((3, rows))
    sharp[[0, 2]] = -1000.0
    ages = Ages(Anew(np.eye(3)[1]), np.eye(3)[1], sharp[1], 1.0, sharp, np.eye(3)[1], None)
    assert most_others(ages, 1, 0.9) == pytest.approx(1 - 0.1 ** (1 / rows), rel=0.25)
    assert most_others(ages, 1, 0.99) > most_others(ages, 1, 0.9)
    blind = replace(ages, densities=np.zeros((3, rows)))
    assert most_others(blind, 1, 0.9) > 0.99
    some = sharp.copy()
    some[1, ::5], some[2, ::5] = -1000.0, 0.0
    found = most_others(replace(ages, densities=some), 1, 0.9)
    assert 0.19 < found < 0.5


def test_a_log_that_shows_a_constant_delay_bounds_other_ages():
    force = np.random.default_rng(0).normal(size=800)
    speed = np.zeros(801)
    for t in range(800):
        speed[t + 1] = 0.9 * speed[t] + (0.1 * force[t - 3] if t >= 3 else 0.0)
    found = identify_delay(speed[:, None], force, max_delay=8)
    assert found.process == Constant(3)
    assert 0 < found.others < 0.02
    assert found.to_json()["others"] == found.others


@pytest.mark.parametrize("numbered", [False, True])
def test_a_model_tells_ages_of_steps_as_the_log_did(numbered):
    """Densities of single steps, by NumPy and by JAX, are those of the fit, up to a constant."""
    rng = np.random.default_rng(3)
    force = rng.integers(-1, 2, 900) if numbered else rng.normal(size=900)
    ages = timeline(Uniform(1, 3), 900, seed=0).ages
    at, speed = np.zeros(901), np.zeros(901)
    for t in range(900):
        acting = force[t - ages[t]] if t >= ages[t] else 0.0
        speed[t + 1] = 0.9 * speed[t] - 0.1 * np.sin(at[t]) + 0.1 * acting + 0.01 * rng.normal()
        at[t + 1] = at[t] + speed[t + 1]
    seen = np.stack([at, speed], axis=1)
    log = make_log(seen, force)
    data = transitions(log, 4)
    form = Form(squares=True, cubes=True, before=True, waves=True, gain=True)
    mixed = decorrelated(data, form, 2)
    found = varying_ages(mixed, form)
    model = AgeModel.of(data, mixed, form, found.fit, log.numbers)
    assert AgeModel(model.text) == model
    for t in (10, 200, 899):
        steps = seen[t - 1], seen[t], seen[t + 1], force[t - np.arange(len(found.mixture))]
        wanted = found.densities[:, t] - found.densities[0, t]
        mine = model.log_densities(*steps)
        assert mine - mine[0] == pytest.approx(wanted, abs=1e-6)
        also = model.log_densities(*map(jnp.asarray, steps))
        assert also - also[0] == pytest.approx(wanted, rel=0.05, abs=0.05)
    whole = identify_delay(seen, force, max_delay=4)
    likely = [
        model.log_densities(seen[t - 1], seen[t], seen[t + 1], force[t - np.arange(4)]).argmax()
        for t in range(5, 900)
    ]
    told = [
        whole.ages.log_densities(
            seen[t - 1], seen[t], seen[t + 1], force[t - np.arange(5)]
        ).argmax()
        for t in range(5, 900)
    ]
    if not numbered:
        assert (np.array(likely) == ages[5:]).mean() > 0.8
        assert (np.array(told) == ages[5:]).mean() > 0.8


def test_ages_that_a_law_excludes_do_not_overflow():
    """The excluded age 0 explains each row far better, for 600 rows."""
    rng = np.random.default_rng(0)
    data = transitions(make_log(np.cumsum(rng.normal(size=(601, 1))), rng.normal(size=600)), 3)
    model = _Model(data, Form())
    model.emissions = np.tile(np.array([0.0, -15.0, -16.0, -15.0])[:, None], (1, data.rows))
    nearly = OneAge(np.array([1e-300, 0.6, 0.2, 0.2]))
    model.emissions[0, :40] = -30.0
    for chain in (Bursts(np.array([0.0, 0.6, 0.2, 0.2]), 0.1, 0.2), nearly):
        with np.errstate(all="raise", under="ignore"):
            evidence, posterior, _ = model._smooth(chain)
        assert not posterior[0].any()
        assert posterior.sum(0) == pytest.approx(1)
        assert np.isfinite(evidence).all()
