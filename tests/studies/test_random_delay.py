"""The study of delays that vary: its numbers are exact, and its words are what they show."""

import numpy as np
import pytest

from deadtime.delays import Uniform
from deadtime.planning import policy_values, solve
from deadtime.planning.examples import two_state, two_state_optimum
from deadtime.studies.random_delay.exact import CASES, centre_chain, exact_rows, values
from deadtime.studies.registry import chosen


def test_a_constant_latency_is_the_same_for_all_agents():
    """The closed form, after the two random actions that are pending at the start."""
    found = values(two_state(0.8, 0.9), None, Uniform(2, 2))
    closed = (1 + 0.9) * 0.5 + 0.81 * two_state_optimum(0.8, 0.9, 2)
    assert [*found.values()] == pytest.approx([closed] * 4, abs=1e-7)


@pytest.mark.full
def test_seeing_more_is_worth_no_less():
    for row in exact_rows():
        assert row["never_seen"] <= row["seen_later"] + 1e-7
        assert row["seen_later"] <= row["seen_now"] + 1e-7


def test_what_the_report_says():
    rows = [row for row in exact_rows() if row["shortest_latency"] < row["longest_latency"]]
    assert len(rows) == sum(case.mean for case in CASES)
    for row in rows:
        two_state_row = row["problem"] == CASES[0].name
        waits = row["waiting"] > row["seen_now"]
        assert waits == (not two_state_row or row["shortest_latency"] > 0)
        knowing = row["seen_now"] - row["never_seen"]
        assert row["seen_later"] - row["never_seen"] <= max(0.06 * knowing, 1e-6)


def test_the_chain_rewards_the_middle_cell():
    mdp = centre_chain(0.9)
    assert mdp.r.sum(axis=1).tolist() == [0, 0, 0, 2, 0, 0, 0]
    towards = np.array([1, 1, 1, 0, 0, 0, 0])
    assert policy_values(mdp, 0, towards)[0, 3] == pytest.approx(solve(mdp, 0).value(3))


@pytest.mark.slow
def test_it_is_reproduced_by_name(tmp_path):
    (experiment,) = chosen(("random-delay-exact",), None)
    assert experiment.draw({}, tmp_path).read_bytes()[:4] == b"\x89PNG"
    assert len(experiment.table({}, tmp_path)) == 11
