"""The study of identification: its logs, the two usual methods, and what is counted."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest

from deadtime.envs.families import family_of
from deadtime.identify import make_log
from deadtime.studies.experiment import found
from deadtime.studies.identify.baselines import arx_delay, correlation_peak
from deadtime.studies.identify.cases import ENVIRONMENTS, all_cases
from deadtime.studies.identify.experiment import (
    IDENTIFICATION,
    is_covered,
    is_right,
    rows_of,
    width,
)
from deadtime.studies.identify.logs import mean_return, record, record_substeps
from deadtime.studies.identify.mountain_car import ID, energy
from deadtime.studies.identify.policies import POLICIES, trained_policy
from deadtime.studies.identify.trainings import TRAININGS, trained_in
from tests.identify.systems import linear_log


@pytest.mark.parametrize("delay", [1, 3])
def test_the_usual_methods_on_a_linear_system(delay):
    log = make_log(*linear_log(delay))
    assert correlation_peak(log, 6) == delay
    assert arx_delay(log, 6) == delay


def test_cases_differ_and_report_on_low_seeds():
    cases = all_cases()
    assert len({case.id for case in cases}) == len(cases)
    assert max(case.seed for case in cases) < 1000
    whole = [case for case in cases if case.kind == "whole"]
    assert {case.delay for case in whole} == {str(delay) for delay in range(13)}


def test_a_log_has_the_chosen_actions_and_not_the_executed_ones():
    made = record("CartPole-v1", POLICIES["random"], "2", 60, seed=3)
    again = record("CartPole-v1", POLICIES["random"], "0", 60, seed=3)
    assert set(made.ages.tolist()) == {2}
    first = np.concatenate(made.actions)
    assert first.tolist() == np.concatenate(again.actions).tolist()
    lengths = [
        len(one) - len(other) for one, other in zip(made.observations, made.actions, strict=True)
    ]
    assert set(lengths) == {1}


def test_substeps_without_delay_are_one_action_a_step():
    """With a delay of one step, each step has the torque chosen one step before."""
    late = record_substeps("random", 1.0, 5, seed=2)
    now = record_substeps("random", 0.0, 5, seed=2)
    assert np.array_equal(late.actions[0], now.actions[0])
    h, torque = 0.005, float(late.actions[0][0][0])
    cosine, sine, speed = late.observations[0][1]
    angle = np.arctan2(sine, cosine)
    for _ in range(10):
        speed += h * (15 * np.sin(angle) + 3 * torque)
        angle += h * speed
    assert late.observations[0][2] == pytest.approx([np.cos(angle), np.sin(angle), speed])


def test_what_counts_as_right_and_covered():
    answer = {"varies": False, "delay": 3, "steps": 3.0, "steps_interval": [2.0, 3.0]}
    assert is_right(answer | {"delay_true": "3"})
    assert not is_right(answer | {"delay_true": "2"})
    assert is_covered(answer | {"delay_true": "2"})
    assert not is_covered(answer | {"delay_true": "4"})
    assert not is_right(answer | {"delay_true": "3", "varies": True})
    assert not is_right(answer | {"delay_true": "3", "steps": 2.6})
    assert width(answer) == 1


def test_every_environment_has_a_trained_policy_and_its_return():
    assert set(TRAININGS) == set(ENVIRONMENTS)
    cases = all_cases()
    trained = {case.environment for case in cases if case.policy == "trained"}
    assert trained == set(ENVIRONMENTS)
    for policy in ("trained", "random"):
        returns = [case for case in cases if (case.kind, case.policy) == ("return", policy)]
        assert {case.environment for case in returns} == set(ENVIRONMENTS)
    assert {spec.delay for spec in TRAININGS.values()} == {5}


def test_a_policy_that_is_not_recorded_is_named(tmp_path):
    with pytest.raises(ValueError, match="no record of the policy for Hopper-v5: run `deadtime"):
        trained_in(tmp_path, "Hopper-v5")


class Always:
    """A policy that remembers its delay, and always chooses action 1."""

    def __init__(self, delay=0):
        self.delay = delay

    def at_delay(self, delay):
        return Always(delay)

    def act(self, observation, pending):
        assert len(pending) == self.delay
        return 1


def test_a_trained_policy_acts_at_any_delay_with_a_tenth_of_random_actions():
    made = record("CartPole-v1", partial(trained_policy, Always()), "3", 2000, seed=1)
    chosen = np.concatenate(made.actions)
    assert chosen.mean() == pytest.approx(0.95, abs=0.02)
    earned = mean_return("CartPole-v1", partial(trained_policy, Always()), 0, 20, seed=1)
    assert 8 < earned < 13  # the pole falls as fast as it can


def test_the_energy_of_the_mountain_car_is_added_to_its_reward():
    """The sum over an episode depends on its ends only."""
    family = family_of(f"gym:deadtime.studies.identify.mountain_car:{ID}")
    family.check_import(f"gym:deadtime.studies.identify.mountain_car:{ID}")
    made = gym.make(ID)
    plain = gym.make("MountainCarContinuous-v0")
    first, _ = made.reset(seed=4)
    same, _ = plain.reset(seed=4)
    assert first.tolist() == same.tolist()
    rng = np.random.default_rng(0)
    more = 0.0
    for _ in range(50):
        action = rng.uniform(-1, 1, 1).astype(np.float32)
        last, reward, *_ = made.step(action)
        other, usual, *_ = plain.step(action)
        assert last.tolist() == other.tolist()
        more += reward - usual
    assert more == pytest.approx(60_000 * (energy(last) - energy(first)), abs=1e-6)
    valley, top = np.array([-np.pi / 6, 0.0]), np.array([np.pi / 6, 0.0])
    assert 60_000 * (energy(top) - energy(valley)) == pytest.approx(100)


def test_errors_count_where_the_fraction_is_known():
    about = {"kind": "part", "environment": "Pendulum-v1", "policy": "random", "steps_of_log": 1000}
    answer = about | {"identifiable": True, "varies": False, "delay_true": "2.4"}
    known = answer | {"steps": 2.3, "steps_interval": [2.25, 2.35]}
    unknown = answer | {"steps": 2.0, "steps_interval": [1.0, 2.5]}
    (row,) = rows_of([known, unknown])
    assert (row["logs"], row["identifiable"], row["known_parts"], row["covered"]) == (2, 2, 1, 1)
    assert row["largest_error"] == pytest.approx(0.1)
    played = about | {"kind": "return", "policy": "trained", "delay_true": "5", "return": 3.0}
    (row,) = rows_of([played])
    assert (row["return"], row["logs"]) == (3.0, 0)


@pytest.mark.full
def test_a_smoke_test_of_each_kind(tmp_path):
    tiny = IDENTIFICATION.tiny()
    assert found(tiny, tmp_path) is None
    tiny.answers.make(tmp_path)
    assert found(tiny, tmp_path) == {}
    assert tiny.draw({}, tmp_path).read_bytes()[:4] == b"\x89PNG"
    rows = tiny.table({}, tmp_path)
    assert [row["kind"] for row in rows] == [
        "constant actions",
        "part",
        "random",
        "whole",
        "return",
    ]
    assert rows[0]["identifiable"] == 0
    assert rows[1]["largest_error"] < 0.15
