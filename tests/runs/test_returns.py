"""Intervals of returns: none below three seeds, and none beyond what a return can be."""

from dataclasses import replace

import numpy as np
import pytest

from deadtime.runs import figures, folder_report
from deadtime.runs.records import write
from deadtime.runs.result import Result
from deadtime.runs.returns import columns, difference, mean_return
from deadtime.runs.training import train
from deadtime.studies.paper.tabular_figures import estimates

WIDE = [-1.0, -1.0, 0.96, 1.0]
"""Returns of a maze, from -1 to 1, whose interval would be wider than that."""


@pytest.fixture(scope="module")
def trained():
    return train("maze", agent="delayed", delay=1, seeds=4, size=2, episodes=4)


def with_scores(result, scores):
    """Return a result with other returns, the same ones in every block of its curve."""
    count = len(scores)
    record = result.record.rows(result.seeds[:count])
    curve = np.tile(np.array(scores, np.float32)[:, None], len(record.points))
    return Result(replace(record, scores=scores, training_scores=scores, curve=curve))


def test_a_mean_stays_within_possible_returns(trained):
    wide = with_scores(trained, WIDE)
    assert mean_return(wide)[1:] == (-1.0, 1.0)
    assert mean_return(wide, np.array(WIDE[::-1]))[1:] == (-1.0, 1.0)
    assert {columns(wide)["greedy_low"], columns(wide)["training_low"]} == {-1.0}


def test_a_difference_stays_within_possible_differences(trained):
    scores = [-1.0, 1.0, -1.0, 1.0]
    first = with_scores(trained, scores)
    second = with_scores(trained, [-score for score in scores])
    assert difference(first, second) == (0.0, -2.0, 2.0)


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_have_no_interval(trained, seeds):
    few = with_scores(trained, WIDE[:seeds])
    assert np.isnan(mean_return(few)[1:]).all()
    assert np.isnan(difference(few, few)[1:]).all()


def bands(axes):
    """Return the heights of all bands that are drawn."""
    paths = [path.vertices[:, 1] for one in axes.collections for path in one.get_paths()]
    return np.concatenate(paths) if paths else np.array([])


@pytest.mark.parametrize("scores", [WIDE, WIDE[:2]])
def test_figures_draw_no_wider_bands(trained, scores):
    result = with_scores(trained, scores)
    _, (against, curves) = figures.new_figure(6, 3, 1, 2)
    figures.return_against_delay(against, {("delayed", 1): result, ("delayed", 2): result})
    figures.learning_curves(curves, {"delayed": result})
    for axes in (against, curves):
        heights = bands(axes)
        drawn = heights[~np.isnan(heights)]
        assert (set(drawn.tolist()) == {-1.0, 1.0}) == (len(scores) == 4)
        assert len(drawn) == 0 or len(scores) == 4


def test_tables_have_no_wider_intervals(trained):
    wide = with_scores(trained, WIDE)
    (row,) = estimates({("delayed", 0.0, 1): wide}, ("agent", "noise", "delay"))
    assert (row["return_low"], row["return_high"]) == (-1.0, 1.0)
    assert (row["training_low"], row["training_high"]) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("delays", "titles"),
    [
        ([1], ["learning curves, m = 1"]),
        (
            [1, 2],
            ["greedy return after training", "learning curves, m = 1", "learning curves, m = 2"],
        ),
    ],
)
def test_own_runs_are_shown_with_their_learning_curves(
    trained, delays, titles, tmp_path, monkeypatch
):
    """One run, as `train` records it, has nothing to compare."""
    drawn = []
    monkeypatch.setattr(folder_report, "save_picture", lambda figure, path: drawn.append(figure))
    for m in delays:
        spec = replace(trained.spec, delay=m)
        record = replace(trained.record, id=spec.id, spec=spec.canonical())
        write(tmp_path / spec.name, record)
    ((comparison, results),) = folder_report.experiments(tmp_path)
    comparison.draw(results, tmp_path)
    shown = [axes for axes in drawn[0].axes if axes.axison]
    assert [axes.get_title() for axes in shown] == titles
    assert all(axes.lines for axes in shown)


def test_agents_at_one_delay_stand_side_by_side(trained, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(folder_report, "save_picture", lambda figure, path: drawn.append(figure))
    for agent in ("delayed", "oblivious"):
        spec = replace(trained.spec, agent=agent)
        record = replace(trained.record, id=spec.id, spec=spec.canonical())
        write(tmp_path / spec.name, record)
    ((comparison, results),) = folder_report.experiments(tmp_path)
    comparison.draw(results, tmp_path)
    returns, curves = (axes for axes in drawn[0].axes if axes.axison)
    assert [label.get_text() for label in returns.get_xticklabels()] == ["Delayed-Q", "Oblivious-Q"]
    assert [line.get_ydata()[0] for line in returns.lines] == [np.mean(trained.record.scores)] * 2
    assert curves.get_title().startswith("learning curves")
