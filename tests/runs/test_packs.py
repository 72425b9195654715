"""Packs: what lies in them is read as folders are, packing loses nothing, and no hostile archive does harm."""

import hashlib
import io
import json
import os
import shutil
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from sys import executable

import numpy as np
import pytest

import deadtime
from deadtime._support import files
from deadtime.runs import folder_report, pack_archive, packs, records, runner, tensorboard
from deadtime.runs.driven import alone
from deadtime.runs.record import joined
from deadtime.runs.record_format import from_bytes, to_bytes
from deadtime.runs.result import Result
from deadtime.runs.runner import How, Where, missing, train_missing, train_recorded
from deadtime.runs.store import Store, copied
from deadtime.runs.units import KEPT_POLICY_BYTES, Keep, Unit, from_json, trained
from deadtime.studies.paper.report import page
from tests.commands import run

RESULTS = Path(__file__).parents[2] / "results" / "paper"


def small_only(*seeds):
    """Keep small policies of these seeds, as studies do."""
    return Keep(seeds, KEPT_POLICY_BYTES)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Four records of two families, by name."""
    small = {"size": 3, "episodes": 5}
    found = [
        deadtime.train("maze", agent, 1, seeds=2, **small) for agent in ("delayed", "oblivious")
    ]
    found.append(deadtime.train("noisy-maze", "oblivious", 0, **small))
    found.append(deadtime.train("walk", "delayed", 1, episodes=5, length=5))
    folder = tmp_path_factory.mktemp("made")
    for result in found:
        result.save(folder / result.spec.name)
    return {
        result.spec.name: records.read(folder / result.spec.name, policies=True) for result in found
    }


@pytest.fixture
def root(made, tmp_path):
    """A folder with the four records, each in a folder."""
    folder = tmp_path / "root"
    for name, record in made.items():
        records.write(folder / name, record)
    return folder


@pytest.fixture
def packed(root):
    """The same, packed."""
    packs.pack(root)
    return root


def content_of(record):
    """A record as bytes, to compare two."""
    return to_bytes([record])


def same(root, made):
    for name, record in made.items():
        assert records.exists(root / name)
        assert content_of(records.read(root / name, policies=True)) == content_of(record)
    assert records.names(root) == sorted(made)


def tree(root):
    """All files but the lock of drivers, with their bytes."""
    found = {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    return {name: path.read_bytes() for name, path in found.items() if name != ".driver"}


def test_a_round_trip(root, made):
    before = tree(root)
    assert [path.name for path in packs.pack(root)] == ["maze.zip", "walk.zip"]
    assert [*tree(root)] == ["maze.zip", "walk.zip"]
    assert not [path for path in root.iterdir() if path.is_dir()]
    same(root, made)
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


def test_unpacked_by_another_program(packed, made, tmp_path):
    for path in packed.glob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "out")
    same(tmp_path / "out", made)


def test_the_same_records_give_the_same_bytes(made, packed, tmp_path):
    for name, record in reversed(made.items()):  # one at a time, in another order
        records.write(tmp_path / "other" / name, record)
        packs.pack(tmp_path / "other")
    assert tree(tmp_path / "other") == tree(packed)


def test_a_folder_shadows_a_packed_record(packed, made):
    name = next(iter(made))
    other = replace(made[name], scores=[7.0, 8.0])
    records.write(packed / name, other)
    assert records.read(packed / name).scores == [7.0, 8.0]
    assert records.names(packed) == sorted(made)
    shutil.rmtree(packed / name)
    (packed / name).mkdir()
    (packed / name / "notes.txt").write_text("mine")
    same(packed, made)  # a folder without a record hides none


def test_adding_seeds(packed, made):
    name, record = next(iter(made.items()))
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
    others = {key: value for key, value in made.items() if key != name}
    for key, value in others.items():
        assert content_of(records.read(packed / key, policies=True)) == content_of(value)
    with pytest.raises(ValueError, match=f"{name} in .*maze.zip holds runs of .*: delete it"):
        records.add(folder, made[next(iter(others))])


def test_a_record_stays_in_its_pack(root, made):
    packs.pack(root, lambda record: "mine")
    name, record = next(iter(made.items()))
    train_recorded(Result(record).spec, 3, root)
    assert [path.name for path in packs.pack(root)] == ["mine.zip"]
    assert records.read(root / name).seeds == [0, 1, 2]


def test_files_of_the_user(root, made):
    kept, linked, odd, damaged = sorted(made)
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
    assert records.read(root / kept).seeds == made[kept].seeds
    assert not records.exists(root / "other")  # archives of the user's own are left alone


def test_a_pack_replaces_nothing_else(root, made):
    (root / "maze.zip").write_bytes(b"precious")
    before = tree(root)
    with pytest.raises(
        ValueError, match=r"a pack replaces only a pack; .*maze.zip is none: move it elsewhere"
    ):
        packs.pack(root)
    assert tree(root) == before


def test_names_of_families(made):
    record = next(iter(made.values()))
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
def test_odd_names_of_packs(name, root, made):
    before = tree(root)
    assert packs.pack(root, lambda record: name) == []
    assert tree(root) == before


def test_dropping_records(packed, made):
    walk, *mazes = sorted(made, reverse=True)
    packs.drop(packed, [walk, mazes[0]])
    assert records.names(packed) == sorted(mazes[1:])
    assert [*tree(packed)] == ["maze.zip"]
    for name in mazes[1:]:
        assert content_of(records.read(packed / name, policies=True)) == content_of(made[name])


class Killed(BaseException):
    """The end of a process, after which it does nothing more."""


def kill_at(monkeypatch, step):
    """Let the process end before its n-th call that changes or opens something."""
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
def test_killed_at_any_moment(made, tmp_path, monkeypatch):
    """Everything is read as it was, and the next packing finishes the work."""
    first, *rest = sorted(made)
    begun, whole = tmp_path / "begun", tmp_path / "whole"
    for name in rest:
        records.write(begun / name, made[name])
    packs.pack(begun)  # so that one pack is replaced
    records.write(
        begun / rest[0],
        joined(made[rest[0]], replace(made[rest[0]].rows([0]), seeds=[9], provenance=made_of(9))),
    )
    records.write(begun / first, made[first])
    expected = {name: content_of(records.read(begun / name, policies=True)) for name in made}
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


def test_what_a_killed_process_leaves_of_a_folder(packed, made):
    name = next(iter(made))
    left = packed / f".{name}.packed"
    left.mkdir()
    (left / "curves.npz").write_bytes(b"a rest")
    (left / "notes.txt").write_text("mine")
    foreign = packed / ".other.packed"
    foreign.mkdir()
    (foreign / "run.json").write_text("{}")
    records.write(packed / name, made[name])
    packs.pack(packed)
    assert [path.name for path in left.iterdir()] == ["notes.txt"]
    assert (foreign / "run.json").exists()
    same(packed, made)  # the folder stays, since its place is taken


@pytest.mark.slow
def test_two_processes(root, made):
    code = f"from pathlib import Path; from deadtime.runs import packs; packs.pack(Path({str(root)!r}))"
    processes = [Popen([executable, "-c", code], stderr=PIPE, text=True) for _ in range(2)]
    while any(process.poll() is None for process in processes):
        name = next(iter(made))
        assert content_of(records.read(root / name, policies=True)) == content_of(made[name])
    errors = [process.communicate()[1] for process in processes]
    for process, error in zip(processes, errors, strict=True):
        assert process.returncode == 0 or "one driver at a time works in a folder" in error
    same(root, made)
    assert [*tree(root)] == ["maze.zip", "walk.zip"]


def test_one_driver_at_a_time(root, made):
    with alone(root), pytest.raises(ValueError, match="one driver at a time works in a folder"):
        packs.pack(root)
    same(root, made)


def test_a_pack_that_is_replaced_is_read_anew(packed, made, tmp_path):
    name = next(iter(made))
    assert records.exists(packed / name)
    (packed / "maze.zip").unlink()
    assert not records.exists(packed / name)
    for one in made:
        records.write(tmp_path / "more" / one, made[one])
    packs.pack(tmp_path / "more")
    shutil.copy(tmp_path / "more" / "maze.zip", packed / "maze.zip")
    same(packed, made)
    found = pack_archive.find(packed, name)
    os.utime(packed / "maze.zip", ns=(1, 1))
    with pytest.raises(ValueError, match="the pack was replaced while it was read"):
        found.content("run.json", 2**20)


# hostile archives


def archive(members, **about):
    """A pack as `write` writes it, whatever its members are."""
    file = io.BytesIO()
    pack_archive.write(file, members)
    return file.getvalue()


def ordinary(made, compression=zipfile.ZIP_STORED, **odd):
    """An archive as other programs write it, with the records' files first."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as written:
        for name in sorted(made):
            written.writestr(f"{name}/run.json", "{}")
        for name, content in odd.items():
            written.writestr(name, content)
    return file.getvalue()


