"""Packs: records in them are read as from folders, and packing loses nothing."""

import json
import os
import shutil
import zipfile
from dataclasses import replace
from subprocess import PIPE, Popen
from sys import executable

import pytest

import deadtime
from deadtime.runs import folder_report, pack_archive, packs, records, tensorboard
from deadtime.runs.driven import alone
from deadtime.runs.record import joined
from deadtime.runs.result import Result
from deadtime.runs.runner import missing, train_recorded
from deadtime.runs.store import Store, copied
from deadtime.studies.report import page
from tests.commands import run
from tests.runs.pack_helpers import GOOD, archive, content_of, same, tree


def test_a_round_trip(root, originals):
    before = tree(root)
    assert [path.name for path in packs.pack(root)] == ["maze.zip", "walk.zip"]
    assert [*tree(root)] == ["maze.zip", "walk.zip"]
    assert not [path for path in root.iterdir() if path.is_dir()]
    same(root, originals)
    inside = {}
    for path in root.glob("*.zip"):
        with zipfile.ZipFile(path) as archive:  # any program reads them
            assert archive.testzip() is None
            assert [one.date_time for one in archive.infolist()] == [(1980, 1, 1, 0, 0, 0)] * len(
                archive.namelist()
            )
            assert archive.namelist() == sorted(archive.namelist())
            inside |= {name: archive.read(name) for name in archive.namelist()}
    assert inside == before
    assert packs.pack(root) == []
    assert packs.pack(root / "nowhere") == []
    assert not records.exists(root / "maze")


def test_unpacked_by_another_program(packed, originals, tmp_path):
    for path in packed.glob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "out")
    same(tmp_path / "out", originals)


def test_the_same_records_give_the_same_bytes(originals, packed, tmp_path):
    for name, record in reversed(originals.items()):  # one at a time, in another order
        records.write(tmp_path / "other" / name, record)
        packs.pack(tmp_path / "other")
    assert tree(tmp_path / "other") == tree(packed)


def test_a_folder_shadows_a_packed_record(packed, originals):
    name = next(iter(originals))
    other = replace(originals[name], scores=[7.0, 8.0])
    records.write(packed / name, other)
    assert records.read(packed / name).scores == [7.0, 8.0]
    assert records.names(packed) == sorted(originals)
    shutil.rmtree(packed / name)
    (packed / name).mkdir()
    (packed / name / "notes.txt").write_text("mine")
    same(packed, originals)  # a folder without a record hides none


def test_adding_seeds(packed, originals):
    name, record = next(iter(originals.items()))
    spec, before = Result(record).spec, tree(packed)
    result, folder = train_recorded(spec, 3, packed)
    assert (folder, result.seeds) == (packed / name, [0, 1, 2])
    assert {key: value for key, value in tree(packed).items() if key.endswith(".zip")} == before
    both = records.read(folder, policies=True)
    assert content_of(both.rows([0, 1])) == content_of(record)
    assert missing([(spec, range(4))], packed) == [(spec, [3])]
    packs.pack(packed)
    assert not folder.exists()
    assert content_of(records.read(folder, policies=True)) == content_of(both)
    others = {key: value for key, value in originals.items() if key != name}
    for key, value in others.items():
        assert content_of(records.read(packed / key, policies=True)) == content_of(value)
    with pytest.raises(ValueError, match=f"{name} in .*maze.zip holds runs of .*: delete it"):
        records.add(folder, originals[next(iter(others))])


def test_a_record_stays_in_its_pack(root, originals):
    packs.pack(root, lambda record: "mine")
    name, record = next(iter(originals.items()))
    train_recorded(Result(record).spec, 3, root)
    assert [path.name for path in packs.pack(root)] == ["mine.zip"]
    assert records.read(root / name).seeds == [0, 1, 2]


