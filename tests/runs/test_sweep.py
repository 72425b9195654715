"""A user's own sweep: its file, its runs, and its records after a kill."""

import multiprocessing
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import deadtime
from deadtime.cli.main import main
from deadtime.cli.sweep import Sweep
from deadtime.runs import folder_report, records, sweep_file
from deadtime.runs.driven import alone
from deadtime.runs.estimates import time_needed
from deadtime.runs.runner import train_recorded
from deadtime.runs.specs import from_canonical
from deadtime.runs.sweep_file import read
from deadtime.runs.sweep_text import Place, line_of
from deadtime.runs.tabular_specs import tabular_spec
from deadtime.runs.where import Where
from deadtime.studies.report import page
from tests.forgery import refused

GOOD = """environments = ["maze", "noisy-cartpole"]
agents = [
  "delayed",
  "oblivious",
]
delays = [0, 3]
seeds = [4, 2]
presets = ["paper", "best"]

[overrides]
evaluation_episodes = 5
[overrides.maze]
size = 5     # cells
episodes = 30
[overrides."noisy-cartpole"]
steps = 2000
noise = 0.2
[overrides.delayed]
gamma = 0.97
"""


def test_a_file_may_have_former_names_of_settings(tmp_path):
    former = GOOD.replace("gamma =", "discount =")
    assert read(written(tmp_path, former)) == read(written(tmp_path))
    both = re.escape("line 20: discount is the former name of gamma, and both are given")
    with pytest.raises(ValueError, match=both):
        read(written(tmp_path, f"{GOOD}discount = 0.97\n"))


def written(folder, text=GOOD):
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_the_runs_of_a_file(tmp_path):
    runs = read(written(tmp_path))
    assert {seeds for _, seeds in runs} == {(4, 2)}
    specs = [spec for spec, _ in runs]
    assert len(specs) == 4 + 8
    deep = [spec for spec in specs if spec.env == "noisy-cartpole"]
    assert {(spec.agent, spec.delay, spec.preset) for spec in deep} == {
        (a, m, p) for a in ("delayed", "oblivious") for m in (0, 3) for p in ("paper", "best")
    }
    assert {spec.settings["noise"] for spec in deep} == {0.2}
    assert {spec.length for spec in deep} == {2000}
    assert all((spec.learner.gamma == 0.97) == (spec.agent == "delayed") for spec in specs)
    assert {spec.settings["size"] for spec in specs if spec.env == "maze"} == {5}
    assert {spec.evaluation_episodes for spec in specs} == {5}
    assert time_needed(runs).startswith("about ")
    (spec, seeds), *rest = read(written(tmp_path, 'environments = ["acrobot"]'))
    assert (spec.agent, spec.delay, spec.preset, seeds, len(rest)) == (
        "delayed",
        0,
        "best",
        (0, 1, 2, 3, 4),
        8,
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("seeds = ", "sedes = ", "line 7: a sweep has no key 'sedes'; did you mean 'seeds'?"),
        ('"maze", ', '"mace", ', "line 1: no environment is called 'mace'; did you mean 'maze'?"),
        (
            '"oblivious"',
            '"oblivous"',
            "line 4: no agent is called 'oblivous'; did you mean 'oblivious'?",
        ),
        ("[0, 3]", "[0, -3]", "line 6: delay is a whole number of steps, 0 or more; got -3"),
        (
            "[0, 3]",
            "[0, 3.0]",
            "line 6: delays is a list of whole numbers and delay processes, at least one; "
            "got [0, 3.0]",
        ),
        (
            "[0, 3]",
            "[]",
            "line 6: delays is a list of whole numbers and delay processes, at least one; got []",
        ),
        ("[0, 3]", "[3, 3]", "line 6: delays names each once; got 3 twice"),
        ("[0, 3]", "[0, 3", "this is not TOML"),
        ("[4, 2]", "0", "line 7: seeds is a whole number, 1 or more; got 0"),
        ("[4, 2]", "[4, 4]", "line 7: seeds are distinct whole numbers"),
        ('"paper", ', '"papr", ', "line 8: no preset is called 'papr'; did you mean 'paper'?"),
        ("size = 5", "sise = 5", "line 13: maze has no setting 'sise'; did you mean 'size'?"),
        ("size = 5", "size = 'big'", "line 13: "),
        ("noise = 0.2", "noise = 2.0", "line 17: noise is a number in [0, 0.5]; got 2.0"),
        ("steps = 2000", "steps = true", "line 16: steps is a whole number, 1 or more; got True"),
        ("steps = 2000", "preset = 'best'", "line 16: preset is no setting of a run here"),
        (
            "overrides.maze",
            "overrides.mace",
            "line 12: overrides are for an environment or an agent of this sweep",
        ),
        ("evaluation_episodes = 5", "size = 7", "line 11: noisy-cartpole has no setting 'size'"),
        ("gamma = 0.97", "model = 'simulator'", "line 19: maze has no setting 'model'"),
        ('"delayed",', '"recurrent",', "line 3: recurrent learns from numbers"),
        (
            "[overrides]",
            "overrides.x = 5\n[overrides.oblivious]",
            "line 10: maze has no setting 'x'",
        ),
    ],
)
def test_errors_name_the_line_of_the_file(old, new, words, tmp_path, capsys):
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if "recurrent" in new:
        text = text.replace("[overrides.delayed]", "[overrides.recurrent]")
    path = written(tmp_path, text)
    with pytest.raises(SystemExit) as end:
        main(["sweep", str(path)])
    assert end.value.code == 2
    assert words in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.toml"]


