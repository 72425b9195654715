"""Folders of strangers, or with a user's files: none outside is written, none inside is lost."""

import json
import os
import shutil
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

import deadtime
from deadtime.cli.status import Status
from deadtime.runs import folder_report, folder_swap, records, sweep_file
from deadtime.runs.record import joined
from deadtime.runs.record_format import to_bytes
from deadtime.runs.runner import train_missing, train_recorded
from deadtime.runs.specs import from_canonical
from deadtime.runs.store import Store, local_folder
from deadtime.runs.where import Where
from deadtime.studies.report import page
from tests.commands import run

TEXT = """environments = ["maze"]
agents = ["oblivious"]
delays = [1]
seeds = 1
[overrides]
size = 3
episodes = 5
"""
LINK = "is no plain file but a link, pipe or the like"


@pytest.fixture
def outside(tmp_path):
    """Return a folder outside of the driver's, which must not change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious.txt").write_text("precious")
    yield folder
    assert [path.name for path in folder.iterdir()] == ["precious.txt"]
    assert (folder / "precious.txt").read_text() == "precious"


@pytest.fixture
def theirs(tmp_path, outside):
    """Return a stranger's folder, with the file of a sweep beside it."""
    (tmp_path / "s.toml").write_text(TEXT)
    folder = tmp_path / "theirs"
    folder.mkdir()
    return folder


def swept(theirs, *more):
    return run("sweep", "s.toml", "--out", theirs, "--engine", "inline", *more, cwd=theirs.parent)


def spec_of(theirs):
    return sweep_file.read(theirs.parent / "s.toml")[0][0]


