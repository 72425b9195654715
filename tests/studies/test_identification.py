"""The study of identification: its logs, the two usual methods, and what is counted."""

import numpy as np
import pytest

from deadtime.identify import make_log
from deadtime.studies.experiment import found
from deadtime.studies.identify.baselines import arx_delay, correlation_peak
from deadtime.studies.identify.cases import all_cases
from deadtime.studies.identify.experiment import IDENTIFICATION, is_covered, is_right, width
from deadtime.studies.identify.logs import record, record_substeps
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
    made = record("CartPole-v1", "random", "2", 60, seed=3)
    again = record("CartPole-v1", "random", "0", 60, seed=3)
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


@pytest.mark.full
def test_a_smoke_test_of_each_kind(tmp_path):
    tiny = IDENTIFICATION.tiny()
    assert found(tiny, tmp_path) is None
    tiny.answers.make(tmp_path)
    assert found(tiny, tmp_path) == {}
    assert tiny.draw({}, tmp_path).read_bytes()[:4] == b"\x89PNG"
    rows = tiny.table({}, tmp_path)
    assert [row["kind"] for row in rows] == ["constant actions", "part", "random", "whole"]
    assert rows[0]["identifiable"] == 0
    assert rows[1]["largest_error"] < 0.15
