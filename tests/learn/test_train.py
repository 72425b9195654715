"""Training, its records and its commands."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

import deadtime
from deadtime.envs import make
from deadtime.envs.maze_layout import carve
from deadtime.runs import records
from deadtime.runs.runner import train_recorded
from deadtime.runs.specs import from_canonical
from deadtime.runs.tabular_specs import TabularSpec, check_seeds, tabular_spec
from tests.commands import full, run

COMMAND = Path(sys.executable).parent / "deadtime"
SMALL = ["--env", "maze", "--size", "4", "--noise", "0.1", "--episodes", "200"]


def small(**options):
    return tabular_spec(
        "maze",
        options.pop("agent", "delayed"),
        options.pop("delay", 2),
        {"size": 4, "episodes": 100, **options},
    )


@pytest.mark.parametrize(
    "agent", ["delayed", "augmented", "oblivious", "shifted", "distribution", "mbs"]
)
def test_what_is_saved_acts_as_what_was_trained(agent, tmp_path):
    result = deadtime.train("noisy-maze", agent, delay=3, seeds=[7, 8], size=4, episodes=300)
    result.save(tmp_path / "run")
    again = deadtime.load(tmp_path / "run", seed=8)
    policy = result.policy(8)
    for cell in range(15):
        for queue in ([0, 1, 2], [3, 3, 1]):
            np.testing.assert_array_equal(again.q_values(cell, queue), policy.q_values(cell, queue))
            assert again.act(cell, queue) in np.flatnonzero(
                policy.q_values(cell, queue) == policy.q_values(cell, queue).max()
            )
    assert result.scores.shape == (2,)
    assert result.curve.returns.shape == (2, 100)
    assert result.curve.episodes[-1] == 300


def test_mbs_solves_what_it_saw():
    result = deadtime.train("maze", "mbs", delay=6, seeds=3, size=5, episodes=200)
    best = deadtime.train("maze", "delayed", delay=6, seeds=3, size=5, episodes=3000)
    np.testing.assert_allclose(result.scores, best.scores, atol=1e-6)
    undiscounted = deadtime.train("maze", "mbs", delay=6, seeds=3, size=5, episodes=200, gamma=1.0)
    np.testing.assert_allclose(undiscounted.scores, best.scores, atol=1e-6)


def test_until_a_return_is_reached():
    whole = deadtime.train("maze", delay=1, seeds=3, size=5, episodes=400)
    stopped = deadtime.train("maze", delay=1, seeds=3, size=5, episodes=400, until_return=0.5)
    assert all(20 <= n < 400 for n in stopped.record.episodes)
    assert whole.record.episodes == [400] * 3
    for i, n in enumerate(stopped.record.episodes):
        returns = deadtime.train("maze", delay=1, seeds=[i], size=5, episodes=n).curve.returns[0]
        assert len(returns) == n
        assert returns[-20:].mean() >= 0.5
        assert n == 20 or returns[-21:-1].mean() < 0.5
    never = deadtime.train("maze", delay=1, seeds=1, size=5, episodes=50, until_return=2.0)
    assert never.record.episodes == [50]


def test_ids():
    assert (
        small().id == small(noise=0.0).id == small(learning_rate=small().learner.learning_rate).id
    )
    different = [
        small(),
        small(noise=0.1),
        small(delay=3),
        small(agent="oblivious"),
        small(epsilon=0.5),
        small(maze_seed=0),
    ]
    assert len({spec.id for spec in different}) == len(different)
    for spec in different:
        assert from_canonical(json.loads(json.dumps(spec.canonical()))) == spec


def test_more_seeds_keep_the_old_ones(tmp_path):
    spec = small(noise=0.2)
    first, folder = train_recorded(spec, 2, tmp_path)
    stamp = (folder / "run.json").stat().st_mtime_ns
    assert train_recorded(spec, 2, tmp_path)[0].scores.tolist() == first.scores.tolist()
    assert (folder / "run.json").stat().st_mtime_ns == stamp
    more, _ = train_recorded(spec, 4, tmp_path)
    straight = deadtime.train("maze", delay=2, size=4, episodes=100, noise=0.2, seeds=4)
    np.testing.assert_array_equal(more.scores, straight.scores)
    np.testing.assert_array_equal(more.curve.returns, straight.curve.returns)
    some, _ = train_recorded(spec, [3, 1], tmp_path)
    np.testing.assert_array_equal(some.scores, straight.scores[[3, 1]])
    assert [path.name for path in tmp_path.iterdir()] == [spec.name]


def test_policies_are_trained_again_where_they_were_not_kept(tmp_path):
    spec = small()
    bare, folder = train_recorded(spec, 1, tmp_path, keep_policies=False)
    assert not (folder / "policies.npz").exists()
    with pytest.raises(
        ValueError,
        match="holds scores but no policies .*: train it with `deadtime train --env maze",
    ):
        bare.policy(0)
    kept, _ = train_recorded(spec, 2, tmp_path)
    kept.policy(0)
    np.testing.assert_array_equal(kept.scores[:1], bare.scores)
    assert deadtime.load(folder, 1).act(0, [0, 0]) in range(4)


def damage(folder, how):
    if how == "edited":
        text = (folder / "run.json").read_text()
        (folder / "run.json").write_text(text.replace('"delay": 2', '"delay": 3'))
    elif how == "truncated json":
        (folder / "run.json").write_text((folder / "run.json").read_text()[:-20])
    elif how == "truncated curves":
        (folder / "curves.npz").write_bytes((folder / "curves.npz").read_bytes()[:-20])
    elif how == "no curves":
        (folder / "curves.npz").unlink()
    elif how == "binary":
        (folder / "run.json").write_bytes(b"\xff\xfe\x00")
    else:
        (folder / "run.json").write_text("[]")


@pytest.mark.parametrize(
    "how", ["edited", "truncated json", "truncated curves", "no curves", "binary", "a list"]
)
def test_a_damaged_record_is_reported(how, tmp_path):
    _, folder = train_recorded(small(), 1, tmp_path)
    damage(folder, how)
    with pytest.raises(ValueError, match="is damaged, .*: delete the folder and run it again"):
        records.read(folder)
    with pytest.raises(ValueError, match="is damaged"):
        train_recorded(small(), 2, tmp_path)


def test_other_schemas_and_no_record(tmp_path):
    _, folder = train_recorded(small(), 1, tmp_path)
    said = json.loads((folder / "run.json").read_text()) | {"schema": 99}
    (folder / "run.json").write_text(json.dumps(said))
    with pytest.raises(ValueError, match="has the record format 99; this version reads up to 2"):
        records.read(folder)
    with pytest.raises(ValueError, match="a record is a folder with a run.json"):
        records.read(tmp_path)


def test_nothing_but_a_record_is_replaced(tmp_path):
    result = deadtime.train("maze", delay=1, size=4, episodes=20)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "keep.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "precious", tmp_path / "file", tmp_path):
        with pytest.raises(
            ValueError, match="a record is written to a new folder or in place of a record"
        ):
            result.save(path)
    assert (
        (tmp_path / "precious" / "keep.txt").read_text()
        == (tmp_path / "file").read_text()
        == "mine"
    )
    result.save(result.save(tmp_path / "run"))
    with pytest.raises(ValueError, match="a record is a folder with a run.json"):
        deadtime.load(tmp_path / "file")


def test_a_replacement_cut_short_is_put_back(tmp_path):
    _, folder = train_recorded(small(), 1, tmp_path)
    folder.rename(folder.with_name(f".{folder.name}.old"))
    assert records.read(folder).seeds == [0]
    shutil.copytree(folder, folder.with_name(f".{folder.name}.old"))
    train_recorded(small(), 2, tmp_path)
    assert records.read(folder).seeds == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_two_processes_do_not_lose_each_others_seeds(tmp_path):
    spec = small()
    whole = deadtime.train("maze", delay=2, size=4, episodes=100, seeds=4).record
    folder = tmp_path / spec.name
    records.add(folder, whole.rows([0, 1]))
    records.add(folder, whole.rows([2, 3]))
    assert records.read(folder).seeds == [0, 1, 2, 3]
    assert records.read(folder, policies=True).policies.keys() == whole.policies.keys()


def test_each_seed_keeps_where_it_came_from(tmp_path):
    _, folder = train_recorded(small(), 1, tmp_path)
    old = records.read(folder, policies=True)
    records.write(folder, replace(old, provenance=[{**old.provenance[0], "date": "2020-01-01"}]))
    more, _ = train_recorded(small(), 3, tmp_path)
    assert [(one["seeds"], one["date"][:2]) for one in more.record.provenance] == [
        ([0], "20"),
        ([1, 2], "20"),
    ]
    assert more.record.provenance[0]["date"] == "2020-01-01"


def test_a_record_of_another_spec_or_version(tmp_path, monkeypatch):
    _, folder = train_recorded(small(), 1, tmp_path)
    shutil.copytree(folder, tmp_path / small(delay=3).name)
    with pytest.raises(ValueError, match="holds the record of another spec"):
        train_recorded(small(delay=3), 1, tmp_path)
    monkeypatch.setitem(deadtime.runs.tabular_specs.VERSIONS, "q-learning", 99)
    with pytest.raises(ValueError, match="this record is outdated .*: train it again"):
        deadtime.load(folder)


def test_policies_may_be_left_out_or_damaged(tmp_path):
    kept, folder = train_recorded(small(), 1, tmp_path)
    again, _ = train_recorded(small(), 1, tmp_path)
    again.save(tmp_path / "copy")
    assert deadtime.load(tmp_path / "copy").act(0, [0, 0]) in range(4)
    (folder / "policies.npz").write_bytes(b"junk")
    with pytest.raises(
        ValueError, match="policies.npz is missing or was changed after it was written"
    ):
        records.read(folder)
    (folder / "policies.npz").unlink()
    assert records.read(folder).policy_seeds == []
    train_recorded(small(), 1, tmp_path)[0].policy(0)


def test_a_failed_write_leaves_the_old_record(tmp_path, monkeypatch):
    _, folder = train_recorded(small(), 1, tmp_path)
    before = (folder / "run.json").read_bytes()

    def full(*arguments, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space"):
        train_recorded(small(), 2, tmp_path)
    assert (folder / "run.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, full(signal.SIGTERM)])
def test_interruption_keeps_what_was_finished(how, tmp_path):
    """Seeds 0 and 1 are recorded; when the signal comes, some of the others are done."""
    arguments = ["train", *SMALL[:-1], "100000", "--delay", "2"]
    first = json.loads(run(*arguments, "--seeds", 2, "--json", cwd=tmp_path).stdout)
    folder = tmp_path / first["record"]
    before = records.read(folder)
    command = [COMMAND, *arguments, "--seeds", "5000"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 200
    while len(records.read(folder).seeds) == 2 and time.monotonic() < deadline:
        time.sleep(0.5)
    process.send_signal(how)
    _, error = process.communicate(timeout=60)
    after = records.read(folder)
    assert len(after.seeds) > 2
    np.testing.assert_array_equal(after.rows([0, 1]).curve, before.curve)
    assert process.returncode == 128 + how
    assert (
        "interrupted; finished seeds are recorded, no checkpoint was written, so unfinished seeds"
        in error
    )
    assert "Traceback" not in error
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [folder.name]


def test_train_and_watch(tmp_path):
    done = run("train", *SMALL, "--delay", 3, "--seeds", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "greedy return" in done.stdout
    folder = next((tmp_path / "runs").iterdir())
    seen = run("watch", folder, "--seed", 1, "--out", "x/maze.gif", cwd=tmp_path)
    assert seen.returncode == 0, seen.stderr
    with Image.open(tmp_path / "x/maze.gif") as film:
        frames = film.n_frames
    policy = deadtime.load(folder, 1)
    delayed = deadtime.ActionDelay(gym.make("deadtime/Maze-v0", size=4, noise=0.1, maze_seed=1), 3)
    cell, info = delayed.reset(seed=0)
    steps, earned, ended = 0, 0.0, False
    while not ended:
        cell, reward, terminated, truncated, info = delayed.step(
            policy.act(cell, info["pending_actions"])
        )
        steps, earned, ended = steps + 1, earned + reward, terminated or truncated
    assert seen.stdout == f"x/maze.gif: {steps} steps, return {earned:.3f}\n"
    assert frames <= steps + 1
    same = json.loads(
        run("train", *SMALL, "--delay", 3, "--seeds", 2, "--json", cwd=tmp_path).stdout
    )
    straight = deadtime.train("maze", delay=3, size=4, noise=0.1, episodes=200, seeds=2)
    np.testing.assert_allclose(same["scores"], straight.scores, atol=1e-6)


@pytest.mark.full
def test_any_setting_by_name(tmp_path):
    maze = ["train", "--env", "maze", "--episodes", 20, "--seeds", 1, "--json"]
    said = json.loads(
        run(*maze, "--set", "size=4", "--set", "learning_rate=0.5", cwd=tmp_path).stdout
    )
    assert (said["size"], said["learning_rate"]) == (4, 0.5)
    deep = [
        "train",
        "--env",
        "cartpole",
        "--preset",
        "paper",
        "--steps",
        100,
        "--seeds",
        1,
        "--json",
        "--set",
    ]
    said = json.loads(
        run(
            *deep,
            "hidden=[8,9]",
            "--set",
            "double=False",
            "--set",
            "evaluation_episodes=1",
            cwd=tmp_path,
        ).stdout
    )
    assert (said["hidden"], said["double"]) == ([8, 9], False)
    for wrong, words in (
        ("batch_size", "a setting is NAME=VALUE"),
        ("batch_size=x", "batch_size is a whole number"),
        ("bacth_size=1", "'batch_size'"),
    ):
        assert words in run(*deep, wrong, cwd=tmp_path).stderr


@pytest.mark.slow
def test_a_diverged_seed_is_named(tmp_path):
    wild = [
        "--env",
        "cartpole",
        "--preset",
        "paper",
        "--learning-rate",
        1e30,
        "--steps",
        200,
        "--seeds",
        1,
    ]
    wild += ["--set", "evaluation_episodes=1", "--json"]
    assert json.loads(run("train", *wild, "--agent", "oblivious", cwd=tmp_path).stdout)["diverged"][
        "0"
    ].startswith("diverged at")
    compared = run("compare", *wild, "--agents", "oblivious", "--delays", 0, cwd=tmp_path)
    assert "diverged" in json.loads(compared.stdout)["delays"][0]["oblivious"]


@pytest.mark.slow
def test_compare(tmp_path):
    arguments = ["--agents", "delayed", "oblivious", "--delays", "0", "2", "--seeds", "3"]
    done = run("compare", *SMALL, *arguments, "--json", "--figure", "c.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    zero, two = said["delays"]
    assert zero["delayed"]["mean"] == zero["oblivious"]["mean"]
    assert zero["oblivious"]["difference"]["mean"] == 0
    gap = two["delayed"]["mean"] - two["oblivious"]["mean"]
    assert two["oblivious"]["difference"]["mean"] == pytest.approx(gap)
    assert gap > 0
    assert two["optimum"]["exact"]
    assert two["optimum"]["value"] < zero["optimum"]["value"]
    assert two["optimum"]["value"] > two["delayed"]["mean"] - 0.05
    assert (tmp_path / "c.png").stat().st_size > 10_000
    table = run("compare", *SMALL, *arguments, cwd=tmp_path)
    assert "differences are paired by seed" in table.stdout
    assert "…" not in table.stdout
    bound = run(
        "compare",
        *SMALL,
        "--agents",
        "delayed",
        "--delays",
        "7",
        "--seeds",
        "1",
        "--json",
        cwd=tmp_path,
    )
    assert not json.loads(bound.stdout)["delays"][0]["optimum"]["exact"]


def test_the_ghost_is_where_the_model_says(tmp_path):
    spec = small(delay=4)
    policy = train_recorded(spec, 1, tmp_path)[0].policy(0)
    leads_to = carve(4, 0)
    for queue in ([1, 2, 2, 1], [0, 0, 0, 0], [2, 1, 0, 3]):
        cell = 0
        for action in queue:
            cell = int(leads_to[cell, action])
        assert policy.predicted_state(0, queue) == cell or cell == 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--env", "mase"], "no environment is called 'mase'; did you mean 'maze'?"),
        (
            ["train", "--env", "maze", "--agent", "delayd"],
            "no agent is called 'delayd'; did you mean 'delayed'?",
        ),
        (
            ["train", "--env", "walk", "--noise", "0.1"],
            "walk has no setting 'noise': it takes length, momentum, near, episodes",
        ),
        (["train", "--env", "maze", "--steps", "5"], "maze has no setting 'steps'"),
        (["train", "--env", "maze", "--discount", "1"], "--discount has a new name: write --gamma"),
        (["train", "--env", "maze", "--step-size=1"], "write --learning-rate"),
        (["train", "--env", "acrobot", "--shaped", "True"], "acrobot has no shaped reward"),
        (
            ["train", "--env", "acrobot", "--set", "shaped_bonus=1"],
            "acrobot has no shaped reward, so shaped_bonus",
        ),
        (
            ["train", "--env", "cartpole", "--shaped", "False", "--set", "shaped_bonus=2"],
            "leave one of them out",
        ),
        (
            ["train", "--env", "cartpole", "--set", "gamma=0.999999999"],
            "need a gamma below 1 in single precision; got 0.999999999",
        ),
        (
            [
                "train",
                "--env",
                "acrobot",
                "--set",
                "gamma=1",
                "--set",
                "scaled=False",
                "--set",
                "centre=1",
            ],
            "need a gamma below 1 in single precision; got 1",
        ),
        (
            ["train", "--env", "cartpole", "--members", "0"],
            "members is a whole number, 1 or more; got 0",
        ),
        (["train", "--env", "gymnax:Catch-bsuite"], "deep agents take observations of one axis"),
        (
            ["train", "--env", "gym:CartPol-v1"],
            "Gymnasium has no environment 'CartPol-v1'; did you mean 'CartPole-v1'?",
        ),
        (["train", "--env", "maze", "--until-return", "nan"], "until_return is a number; got nan"),
        (["train", "--env", "maze", "--noise", "0.9"], "noise is a number in [0, 0.5]; got 0.9"),
        (
            ["train", "--env", "maze", "--size", "3", "--delay", "90"],
            "an episode has at most 90 steps",
        ),
        (
            ["train", "--env", "maze", "--delay", "-1"],
            "delay is a whole number of steps, 0 or more; got -1",
        ),
        (["train", "--env", "maze", "--seeds", "0"], "seeds is a whole number, 1 or more; got 0"),
        (
            ["train", "--env", "maze", "--episodes", "0"],
            "episodes is a whole number, 1 or more; got 0",
        ),
        (
            ["train", "--env", "maze", "--agent", "mbs", "--until-return", "0.5"],
            "so until_return would do nothing",
        ),
        (
            ["train", "--env", "maze", "--agent", "mbs", "--epsilon", "0.5"],
            "so epsilon would do nothing: leave it out",
        ),
        (["watch", "nowhere", "--episode", "-1"], "episode is a whole number"),
        (
            [
                "train",
                "--env",
                "maze",
                "--agent",
                "augmented",
                "--delay",
                "25",
                "--episodes",
                "9999999",
            ],
            "are free: train fewer",
        ),
        (
            ["compare", "--env", "maze", "--agents", "delayed", "delayed"],
            "name each agent and delay once",
        ),
        (
            ["compare", "--env", "maze", "--agents", "delayed", "obvious"],
            "no agent is called 'obvious'; did you mean 'oblivious'?",
        ),
        (["compare", "--env", "maze", "--figure", "x.jpg"], "end the name in .png"),
        (["watch", "nowhere"], "a record is a folder with a run.json"),
        (
            ["reproduce", "convergense"],
            "no experiment is called 'convergense'; did you mean 'convergence'?",
        ),
    ],
)
def test_bad_input_is_refused_before_any_work(arguments, words, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "runs").mkdir(mode=0o500)
    assert "Permission denied" in run("train", *SMALL, cwd=tmp_path).stderr


def test_python_refuses_the_same():
    with pytest.raises(ValueError, match="maze has no setting 'sise'; did you mean 'size'?"):
        deadtime.train("maze", sise=4)
    for wrong in ([1, 1], [1.5], [True, False], [], [-1]):
        with pytest.raises(ValueError, match="seeds are distinct"):
            check_seeds(wrong)
    with pytest.raises(ValueError, match="until_return is a number"):
        deadtime.train("maze", until_return="0.5")
    assert small(learning_rate=1).id == small(learning_rate=1.0).id
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        deadtime.trian  # noqa: B018


def test_seeds_are_mazes_unless_one_is_named():
    spec = TabularSpec("maze", "delayed", settings={"size": 4})
    assert vars(spec.environment(3)) == vars(make("maze", size=4, maze_seed=3))
    named = TabularSpec("maze", "delayed", settings={"size": 4, "maze_seed": 0})
    assert vars(named.environment(3)) == vars(make("maze", size=4, maze_seed=0))