def test_files_of_the_user(root, originals):
    kept, linked, odd, damaged = sorted(originals)
    (root / kept / "notes.txt").write_text("mine")
    shutil.move(root / linked, root.parent / "elsewhere")
    (root / linked).symlink_to(root.parent / "elsewhere")
    (root / odd).rename(root / "my run")
    (root / damaged / "curves.npz").write_bytes(b"no")
    (root / "data.zip").write_bytes(b"mine too")
    before = tree(root)
    assert packs.pack(root) == []
    assert tree(root) == before
    with zipfile.ZipFile(root / "backup.zip", "w") as archive:
        archive.writestr("notes/1.txt", "mine")
    assert records.read(root / kept).seeds == originals[kept].seeds
    assert not records.exists(root / "other")  # archives of the user's own are left alone


def test_a_pack_replaces_nothing_else(root, originals):
    (root / "maze.zip").write_bytes(b"precious")
    before = tree(root)
    with pytest.raises(
        ValueError, match=r"a pack replaces only a pack; .*maze.zip is not one: move it elsewhere"
    ):
        packs.pack(root)
    assert tree(root) == before


def test_names_of_families(originals):
    record = next(iter(originals.values()))
    for env, family in {
        "noisy-maze": "maze",
        "acrobot": "acrobot",
        "noisy-cartpole": "cartpole",
        "atari:MsPacman": "atari",
        "gym:ALE/Pong-v5": "gym",
        "gymnax:Catch-bsuite": "gymnax",
    }.items():
        assert packs.pack_name(replace(record, spec=record.spec | {"env": env})) == family


@pytest.mark.parametrize("name", ["../x", "", "a/b", "a.b", ".x", "x" * 101])
def test_odd_names_of_packs(name, root, originals):
    before = tree(root)
    assert packs.pack(root, lambda record: name) == []
    assert tree(root) == before


def test_dropping_records(packed, originals):
    walk, *mazes = sorted(originals, reverse=True)
    packs.drop(packed, [walk, mazes[0]])
    assert records.names(packed) == sorted(mazes[1:])
    assert [*tree(packed)] == ["maze.zip"]
    for name in mazes[1:]:
        assert content_of(records.read(packed / name, policies=True)) == content_of(originals[name])


class Killed(BaseException):
    """The end of a process."""


def kill_at(monkeypatch, step):
    """Raise Killed before the call number `step` that changes or opens a file."""
    calls = []

    def patched(name):
        real = getattr(os, name)

        def call(*args, **kwargs):
            calls.append(name)
            if len(calls) > step:
                raise Killed
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in (
        "open",
        "rename",
        "replace",
        "unlink",
        "rmdir",
        "mkdir",
        "fsync",
        "scandir",
        "listdir",
        "pwrite",
        "ftruncate",
    ):
        patched(name)
    return calls


@pytest.mark.slow
def test_killed_at_any_moment(originals, tmp_path, monkeypatch):
    """Every record stays readable, and the next packing finishes the work."""
    first, *rest = sorted(originals)
    begun, whole = tmp_path / "begun", tmp_path / "whole"
    for name in rest:
        records.write(begun / name, originals[name])
    packs.pack(begun)  # so that one pack is replaced
    records.write(
        begun / rest[0],
        joined(
            originals[rest[0]],
            replace(originals[rest[0]].rows([0]), seeds=[9], provenance=made_of(9)),
        ),
    )
    records.write(begun / first, originals[first])
    expected = {name: content_of(records.read(begun / name, policies=True)) for name in originals}
    shutil.copytree(begun, whole)
    packs.pack(whole)
    step = 0
    while True:
        case = tmp_path / "case"
        shutil.copytree(begun, case)
        with monkeypatch.context() as patch:
            calls = kill_at(patch, step)
            try:
                packs.pack(case)
                ended = True
            except Killed:
                ended = False
        for name, record in expected.items():
            assert records.exists(case / name), (step, calls)
            assert content_of(records.read(case / name, policies=True)) == record, (step, calls)
        packs.pack(case)
        assert tree(case) == tree(whole), (step, calls)
        assert not [*case.glob(".*.packed")]
        shutil.rmtree(case)
        if ended:
            break
        step += 1
    assert step > 25


def made_of(seed):
    return [{"date": "2026-01-01", "seeds": [seed]}]