def test_other_wrong_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a sweep names its environments; got none"):
        read(written(tmp_path, "seeds = 3"))
    with pytest.raises(ValueError, match=r"line 2: presets are for deep agents"):
        read(written(tmp_path, 'environments = ["maze"]\npresets = ["best"]'))
    with pytest.raises(ValueError, match=r"line 1: overrides is a table; got 5"):
        read(written(tmp_path, 'overrides = 5\nenvironments = ["maze"]'))
    with pytest.raises(ValueError, match=r"described by a file NAME.toml"):
        Sweep(Path("mine.txt")).run()
    with pytest.raises(ValueError, match=r"there is no nowhere.toml"):
        Sweep(Path("nowhere.toml")).run()
    with pytest.raises(ValueError, match=r"line 2: x is a number, a word.*got datetime.date"):
        read(written(tmp_path, 'environments = ["maze"]\noverrides = {x = 2026-01-01}'))
    with pytest.raises(ValueError, match=r"line 3: noise is a number"):
        read(
            written(
                tmp_path, 'environments = ["maze"]\n[overrides] # noise = 1\nmaze = {noise = 9}'
            )
        )
    with pytest.raises(ValueError, match=r"line 3: no environment is called 'cartpol'"):
        read(written(tmp_path, 'environments = [ # cartpol\n"noisy-cartpole",\n"cartpol"]'))
    with pytest.raises(ValueError, match=r"line 3: until_return is a number; got 9"):
        read(written(tmp_path, f'environments = ["maze"]\n[overrides]\nuntil_return = {"9" * 320}'))
    with pytest.raises(ValueError, match=r"this is not TOML"):
        read(written(tmp_path, "a = " + "[" * 5000))
    with pytest.raises(ValueError, match=r"line 3: gymnax:CartPole-v1 can't be made with"):
        read(written(tmp_path, 'environments = ["gymnax:CartPole-v1"]\n[overrides]\nnois = 0.1'))
    assert (
        len(
            read(
                written(
                    tmp_path,
                    '\ufeffenvironments = ["walk"]\ndelays = [50]\n[overrides]\nlength = 100',
                )
            )
        )
        == 3
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "seeds = 2_000_000_000",
            "line 2: a sweep has at most 1,000,000 runs; got 18,000,000,000: name fewer seeds",
        ),
        (
            f"delays = {[*range(9000)]}",
            "line 2: a sweep has at most 10,000 combinations of environments, agents, delays and",
        ),
        (f"delays = {[*range(9000)] * 2}", "line 2: delays names each once; got 0 twice"),
        (
            "a" + ".a" * 20_000 + " = 1",
            "a sweep has no line with more than 100 dots: write shorter keys",
        ),
        (
            "[overrides]\n" + "\n".join(f"x{i} = 1" for i in range(101)),
            "a table has at most 100 settings; got 101",
        ),
        (
            "[overrides.maze.deep]\nx = 1",
            "deep is a number, a word, true, false or a list of such; got a table",
        ),
        (
            "#" * 2**18,
            "a sweep is a small text file, and mine.toml has 262,168 bytes, and at most "
            "262,144 are read",
        ),
    ],
    ids=lambda part: part[:30],
)
def test_a_small_file_that_asks_for_very_much(text, words, tmp_path):
    with pytest.raises(ValueError, match=re.escape(words)):
        read(written(tmp_path, f'environments = ["maze"]\n{text}'))


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 99_999, 'environments = ["maze"]\n[overrides]\nsize = 1000000']
)
def test_sweeps(text, tmp_path):
    (tmp_path / "x.toml").write_text(text)
    refused(lambda: sweep_file.read(tmp_path / "x.toml"), "x.toml")


