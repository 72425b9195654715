"""The CartPole and Acrobot experiments: trained together, recorded, drawn from records."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from deadtime.cli.reproduce import Reproduce
from deadtime.runs import figures, records
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.record import Record, joined
from deadtime.runs.result import Result
from deadtime.runs.runner import How, train_missing
from deadtime.runs.training import train
from deadtime.studies.paper import physical, summary
from deadtime.studies.paper.physical_figures import PLAIN, TESTED, score_of

TINY = {"steps": 300, "evaluation_episodes": 3}


def record_of(spec, seed, value):
    """A record that says `value`."""
    tested = getattr(spec, "evaluation_delays", ())
    return Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=[seed],
        scores=[value],
        training_scores=[value - 1],
        episodes=[10],
        status=["complete"],
        seconds=[1.0],
        points=np.linspace(0, 10_000, 101).astype(int)[1:],
        curve=np.full((1, 100), value, np.float32),
        provenance=[{"date": "2026-01-01", "seeds": [seed]}],
        others=np.arange(len(tested), dtype=np.float32)[None] + value
        if tested
        else np.zeros((0, 0)),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "experiment", [*physical.EXPERIMENTS, *summary.EXPERIMENTS], ids=lambda e: e.name
)
def test_every_experiment_is_drawn_from_records_alone(experiment, tmp_path, monkeypatch):
    def nothing(*what):
        raise AssertionError("trained")

    monkeypatch.setattr("deadtime.learn.deep_training.run_deep", nothing)
    for number, spec in enumerate(experiment.runs.values()):
        both = joined(record_of(spec, 0, 100.0 + number), record_of(spec, 1, 102.0 + number))
        records.write(tmp_path / spec.name, both)
    Reproduce((experiment.name,), seeds=2, out=tmp_path).run()
    with Image.open(tmp_path / "figures" / f"{experiment.name}.png") as image:
        assert image.width > 600
    rows = list(csv.DictReader((tmp_path / "figures" / f"{experiment.name}.csv").open()))
    assert {row["seeds"] for row in rows} == {"2"}
    assert float(rows[-1]["greedy"]) >= 101.0
    assert len(rows) == (
        len(TESTED) * 2 if experiment.id == "misspecification" else len(experiment.runs)
    )


def test_what_is_scored():
    run = Result(record_of(DeepSpec("cartpole", "delayed", 5), 0, 100.0))
    assert (score_of("paper", run), score_of("best", run)) == (99.0, 100.0)


def test_both_presets_meet_the_same_noise():
    for preset in ("paper", "best"):
        spec = physical.physical("noisy-cartpole", "delayed", 5, preset)
        assert spec.environment(0).default_params.length_noise == pytest.approx(0.1)
    assert (
        physical.physical("cartpole", "delayed", 5, noise=0.2)
        .environment(0)
        .default_params.length_noise
        == 0.2
    )
    assert physical.physical("cartpole", "delayed", 5, noise=0.0) == DeepSpec(
        "cartpole", "delayed", 5
    )
    assert DeepSpec("cartpole", "delayed", 5, changes=PLAIN).learner.shaped is False


@pytest.mark.full
def test_specs_are_trained_together_and_once(tmp_path, monkeypatch):
    specs = [DeepSpec("cartpole", agent, 1, "paper", **TINY) for agent in ("delayed", "oblivious")]
    train_missing([(specs[0], [0])], tmp_path, how=How(together=True))
    first = records.read(tmp_path / specs[0].name)
    from deadtime.learn import deep_training

    asked = []
    real = deep_training.run_deep
    monkeypatch.setattr(
        deep_training, "run_deep", lambda pairs, *rest: asked.append(pairs) or real(pairs, *rest)
    )
    wanted = [(specs[0], [0, 1]), (specs[1], [0]), (specs[0], [1])]
    train_missing(wanted, tmp_path, how=How(together=True))
    assert asked == [[(specs[0], 1), (specs[1], 0)]]
    again = records.read(tmp_path / specs[0].name)
    assert again.seeds == [0, 1]
    assert again.scores[0] == first.scores[0]
    assert records.read(tmp_path / specs[1].name).seeds == [0]


@pytest.mark.full
def test_evaluation_under_other_delays(tmp_path):
    spec = DeepSpec("cartpole", "delayed", 2, "paper", evaluation_delays=(0, 2, 4), **TINY)
    result = train(
        "cartpole", "delayed", 2, seeds=2, preset="paper", evaluation_delays=(0, 2, 4), **TINY
    )
    assert result.spec == spec
    assert result.record.others.shape == (2, 3)
    np.testing.assert_allclose(result.record.others[:, 1], result.scores)
    assert (result.record.others[:, 0] != result.record.others[:, 2]).any()
    result.save(tmp_path / "run")
    assert Result(records.read(tmp_path / "run")).spec == spec
    np.testing.assert_array_equal(records.read(tmp_path / "run").others, result.record.others)
    with pytest.raises(
        ValueError, match="augmented learns only from queues of exactly its own delay, 2"
    ):
        DeepSpec("cartpole", "augmented", 2, evaluation_delays=(3,))
    plain = DeepSpec("cartpole", "delayed", 2, "paper", **TINY)
    assert spec.id != plain.id
    assert "evaluation_delays" not in plain.canonical()


def test_learning_curves_bridge_blocks_in_which_no_episode_ended():
    figure, axes = figures.new_figure(4, 3)
    returns = np.array([[1.0, np.nan, 3.0, np.nan], [np.nan, 5.0, 5.0, np.nan]] * 25).T.reshape(
        2, -1, order="F"
    )[:, :100]
    returns[:, -4:] = np.nan
    spec = DeepSpec("cartpole", "delayed", 2, "paper", **TINY)
    record = replace(record_of(spec, 0, 1.0), points=np.arange(100), curve=returns)
    figures.learning_curves(axes, {"delayed": Result(record)})
    (line,) = axes.get_lines()
    x, y = line.get_data()
    assert x[0] == 3
    assert len(x) == 24
    expected = np.nanmean(np.nanmean(returns[:, :4], axis=1))
    assert y[0] == pytest.approx(expected)
