"""Hostile archives: each is refused, and other packs are still read."""

import io
import json
import os
import shutil
import struct
import zipfile

import numpy as np
import pytest

from deadtime._support import files
from deadtime.runs import folder_report, pack_archive, packs, records
from tests.runs.pack_helpers import GOOD, archive, content_of, same, tree


def ordinary(originals, compression=zipfile.ZIP_STORED, **odd):
    """Return an archive as other programs write it, with the records' files first."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as written:
        for name in sorted(originals):
            written.writestr(f"{name}/run.json", "{}")
        for name, content in odd.items():
            written.writestr(name, content)
    return file.getvalue()


def encrypted(content):
    at = content.index(b"PK\1\2")
    return content[: at + 8] + b"\1" + content[at + 9 :]


def overlapping(content):
    """Return an archive whose second entry points to the first member."""
    first = content.index(b"PK\1\2")
    second = content.index(b"PK\1\2", first + 4)
    return content[: second + 42] + struct.pack("<I", 0) + content[second + 46 :]


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
        "each member occurs once, in the order of the names; a/run.json is not",
    ),
    "another order": (
        archive(GOOD[::-1]),
        "each member occurs once, in the order of the names; a/run.json is not",
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
def test_hostile_archives(what, packed, originals):
    content, why = HOSTILE[what]
    path = packed / "hostile.zip"
    path.write_bytes(content)
    name = next(iter(originals))
    assert content_of(records.read(packed / name, policies=True)) == content_of(
        originals[name]
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
    records.write(packed / name, originals[name])
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
def test_packs_that_are_no_plain_files(what, packed, originals):
    path = packed / "x.zip"
    if what == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(
            {"a link": packed / "maze.zip", "a dangling link": "/nowhere", "a device": "/dev/zero"}[
                what
            ]
        )
    same(packed, originals)
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
    """Rewrite the pack of a record with changed files, without any check."""
    found = pack_archive.find(packed, name)
    content = {file: found.content(file, np.inf) for file in found.members} | {
        k.replace("_", "."): v for k, v in changed.items()
    }
    with found.pack.open("wb") as file:
        pack_archive.write(file, [(name, one, content[one]) for one in sorted(content)])


def test_digests(packed, originals):
    name = next(name for name in originals if name.startswith("walk"))
    forged(packed, name, curves_npz=b"another")
    with pytest.raises(
        ValueError,
        match=rf"{name} in .*walk.zip is damaged, curves.npz is missing or was changed .*: "
        "restore the pack",
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
    with pytest.raises(ValueError, match="the pack's header of run.json differs from its entry"):
        records.read(packed / name)


@pytest.mark.slow
def test_sizes(packed, originals):
    """A file that would inflate to more than is read is refused, as in a folder."""
    name = next(name for name in originals if name.startswith("walk"))
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


def test_a_record_in_two_packs(packed, originals):
    shutil.copy(packed / "walk.zip", packed / "copy.zip")
    name = next(name for name in originals if name.startswith("walk"))
    with pytest.raises(
        ValueError,
        match=f"one pack .*; {name} is in .*copy.zip and .*walk.zip: move one of them elsewhere",
    ):
        records.read(packed / name)
    assert [*folder_report.refused(packed)] == [name]