def encrypted(content):
    at = content.index(b"PK\1\2")
    return content[: at + 8] + b"\1" + content[at + 9 :]


def overlapping(content):
    """The second member's entry points to the first."""
    first = content.index(b"PK\1\2")
    second = content.index(b"PK\1\2", first + 4)
    return content[: second + 42] + struct.pack("<I", 0) + content[second + 46 :]


GOOD = [("a", "run.json", b"{}"), ("b", "run.json", b"{}")]
LINK = b"PK\1\2"
HOSTILE = {
    "cut off": (archive(GOOD)[:-30], "it is cut off, or bytes follow its end"),
    "a single header": (archive(GOOD)[:45], "it is cut off"),
    "bytes behind it": (archive(GOOD) + b"more", "it is cut off, or bytes follow its end"),
    "bytes before it": (
        archive(GOOD)[:42] + archive(GOOD),
        "its directory is not where its end says|cut off",
    ),
    "a way out": (
        archive([("a", "run.json", b"{}"), ("b/../..", "run.json", b"{}")]),
        r"a member is RECORD/FILE .*got b'b/\.\./",
    ),
    "an absolute name": (
        archive([("a", "run.json", b""), ("/etc", "run.json", b"")]),
        "a member is RECORD/FILE .*got b'/etc",
    ),
    "two dots": (archive([("..", "run.json", b"{}")]), r"got b'\.\./run.json'"),
    "another file": (
        archive([("a", "run.json", b"{}"), ("b", "x.py", b"{}")]),
        "with FILE one of curves.npz, .*got b'b/x.py'",
    ),
    "an odd letter": (
        archive([("a", "run.json", b"{}"), ("b\x1b[2J", "run.json", b"")]),
        r"got b'b\\x1b\[2J/run.json'",
    ),
    "a name twice": (
        archive([GOOD[0], GOOD[0]]),
        "members are there once, in the order of their names; a/run.json is not",
    ),
    "another order": (
        archive(GOOD[::-1]),
        "members are there once, in the order of their names; a/run.json is not",
    ),
    "no run.json": (archive([("a", "curves.npz", b"{}")]), "a record has a run.json; a has none"),
    "compressed": (
        ordinary(["a", "b"], zipfile.ZIP_DEFLATED),
        "members are stored as they are; a/run.json is compressed",
    ),
    "of another program": (ordinary(["a", "b"]), "that deadtime never writes"),
    "encrypted": (encrypted(archive(GOOD)), "members are not encrypted; a/run.json is"),
    "overlapping": (overlapping(archive(GOOD)), "members overlap or have attributes"),
    "empty": (b"", "it is empty"),
    "of many disks": (
        archive(GOOD)[:-18] + b"\1" + archive(GOOD)[-17:],
        "its end has values that deadtime never writes",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_archives(what, packed, made):
    content, why = HOSTILE[what]
    path = packed / "hostile.zip"
    path.write_bytes(content)
    name = next(iter(made))
    assert content_of(records.read(packed / name, policies=True)) == content_of(
        made[name]
    )  # what others hold is read
    with pytest.raises(
        ValueError,
        match=rf"hostile.zip is no pack .*({why}).*: restore it from a copy, move it elsewhere",
    ) as raised:
        records.exists(packed / "another")
    assert str(path) in str(raised.value)
    assert [*folder_report.refused(packed)] == ["hostile.zip"]
    assert [*folder_report.refused(packed, ["x", "y"])] == ["hostile.zip", "x", "y"]
    before = tree(packed)
    records.write(packed / name, made[name])
    packs.pack(packed)  # what it holds already has a place
    assert tree(packed) == before


def test_links_in_an_archive(tmp_path):
    content = archive(GOOD)
    at = content.index(LINK) + 38
    (tmp_path / "x.zip").write_bytes(
        content[:at] + struct.pack("<I", 0o120777 << 16) + content[at + 4 :]
    )
    with pytest.raises(ValueError, match="members overlap or have attributes"):
        records.exists(tmp_path / "a")


@pytest.mark.parametrize("what", ["a pipe", "a link", "a dangling link", "a device"])
def test_packs_that_are_no_plain_files(what, packed, made):
    path = packed / "x.zip"
    if what == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(
            {"a link": packed / "maze.zip", "a dangling link": "/nowhere", "a device": "/dev/zero"}[
                what
            ]
        )
    same(packed, made)
    with pytest.raises(
        ValueError, match=r"x.zip is no plain file but a link, pipe or the like\): restore it"
    ):
        records.exists(packed / "another")
    path.unlink()
    path.mkdir()
    assert not records.exists(packed / "another")


def test_very_many_members(tmp_path):
    members = (pack_archive.Member(f"r{i:06}", "run.json", 40 * i, 0, 0) for i in range(10**5))
    content = b"PK\3\4" + bytes(22) + struct.pack("<2H", 16, 0) + b"r000000/run.json"
    directory = b"".join(one.entry for one in members)
    for count in (10**5 % 2**16, 2**16 - 1):
        end = struct.pack(
            "<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), len(content), 0
        )
        (tmp_path / "x.zip").write_bytes(content + directory + end)
        with pytest.raises(
            ValueError, match="members in .* bytes, and at most 30,000 are read|overlap|damaged"
        ):
            records.exists(tmp_path / "a")
    with pytest.raises(ValueError, match="a pack has at most 30,000 files"):
        pack_archive.write(io.BytesIO(), ((f"r{i:06}", "run.json", b"") for i in range(10**5)))


def test_a_very_large_file(tmp_path):
    (tmp_path / "x.zip").write_bytes(archive(GOOD))
    os.truncate(tmp_path / "x.zip", 2**40)
    with pytest.raises(ValueError, match="it has 1,099,511,627,776 bytes, and a pack has at most"):
        records.exists(tmp_path / "a")


def forged(packed, name, **changed):
    """Pack a record again with other files, without any check."""
    found = pack_archive.find(packed, name)
    content = {file: found.content(file, np.inf) for file in found.members} | {
        k.replace("_", "."): v for k, v in changed.items()
    }
    with found.pack.open("wb") as file:
        pack_archive.write(file, [(name, one, content[one]) for one in sorted(content)])


def test_digests(packed, made):
    name = next(name for name in made if name.startswith("walk"))
    forged(packed, name, curves_npz=b"another")
    with pytest.raises(
        ValueError,
        match=rf"{name} in .*walk.zip is damaged, curves.npz is missing or was changed .*: restore the pack",
    ):
        records.read(packed / name)
    assert [*folder_report.refused(packed)] == [name]
    path = packed / "walk.zip"
    forged(packed, name, run_json=b'{"digest": "no", "schema": 1}')
    with pytest.raises(
        ValueError, match="walk.zip is damaged, run.json was changed after it was written"
    ):
        records.read(packed / name)
    path.write_bytes(
        path.read_bytes().replace(b"run.json", b"run.jsno", 1)
    )  # its header, not its entry
    with pytest.raises(
        ValueError, match="the pack's header of run.json is not what its directory says"
    ):
        records.read(packed / name)


@pytest.mark.slow
def test_sizes(packed, made):
    """What would inflate to more than is read is refused as it is in a folder."""
    name = next(name for name in made if name.startswith("walk"))
    file = io.BytesIO()
    np.savez_compressed(file, points=np.zeros(2**26, np.int64))
    found = pack_archive.find(packed, name)
    about = json.loads(found.content("run.json", 2**20))
    about["files"]["curves.npz"] = records._digest(file.getvalue())
    del about["digest"]
    about["digest"] = records._digest(records._text(about).encode())
    forged(packed, name, curves_npz=file.getvalue(), run_json=json.dumps(about).encode())
    with pytest.raises(
        ValueError,
        match=r"walk.zip is damaged, curves.npz can't be read, .*would take 536,871,040 bytes",
    ):
        records.read(packed / name)
    forged(packed, name, run_json=b"[" * (files.TEXT_BYTES + 1))
    with pytest.raises(
        ValueError, match=r"run.json has 16,777,217 bytes, and at most 16,777,216 are read"
    ):
        records.read(packed / name)


def test_a_record_in_two_packs(packed, made):
    shutil.copy(packed / "walk.zip", packed / "copy.zip")
    name = next(name for name in made if name.startswith("walk"))
    with pytest.raises(
        ValueError,
        match=f"one pack .*; {name} is in .*copy.zip and .*walk.zip: move one of them elsewhere",
    ):
        records.read(packed / name)
    assert [*folder_report.refused(packed)] == [name]


# what lists and reads records


@pytest.mark.slow
def test_reports(packed, made):
    shown = folder_report.experiments(packed)
    assert sum(len(results) for _, results in shown) == len(made)
    assert "Agents under delay, compared" in page(packed, "2026-01-01")
    (packed / "x.zip").write_bytes(archive(GOOD)[:-9])
    text = page(packed, "2026-01-01")
    assert text.count("x.zip is no pack of records that can be read") == 1


def test_events(packed, made):
    tensorboard.write_all((Result(record).spec for record in made.values()), packed)
    assert sorted(path.name for path in (packed / "tensorboard").iterdir()) == sorted(made)


def test_commands(packed, made):
    name = next(name for name in made if name.startswith("maze-delayed"))
    found = run("evaluate", packed / name, "--json", "--episodes", "2")
    assert json.loads(found.stdout)["seeds"] == [0, 1], found.stderr
    assert deadtime.load(packed / name, 1).act(0, [0]) in range(4)


@pytest.mark.slow
def test_at_a_url(packed, made, tmp_path):
    shutil.copytree(packed, tmp_path / "there")
    url = f"file://{tmp_path}/there"
    with copied(url) as folder:
        same(folder, made)
    store = Store(url)
    name, record = next(iter(made.items()))
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
        assert records.names(folder) == sorted(made)
    (tmp_path / "there" / "maze.zip").unlink()
    store.pull(local)
    assert records.names(local) == sorted({name, *(one for one in made if one.startswith("walk"))})


# policies of the first seed


def test_units_say_whose_policies_are_kept(made):
    spec = Result(next(iter(made.values()))).spec
    unit = Unit(((spec, 0), (spec, 1)), keep=Keep((0, 7), 10**6))
    again = from_json(unit.to_json())
    assert (again.runs, again.keep, again.id) == (unit.runs, unit.keep, Unit(unit.runs).id)
    (record,) = trained(unit, None, lambda n: None)
    assert (record.seeds, record.policy_seeds) == ([0, 1], [0])
    assert {name.partition("/")[0] for name in record.policies} == {"0"}
    (bare,) = trained(Unit(unit.runs), None, lambda n: None)
    assert (bare.policies, bare.policy_seeds) == ({}, [])
    assert bare.scores == record.scores


def test_large_policies_are_not_kept(made):
    spec = Result(next(iter(made.values()))).spec
    (record,) = trained(Unit(((spec, 0),), keep=small_only(0)), None, lambda n: None)
    size = record.policy_bytes()
    assert 0 < size <= KEPT_POLICY_BYTES
    (record,) = trained(Unit(((spec, 0),), keep=Keep((0,), size - 1)), None, lambda n: None)
    assert record.policy_seeds == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["inline", "local"])
def test_studies_keep_the_first_policy(engine, made, tmp_path):
    spec = Result(next(iter(made.values()))).spec
    assert train_missing([(spec, range(3))], tmp_path, Where(engine), how=How(small_only(0))) == 0
    packs.pack(tmp_path)
    record = records.read(tmp_path / spec.name, policies=True)
    assert (record.seeds, record.policy_seeds) == ([0, 1, 2], [0])
    found = run("evaluate", tmp_path / spec.name, "--episodes", "2")
    assert "over 1 seed; 2 seeds without a recorded policy" in " ".join(found.stdout.split())
    seeds = [*range(1, 4)]
    assert train_missing([(spec, seeds)], tmp_path, Where(engine), how=How(small_only(1))) == 0
    assert records.read(tmp_path / spec.name).policy_seeds == [
        0
    ]  # what is recorded is not run again


def test_records_without_policies(made, tmp_path):
    record = next(iter(made.values())).without_policies()
    spec = Result(record).spec
    records.write(tmp_path / spec.name, record)
    command = "deadtime train --env maze --agent delayed --delay 1 --set episodes=5 --set size=3"
    assert Result(record).command == command
    for found in (run("evaluate", tmp_path / spec.name), run("watch", tmp_path / spec.name)):
        assert found.returncode == 2
        assert "holds scores but no policies" in found.stderr
        assert f"train it with `{command}`" in found.stderr
    found = run(*command.split()[1:], "--out", tmp_path)
    assert found.returncode == 0
    assert f"{spec.name}" in "".join(found.stdout.split())
    assert run("evaluate", tmp_path / spec.name, "--episodes", "2").returncode == 0


@pytest.mark.slow
def test_reproduce_packs(tmp_path):
    found = run("reproduce", "tuning", "--seeds", "1", "--next", "2", "--out", tmp_path / "a")
    assert found.returncode == 0, found.stderr
    assert [path.name for path in (tmp_path / "a").glob("*.zip")] == ["maze.zip"]
    assert not [*(tmp_path / "a").glob("*/run.json")]
    assert len(records.names(tmp_path / "a")) == 2
    for name in records.names(tmp_path / "a"):
        record = records.read(tmp_path / "a" / name)
        assert record.policy_seeds == record.seeds
        assert record.id == runner.Result(record).spec.id


def test_the_study_lies_in_packs():
    names = {path.name for path in RESULTS.iterdir() if not path.name.startswith(".")}
    assert {"maze.zip", "ceilings.json", "figures"} <= names
    assert not [*RESULTS.glob("*/run.json")]
    assert not pack_archive.unreadable(RESULTS)
    assert len(records.names(RESULTS)) > 600


def published(kept):
    """The study's records that keep a policy, or those that keep none."""
    found = {name: records.read(RESULTS / name) for name in records.names(RESULTS)}
    return {name: record for name, record in found.items() if bool(record.policy_seeds) == kept}


@pytest.mark.slow
def test_published_cells_keep_the_weights_of_their_first_seed():
    assert all(record.policy_seeds == record.seeds[:1] for record in published(True).values())
    for record in published(False).values():
        spec = Result(record).spec
        large = (spec.env, spec.agent) == (
            "maze",
            "augmented",
        ) and spec.delay > 2  # a row for each visited queue
        assert large or spec.family.name == "atari", spec.name


@pytest.mark.slow
def test_published_weights_act():
    for name in published(True):
        result = Result(records.read(RESULTS / name, policies=True))
        assert result.record.policy_bytes() <= KEPT_POLICY_BYTES
        spec, (seed,) = result.spec, result.replayed
        if spec.agent == "delayed" and getattr(spec.learner, "model", "") == "simulator":
            with pytest.raises(ValueError, match="can't act without its environment"):
                result.policy()
            continue
        policy = result.policy()
        env = spec.family.gymnasium_form(spec.environment(seed), spec.delay, policy)
        obs, info = env.reset(seed=0)
        for _ in range(3):
            action = policy.act(obs, info["pending_actions"])
            assert env.action_space.contains(action)
            obs, _, terminated, truncated, info = env.step(action)
            assert not terminated
            assert not truncated


def test_records_of_format_1(made, tmp_path):
    """Format 1 called the provenance `made`; such records are the same records."""
    record = next(iter(made.values()))
    folder = records.write(tmp_path / "a", record)
    content = json.loads((folder / "run.json").read_text()) | {"schema": 1}
    content["made"] = content.pop("provenance")
    del content["digest"]
    text = json.dumps(content, indent=1, sort_keys=True)
    content["digest"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "run.json").write_text(json.dumps(content))
    assert content_of(records.read(folder, policies=True)) == content_of(record)

    arrays = dict(np.load(io.BytesIO(to_bytes([record]))))
    sent = json.loads(arrays.pop("json").tobytes()) | {"schema": 1}
    sent["records"][0]["made"] = sent["records"][0].pop("provenance")
    file = io.BytesIO()
    np.savez(file, said=np.frombuffer(json.dumps(sent).encode(), np.uint8), **arrays)
    assert content_of(from_bytes(file.getvalue())[0]) == content_of(record)