def test_what_a_killed_process_leaves_of_a_folder(packed, originals):
    name = next(iter(originals))
    left = packed / f".{name}.packed"
    left.mkdir()
    (left / "curves.npz").write_bytes(b"a rest")
    (left / "notes.txt").write_text("mine")
    foreign = packed / ".other.packed"
    foreign.mkdir()
    (foreign / "run.json").write_text("{}")
    records.write(packed / name, originals[name])
    packs.pack(packed)
    assert [path.name for path in left.iterdir()] == ["notes.txt"]
    assert (foreign / "run.json").exists()
    same(packed, originals)  # the folder stays, since its place is taken


@pytest.mark.slow
def test_two_processes(root, originals):
    code = "from pathlib import Path; from deadtime.runs import packs; "
    code += f"packs.pack(Path({str(root)!r}))"
    processes = [Popen([executable, "-c", code], stderr=PIPE, text=True) for _ in range(2)]
    while any(process.poll() is None for process in processes):
        name = next(iter(originals))
        assert content_of(records.read(root / name, policies=True)) == content_of(originals[name])
    errors = [process.communicate()[1] for process in processes]
    for process, error in zip(processes, errors, strict=True):
        assert process.returncode == 0 or "one driver at a time works in a folder" in error
    same(root, originals)
    assert [*tree(root)] == ["maze.zip", "walk.zip"]


def test_one_driver_at_a_time(root, originals):
    with alone(root), pytest.raises(ValueError, match="one driver at a time works in a folder"):
        packs.pack(root)
    same(root, originals)


def test_a_pack_that_is_replaced_is_read_anew(packed, originals, tmp_path):
    name = next(iter(originals))
    assert records.exists(packed / name)
    (packed / "maze.zip").unlink()
    assert not records.exists(packed / name)
    for one in originals:
        records.write(tmp_path / "more" / one, originals[one])
    packs.pack(tmp_path / "more")
    shutil.copy(tmp_path / "more" / "maze.zip", packed / "maze.zip")
    same(packed, originals)
    found = pack_archive.find(packed, name)
    os.utime(packed / "maze.zip", ns=(1, 1))
    with pytest.raises(ValueError, match="the pack was replaced while it was read"):
        found.content("run.json", 2**20)


@pytest.mark.slow
def test_reports(packed, originals):
    shown = folder_report.experiments(packed)
    assert sum(len(results) for _, results in shown) == len(originals)
    assert "Agents under delay, compared" in page(packed, "2026-01-01")
    (packed / "x.zip").write_bytes(archive(GOOD)[:-9])
    text = page(packed, "2026-01-01")
    assert text.count("x.zip is no pack of records that can be read") == 1


def test_events(packed, originals):
    tensorboard.write_all((Result(record).spec for record in originals.values()), packed)
    assert sorted(path.name for path in (packed / "tensorboard").iterdir()) == sorted(originals)


def test_commands(packed, originals):
    name = next(name for name in originals if name.startswith("maze-delayed"))
    found = run("evaluate", packed / name, "--json", "--episodes", "2")
    assert json.loads(found.stdout)["seeds"] == [0, 1], found.stderr
    assert deadtime.load(packed / name, 1).act(0, [0]) in range(4)


@pytest.mark.slow
def test_at_a_url(packed, originals, tmp_path):
    shutil.copytree(packed, tmp_path / "there")
    url = f"file://{tmp_path}/there"
    with copied(url) as folder:
        same(folder, originals)
    store = Store(url)
    name, record = next(iter(originals.items()))
    local = tmp_path / "local"
    local.mkdir()
    store.pull(local)
    train_recorded(Result(record).spec, 3, local)
    with store.driven(local):
        store.put(local / name)
    store.put_files(local)
    assert not [*(tmp_path / "there").glob("*.part-*")]
    with copied(url) as folder:
        assert records.read(folder / name).seeds == [0, 1, 2]
        assert records.names(folder) == sorted(originals)
    (tmp_path / "there" / "maze.zip").unlink()
    store.pull(local)
    assert records.names(local) == sorted(
        {name, *(one for one in originals if one.startswith("walk"))}
    )
