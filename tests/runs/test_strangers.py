"""Files that a stranger made: a record, a policy, a checkpoint, a sweep. None runs code or takes the memory; each is refused.

Digests are recomputed here as an attacker would: they tell damage, not who made a file.
"""

import io
import json
import os
import pickle
import re
import shutil
import struct
import sys
import tracemalloc
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import save_file

import deadtime
from deadtime._support import files
from deadtime.cli.main import main
from deadtime.cli.planned import load as load_mdp
from deadtime.envs.atari.emulator import Lane
from deadtime.envs.atari.games import Game, installed
from deadtime.learn import checkpoint
from deadtime.learn.frame_networks import named_arrays, new_q
from deadtime.learn.settings import PixelQ
from deadtime.runs import ceiling, folder_report, record_checks, records, sweep_file
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.record import Record
from deadtime.runs.record_format import from_bytes, to_bytes
from deadtime.runs.result import Result
from deadtime.runs.specs import from_canonical
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runtime import NetworkPolicy
from deadtime.studies.paper.report import page
from tests.runtime.kinds import frames_manifest

STATE = {"weights": jnp.arange(12.0).reshape(3, 4), "updates": jnp.int32(7)}
FURTHER = {"ended": np.zeros((0, 3))}
EXTENT = checkpoint.Extent(10, runs=2)
BIG = 2**28


@pytest.fixture(scope="module")
def trained():
    return {
        agent: deadtime.train("maze", agent, 2, seeds=2, size=3, episodes=20).record
        for agent in ("augmented", "delayed", "distribution")
    }


@pytest.fixture
def folder(trained, tmp_path):
    return records.write(tmp_path / "record", trained["augmented"])


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture
def marker(tmp_path):
    """What a file that gets to run code leaves behind."""
    path = tmp_path / "it ran"
    yield path
    assert not path.exists()


class Payload:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy(header, content=bytes(64), version=b"\1\0"):
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + content


def claims(shape, kind="'<f8'"):
    return npy(f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}")


def zipped(part, size=None, method=8, flags=0, crc=None, deflated=None, name=b"a.npy"):
    """An archive of one member, of which the directory may say anything."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    content = deflated or (packer.compress(part) + packer.flush() if method == 8 else part)
    crc = zlib.crc32(part) if crc is None else crc
    about = struct.pack(
        "<HHHHHIIIHH", 20, flags, method, 0, 33, crc, len(content), size or len(part), len(name), 0
    )
    local = b"PK\3\4" + about + name + content
    entry = b"PK\1\2" + struct.pack("<H", 20) + about + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    return (
        local + entry + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)
    )


def zeros(size):
    """So many zeros, deflated: a thousandth of that."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * (size // 2**20) + b"\3\0"


def hidden():
    """A directory in which the comment of the first of two members swallows the second."""
    content = npz(a=np.ones(3), b=np.ones(3))
    first, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    second = content.index(b"PK\1\2", first + 1)
    return content[: first + 32] + struct.pack("<H", end - second) + content[first + 34 :]


CONTENTS = {
    "nothing": lambda marker: b"",
    "a pickle": lambda marker: pickle.dumps(Payload(marker)),
    "objects": lambda marker: npz(a=np.array([Payload(marker)], dtype=object)),
    "objects of a false kind": lambda marker: zipped(
        claims("(1,)", "'|O'") + pickle.dumps([Payload(marker)])
    ),
    "words": lambda marker: npz(a=np.array(["a"])),
    "records of fields": lambda marker: npz(a=np.zeros(2, [("x", "f8"), ("y", "i4")])),
    "a bare array": lambda marker: npy("{'descr': '<f8', 'fortran_order': False, 'shape': (8,), }"),
    "2^60 elements": lambda marker: zipped(claims(f"({2**60},)")),
    "a negative axis": lambda marker: zipped(claims("(-8,)")),
    "two negative axes": lambda marker: zipped(claims("(-2, -4)")),
    "a product that wraps to 0": lambda marker: zipped(claims(f"({2**32}, {2**32})")),
    "fewer elements than bytes": lambda marker: zipped(claims("(2,)")),
    "no shape": lambda marker: zipped(claims("None")),
    "a header that goes on": lambda marker: zipped(npy("{'descr': ('<f8', ")),
    "a header that is deep": lambda marker: zipped(npy("-" * 9000 + "1")),
    "a header that is long": lambda marker: zipped(npy(" " * 60_000)),
    "a bomb": lambda marker: zipped(
        claims(f"({BIG // 8},)")[:128], size=BIG + 128, deflated=zeros(BIG)
    ),
    "a secret": lambda marker: zipped(claims("(8,)"), flags=1),
    "an unknown packing": lambda marker: zipped(claims("(8,)"), method=99),
    "another packing": lambda marker: zipped(claims("(8,)"), method=12),
    "damage": lambda marker: zipped(claims("(8,)"), crc=1),
    "no deflation": lambda marker: zipped(claims("(8,)"), deflated=b"\xff" * 40),
    "a hidden member": lambda marker: hidden(),
    "half of it": lambda marker: npz(a=np.zeros(100))[:500],
}


