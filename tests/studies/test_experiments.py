"""Ceilings, statistics, the walk's predictors and the experiments' drawings."""

import csv
from itertools import product
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from deadtime.cli.reproduce import Reproduce
from deadtime.envs import make
from deadtime.envs.walk import Walk
from deadtime.planning import MDP, solve
from deadtime.runs import driver, runner, statistics
from deadtime.runs.ceiling import ceiling, mean_ceiling
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.studies.experiment import Experiment
from deadtime.studies.paper.walk import PREDICTORS, exact_return, law_after
from deadtime.studies.registry import EXPERIMENTS

RESULTS = Path(__file__).parents[2] / "results" / "paper"


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_ceiling_is_the_mean_over_all_warm_ups(noise, delay):
    env = make("maze", size=3, noise=noise, maze_seed=2)
    P, r = env.model()
    solution = solve(MDP(P, r, 1.0), delay, horizon=90)
    expected = np.mean([solution.value(0, queue) for queue in product(range(4), repeat=delay)])
    found = ceiling(env, delay)
    assert found.delay == delay
    assert found.value == pytest.approx(expected, abs=1e-8)


def test_beyond_the_largest_delay_it_is_a_bound():
    env = make("maze", size=3, noise=0.3, maze_seed=2)
    exact = ceiling(env, 4)
    bound = ceiling(env, 4, largest=2)
    assert (exact.delay, bound.delay) == (4, 2)
    assert bound.value > exact.value


def test_ceilings_are_kept(tmp_path):
    spec = TabularSpec("maze", "delayed", 2, settings={"size": 3})
    first = mean_ceiling(tmp_path, spec, [0, 1])
    text = (tmp_path / "ceilings.json").read_text()
    assert mean_ceiling(tmp_path, spec, [0, 1]) == first
    assert (tmp_path / "ceilings.json").read_text() == text
    assert first.value == pytest.approx(
        np.mean([ceiling(spec.environment(seed), 2).value for seed in (0, 1)])
    )
    other = TabularSpec("maze", "delayed", 2, settings={"size": 3, "noise": 0.3})
    assert mean_ceiling(tmp_path, other, [0, 1]).value < first.value
    assert mean_ceiling(tmp_path, other, [0, 1], largest=1).delay == 1
    (tmp_path / "ceilings.json").write_text("{")
    with pytest.raises(
        ValueError, match="ceilings.json keeps solved optima and can't be read: delete it"
    ):
        mean_ceiling(tmp_path, spec, [0])


def test_the_whole_law_is_optimal_in_the_walk_and_no_point_is_better():
    walk = Walk(length=14, momentum=0.65, near=2)
    for delay in (0, 1, 3, 7):
        best = exact_return(walk, delay, "whole law")
        assert best == pytest.approx(ceiling(walk, delay).value, abs=1e-9)
        assert all(exact_return(walk, delay, name) <= best + 1e-12 for name in PREDICTORS)


def test_where_the_mean_fails_the_mode_does_not():
    walk = Walk()
    x = np.arange(-40, 41)
    law = law_after(walk, 20)[40]
    assert abs(law @ x) < 1e-12
    assert abs(x[law.argmax()]) > walk.near
    assert exact_return(walk, 20, "mode") == exact_return(walk, 20, "whole law")
    assert exact_return(walk, 20, "mean") < exact_return(walk, 20, "mode") - 2
    assert exact_return(walk, 3, "rolled mode") < exact_return(walk, 3, "mode") - 4


@pytest.mark.slow
def test_the_functional_walk_follows_its_arrays():
    walk = Walk(length=6, momentum=0.8, near=1)
    P, r = walk.model()
    np.testing.assert_allclose(P.sum(axis=2), 1)
    keys = jax.random.split(jax.random.key(0), 4000)
    step = jax.jit(jax.vmap(walk.step_env, (0, None, None, None)))
    params = walk.default_params
    _, state = walk.reset_env(keys[0], params)
    for x, t, action in ((0, 0, 0), (1, 1, 1), (-2, 2, 1), (2, 4, 0), (-1, 5, 0)):
        state = state._replace(x=jax.numpy.int32(x), time=jax.numpy.int32(t))
        after, _, reward, ended, _ = step(keys, state, action, params)
        number = walk.number(x, t)
        assert (np.asarray(reward) == r[number, action]).all()
        assert np.asarray(ended).all() == (t == 5)
        seen = np.bincount(np.asarray(after), minlength=len(r)) / 4000
        np.testing.assert_allclose(seen, P[number, action], atol=4.5 / np.sqrt(4 * 4000))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"length": 0}, "length is a whole number"),
        ({"near": -1}, "near is a whole number"),
        ({"momentum": 0.3}, "momentum is a prob"),
    ],
)
def test_no_such_walk(wrong, words):
    with pytest.raises(ValueError, match=words):
        make("walk", **wrong)