HOSTILE = {
    "a link": lambda path, outside: path.symlink_to(outside / "precious.txt"),
    "a dangling link": lambda path, outside: path.symlink_to(outside / "new"),
    "a link to a folder": lambda path, outside: path.symlink_to(outside),
    "a link to a device": lambda path, outside: path.symlink_to("/dev/zero"),
    "a pipe": lambda path, outside: os.mkfifo(path),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_the_lock_of_a_driver(what, theirs, outside):
    HOSTILE[what](theirs / ".driver", outside)
    for found in (swept(theirs), run("status", theirs)):
        assert found.returncode == 2
        assert f"in {theirs} .driver {LINK}: delete {theirs}/.driver" in found.stderr
    # `reproduce` drives in the same way.
    with pytest.raises(ValueError, match="a driver locks its folder by a file"):
        train_missing([(spec_of(theirs), [0])], theirs, Where("inline"))


def test_a_lock_with_two_names(theirs, outside):
    (theirs / ".driver").hardlink_to(outside / "precious.txt")
    assert ".driver is no plain file" in swept(theirs).stderr


@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_driver_put_aside(what, theirs, outside):
    (theirs / ".units").mkdir()
    HOSTILE[what](theirs / ".units" / "a.npz", outside)
    found = swept(theirs)
    why = f".units/a.npz holds no records that can be read (a.npz {LINK}): delete it"
    assert (found.returncode, why in found.stderr) == (2, True)


@pytest.mark.parametrize("what", HOSTILE)
def test_the_copy_of_the_sweep(what, theirs, outside):
    HOSTILE[what](theirs / "s.toml", outside)
    found = swept(theirs)
    assert found.returncode == 2
    assert f"a sweep is a small text file, and s.toml {LINK}: delete it" in found.stderr
    records.write(theirs / "record", deadtime.train("maze", size=3, episodes=5).record)
    assert run("report", theirs).returncode == 0, "it is not needed to show records"


@pytest.mark.parametrize("what", HOSTILE)
def test_the_status(what, theirs, outside):
    HOSTILE[what](theirs / ".status.json", outside)
    why = f".status.json is no status file of a driver (.status.json {LINK}): delete it"
    assert why in run("status", theirs).stderr
    assert swept(theirs).returncode == 0, "a driver puts its own in that place"
    assert run("status", theirs).returncode == 0
    assert not (theirs / ".status.json").is_symlink()


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("name", ["record", ".record.old", "tensorboard", ".units", ".checkpoints"])
def test_folders_that_are_none(what, name, theirs, outside):
    where = name.replace("record", spec_of(theirs).name)
    HOSTILE[what](theirs / where, outside)
    found = swept(theirs, "--tensorboard")
    assert (
        found.returncode,
        f"{where} is no folder but a link, file or the like: delete it" in found.stderr,
    ) == (2, True)


@pytest.mark.parametrize("name", ["smoke", "figures"])
def test_folders_of_reproduce(name, theirs, outside):
    (theirs / name).symlink_to(outside)
    found = run(
        "reproduce", "stationarity", "--out", theirs, *(["--smoke"] if name == "smoke" else [])
    )
    assert (found.returncode, f"{name} is no folder but a link" in found.stderr) == (2, True)


@pytest.mark.parametrize("name", ["record", ".checkpoints"])
def test_links_where_train_writes(name, theirs, outside):
    spec = spec_of(theirs)
    (theirs / name.replace("record", spec.name)).symlink_to(outside)
    with pytest.raises(ValueError, match="is no folder but a link, file or the like: delete it"):
        train_recorded(spec, 1, theirs)
    result = deadtime.train("maze", size=3, episodes=5)
    (theirs / "mine").symlink_to(outside / "new")
    with pytest.raises(
        ValueError,
        match="a record is written to a new folder or in place of a record; .*mine is neither",
    ):
        result.save(theirs / "mine")


def test_a_link_that_the_user_names_is_followed(tmp_path):
    folder = deadtime.train("maze", size=3, episodes=5).save(tmp_path / "record")
    (tmp_path / "latest").symlink_to(folder)
    assert deadtime.load(tmp_path / "latest").delay == 0
    assert folder_report.refused(tmp_path) == {
        "latest": f"{tmp_path}/latest is no folder but a link, file or the like: delete it, or "
        "name another place"
    }


def test_links_at_a_url(theirs, outside):
    (theirs / "x.npz").symlink_to("/dev/zero")
    with pytest.raises(
        ValueError,
        match=r"records at a URL are plain files; .*/x.npz is a link, pipe or the like: delete it",
    ):
        Store(f"file://{theirs}").pull(outside)
    (theirs / "x.npz").unlink()
    (theirs / "x.npz").touch()
    os.truncate(theirs / "x.npz", 2**43)
    with pytest.raises(
        ValueError,
        match=r"a record fits in memory; .*/x.npz has 8,796,093,022,208 bytes: delete it",
    ):
        Store(f"file://{theirs}").pull(outside)


@pytest.mark.slow
def test_a_report_replaces_only_a_report(tmp_path):
    deadtime.train("maze", size=3, episodes=5).save(tmp_path / "r" / "record")
    found = run("report", "r", "--out", "page.txt", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (
        2,
        "deadtime: a report is one HTML page; got page.txt: end the name in .html\n",
    )
    (tmp_path / "precious.txt").write_text("precious")
    for put in (
        lambda path: path.write_text("<!doctype html>\n<title>mine</title>"),
        lambda path: path.symlink_to(tmp_path / "precious.txt"),
        os.mkfifo,
        Path.mkdir,
    ):
        put(tmp_path / "page.html")
        found = run("report", "r", "--out", "page.html", cwd=tmp_path)
        why = "a report replaces only a report; page.html is not one: "
        why += "name another file with --out, or delete that one"
        assert (found.returncode, found.stderr) == (2, f"deadtime: {why}\n")
        shutil.rmtree(tmp_path / "page.html") if (tmp_path / "page.html").is_dir() else (
            tmp_path / "page.html"
        ).unlink()
    for _ in range(2):
        assert run("report", "r", "--out", "page.html", cwd=tmp_path).returncode == 0
    assert (tmp_path / "precious.txt").read_text() == "precious"


def test_a_page_is_in_utf8_whatever_the_locale(tmp_path, monkeypatch):
    """Before 3.15, Python writes text in the encoding of the locale."""
    written = []
    monkeypatch.setattr(
        Path,
        "write_text",
        lambda path, text, encoding=None: written.append(path.write_bytes(text.encode(encoding))),
    )
    deadtime.train("maze", size=3, episodes=5).save(tmp_path / "record")
    assert run("report", tmp_path).returncode == 0
    assert "·" in (tmp_path / "report.html").read_bytes().decode("utf-8")


def mine(folder):
    """Add a user's own files to a record's folder: a picture, notes, a folder, a link."""
    (folder / "watch.gif").write_bytes(b"GIF89a")
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("mine")
    (folder / "link").symlink_to("/dev/zero")


def has_mine(folder):
    return (
        (folder / "watch.gif").read_bytes() == b"GIF89a"
        and (folder / "notes" / "a.txt").read_text() == "mine"
        and os.readlink(folder / "link") == "/dev/zero"
    )


def test_a_users_own_files_stay(tmp_path):
    train = ["train", "--env", "maze", "--size", 3, "--episodes", 5]
    assert run(*train, "--seeds", 1, cwd=tmp_path).returncode == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert run("watch", folder, "--out", folder / "own.gif").returncode == 0
    mine(folder)
    assert run(*train, "--seeds", 2, cwd=tmp_path).returncode == 0
    assert has_mine(folder)
    assert (folder / "own.gif").read_bytes().startswith(b"GIF89a")
    assert records.read(folder, policies=True).policy_seeds == [0, 1]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [folder.name]


class Killed(BaseException):
    """The end of a process."""


STEPS = ("rename", "unlink", "rmdir")


@pytest.mark.parametrize("moment", range(10))
def test_a_process_that_is_killed_at_any_moment_loses_nothing(moment, tmp_path, monkeypatch):
    """The next process finds the old record or the new one, and the user's files."""
    result = deadtime.train("maze", size=3, episodes=5, seeds=2)
    folder = tmp_path / "record"
    records.write(folder, result.record.rows([0]))
    mine(folder)
    left = [moment]

    def ending(step):
        def stepped(path, *more, **named):
            if not left[0]:
                monkeypatch.setattr(
                    shutil, "rmtree", lambda *a, **k: None
                )  # a killed process clears nothing away
                raise Killed
            left[0] -= 1
            return step(path, *more, **named)

        return stepped

    with monkeypatch.context() as patched:
        for name in STEPS:
            patched.setattr(Path, name, ending(getattr(Path, name)))
        with pytest.raises(Killed) if moment < 9 else pytest.raises(ZeroDivisionError):
            records.add(folder, result.record.rows([1]))
            raise ZeroDivisionError  # it was done
    monkeypatch.undo()
    assert records.read(folder, policies=True).seeds in ([0], [0, 1])
    assert has_mine(folder)
    records.add(folder, result.record.rows([1]))
    assert records.read(folder).seeds == [0, 1]
    assert has_mine(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["record"]


def test_files_of_the_same_name_in_both_folders(tmp_path):
    """A killed process leaves such files if the user creates one of that name meanwhile."""
    folder = deadtime.train("maze", size=3, episodes=5).save(tmp_path / "record")
    old = folder_swap.old_of(folder)
    old.mkdir()
    for place, text in ((folder, "new"), (old, "old")):
        (place / "notes.txt").write_text(text)
    (old / "run.json").mkdir()
    (old / "run.json" / "mine").touch()
    assert records.exists(folder)
    assert [(folder / name).read_text() for name in ("notes.txt", "notes.txt.1")] == ["new", "old"]
    assert (folder / "run.json.1" / "mine").exists()
    assert not old.exists()


def test_the_same_run_has_the_same_bytes(tmp_path):
    """The order in which threads finish changes nothing."""
    record = deadtime.train("maze", "augmented", 2, size=3, episodes=5, seeds=3).record
    parts = [record.rows([seed]) for seed in (2, 0, 1)]
    turned = replace(reduce(joined, parts), policies=dict(reversed(record.policies.items())))
    folders = [records.write(tmp_path / name, one) for name, one in (("a", record), ("b", turned))]
    for name in ("run.json", "curves.npz", "policies.npz"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    assert to_bytes([record]) == to_bytes([turned])


@pytest.mark.slow
def test_provenance_of_many_seeds_is_joined_in_one_pass():
    record = deadtime.train("maze", size=3, episodes=5).record
    many = 20_000
    lists = {
        name: getattr(record, name) * many
        for name in ("scores", "training_scores", "episodes", "status", "seconds")
    }
    provenance = [{"date": "2026-01-01", "number": seed, "seeds": [seed]} for seed in range(many)]
    first = replace(
        record,
        seeds=[*range(many)],
        **lists,
        provenance=provenance,
        curve=np.repeat(record.curve, many, 0),
        policies={},
        policy_seeds=[],
    )
    second = replace(
        record,
        seeds=[many],
        provenance=[{**provenance[7], "seeds": [many]}],
        policies={},
        policy_seeds=[],
    )
    both = joined(first, second)
    assert len(both.provenance) == many
    assert both.provenance[7]["seeds"] == [7, many]


def test_a_url_where_a_folder_belongs(tmp_path):
    for command in (["train"], ["compare"]):
        found = run(*command, "--env", "maze", "--out", "s3://bucket/x", cwd=tmp_path)
        why = "this command writes to a folder of this machine; got the URL s3:/bucket/x: "
        why += "write a sweep"
        assert (found.returncode, why in found.stderr) == (2, True)
    assert not [*tmp_path.iterdir()]
    assert local_folder(Path("a:b/c")) == Path("a:b/c")


@pytest.fixture
def three(tmp_path):
    """Return a folder with a good record and two damaged ones."""
    for delay in (0, 1, 2):
        deadtime.train("maze", delay=delay, size=3, episodes=5).save(tmp_path / f"m{delay}")
    (tmp_path / "m1" / "run.json").write_text("{}")
    (tmp_path / "m2" / "curves.npz").unlink()
    return tmp_path


@pytest.mark.slow
def test_a_record_that_is_refused_hides_no_other(three, capsys):
    text = page(three, "2026-01-01")
    assert text.count("<img") == 1
    section = text.split('<section id="unread">')[1].split("</section>")[0]
    assert section.startswith("<h2>Not shown</h2>")
    remedy = ": delete the folder and run it again"
    assert f"m1 is damaged, run.json can&#x27;t be read (&#x27;digest&#x27;){remedy}" in section
    changed = "curves.npz is missing or was changed after it was written"
    assert f"m2 is damaged, {changed}{remedy}" in section
    shown = capsys.readouterr().err
    assert f"not shown: {three}/m1 is damaged, run.json can't be read" in shown
    assert f"not shown: {three}/m2 is damaged, curves.npz is missing" in shown
    (three / "m1" / "run.json").unlink()
    shutil.rmtree(three / "m2")
    assert "can't be read" not in page(three, "2026-01-01")


def test_a_sweep_shows_the_rest_too(three):
    (three.parent / "s.toml").write_text(TEXT)
    found = run("sweep", three.parent / "s.toml", "--out", three, "--engine", "inline")
    assert found.returncode == 0
    assert f"not shown: {three}/m1 is damaged" in found.stderr
    assert "oblivious" in found.stdout
    assert f"one page with figures: deadtime report {three}" in found.stdout


@pytest.mark.slow
def test_a_paper_experiment_with_a_refused_record(tmp_path):
    """The experiment is not shown and counts as not run."""
    from deadtime.studies.registry import EXPERIMENTS
    from tests.studies.test_report import record_of

    for spec in [
        *EXPERIMENTS["plain-reward"].runs.values(),
        *EXPERIMENTS["point-estimates"].runs.values(),
    ]:
        records.write(tmp_path / spec.name, record_of(spec, 400.0, range(3)))
    assert 'id="plain-reward"' in page(tmp_path, "2026-01-01")
    bad = next(iter(EXPERIMENTS["plain-reward"].runs.values())).name
    shutil.rmtree(tmp_path / bad)
    (tmp_path / bad).symlink_to("/dev/zero")
    text = page(tmp_path, "2026-01-01")
    assert 'id="plain-reward"' not in text
    assert 'id="point-estimates"' in text
    assert f"{bad} is no folder but a link" in text
    assert "<code>deadtime reproduce plain-reward</code>" in text.split("Not run")[1]


@pytest.mark.slow
def test_a_setting_of_a_million_letters(tmp_path):
    """The title shows a part of the setting, and drawing it takes no time."""
    spec = from_canonical(
        {
            "kind": "deep",
            "env": "gym:X-v0",
            "agent": "delayed",
            "settings": {"word": "ab " * 333_333},
        }
    )
    record = deadtime.train("maze", size=3, episodes=5).record
    records.write(
        tmp_path / "r",
        replace(record, id=spec.id, spec=spec.canonical(), policies={}, policy_seeds=[]),
    )
    ((experiment, results),) = folder_report.experiments(tmp_path)
    assert len(experiment.title) == 501
    assert experiment.title.startswith("gym:X-v0, word ab ab")
    assert len(page(tmp_path, "2026-01-01")) < 10**6


def test_of_very_many_seeds_the_first_are_printed():
    assert folder_report._first([*range(100)]) == f"[{', '.join(map(str, range(20)))}, …]"
    assert folder_report._first([3, 5]) == "[3, 5]"


@pytest.mark.slow
def test_a_large_sweep_in_a_folder_is_not_gone_through(tmp_path):
    deadtime.train("maze", episodes=5).save(tmp_path / "r")
    for delays, shown in (([*range(300)], True), ([*range(301)], False)):
        text = f'environments = ["maze"]\nagents = ["delayed"]\ndelays = {delays}\n'
        text += "[overrides]\nepisodes = 5\n"
        (tmp_path / "s.toml").write_text(text)
        assert ("deadtime sweep s.toml" in page(tmp_path, "2026-01-01")) == shown


GOOD_STATUS = {
    "units": 1,
    "done": 0,
    "work": 1,
    "work_done": 1,
    "seconds": 1.0,
    "running": [],
    "failed": [],
}
RUNNING = {"name": "x", "work": 2, "done": 1, "attempt": 1, "since": 1.5}
STATUSES = [
    {"failed": {}},
    {"running": {}},
    {"failed": [[]]},
    {"running": [{}]},
    {"running": None},
    {"seconds": float("inf")},
    {"seconds": float("nan")},
    {"seconds": 1e308},
    {"seconds": "1"},
    {"units": -1},
    {"units": True},
    {"done": 2**63},
    {"work_done": 0.5},
    {"running": [RUNNING | {"since": float("inf")}]},
    {"running": [RUNNING | {"name": 5}]},
    {"failed": [{"name": "x"}]},
    {"written": []},
    {"driver": {}},
    {"beat": float("inf")},
]


@pytest.mark.parametrize("changes", STATUSES, ids=str)
def test_a_status_that_no_driver_writes(changes, tmp_path):
    (tmp_path / ".status.json").write_text(json.dumps(GOOD_STATUS | changes))
    for more in ([], ["--json"]):
        found = run("status", tmp_path, *more)
        assert found.returncode == 2
        assert found.stderr.startswith("deadtime: .status.json is no status file of a driver (")
        assert found.stderr.endswith("): delete it; the next driver writes one\n")


def test_words_of_a_status_are_shown(tmp_path, capsys):
    failed = [{"name": "a[/x]", "reason": "diverged [/red]\x1b[2J"}]
    (tmp_path / ".status.json").write_text(
        json.dumps(GOOD_STATUS | {"failed": failed, "more": {"a": 1}})
    )
    assert Status(str(tmp_path)).run() == 1
    assert "failed: a[/x]: diverged [/red]?[2J" in capsys.readouterr().out
    Status(str(tmp_path), json=True).run()
    shown = json.loads(capsys.readouterr().out)
    assert shown["failed"] == [{"name": "a[/x]", "reason": "diverged [/red]?[2J"}]
    assert "more" not in shown