def test_a_line_of_spaces_is_searched_once():
    assert line_of("a" + " " * 200_000 + "\nb = 1\n", Place("", "b")) == 2


def test_modules_are_imported_with_consent_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_envs.py").write_text(
        "import gymnasium, pathlib\npathlib.Path('it ran').touch()\n"
    )
    monkeypatch.chdir(tmp_path)
    path = written(
        tmp_path,
        'environments = ["gym:my_envs:CartPole-v1"]\nagents = ["oblivious"]\n'
        "delays = [0]\nseeds = 1\n",
    )
    why = "a file can't import modules by itself; this one needs 'my_envs': if you trust it, "
    why += "import it first, or set "
    why += "DEADTIME_IMPORT=my_envs, or pass --allow-import my_envs"
    with pytest.raises(SystemExit, match="2"):
        main(["sweep", str(path)])
    assert f"mine.toml, line 1: {why}\n" in capsys.readouterr().err
    assert not (tmp_path / "it ran").exists()
    assert len(read(path, ["my_envs"])) == 1
    assert (tmp_path / "it ran").exists()
    monkeypatch.delitem(sys.modules, "my_envs")
    monkeypatch.setenv("DEADTIME_IMPORT", "other,my_envs")
    assert len(read(path)) == 1
    monkeypatch.delitem(sys.modules, "my_envs")


def test_consent_by_an_option(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "deadtime.runs.sweep_file.read", lambda path, allowed: seen.append(allowed) or []
    )
    with pytest.raises(SystemExit):
        main(["sweep", str(written(tmp_path)), "--allow-import", "a.b", "--allow-import", "c"])
    assert seen == [("a.b", "c")]


@pytest.mark.slow
def test_a_record_of_a_module_blocks_no_sweep(tmp_path, capsys):
    """The record's scores are read, and its module is not imported."""
    spec = from_canonical({"kind": "deep", "env": "gym:no_such_module:X-v0", "agent": "delayed"})
    record = deadtime.train("maze", size=3, episodes=5).record
    records.write(
        tmp_path / "mine" / "theirs",
        replace(record, id=spec.id, spec=spec.canonical(), policies={}, policy_seeds=[]),
    )
    assert Sweep(written(tmp_path, SMALL.format(episodes=2))).run() == 0
    out = capsys.readouterr()
    assert "gym:no_such_module:X-v0" in out.out
    assert "not shown" not in out.err


def test_memory_is_checked_before_anything_runs(tmp_path):
    text = 'environments = ["noisy-maze"]\nagents = ["delayed", "augmented"]\ndelays = [15]\n'
    text += "seeds = 1\n[overrides.augmented]\nepisodes = 1_000_000\nsize = 40\n"
    path = written(tmp_path, text)
    with pytest.raises(MemoryError, match=r"augmented may visit"):
        Sweep(path).run()
    assert not list((tmp_path / "mine").glob("noisy-maze-*"))


@pytest.mark.slow
def test_a_file_in_its_own_folder_stays(tmp_path):
    path = written(tmp_path, SMALL.format(episodes=5))
    before = path.read_bytes()
    Sweep(path, tmp_path).run()
    assert path.read_bytes() == before
    other = tmp_path / "out"
    other.mkdir()
    (other / "mine.toml").write_text("title = 'not a sweep'")
    with pytest.raises(ValueError, match=r"a sweep has no key 'title'"):
        Sweep(path, other).run()
    assert (other / "mine.toml").read_text() == "title = 'not a sweep'"


