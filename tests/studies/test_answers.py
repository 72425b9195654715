"""Answers of experiments whose cases are no runs: read by all, made by `reproduce` alone."""

import json
from dataclasses import dataclass
from types import SimpleNamespace

from deadtime.studies.answers import Answers
from deadtime.studies.experiment import Experiment, found
from deadtime.studies.registry import EXPERIMENTS


@dataclass(frozen=True)
class Case:
    number: int

    @property
    def id(self):
        return f"case {self.number}"


def counted(*numbers):
    """Answers that count how often they are asked."""
    asked = []

    def answer(case, root):
        asked.append(case.number)
        return {"square": case.number**2}

    return Answers("squares.json", lambda: [Case(n) for n in numbers], answer), asked


def test_only_missing_cases_are_answered_and_reading_answers_none(tmp_path):
    first, asked = counted(1, 2)
    assert first.kept(tmp_path) == {}
    assert asked == []
    first.make(tmp_path)
    assert asked == [1, 2]
    more, asked = counted(2, 3)
    assert more.kept(tmp_path) == {"case 2": {"square": 4}}
    more.make(tmp_path)
    assert asked == [3]
    written = json.loads((tmp_path / "squares.json").read_text())
    assert written["cases"] == {f"case {n}": {"square": n**2} for n in (1, 2, 3)}
    assert written["provenance"]


def test_an_experiment_without_answers_is_not_shown(tmp_path):
    answers, asked = counted(1)
    experiment = Experiment(
        "x", "", {}, range(1), SimpleNamespace, SimpleNamespace, answers=answers
    )
    assert found(experiment, tmp_path) is None
    assert asked == []
    answers.make(tmp_path)
    assert found(experiment, tmp_path) == {}


def test_experiments_with_cases_have_answers_in_a_file():
    with_cases = {e.name for e in EXPERIMENTS.values() if e.answers is not None}
    assert with_cases == {"identification", "unknown-delay-search", "unknown-delay-loss"}
