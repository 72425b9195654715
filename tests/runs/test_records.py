"""Forged records: none runs code or takes the memory, and each is refused.

Digests are recomputed here as an attacker would: they tell damage, not who made a file.
"""

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import deadtime
from deadtime._support import files
from deadtime.cli.planned import load as load_mdp
from deadtime.runs import record_checks, records
from deadtime.runs.record_format import from_bytes
from deadtime.runs.result import Result
from tests.forgery import CONTENTS, Payload, claims, forge, npz, refused, zipped


def test_the_original_is_read(folder, trained):
    forge(folder)
    policy = deadtime.load(folder, 1)
    expected = Result(trained["augmented"]).policy(1)
    assert policy.q_values(0, [1, 2]).tolist() == expected.q_values(0, [1, 2]).tolist()
    assert files.arrays(zipped(claims("(8,)")))["a"].tolist() == [0.0] * 8


@pytest.mark.parametrize("what", CONTENTS)
def test_no_array_file_does_harm(what, folder, marker, tmp_path):
    content = CONTENTS[what](marker)
    refused(lambda: files.arrays(content), "it is no .npz file that can be read")
    refused(
        lambda: from_bytes(content),
        "this holds no records that can be read .*: use the version",
    )
    (tmp_path / "mdp.npz").write_bytes(content)
    if what != "a bomb":  # which there is memory for
        refused(
            lambda: load_mdp(tmp_path / "mdp.npz"),
            "must be an .npz file of arrays of numbers; it can't be read as one",
        )
    forge(folder, {"policies.npz": content})
    refused(
        lambda: deadtime.load(folder),
        "is damaged, policies.npz can't be read, .*: delete the folder and run it again",
    )
    assert records.read(folder).seeds == [0, 1], (
        "policies that are not asked for are not looked into"
    )
    forge(folder, {"curves.npz": content})
    refused(
        lambda: records.read(folder),
        "is damaged, curves.npz can't be read, .*: delete the folder and run it again",
    )