def test_lines_of_values():
    text = "delays = [\n 1,\n 11,\n]\n[a . 'b']\nx = 1\n"
    assert line_of(text, Place("", "delays", 11)) == 3
    assert line_of(text, Place("", "delays", 1)) == 2
    assert line_of(text, Place("", "delays", 5)) == 1
    assert line_of(text, Place("a.b", "x")) == 6
    assert line_of(text, Place("a", "b")) == 5
    assert line_of(text, Place("a.b", "y")) == 5


SMALL = """environments = ["maze", "noisy-maze"]
agents = ["delayed", "oblivious"]
delays = [1, 2]
seeds = 3
[overrides]
size = 6
episodes = {episodes}
"""


def everything(root):
    """Return the content of a folder's records without dates and times."""
    found = {}
    for folder in (
        path.parent for path in root.glob("[!.]*/run.json")
    ):  # what begins with a dot was being written
        record = records.read(folder)
        for i, seed in enumerate(record.seeds):
            found[folder.name, seed] = (
                record.scores[i],
                record.training_scores[i],
                record.curve[i].tobytes(),
            )
    return found


@pytest.mark.slow
def test_a_sweep_its_page_and_its_events(tmp_path, capsys):
    path = written(tmp_path, SMALL.format(episodes=40))
    assert Sweep(path, tensorboard=True).run() == 0
    out = capsys.readouterr()
    assert "24 runs to do" in out.err
    assert f"deadtime report {tmp_path / 'mine'}" in out.out
    root = tmp_path / "mine"
    assert len(everything(root)) == 24
    assert (root / "mine.toml").read_bytes() == path.read_bytes()
    before = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    assert Sweep(path, tensorboard=True).run() == 0
    assert "runs to do" not in capsys.readouterr().err
    assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == before
    text = page(root, "2026-01-03")
    assert "Agents under delay, compared" in text
    assert "<h2>maze, episodes 40, size 6</h2>" in text
    assert text.count("deadtime sweep mine.toml") == 2
    assert "Not run" not in text
    assert text.count("<img") == 2
    assert text == page(root, "2026-01-03")

    tensorboard = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    record = records.read(next(root.glob("noisy-maze-delayed-m2-*")))
    for i, seed in enumerate(record.seeds):
        reader = tensorboard.EventAccumulator(
            str(next((root / "tensorboard").glob(f"noisy-maze-delayed-m2-*/seed-{seed}")))
        )
        reader.Reload()
        assert {*reader.Tags()["scalars"]} == {"training return by episode", "greedy return"}
        points = reader.Scalars("training return by episode")
        assert [point.step for point in points] == record.points.tolist()
        np.testing.assert_allclose([point.value for point in points], record.curve[i], rtol=1e-6)
        (last,) = reader.Scalars("greedy return")
        assert (last.step, last.value) == (40, pytest.approx(record.scores[i], rel=1e-6))


@pytest.mark.slow
def test_settings_of_one_agent_stand_apart_only_where_they_must(tmp_path):
    root = tmp_path / "mine"
    first = (
        SMALL.format(episodes=10).replace("seeds = 3", "seeds = 1")
        + "[overrides.delayed]\nlearning_rate = 0.3\n"
    )
    Sweep(written(tmp_path, first)).run()
    titles = [experiment.title for experiment, _ in folder_report.experiments(root)]
    assert titles == ["maze, episodes 10, size 6", "noisy-maze, episodes 10, size 6"]
    Sweep(written(tmp_path, first.replace("0.3", "0.2"))).run()
    made = folder_report.experiments(root)
    assert len({experiment.name for experiment, _ in made}) == 6
    assert "maze, episodes 10, learning rate 0.2, size 6" in [
        experiment.title for experiment, _ in made
    ]
    for experiment, results in made:
        assert {row["seeds"] for row in experiment.table(results, root)} == {1}