def bounded(action, most=2**25):
    """What it gives, in little memory."""
    tracemalloc.start()
    try:
        return action()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most


def refused(action, match="."):
    with pytest.raises(ValueError, match=match):
        bounded(action)


def forge(folder, contents=(), text=None, **changes):
    """Rewrite a record with digests that are right again."""
    for name, part in dict(contents).items():
        (folder / name).write_bytes(part)
    content = json.loads((folder / "run.json").read_text())
    content["files"] = {
        path.name: records._digest(path.read_bytes()) for path in folder.glob("*.npz")
    }
    content = {
        name: value
        for name, value in (content | changes).items()
        if value is not Ellipsis and name != "digest"
    }
    content["digest"] = records._digest(records._text(content).encode())
    (folder / "run.json").write_text(json.dumps(content))
    return folder


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


def test_a_member_that_inflates_to_more_than_it_says_takes_no_more():
    part = claims("(8,)")
    content = zipped(part, deflated=zlib_of(part) + zeros(BIG))
    assert bounded(lambda: files.arrays(content))["a"].tolist() == [0.0] * 8


def zlib_of(part):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)


def test_an_mdp_that_would_not_fit_is_not_inflated(tmp_path, monkeypatch):
    monkeypatch.setattr("deadtime.cli.planned.free_memory", lambda: 2.0**28)
    (tmp_path / "mdp.npz").write_bytes(CONTENTS["a bomb"](None))
    refused(
        lambda: load_mdp(tmp_path / "mdp.npz"),
        "its arrays would take 268,435,584 bytes, and at most 134,217,728 are read",
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
    """Of which the last would count, and the digest be right."""
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"id":', '"id": "another", "id":'))
    refused(lambda: records.read(folder), "run.json can't be read .*a name is there twice")


def test_another_format_of_arrays():
    file = io.BytesIO()
    np.lib.format.write_array(file, np.zeros(8), (2, 0))
    refused(
        lambda: files.arrays(zipped(file.getvalue())),
        "its arrays are not in the format of numpy.savez",
    )


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
    refused(lambda: records.read(folder), "is damaged, its seeds are not each there once")


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


@pytest.fixture
def evil(tmp_path, marker, monkeypatch):
    """A module that runs when it is imported."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "evil_module.py").write_text(f"import os\nos.mkdir({str(marker)!r})\n")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    return "gym:evil_module:CartPole-v1"


def spec_of(env="maze", kind="tabular", **more):
    return {"kind": kind, "env": env, "agent": "delayed"} | more


@pytest.mark.slow
def test_no_module_is_imported(evil, folder, trained, tmp_path):
    """By no record, in whatever form, and by no sweep without consent."""
    why = "a file can't import modules by itself; this one needs 'evil_module': if you trust it, import it first, or set "
    spec = from_canonical(spec_of(evil, "deep"))
    forge(folder, spec=spec.canonical(), id=spec.id)
    result = Result(records.read(folder))
    assert result.spec == spec
    assert evil in page(folder.parent, "")
    refused(lambda: deadtime.load(folder), "train it again")
    refused(lambda: result.spec.environment(0), re.escape(f"{why}DEADTIME_IMPORT=evil_module"))
    for command in ("evaluate", "watch"):
        with pytest.raises(SystemExit, match="2"):
            main([command, str(folder)])
    (unpacked,) = from_bytes(
        to_bytes([replace(trained["delayed"], spec=spec.canonical(), id=spec.id)])
    )
    refused(lambda: Result(unpacked).spec.environment(0), why)
    (tmp_path / "x.toml").write_text(f'environments = ["{evil}"]')
    why = f"x.toml, line 1: {why}DEADTIME_IMPORT=evil_module, or pass --allow-import evil_module$"
    refused(lambda: sweep_file.read(tmp_path / "x.toml"), why)


def test_modules_that_are_trusted(evil, folder, marker, monkeypatch):
    forge(folder, spec=spec_of(evil, "deep"))
    monkeypatch.setitem(sys.modules, "evil_module", sys)
    assert records.read(folder).seeds == [0, 1]
    monkeypatch.delitem(sys.modules, "evil_module")
    monkeypatch.setenv("DEADTIME_IMPORT", "other,evil_module")
    with pytest.raises(ValueError, match="this record is outdated"):
        Result(records.read(folder)).spec  # noqa: B018
    assert not marker.exists(), "to read takes no module"
    from_canonical(spec_of(evil, "deep")).environment(0)
    marker.rmdir()  # it ran, as it was allowed to


SPECS = [
    {},
    spec_of(5),
    spec_of("nowhere"),
    spec_of("../../x"),
    spec_of("gym:../../x"),
    spec_of("gymnax:../../x"),
    spec_of("atari:../../x", "deep"),
    spec_of(["maze"], "deep"),
    spec_of(agent="../../x"),
    spec_of(agent=[]),
    spec_of(delay="2"),
    spec_of(delay=10**9),
    spec_of(episodes=-1),
    spec_of(settings=[]),
    spec_of(settings={"size": 10**6}),
    spec_of(settings={"size": "10"}),
    spec_of(settings={"mro": 5}),
    spec_of("walk", settings={"length": 10**6}),
    spec_of(learner={"step_size": 10**400}),
    spec_of(learner=[1]),
    spec_of(until_return=[]),
    spec_of(nonsense=1),
    spec_of("cartpole", "deep", changes=[]),
    spec_of("cartpole", "deep", changes={"hidden": "x"}),
    spec_of("cartpole", "deep", changes={"learning_rate": 10**400}),
    spec_of("cartpole", "deep", preset="../../x"),
    spec_of("cartpole", "deep", preset=[]),
    spec_of("cartpole", "deep", evaluation_delays=5),
    spec_of("cartpole", "deep", learner={}),
    spec_of("cartpole", "deep", recorded=False),
    spec_of("gym:../../x", "deep"),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec)[:80])
def test_specs_that_name_no_run(spec, tmp_path):
    refused(lambda: from_canonical(spec))
    refused(
        lambda: (
            Result(
                Record("", spec, [], [], [], [], [], [], np.zeros(0, int), np.zeros((0, 0)))
            ).spec
        )
    )


@pytest.mark.parametrize("settings", [{"id": "x"}, {"render_mode": "human"}])
def test_specs_that_can_be_read_and_not_run(settings):
    spec = from_canonical(spec_of("gym:CartPole-v1", "deep", settings=settings))
    refused(lambda: spec.environment(0), next(iter(settings)))
    refused(lambda: replace(spec), next(iter(settings)))


def test_games_have_plain_names_without_the_emulator_too(monkeypatch):
    monkeypatch.setattr("deadtime.envs.atari.games.installed", lambda: False)
    assert from_canonical(spec_of("atari:MsPacman", "deep")).env == "atari:MsPacman"
    refused(lambda: from_canonical(spec_of("atari:\x1b[2J<b>", "deep")), "Atari has no game")


def changed(arrays, **changes):
    """With some arrays changed by functions, or gone."""
    return {
        name: changes[name.replace("/", "_")](array) if name.replace("/", "_") in changes else array
        for name, array in arrays.items()
        if changes.get(name.replace("/", "_"), True) is not None
    }


TABLES = [
    ("augmented", {"keys": lambda a: np.tile(a, (1, 50))}),
    ("augmented", {"keys": lambda a: np.tile(a, (9, 1))}),
    ("augmented", {"keys": lambda a: a[:0], "q": lambda a: a[:0]}),
    ("augmented", {"keys": lambda a: a.astype(np.int64)}),
    ("augmented", {"q": lambda a: a[:, :3]}),
    ("augmented", {"q": lambda a: a.ravel()}),
    ("augmented", {"q": None}),
    ("augmented", {"keys": None}),
    ("delayed", {"q": lambda a: a[:5]}),
    ("delayed", {"q": lambda a: a.astype(np.float32)}),
    ("delayed", {"likely": lambda a: a + 9}),
    ("delayed", {"likely": lambda a: a - 9}),
    ("delayed", {"likely": None}),
    ("distribution", {"successors": lambda a: np.full_like(a, 10**8)}),
    ("distribution", {"successors": lambda a: np.full_like(a, -(10**8))}),
    ("distribution", {"visits": lambda a: a[:, :, :0]}),
    ("distribution", {"visits": lambda a: np.tile(a, (1, 1, 9))}),
]


@pytest.mark.parametrize(
    ("agent", "changes"), TABLES, ids=lambda part: str([*part]) if isinstance(part, dict) else part
)
def test_tables_that_compiled_code_would_leave(agent, changes, trained):
    record = trained[agent]
    mine = {
        name.removeprefix("0/"): array
        for name, array in record.policies.items()
        if name.startswith("0/")
    }
    policies = {f"0/{name}": array for name, array in changed(mine, **changes).items()}
    refused(
        lambda: Result(replace(record, policies=policies)).policy(0),
        "(train it again|is .* of shape .*; got )",
    )


def layers(part, widths, lead=()):
    """A network of zeros, as a record holds it."""
    arrays = {}
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        arrays |= {f"{part}/{i}/weight": np.zeros((*lead, outputs, inputs), np.float32)}
        arrays |= {f"{part}/{i}/bias": np.zeros((*lead, outputs), np.float32)}
    return arrays


def deep_policy(agent, arrays, **changes):
    spec = DeepSpec("cartpole", agent, 2, "best", changes=changes)
    record = Record(
        spec.id, spec.canonical(), [0], [], [], [], [], [], np.zeros(0, int), np.zeros((1, 0))
    )
    return Result(
        replace(record, policies={f"0/{name}": array for name, array in arrays.items()})
    ).policy(0)


SCALES = {
    f"{part}/{name}": np.ones(4, np.float32)
    for part in ("inputs", "changes")
    for name in ("mean", "deviation")
}
DEEP = {
    "delayed": layers("q", (4, 64, 64, 2))
    | layers("model", (6, 64, 64, 4), (1,))
    | SCALES
    | {"capacity": np.array(2)},
    "augmented": layers("q", (8, 64, 64, 2)) | SCALES | {"capacity": np.array(2)},
    "recurrent": layers("layer", (4, 64))
    | {
        f"layer/1/{name}": np.zeros(shape, np.float32)
        for name, shape in (("weight", (3, 64)), ("bias", 3))
    }
    | {
        "lstm/input": np.zeros((256, 64)),
        "lstm/output": np.zeros((256, 64)),
        "lstm/bias": np.zeros(256),
    }
    | {
        f"norm/{i}/{name}": np.zeros(n)
        for i, n in enumerate((256, 256, 64))
        for name in ("gain", "shift")
    },
}
NETWORKS = [
    ("delayed", {"q_0_bias": lambda a: a[:1]}),
    ("delayed", {"q_0_bias": lambda a: a.reshape(64, 1)}),
    ("delayed", {"q_0_weight": lambda a: a[:, :3]}),
    ("delayed", {"q_1_weight": lambda a: np.tile(a, (1, 99))}),
    ("delayed", {"q_2_weight": lambda a: np.tile(a, (2, 1)), "q_2_bias": lambda a: np.tile(a, 2)}),
    ("delayed", {"q_2_bias": None}),
    ("delayed", {"q_0_weight": None}),
    ("delayed", {"q_0_weight": lambda a: a.ravel()}),
    ("delayed", {"model_0_weight": lambda a: a[:, :, :4]}),
    ("delayed", {"model_0_weight": lambda a: a[:0]}),
    ("delayed", {"model_2_weight": lambda a: a[:, :1], "model_2_bias": lambda a: a[:, :1]}),
    ("delayed", {"inputs_mean": lambda a: a[:1]}),
    ("delayed", {"changes_deviation": lambda a: np.tile(a, 2)}),
    ("delayed", {"capacity": None}),
    ("delayed", {"capacity": lambda a: np.arange(5)}),
    ("augmented", {"capacity": lambda a: np.array(1)}),
    ("augmented", {"capacity": lambda a: np.array(10**9)}),
    ("augmented", {"capacity": lambda a: np.array(1), "q_0_weight": lambda a: a[:, :6]}),
    ("recurrent", {"layer_0_weight": lambda a: a[:9]}),
    ("recurrent", {"layer_1_weight": lambda a: a[:2], "layer_1_bias": lambda a: a[:2]}),
    ("recurrent", {"lstm_output": lambda a: a[:, :9]}),
    ("recurrent", {"lstm_bias": lambda a: a[:-3]}),
    ("recurrent", {"lstm_bias": None}),
    ("recurrent", {"norm_2_gain": None, "norm_2_shift": None}),
]


@pytest.mark.parametrize("agent", DEEP)
def test_networks_that_fit(agent):
    assert deep_policy(agent, DEEP[agent]).act(np.zeros(4), [0, 1]) == 0


@pytest.mark.parametrize(
    ("agent", "changes"),
    NETWORKS,
    ids=lambda part: str([*part]) if isinstance(part, dict) else part,
)
def test_networks_that_do_not_fit(agent, changes):
    refused(lambda: deep_policy(agent, changed(DEEP[agent], **changes)), "train it again")


def test_settings_that_the_arrays_do_not_have():
    refused(lambda: deep_policy("delayed", DEEP["delayed"], members=2**31), "train it again")
    refused(
        lambda: deep_policy("recurrent", DEEP["recurrent"] | {"norm/2/gain": np.zeros(3)}),
        "train it again",
    )


def test_networks_of_frames():
    shown = PixelQ(channels=(2, 2, 2), hidden=4)
    like = jax.eval_shape(lambda key: new_q(key, shown, 18), jax.random.key(0))
    arrays = named_arrays(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like))

    def policy(arrays, delay=1, capacity=1):
        manifest = frames_manifest("augmented", "queue", delay, capacity=capacity)
        return NetworkPolicy(manifest, arrays)

    policy(arrays)
    narrow, bare = (
        arrays[".hidden"][:, :5],
        {name: array for name, array in arrays.items() if name != ".out"},
    )
    for wrong in (
        arrays | {".out": arrays[".out"][:9]},
        arrays | {".hidden": arrays[".hidden"].astype(np.float64)},
        bare,
    ):
        refused(lambda wrong=wrong: policy(wrong), "is float32 of shape .*; got ")
    refused(lambda: policy(arrays | {".hidden": narrow}), "is float32 of shape .*; got ")
    refused(
        lambda: policy(arrays, capacity=0),
        "inputs for all pending actions; got capacity=0, delay=1: .*train it again",
    )
    refused(
        lambda: policy(arrays, delay=2),
        "inputs for all pending actions; got capacity=1, delay=2: .*train it again",
    )
    refused(lambda: policy(arrays, capacity=2**31 - 1), "is float32 of shape .*; got ")


@pytest.mark.slow
def test_strange_words_on_the_page_and_the_terminal(evil, tmp_path):
    """They are shown, not obeyed."""
    words = "<script>alert(1)</script>$\\x[/red]\x1b]0;x\x07\ud800"
    spec = DeepSpec("gym:CartPole-v1", "oblivious", settings={"sutton_barto_reward": words * 9})
    record = Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=[0],
        scores=[1.0],
        training_scores=[float("nan")],
        episodes=[1],
        status=[words],
        seconds=[1.0],
        points=np.arange(1, 3),
        curve=np.zeros((1, 2), np.float32),
        provenance=[{"date": "2026-01-01", "device": "<img src=x onerror=alert(1)>", "seeds": [0]}],
    )
    records.write(tmp_path / "<b>", record)
    (tmp_path / "<i>.toml").write_text(f'environments = ["{evil}"]')
    text = page(tmp_path, "today")
    assert "<script" not in text
    assert "<img src=x" not in text
    assert "&lt;script&gt;alert(1)" in text
    text.encode()
    ((experiment, results),) = folder_report.experiments(tmp_path)
    console = Console(file=io.StringIO(), width=200)
    console.print(folder_report.printed(experiment, results))
    assert "\x1b" not in console.file.getvalue()
    assert "[/red]" in console.file.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 99_999,
        "[]",
        "5",
        '{"a": 5}',
        '{"a": {"0": 5}}',
        '{"a": {"0": [1]}}',
        '{"a": {"0": ["x", 1]}}',
        '{"a": {"0": [Infinity, 1]}}',
        '{"a": {"0": [0.5, 1.5]}}',
        '{"a": {"0": [0.5, -1]}}',
    ],
)
def test_kept_optima(text, tmp_path):
    spec = TabularSpec("maze", "delayed", settings={"size": 3})
    contents = [text]
    if text[0] == "{":
        known = json.loads(text)
        contents.append(json.dumps(known | {"digest": ceiling._digest(known)}))
    for content in contents:
        (tmp_path / "ceilings.json").write_text(content)
        refused(
            lambda: ceiling.mean_ceiling(tmp_path, spec, [0]),
            "keeps solved optima and can't be read: delete it",
        )


def test_optima_that_were_changed(tmp_path):
    """Or that no digest stands for, as in files of old."""
    spec, path = TabularSpec("maze", "delayed", settings={"size": 3}), tmp_path / "ceilings.json"
    found = ceiling.mean_ceiling(tmp_path, spec, [0])
    assert ceiling.mean_ceiling(tmp_path, spec, [0]) == found
    text = path.read_text()
    content = json.loads(text)
    path.write_text(
        json.dumps({name: value for name, value in content.items() if name != "digest"})
    )
    refused(
        lambda: ceiling.mean_ceiling(tmp_path, spec, [0]),
        "keeps solved optima and can't be read: delete it",
    )
    number = f"{found.value!r}"
    assert number in text
    path.write_text(text.replace(number, f"{number[:-1]}{(int(number[-1]) + 1) % 10}"))
    refused(
        lambda: ceiling.mean_ceiling(tmp_path, spec, [0]),
        "keeps solved optima and can't be read: delete it",
    )
    results = Path(__file__).parents[2] / "results" / "paper"
    assert len(ceiling.kept(results)) > 20


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 99_999, 'environments = ["maze"]\n[overrides]\nsize = 1000000']
)
def test_sweeps(text, tmp_path):
    (tmp_path / "x.toml").write_text(text)
    refused(lambda: sweep_file.read(tmp_path / "x.toml"), "x.toml")


def checkpointed(path, parts=None, about='{"steps": 7, "seconds": 1.5}', right=True):
    """A checkpoint with a right sum."""
    usual = {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(STATE))} | {
        "ended": np.ones((4, 3))
    }
    parts = {name: part for name, part in (usual | (parts or {})).items() if part is not None}
    save_file(
        parts,
        path,
        metadata={"about": about, "sum": checkpoint._sum(parts, about) if right else "0"},
    )
    return path


@pytest.mark.slow
def test_a_checkpoint_is_read(tmp_path):
    state, arrays, about = checkpoint.load(checkpointed(tmp_path / "x"), STATE, FURTHER, EXTENT)
    assert (state["weights"] == STATE["weights"]).all()
    assert (arrays["ended"].tolist(), about) == (
        [[1.0] * 3] * 4,
        {"steps": 7, "seconds": 1.5, "resumed_at": []},
    )


ABOUT = [
    "[" * 99_999,
    "[]",
    "{}",
    '{"steps": "7", "seconds": 1}',
    '{"steps": 7, "seconds": []}',
    '{"steps": 7, "steps": 8}',
]
ABOUT += [
    '{"steps": 1e9, "seconds": 1}',
    f'{{"steps": {10**30}, "seconds": 1}}',
    '{"steps": 7, "seconds": 1, "resumed_at": 5}',
]


def raw(header, content=bytes(64)):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + content


def tensor(kind="F32", shape=(4,), first=0, last=16):
    return {"dtype": kind, "shape": shape, "data_offsets": [first, last]}


HEADERS = {
    "a pickle": lambda marker: pickle.dumps(Payload(marker)),
    "nothing": lambda marker: b"",
    "a header of 2^60 bytes": lambda marker: struct.pack("<Q", 2**60) + bytes(64),
    "a header of 2^64 - 1 bytes": lambda marker: b"\xff" * 8 + bytes(64),
    "a header that is deep": lambda marker: raw(b'{"a":' * 9999),
    "no header": lambda marker: raw([]),
    "overlapping arrays": lambda marker: raw(
        {"a": tensor(), "b": tensor(first=8, last=24)}, bytes(24)
    ),
    "arrays beyond the end": lambda marker: raw({"a": tensor(shape=[2**40], last=2**42)}),
    "a shape that wraps": lambda marker: raw({"a": tensor(shape=[2**33, 2**33, 4])}),
    "a negative shape": lambda marker: raw({"a": tensor(shape=[-4])}),
    "an unknown kind": lambda marker: raw({"a": tensor("PICKLE")}),
    "a kind that NumPy lacks": lambda marker: raw({"a": tensor("F8_E4M3", (64,), last=64)}),
    "a name twice": lambda marker: raw(b'{"a":1,"a":2}'),
}


@pytest.mark.parametrize("what", HEADERS)
def test_no_checkpoint_does_harm(what, tmp_path, marker):
    path = tmp_path / "x.safetensors"
    path.write_bytes(HEADERS[what](marker))
    refused(
        lambda: checkpoint.load(path, STATE, FURTHER, EXTENT),
        "x.safetensors is no checkpoint of this run .*: delete it",
    )


@pytest.mark.parametrize("about", ABOUT, ids=lambda about: about[:50])
def test_checkpoints_that_say_what_no_run_says(about, tmp_path):
    refused(
        lambda: checkpoint.load(checkpointed(tmp_path / "x", about=about), STATE, FURTHER, EXTENT),
        "is no checkpoint of this run",
    )


@pytest.mark.parametrize(
    "parts",
    [
        {"state/0": None},
        {"state/0": np.zeros(4, np.int32)},
        {"state/1": np.zeros((3, 5), np.float32)},
        {"state/1": np.zeros((3, 4))},
        {"ended": None},
        {"ended": np.zeros((4, 2))},
        {"ended": np.zeros((4, 3), np.float32)},
    ],
    ids=str,
)
def test_checkpoints_of_other_runs(parts, tmp_path):
    refused(
        lambda: checkpoint.load(checkpointed(tmp_path / "x", parts), STATE, FURTHER, EXTENT),
        "(is .* of shape .*|has at most .* numbers); got ",
    )


def test_a_damaged_checkpoint(tmp_path):
    refused(
        lambda: checkpoint.load(checkpointed(tmp_path / "x", right=False), STATE, FURTHER, EXTENT),
        "it is damaged",
    )


@pytest.fixture(scope="module")
def lane():
    if not installed():
        pytest.skip("ale-py is not installed")
    lane = Lane(Game("Pong", 2, look_ahead="kept"))
    lane.reset()
    lane.step(1)
    return lane


def lane_with(lane, said=lambda said: said, **changes):
    arrays = files.arrays(lane.saved())
    text = json.dumps(said(json.loads(arrays["said"].tobytes()))).encode()
    return npz(**changed(arrays, **changes) | {"said": np.frombuffer(text, np.uint8)})


LANES = {
    "another queue": {"queue": lambda a: a[:1]},
    "actions that there are not": {"queue": lambda a: a + 100},
    "no queue": {"queue": None},
    "other screens": {"real_screens": lambda a: a[:1]},
    "frames of another kind": {"ahead_stack": lambda a: a.astype(np.int64)},
    "a state that is too short": {"real_state": lambda a: a[:4000]},
    "a state that is too long": {"ahead_state": lambda a: np.tile(a, 100)},
    "a state of other numbers": {"real_state": lambda a: a.astype(np.int64)},
    "no path": {"path_0": None},
    "another action": {"said": lambda said: said | {"real": [99, 0, 0]}},
    "too few numbers": {"said": lambda said: said | {"real": [0]}},
    "no numbers": {"said": lambda said: said | {"ahead": None}},
    "steps that are none": {"said": lambda said: said | {"steps": "5"}},
    "a return that is none": {"said": lambda said: said | {"earned": []}},
    "too few generators": {"said": lambda said: said | {"rngs": said["rngs"][:1]}},
    "another generator": {"said": lambda said: said | {"rngs": [{"bit_generator": "MT19937"}] * 3}},
    "no generator": {"said": lambda said: said | {"rngs": [{}] * 3}},
    "a state too large": {
        "said": lambda said: said | {"rngs": [one | {"has_uint32": 10**30} for one in said["rngs"]]}
    },
    "a list": {"said": lambda said: []},
}


@pytest.mark.slow
@pytest.mark.parametrize("what", [*LANES, *CONTENTS])
def test_no_emulator_goes_on_from_what_is_not_its_own(what, lane, marker):
    content = CONTENTS[what](marker) if what in CONTENTS else lane_with(lane, **LANES[what])
    refused(lambda: lane.restore(content))


@pytest.mark.slow
def test_a_pool_says_so_too(lane, monkeypatch):
    from deadtime.envs.atari.pool import AtariPool
    from deadtime.learn import host_loop
    from deadtime.learn.host_loop import HostGroup

    good, bad = lane_with(lane), lane_with(lane, queue=lambda a: a + 100)
    for content, why in (
        (good, "turn/0 is uint8 of shape"),
        (bytes(10**6), "at most 320000"),
        (bad, "for the reason above"),
    ):
        group = object.__new__(HostGroup)
        group.pairs, group.program = [0], SimpleNamespace(lanes=1, capacity=2, env=None)
        monkeypatch.setattr(host_loop, "lanes_of", lambda *given: [])
        monkeypatch.setattr(HostGroup, "_new_pool", lambda self, lanes: AtariPool([lane.game], 1))
        with pytest.raises(ValueError, match=why):
            group._load_pool({"lane/0": np.frombuffer(content, np.uint8)})


@st.composite
def damage(draw, content):
    """The same with some bits flipped, cut short, or with a part of it put elsewhere."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        kind = draw(st.sampled_from(["flip", "byte", "cut", "splice", "drop"]))
        first, last = sorted(
            draw(st.tuples(st.integers(0, len(content)), st.integers(0, len(content))))
        )
        if kind == "cut":
            content = content[:at]
        elif kind == "splice":
            content = content[:at] + content[first:last] + content[at:]
        elif kind == "drop":
            content = content[:first] + content[last:]
        elif content:
            new = (
                content[at] ^ 1 << draw(st.integers(0, 7))
                if kind == "flip"
                else draw(st.integers(0, 255))
            )
            content = content[:at] + bytes([new]) + content[at + 1 :]
    return content


def same(first, second):
    """Whether two records, or what arrays and numbers are in two files, are the same to the bit."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            same(first[name], second[name]) for name in first
        )
    if isinstance(first, Record):
        return same(vars(first), vars(second))
    if isinstance(first, np.ndarray | jax.Array):
        return (first.dtype, first.shape, first.tobytes()) == (
            second.dtype,
            second.shape,
            second.tobytes(),
        )
    return first == second or json.dumps(first) == json.dumps(second)


def fuzz(data, trained, scratch):
    """Whatever is done to a file, it is read as it was or refused."""
    record = trained["augmented"]
    which = data.draw(
        st.sampled_from(["run.json", "curves.npz", "policies.npz", "packed", "checkpoint"])
    )
    if which == "packed":
        path = scratch / "packed.npz"
        path.write_bytes(to_bytes([record]))
        read = lambda: dict(enumerate(from_bytes(path.read_bytes())))  # noqa: E731
    elif which == "checkpoint":
        path = checkpointed(scratch / "x.safetensors")
        read = lambda: dict(enumerate(checkpoint.load(path, STATE, FURTHER, EXTENT)))  # noqa: E731
    else:
        shutil.rmtree(scratch / "record", ignore_errors=True)
        path = records.write(scratch / "record", record) / which
        read = lambda: records.read(scratch / "record", policies=True)  # noqa: E731
    original = read()
    path.write_bytes(data.draw(damage(path.read_bytes())))
    if which in ("curves.npz", "policies.npz") and data.draw(st.booleans()):
        forge(path.parent)
    try:
        found = bounded(read)
    except ValueError:
        return
    assert same(found, original)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def rewritten(draw, content):
    """JSON with something else in one place."""
    if isinstance(content, dict) and content and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(content)))
        new = draw(rewritten(content[name]))
        return {key: new if key == name else value for key, value in content.items()}
    if isinstance(content, list) and content and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(content) - 1))
        return [*content[:at], draw(rewritten(content[at])), *content[at + 1 :]]
    return draw(JSON)


def fuzz_forged(data, trained, scratch):
    """Whatever a record says, with digests that are right, it and its policy are read or refused."""
    folder = scratch / "forged"
    shutil.rmtree(folder, ignore_errors=True)
    record = trained[data.draw(st.sampled_from([*trained]))]
    records.write(folder, record)
    content = json.loads((folder / "run.json").read_text())
    content = data.draw(
        rewritten(
            {name: value for name, value in content.items() if name not in ("digest", "schema")}
        )
    )
    arrays = dict(record.policies)
    for name in data.draw(st.lists(st.sampled_from([*arrays]), max_size=2)):
        shape = data.draw(st.lists(st.integers(0, 12), max_size=3))
        kind = data.draw(
            st.sampled_from([arrays[name].dtype, np.dtype("f4"), np.dtype("i8"), np.dtype("u1")])
        )
        arrays[name] = np.full(shape, data.draw(st.integers(0, 12)), kind)
    forge(
        folder,
        {"policies.npz": npz(**arrays)},
        **(content if isinstance(content, dict) else {"spec": content}),
    )
    try:
        policy = bounded(lambda: deadtime.load(folder))
    except ValueError:
        return
    assert policy.act(0, [0] * policy.delay) in range(4)


QUICK = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
LONG = settings(QUICK, max_examples=2000)


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_damage_never_passes_for_the_original(data, trained, scratch):
    fuzz(data, trained, scratch)


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_nothing_that_is_said_is_more_than_refused(data, trained, scratch):
    fuzz_forged(data, trained, scratch)


@pytest.mark.full
@LONG
@given(data=st.data())
def test_damage_never_passes_for_the_original_at_length(data, trained, scratch):
    fuzz(data, trained, scratch)


@pytest.mark.full
@LONG
@given(data=st.data())
def test_nothing_that_is_said_is_more_than_refused_at_length(data, trained, scratch):
    fuzz_forged(data, trained, scratch)