@pytest.mark.parametrize("n", [3, 5, 20])
def test_intervals_cover_the_mean(n):
    rng = np.random.default_rng(n)
    covered = [
        low <= 1.0 <= high
        for _, low, high in (statistics.mean(rng.normal(1, size=n)) for _ in range(2000))
    ]
    assert 0.935 < np.mean(covered) < 0.965


def test_intervals():
    assert np.isnan(statistics.mean([2.0]).low)
    assert str(statistics.mean([2.0])) == "2.000"
    assert statistics.mean([2.0]).to_json() == {"mean": 2.0, "low": None, "high": None}
    assert statistics.mean([1.0, 2.0]).to_json() == {"mean": 1.5, "low": None, "high": None}
    assert statistics.mean([3.0, 3.0, 3.0]) == (3.0, 3.0, 3.0)
    half = 4.302652729911275 / np.sqrt(3)
    assert statistics.mean([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.0 - half, 2.0 + half))
    values = np.random.default_rng(0).normal(size=20)
    assert statistics.difference(values + 0.5, values) == pytest.approx((0.5, 0.5, 0.5))
    assert statistics.difference(values + 0.5, np.zeros(20)).value == pytest.approx(
        values.mean() + 0.5
    )
    assert str(statistics.Estimate(0.5, 0.25, 1)) == "0.500 [0.250, 1.000]"


@pytest.mark.slow
def test_every_experiment_of_the_paper_is_there(capsys):
    assert set(EXPERIMENTS) >= {
        "tuning",
        "convergence",
        "complexity",
        "heatmap-maze",
        "maze-size",
        "delay-sweep",
        "point-estimates",
    }
    assert Reproduce(list=True).run() == 0
    assert "heatmap-maze" in capsys.readouterr().out
    tuned = set(EXPERIMENTS["tuning"].seeds)
    assert not any(tuned & set(e.seeds) for e in EXPERIMENTS.values() if e.id != "tuning")


def test_fewer_seeds_of_tuning_stay_apart_from_the_reported_mazes(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(driver, "run", lambda left, *rest: asked.extend(seeds for _, seeds in left))
    runner.train_missing(EXPERIMENTS["tuning"].with_seeds(2).wanted, tmp_path)
    assert asked == [[1000, 1001]] * 192


@pytest.mark.slow
def test_reproduce_draws_from_records(tmp_path, monkeypatch, capsys):
    small = {
        key: TabularSpec("maze", "delayed", spec.delay, 30, {**spec.settings, "size": 4})
        for key, spec in EXPERIMENTS["heatmap-maze"].runs.items()
    }
    monkeypatch.setitem(vars(EXPERIMENTS["heatmap-maze"]), "runs", small)
    Reproduce(("heatmap-maze",), seeds=2, out=tmp_path).run()
    picture, table = (tmp_path / "figures" / f"heatmap-maze.{kind}" for kind in ("png", "csv"))
    assert capsys.readouterr().out.split() == [str(picture), str(table)]
    with Image.open(picture) as image:
        assert image.width > 500
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == 36
    assert {row["seeds"] for row in rows} == {"2"}


@pytest.mark.parametrize("exact", [False, True])
def test_figures_of_a_smoke_test_say_so(exact, tmp_path):
    def draw(results, root):
        Image.new("RGB", (400, 100), "blue").save(root / "x.png")
        return root / "x.png"

    runs = {} if exact else {0: TabularSpec("maze", "delayed", 0, 30)}
    tiny = Experiment("x", "", runs, range(3), draw, lambda results, root: []).tiny()
    assert tiny.draw({}, tmp_path) == tmp_path / "x.png"
    with Image.open(tmp_path / "x.png") as image:
        colours = {colour for _, colour in image.getcolors(10_000)}
        assert ((255, 0, 0) in colours) is not exact
        below = image.crop((0, image.height - 100, 400, image.height))
    assert below.getcolors() == [(40_000, (0, 0, 255))]