@pytest.mark.slow
def test_what_a_folder_holds_is_shown_whatever_it_is_called(tmp_path):
    """The paper's runs, a renamed record, other seeds, and settings that differ by a sign."""
    (tmp_path / "plain.toml").write_text(
        'environments = ["maze"]\ndelays = [5]\nseeds = 2\nagents = ["delayed"]'
    )
    Sweep(tmp_path / "plain.toml", tmp_path).run()
    assert "<h2>maze</h2>" in page(tmp_path, "2026-01-03")
    short = {"size": 4, "episodes": 30}
    deadtime.train("noisy-maze", "delayed", 3, seeds=3, **short).save(tmp_path / "any name")
    deadtime.train("noisy-maze", "oblivious", 3, seeds=[1, 2, 9], **short).save(tmp_path / "other")
    deadtime.train("noisy-maze", "delayed", 4, seeds=[5], **short).save(tmp_path / "third")
    for sign in (1, -1):
        spec = tabular_spec("maze", "delayed", 1, {"until_return": sign * 0.5, **short})
        train_recorded(spec, 2, tmp_path)
    made = {
        experiment.title: (experiment, results)
        for experiment, results in folder_report.experiments(tmp_path)
    }
    assert len({experiment.name for experiment, _ in made.values()}) == len(made) == 4
    rows = {
        (row["agent"], row["delay"]): row
        for row in experiment_rows(*made["noisy-maze, episodes 30, size 4"])
    }
    assert {key: row["seeds"] for key, row in rows.items()} == {
        ("delayed", 3): 3,
        ("oblivious", 3): 3,
        ("delayed", 4): 1,
    }
    both = [records.read(tmp_path / name) for name in ("any name", "other")]
    less = np.subtract(*(record.rows([1, 2]).scores for record in both)).mean()
    assert rows["oblivious", 3]["delayed_minus_this"] == pytest.approx(less)
    text = page(tmp_path, "2026-01-03")
    assert text.count("<img") == 4


def experiment_rows(experiment, results):
    return experiment.table(results, None)


@pytest.mark.slow
def test_a_page_of_nothing_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"there is no record in .*: make some with `deadtime reproduce`"
    ):
        page(tmp_path, "2026-01-03")


def _sweep(path):
    Sweep(path, where=Where("inline")).run()


@pytest.mark.full
def test_killed_at_random_moments(tmp_path):
    """Twenty times: records do not change, and the last ones are those of an undisturbed sweep."""
    whole = written(tmp_path, SMALL.format(episodes=4000))
    Sweep(whole, tmp_path / "undisturbed").run()
    expected, root = everything(tmp_path / "undisturbed"), tmp_path / "mine"
    processes, chance = multiprocessing.get_context("forkserver"), random.Random(7)
    processes.set_forkserver_preload(["deadtime.runs.sweep_file"])
    before, kills = {}, 0
    while kills < 20:
        process = processes.Process(target=_sweep, args=(whole,))
        process.start()
        deadline = time.monotonic() + chance.uniform(0.2, 1.5)
        while process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        if not process.is_alive():  # it was done: begin another sweep of the same runs
            assert everything(root) == expected
            shutil.rmtree(root)
            before = {}
            continue
        process.kill()
        process.join()
        kills += 1
        after = everything(root) if root.exists() else {}
        assert before.items() <= after.items() <= expected.items()
        before = after
    Sweep(whole).run()
    assert everything(root) == expected
    assert {entry.name for entry in root.iterdir() if entry.name.startswith(".")} <= {
        ".driver",
        ".status.json",
    }


@pytest.mark.slow
def test_one_seed_decides_nothing(tmp_path):
    path = written(tmp_path, SMALL.format(episodes=20).replace("seeds = 3", "seeds = 1"))
    Sweep(path).run()
    assert "Fewer than three seeds of each decide nothing." in page(tmp_path / "mine", "2026-01-01")


def test_a_second_sweep_that_is_refused_changes_nothing(tmp_path):
    path = written(tmp_path, SMALL.format(episodes=2))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/mine.toml").write_text(SMALL.format(episodes=3))
    with alone(tmp_path / "mine"), pytest.raises(ValueError, match="one driver at a time"):
        Sweep(path).run()
    assert (tmp_path / "mine/mine.toml").read_text() == SMALL.format(episodes=3)


@pytest.mark.slow
def test_temporary_files_of_a_killed_process_are_deleted(tmp_path):
    path = written(tmp_path, SMALL.format(episodes=2))
    killed = subprocess.Popen(["true"])
    killed.wait()
    (tmp_path / "mine").mkdir()
    left, others = (
        tmp_path / f"mine/.mine.toml.part-{platform.node()}-{pid}-1"
        for pid in (killed.pid, os.getppid())
    )
    left.write_text("half")
    others.write_text("half")
    Sweep(path).run()
    assert not left.exists()
    assert others.exists(), "a process that lives was writing it"
