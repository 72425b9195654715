"""The study of Projected-Q: its runs, and what is shown of a part of them."""

import csv

import numpy as np
import pytest
from PIL import Image

from deadtime.cli.reproduce import Reproduce
from deadtime.runs import records
from deadtime.studies.experiment import found
from deadtime.studies.paper.summary import EXPERIMENTS as SUMMARIES
from deadtime.studies.projected.beside_others import PROJECTED, RUNS
from tests.studies.test_physical import record_of


def test_the_paper_s_runs_of_the_other_agents_count_here_too():
    ours = {spec.name for (_, agent, _), spec in RUNS.items() if agent != "projected"}
    (best,) = (one for one in SUMMARIES if one.part == "best")
    theirs = {spec.name for spec in best.runs.values() if spec.family.name != "maze"}
    assert ours > theirs


def test_every_cell_has_every_agent():
    cells = {(env, m) for env, _, m in RUNS}
    assert len(RUNS) == 4 * len(cells) == 4 * 22
    assert all(spec.preset == "best" and not spec.changes for spec in RUNS.values())


@pytest.mark.slow
def test_what_is_not_recorded_is_shown_as_not_run(tmp_path):
    for agent, value in (("projected", 261.0), ("augmented", 224.0)):
        spec = RUNS["noisy-cartpole", agent, 20]
        records.write(tmp_path / spec.name, record_of(spec, 0, value))
    Reproduce(("projected",), next=0, out=tmp_path).run()
    with Image.open(tmp_path / "figures" / "projected.png") as image:
        assert image.width > 600
    rows = list(csv.DictReader((tmp_path / "figures" / "projected.csv").open()))
    assert len(rows) == len(RUNS)
    by_run = {(row["environment"], row["agent"], int(row["delay"])): row for row in rows}
    assert by_run["noisy-cartpole", "projected", 20]["greedy"] == "261"
    assert by_run["noisy-cartpole", "augmented", 20]["projected_minus_this"] == "37"
    assert np.sum([row["greedy"] == "not run" for row in rows]) == len(RUNS) - 2


def test_it_is_not_shown_without_a_run_of_projected(tmp_path):
    spec = RUNS["noisy-cartpole", "augmented", 20]
    records.write(tmp_path / spec.name, record_of(spec, 0, 224.0))
    assert found(PROJECTED, tmp_path) is None