TEXTS = {
    "a pickle": lambda marker: pickle.dumps(Payload(marker)),
    "deep lists": lambda marker: b"[" * 100_000,
    "deep names": lambda marker: b'{"a":' * 100_000,
    "deep, and whole": lambda marker: (
        b'{"digest": "", "schema": 1, "provenance": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    ),
    "deep, and long": lambda marker: (
        b'{"digest": "", "schema": 1, "provenance": '
        + b"[" * 900
        + b"1," * 10**6
        + b"1"
        + b"]" * 900
        + b"}"
    ),
    "a number of 5000 digits": lambda marker: b'{"schema": ' + b"1" * 5000 + b"}",
    "no UTF-8": lambda marker: b'{"schema": "\xff"}',
    "a word": lambda marker: b'"schema"',
    "no digest": lambda marker: b'{"schema": 1}',
    "nothing": lambda marker: b"",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", TEXTS)
def test_no_json_does_harm(what, folder, marker):
    content = TEXTS[what](marker)
    (folder / "run.json").write_bytes(content)
    refused(
        lambda: records.read(folder), "is damaged, run.json .*: delete the folder and run it again"
    )
    refused(
        lambda: from_bytes(npz(json=np.frombuffer(content, np.uint8))),
        "this holds no records that can be read",
    )


def test_names_that_are_there_twice(folder):
    """Of two equal names the last would count, and the digest would be right."""
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"id":', '"id": "another", "id":'))
    refused(lambda: records.read(folder), "run.json can't be read .*a name occurs twice")


def test_sizes_of_text(folder):
    os.truncate(folder / "run.json", files.TEXT_BYTES + 1)
    refused(
        lambda: records.read(folder),
        "run.json has 16,777,217 bytes, and at most 16,777,216 are read",
    )


FALSE = [
    {"seeds": 2},
    {"seeds": []},
    {"seeds": [0, 0]},
    {"seeds": [0, -1]},
    {"seeds": [0, True]},
    {"seeds": [0, 10**30]},
    {"seeds": [0, "1"]},
    {"seeds": ...},
    {"scores": [1.0]},
    {"scores": ["1", "2"]},
    {"scores": [1, 10**400]},
    {"scores": {"0": 1, "1": 2}},
    {"training_scores": None},
    {"seconds": [[1.0], [2.0]]},
    {"episodes": [1.5, 2]},
    {"status": [1, 2]},
    {"id": 5},
    {"id": ...},
    {"spec": []},
    {"spec": {}},
    {"spec": {"env": ["maze"]}},
    {"spec": {"env": "maze", "agent": "delayed"}},
    {"spec": {"kind": "other", "env": "maze", "agent": "delayed"}},
    {"scores": [1e308, 1.0]},
    {"training_scores": [1.0, -1e39]},
    {"scores": [float("inf"), 1.0]},
    {"seconds": [float("nan"), 1.0]},
    {"seconds": [-1.0, 1.0]},
    {"episodes": [-1, 20]},
    {"status": ["x" * 201, "complete"]},
    {"policy_seeds": [0, 0]},
    {"provenance": []},
    {"provenance": {}},
    {"provenance": ["x"]},
    {"provenance": [{"date": "2026-01-01", "seeds": [0]}]},
    {"provenance": [{"date": "2026-01-01", "seeds": [0, 0]}]},
    {"provenance": [{"date": "yesterday", "seeds": [0, 1]}]},
    {"provenance": [{"date": 5, "seeds": [0, 1]}]},
    {"provenance": [{"seeds": [0, 1]}]},
    {"policy_seeds": [0, 1, 7]},
    {"policy_seeds": "01"},
    {"policy_seeds": [0]},
    {"files": ...},
    {"files": []},
    {"files": {}},
    {"files": {"policies.npz": ""}},
    {"files": {"curves.npz": None}},
]


@pytest.mark.parametrize("changes", FALSE, ids=str)
def test_what_no_training_says_is_refused(changes, folder):
    forge(folder, **changes)
    refused(
        lambda: records.read(folder, policies=True),
        "is damaged, .*: delete the folder and run it again",
    )


@pytest.mark.parametrize("seeds", [[], [0, 0], [0, -1]], ids=str)
def test_records_of_no_seeds(seeds, folder):
    content = {name: [kind(1)] * len(seeds) for name, kind in record_checks.KINDS.items()}
    content |= {
        "seeds": seeds,
        "policy_seeds": seeds,
        "provenance": [{"date": "2026-01-01", "seeds": seeds}],
    }
    forge(
        folder,
        {"curves.npz": npz(points=np.arange(3), curve=np.zeros((len(seeds), 3), np.float32))},
        **content,
    )
    refused(lambda: records.read(folder), "is damaged, its seeds are repeated")


@pytest.mark.parametrize(
    "name",
    ["../elsewhere.npz", "/etc/hostname", "../record/curves.npz", "a/../curves.npz", "other.npz"],
)
def test_files_outside_the_folder_are_not_opened(name, folder):
    shutil.copy(folder / "curves.npz", folder.parent / "elsewhere.npz")
    shutil.copy(folder / "curves.npz", folder / "other.npz")
    (folder / "a").mkdir()
    found = {
        one: records._digest((folder / one).read_bytes())
        for one in ("curves.npz", "policies.npz", name)
    }
    refused(
        lambda: records.read(forge(folder, files=found)),
        "its files are curves.npz and policies.npz; got ",
    )


@pytest.mark.parametrize("name", ["run.json", "curves.npz", "policies.npz"])
def test_links_and_pipes_are_not_followed(name, folder):
    content = (folder / name).read_bytes()
    (folder.parent / "elsewhere").write_bytes(content)
    for put in (lambda path: path.symlink_to(folder.parent / "elsewhere"), os.mkfifo, Path.mkdir):
        (folder / name).rmdir() if (folder / name).is_dir() else (folder / name).unlink()
        put(folder / name)
        refused(
            lambda: records.read(folder), f"{name} is no plain file but a link, pipe or the like"
        )


def rows(**changes):
    usual = {"points": np.arange(1, 4), "curve": np.zeros((2, 3), np.float32)} | changes
    return npz(**{name: array for name, array in usual.items() if array is not None})


CURVES = {
    "good": rows(),
    "other seeds": rows(curve=np.zeros((3, 3), np.float32)),
    "other points": rows(points=np.arange(5)),
    "points of two axes": rows(points=np.zeros((3, 1), int)),
    "points that are no whole numbers": rows(points=np.arange(3.0)),
    "curve of whole numbers": rows(curve=np.zeros((2, 3), int)),
    "curve of wide numbers": rows(curve=np.zeros((2, 3))),
    "negative points": rows(points=np.arange(-1, 2)),
    "no points": rows(points=np.zeros(0, int), curve=np.zeros((2, 0), np.float32)),
    "more points than a page shows": rows(
        points=np.arange(10_001), curve=np.zeros((2, 10_001), np.float32)
    ),
    "other delays of wide numbers": rows(others=np.zeros((2, 1))),
    "other delays of other seeds": rows(others=np.zeros((3, 1), np.float32)),
    "other delays of one axis": rows(others=np.zeros(2, np.float32)),
    "no curve": rows(curve=None),
    "what is not its own": rows(scores=np.zeros(2)),
    "one more": rows(more=np.zeros(2)),
}


@pytest.mark.parametrize("what", CURVES)
def test_curves_are_those_of_the_seeds(what, folder):
    forge(folder, {"curves.npz": CURVES[what]})
    if what == "good":
        assert records.read(folder).curve.shape == (2, 3)
    else:
        refused(lambda: records.read(folder), "is damaged, ")
