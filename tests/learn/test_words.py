"""Words of commands: hints, plurals, intervals only where there are any, and what was trained."""

import json
import re
import sys
from dataclasses import replace

import pytest

import deadtime
from deadtime.cli.output import summary
from deadtime.cli.train import Train
from deadtime.envs import make
from deadtime.envs.gym_outside import _imported
from deadtime.runs.comparison import Comparison
from deadtime.runs.result import Result
from tests.commands import run

MAZE = ["--env", "maze", "--size", 3, "--episodes", 20, "--set", "evaluation_episodes=2"]


@pytest.mark.parametrize(
    ("env", "given", "meant"),
    [
        ("maze", "steps", "episodes"),
        ("cartpole", "episodes", "steps"),
        ("maze", "discount", "gamma"),
        ("cartpole", "discount", "gamma"),
        ("maze", "lr", "learning_rate"),
        ("maze", "step_size", "learning_rate"),
        ("cartpole", "lr", "learning_rate"),
        ("gym:CartPole-v1", "lr", "learning_rate"),
        ("maze", "eps", "epsilon"),
        ("cartpole", "epsilon", "epsilon_floor"),
        ("cartpole", "batch", "batch_size"),
        ("cartpole", "replay_transitions", "buffer_size"),
        ("cartpole", "target_rate", "tau"),
    ],
)
def test_a_setting_by_another_name(env, given, meant):
    words = f"{env} has no setting '{given}'; did you mean '{meant}'?"
    with pytest.raises(ValueError, match=re.escape(words)):
        deadtime.train(env, **{given: 1})


def test_an_environment_of_gymnasium_without_its_prefix():
    words = re.escape("called 'LunarLander-v9'; did you mean 'gym:LunarLander-v3'?")
    for call in (deadtime.train, make):
        with pytest.raises(ValueError, match=words):
            call("LunarLander-v9")
    with pytest.raises(ValueError, match=re.escape("'mase'; did you mean 'maze'?")):
        make("mase")


def test_a_module_comes_from_the_current_folder_only_if_it_is_nowhere_else(tmp_path, monkeypatch):
    before = [*sys.path]
    monkeypatch.setattr(sys, "path", [*before])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wave.py").write_text("raise AssertionError")  # as one of the standard library
    (tmp_path / "my_arm.py").write_text("")
    _imported("wave")
    assert sys.path == before
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        _imported("nowhere")
    assert sys.path == before
    for _ in range(2):
        _imported("my_arm")
        assert sys.path == [*before, str(tmp_path)]
    del sys.modules["my_arm"]
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with pytest.raises(ValueError, match=r"wave.py hides .*wave.py, .*: give your module another"):
        make("gym:wave:Wave-v0")


@pytest.mark.parametrize(("seeds", "words"), [(1, "the seed is"), (2, "all 2 seeds are")])
def test_train_says_that_nothing_was_trained(seeds, words, tmp_path):
    arguments = ["train", *MAZE, "--seeds", seeds]
    assert json.loads(run(*arguments, "--json", cwd=tmp_path).stdout)["trained"] == seeds
    assert json.loads(run(*arguments, "--json", cwd=tmp_path).stdout)["trained"] == 0
    assert (
        f"{words} recorded already: nothing was trained\n" in run(*arguments, cwd=tmp_path).stdout
    )
    more = ["train", *MAZE, "--seeds", seeds + 3]
    assert "nothing was trained" not in run(*more, cwd=tmp_path).stdout
    assert json.loads(run(*more[:-1], seeds + 5, "--json", cwd=tmp_path).stdout)["trained"] == 2


def test_train_counts_seeds_whose_policies_were_not_kept(tmp_path):
    run("compare", *MAZE, "--agents", "delayed", "--delays", 0, "--seeds", 2, cwd=tmp_path)
    assert (
        json.loads(run("train", *MAZE, "--seeds", 2, "--json", cwd=tmp_path).stdout)["trained"] == 2
    )


def test_compare_says_that_nothing_was_trained(tmp_path):
    arguments = [
        "compare",
        *MAZE,
        "--agents",
        "delayed",
        "oblivious",
        "--delays",
        0,
        1,
        "--seeds",
        2,
    ]
    assert json.loads(run(*arguments, "--json", cwd=tmp_path).stdout)["trained"] == 8
    assert json.loads(run(*arguments, "--json", cwd=tmp_path).stdout)["trained"] == 0
    assert (
        "all 8 runs are recorded already: nothing was trained\n"
        in run(*arguments, cwd=tmp_path).stdout
    )
    assert "nothing was trained" not in run(*arguments[:-1], 3, cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("seeds", "agents", "words"),
    [
        (1, ["delayed"], "mean greedy return over 1 seed\n"),
        (
            2,
            ["delayed", "oblivious"],
            "mean greedy return over 2 seeds; differences are paired by seed\n",
        ),
        (3, ["delayed"], "mean greedy return over 3 seeds, 95% intervals\n"),
    ],
)
def test_intervals_are_named_where_there_are_any(seeds, agents, words, tmp_path):
    done = run("compare", *MAZE, "--agents", *agents, "--delays", 0, "--seeds", seeds, cwd=tmp_path)
    assert words in done.stdout, done.stderr


def test_train_has_one_seed_as_in_python(tmp_path):
    said = json.loads(run("train", *MAZE, "--json", cwd=tmp_path).stdout)
    assert said["seeds"] == len(said["scores"]) == Train.seeds == 1
    done = run("evaluate", said["record"], "--episodes", 2, cwd=tmp_path)
    assert done.stdout.endswith(" over 1 seed\n"), done.stderr


def test_intervals_stay_within_possible_returns():
    """A maze pays from -1 to 1, so that differences lie from -2 to 2."""
    result = deadtime.train("maze", seeds=3, size=3, episodes=5)
    wide = Result(
        replace(result.record, scores=[-1.0, -1.0, 0.96], training_scores=[1.0, 1.0, -0.96])
    )
    said = summary(wide)
    assert (said["greedy_return"]["low"], said["training_return"]["high"]) == (-1.0, 1.0)
    high = Result(replace(result.record, scores=[1.0, 1.0, -0.96]))
    results = {("delayed", 0): high, ("oblivious", 0): wide}
    agents = ("delayed", "oblivious")
    (row,) = Comparison("maze", agents, (0,), (0, 1, 2), results=results).to_json()["delays"]
    assert row["delayed"]["high"] == 1.0
    assert row["oblivious"]["low"] == -1.0
    assert row["oblivious"]["difference"]["high"] == 2.0


def test_train_prints_the_whole_path_of_the_record(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out = tmp_path / "a-folder-with-a-very-long-name-that-no-table-would-show-as-a-whole"
    done = run("train", "--env", "maze", "--size", "3", "--episodes", "5", "--out", out)
    (folder,) = (path.parent for path in out.glob("*/run.json"))
    assert f"record: {folder}\n" in done.stdout
