"""The paper's numbers, verdicts, and the summary beside them."""

import csv

import numpy as np
import pytest

from deadtime.cli.reproduce import Reproduce
from deadtime.runs import records
from deadtime.runs.record import Record
from deadtime.runs.result import Result
from deadtime.runs.statistics import Estimate
from deadtime.runs.wanted import count, missing
from deadtime.studies.paper import published, summary
from deadtime.studies.registry import chosen


def test_the_papers_table():
    cells = [(env, m) for env in published.TABLE for m in published.DELAYS]
    assert len(cells) == 42
    assert [cell for cell in cells if not published.wins(*cell)] == [
        ("atari:Enduro", 5),
        ("atari:Qbert", 5),
        ("atari:StarGunner", 5),
    ]
    assert sum(map(len, published.TABLE.values())) == 42 * 3 - 2
    assert published.TABLE["maze"]["oblivious", 25] == (-0.71, 0.19)
    assert ("augmented", 25) not in published.TABLE["noisy-maze"]
    assert published.TABLE["noisy-cartpole"]["augmented", 15] == (129, 24)
    assert published.TABLE["noisy-acrobot"]["delayed", 25] == (-361, 62)
    assert published.TABLE["atari:TimePilot"]["augmented", 25] == (2671, 127)
    assert published.TABLE["atari:Zaxxon"]["oblivious", 15] == (225, 19)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (Estimate(120, 111, 129), "above"),
        (Estimate(120, 109, 131), "agrees"),
        (Estimate(100, 99, 101), "agrees"),
        (Estimate(80, 70, 90), "agrees"),
        (Estimate(80, 71, 89), "below"),
        (Estimate(111, np.nan, np.nan), ""),
        (Estimate(110, np.nan, np.nan), ""),
    ],
)
def test_verdicts_are_by_overlap(ours, expected):
    assert published.verdict(ours, published.Value(100, 10)) == expected


def result_of(scores, training):
    """A result that says so."""
    return Result(
        Record(
            "",
            {"kind": "deep", "env": "cartpole"},
            [0, 1],
            scores,
            training,
            [1, 1],
            ["complete"] * 2,
            [0.0, 0.0],
            np.zeros(0, int),
            np.zeros((2, 0), np.float32),
        )
    )


def test_wins_are_of_the_score_that_is_compared():
    """In preset paper that is the training return, else the greedy one."""
    scores = {
        "delayed": ([5, 7], [1, 1]),
        "augmented": ([6, 5], [3, 0]),
        "oblivious": ([0, 0], [0, 0]),
    }
    for preset, expected in (("paper", False), ("best", True)):
        results = {
            (preset, "acrobot", agent, 5): result_of(*both) for agent, both in scores.items()
        }
        assert summary.won(results) == {("acrobot", 5): expected}


def test_choosing_experiments():
    assert [e.name for e in chosen(["summary"], None)] == ["summary-paper", "summary-best"]
    assert [e.name for e in chosen(["summary", "causes"], "best")] == ["summary-best", "causes"]
    everything = chosen(["all"], "paper")
    assert {"complexity", "summary-paper"} <= {e.name for e in everything}
    assert "summary-best" not in {e.name for e in everything}
    with pytest.raises(ValueError, match=r"no experiment is called 'sumary'.*summary"):
        chosen(["sumary"], None)
    with pytest.raises(ValueError, match=r"summary-paper is not of preset best"):
        chosen(["summary-paper"], "best")
    assert "summary-atari" not in {e.name for e in everything}  # which no one does in one go
    assert [e.name for e in chosen(["rnn"], None)] == ["rnn"]
    assert {"summary-atari", "rnn", "complexity"} <= {
        e.name for e in chosen(["all"], None, smoke=True)
    }
    with pytest.raises(ValueError, match=r"no preset is called 'bets'.*best"):
        chosen(["summary"], "bets")


@pytest.mark.slow
def test_the_list_says_what_is_recorded(tmp_path, capsys):
    (experiment,) = chosen(["summary"], "best")
    assert count(missing(experiment.wanted, tmp_path)) == 720
    spec = next(iter(experiment.runs.values()))
    done = Record(
        spec.id,
        spec.canonical(),
        [0, 3, 99],
        [1.0] * 3,
        [1.0] * 3,
        [1] * 3,
        ["complete"] * 3,
        [0.0] * 3,
        np.arange(1, 4),
        np.zeros((3, 3), np.float32),
        provenance=[{"date": "2026-01-01", "seeds": [0, 3, 99]}],
    )
    records.write(tmp_path / spec.name, done)
    assert count(missing(experiment.wanted, tmp_path)) == 718
    Reproduce(list=True, out=tmp_path).run()
    assert "summary" in capsys.readouterr().out


@pytest.mark.slow
def test_smoke_is_tiny_and_kept_apart(tmp_path):
    for experiment in chosen(["all"], None):
        tiny = experiment.tiny()
        assert list(tiny.runs) == list(experiment.runs)
        assert len(tiny.seeds) == 1
        assert all(
            getattr(spec, "episodes", 0) <= 30 and getattr(spec, "length", 0) <= 150
            for spec in tiny.runs.values()
        )
    Reproduce(("heatmap-maze",), smoke=True, out=tmp_path).run()
    assert [entry.name for entry in tmp_path.iterdir()] == ["smoke"]
    assert (tmp_path / "smoke" / "figures" / "heatmap-maze.png").exists()
    records_there = [records.read(folder) for folder in (tmp_path / "smoke").glob("maze-*")]
    assert {tuple(record.seeds) for record in records_there} == {(0,)}
    assert len(records_there) == 36


@pytest.mark.slow
def test_stationarity_beside_the_exact_values(tmp_path):
    """The paper's third row lies above what any policy can earn."""
    Reproduce(("stationarity",), out=tmp_path).run()
    rows = {
        row["policies"]: row
        for row in csv.DictReader((tmp_path / "figures" / "stationarity.csv").open())
    }
    best = rows["exact: best over all policies"]
    printed = rows["paper: non-stationary Markov"]
    assert [float(best[f"m={m}"]) for m in range(3)] == pytest.approx([2, 1.6, 1.36])
    assert all(float(printed[f"m={m}"]) > float(best[f"m={m}"]) + 0.2 for m in range(1, 6))
