"""The MuJoCo study: its runs, order, table and figure, from made-up records."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from deadtime.runs import records
from deadtime.runs.record import Record
from deadtime.studies import experiment
from deadtime.studies.mujoco import EXPERIMENTS, published
from deadtime.studies.mujoco.experiments import AGENTS, TASKS, shares
from deadtime.studies.mujoco.random_returns import RANDOM, measured
from tests.commands import full

TABLE = EXPERIMENTS[0]
needs_mujoco = pytest.mark.skipif(not find_spec("mujoco"), reason="needs the extra mujoco")


def recorded(spec, scores):
    count = len(scores)
    return Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=[*range(count)],
        scores=[*scores],
        training_scores=[*scores],
        episodes=[1] * count,
        status=["complete"] * count,
        seconds=[1.0] * count,
        points=np.arange(1, 4),
        curve=np.zeros((count, 3), np.float32),
        provenance=[{"date": "2026-11-18", "seeds": [*range(count)]}],
        evaluations=np.arange(6 * count, dtype=np.float32).reshape(count, 6),
    )


def test_the_runs_of_two_tasks_at_short_delays_come_first(tmp_path):
    first = TABLE.next(2 * 5 * (1 + 2 * len(AGENTS)), tmp_path)
    assert {(spec.env, spec.delay) for spec, _ in first} == {
        (f"gym:{task}", m) for task in TASKS[:2] for m in (0, 5, 10)
    }
    assert [seeds for _, seeds in first[:6]] == [[0], [1], [2], [3], [4], [0]]
    assert len(TABLE.wanted) == 3 * (1 + 3 * len(AGENTS))
    assert len({spec.name for spec in TABLE.runs.values()}) == len(TABLE.wanted)


@needs_mujoco
def test_specs_that_were_not_checked_have_the_ids_of_checked_ones():
    for spec, _ in TABLE.wanted[:3]:
        assert replace(spec).id == spec.id
        assert replace(spec).length == 300_000


def test_returns_are_normalized_by_random_and_undelayed_ones(tmp_path):
    low = RANDOM["Hopper-v5"]
    scores = {0: [low + 100, low + 300, low + 200], 5: [low + 100, low, low + 50]}
    chosen = {
        ("Hopper-v5", "augmented", m): TABLE.runs["Hopper-v5", "augmented", m] for m in scores
    }
    for (_, _, m), spec in chosen.items():
        records.write(tmp_path / spec.name, recorded(spec, scores[m]))
    results = experiment.found(TABLE, tmp_path)
    assert len(results) == len(AGENTS) + 1
    np.testing.assert_allclose(shares(results)["Hopper-v5", "augmented", 5], [0.5, 0, 0.25])
    np.testing.assert_array_equal(results["Hopper-v5", "projected", 0].scores, scores[0])
    rows = TABLE.table(results, tmp_path)
    (row,) = [row for row in rows if row["delay"] == 5]
    assert row["normalized"] == pytest.approx(0.25)
    assert row["normalized_low"] < 0.25 < row["normalized_high"]
    picture = TABLE.draw(results, tmp_path)
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_means_over_tasks_need_every_task(tmp_path):
    for task in TASKS[:2]:
        for m in (0, 5):
            spec = TABLE.runs[task, "augmented", m]
            records.write(tmp_path / spec.name, recorded(spec, [1.0, 2.0, 3.0]))
    results = experiment.found(TABLE, tmp_path)
    assert not [row for row in TABLE.table(results, tmp_path) if row["task"].startswith("all")]
    for m in (0, 5):
        spec = TABLE.runs[TASKS[2], "augmented", m]
        records.write(tmp_path / spec.name, recorded(spec, [1.0, 2.0, 3.0]))
    results = experiment.found(TABLE, tmp_path)
    rows = [row for row in TABLE.table(results, tmp_path) if row["task"] == "all 3 tasks"]
    (row,) = [row for row in rows if (row["agent"], row["delay"]) == ("augmented", 5)]
    assert row["normalized"] == pytest.approx(1.0)
    assert row["iqm_low"] < row["iqm"] < row["iqm_high"]


def test_published_values_stand_beside_the_same_kind_of_agent_only():
    (bpql,) = published.beside("HalfCheetah", "projected", 10)
    assert (bpql.value, bpql.version, bpql.delay) == (5900, "v3", 9)
    assert [one.value for one in published.beside("HalfCheetah", "augmented", 5)] == [1951]
    assert published.beside("HalfCheetah", "projected", 25) == []


@needs_mujoco
@pytest.mark.parametrize("task", ["Hopper-v5", full("HalfCheetah-v5"), full("Walker2d-v5")])
def test_random_returns_are_those_measured(task):
    assert measured(task) == pytest.approx(RANDOM[task], abs=0.05)
