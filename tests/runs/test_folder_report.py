"""Reports of a folder show a record's text and never obey it."""

import io

import numpy as np
import pytest
from rich.console import Console

from deadtime.delays import Uniform
from deadtime.runs import folder_report, records
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.record import Record
from deadtime.studies.report import page


@pytest.mark.slow
def test_strange_words_on_the_page_and_the_terminal(evil, tmp_path):
    """Markup and control characters of a record are shown as text."""
    words = "<script>alert(1)</script>$\\x[/red]\x1b]0;x\x07\ud800"
    spec = DeepSpec("gym:CartPole-v1", "oblivious", settings={"sutton_barto_reward": words * 9})
    record = Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=[0],
        scores=[1.0],
        training_scores=[float("nan")],
        episodes=[1],
        status=[words],
        seconds=[1.0],
        points=np.arange(1, 3),
        curve=np.zeros((1, 2), np.float32),
        provenance=[{"date": "2026-01-01", "device": "<img src=x onerror=alert(1)>", "seeds": [0]}],
    )
    records.write(tmp_path / "<b>", record)
    (tmp_path / "<i>.toml").write_text(f'environments = ["{evil}"]')
    text = page(tmp_path, "today")
    assert "<script" not in text
    assert "<img src=x" not in text
    assert "&lt;script&gt;alert(1)" in text
    text.encode()
    ((experiment, results),) = folder_report.experiments(tmp_path)
    console = Console(file=io.StringIO(), width=200)
    console.print(folder_report.printed(experiment, results))
    assert "\x1b" not in console.file.getvalue()
    assert "[/red]" in console.file.getvalue()


def test_a_delay_that_varies_is_named_by_its_text(tmp_path):
    """The title and the tables show the process, and not its longest age."""
    spec = DeepSpec("gym:CartPole-v1", "oblivious", process=Uniform(1, 3))
    record = Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=[0],
        scores=[1.0],
        training_scores=[2.0],
        episodes=[1],
        status=["ok"],
        seconds=[1.0],
        points=np.arange(1, 3),
        curve=np.zeros((1, 2), np.float32),
        provenance=[{"date": "2026-01-01", "device": "CPU", "seeds": [0]}],
    )
    records.write(tmp_path / spec.name, record)
    ((experiment, results),) = folder_report.experiments(tmp_path)
    assert experiment.title == "gym:CartPole-v1, delay uniform:1-3"
    assert [row["delay"] for row in experiment.table(results, tmp_path)] == ["uniform:1-3"]
    console = Console(file=io.StringIO(), width=200)
    console.print(folder_report.printed(experiment, results))
    assert "uniform:1-3 │ oblivious" in console.file.getvalue()
