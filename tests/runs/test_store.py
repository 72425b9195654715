"""Records at a URL: one driver at a time, and nothing is lost with the network or a node."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import fsspec
import pytest

from deadtime.cli.report import Report
from deadtime.cli.status import Status
from deadtime.cli.sweep import Sweep
from deadtime.envs.maze_family import MazeFamily
from deadtime.learn import checkpoint, compiled_groups
from deadtime.runs import (
    checkpoint_store,
    engines,
    folder_report,
    object_store,
    records,
    store,
    units,
)
from deadtime.runs.checkpoint_store import checkpoints_of
from deadtime.runs.runner import train_missing
from deadtime.runs.store import Store, copied, opened
from deadtime.runs.units import Unit
from deadtime.runs.where import Where
from tests.commands import full
from tests.runs.test_engines import ASKED, CART, MAZE, everything, expected  # noqa: F401

pytestmark = pytest.mark.xdist_group("store")


@pytest.fixture
def url(monkeypatch, tmp_path):
    """Return a URL, which no process has as a folder."""
    monkeypatch.setattr(object_store, "BEAT_SECONDS", 0.3)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return f"file://{tmp_path}/bucket/sweep"


def names(url):
    fs, base = fsspec.core.url_to_fs(url)
    return {Path(name).relative_to(base).as_posix() for name in fs.find(base)}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["inline", full("local")])
def test_records_at_a_url_are_those_of_a_folder(url, engine, expected):  # noqa: F811
    with opened(url) as (root, at):
        assert train_missing(ASKED, root, Where(engine), at) == 0
    with copied(url) as root:
        assert everything(root) == expected
    assert names(url) == {f"{MAZE.name}.npz", f"{CART.name}.npz", ".status.json"}
    assert Status(url).run() == 0
    with opened(url) as (root, at):
        assert train_missing([*ASKED, (MAZE, range(11))], root, Where("inline"), at) == 0
    with copied(url) as root:
        assert records.read(root / MAZE.name).seeds == [*range(11)]


@pytest.mark.slow
def test_a_sweep_at_a_url_from_its_file_to_its_page(url, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = 'environments = ["maze"]\nagents = ["delayed", "oblivious"]\ndelays = [1]\nseeds = 2\n'
    text += "[overrides]\nepisodes = 20\n"
    Path("mine.toml").write_text(text)
    assert Sweep(Path("mine.toml"), url).run() == 0
    assert f"deadtime report {url}" in capsys.readouterr().out
    assert "mine.toml" in names(url)
    Report(url).run()
    assert "deadtime sweep mine.toml" in Path("report.html").read_text()


@pytest.mark.slow
def test_the_second_driver_refuses_and_a_dead_one_is_followed(url, expected, monkeypatch):  # noqa: F811
    first, second = Store(url), Store(url)
    with opened(url) as (root, _), first.driven(root):
        assert second.alive()["driver"].startswith(f"process {os.getpid()} on ")
        with (
            pytest.raises(ValueError, match=r"process \d+ on .* works at file://.*: wait for it"),
            second.driven(root),
        ):
            pass
    assert not second.alive()
    with opened(url) as (root, at):
        monkeypatch.setattr(Store, "_beat_on", lambda *a: None)  # as if its machine had stopped
        with at.driven(root):
            assert train_missing(ASKED[:1], root, Where("inline"), second) == 0
            with pytest.raises(ValueError, match="took over"):
                at.put(root / MAZE.name)


@pytest.mark.slow
def test_a_status_can_be_seen_from_elsewhere(url, capsys):
    """A driver is alive if its status changes, whatever the clocks say."""
    with opened(url) as (root, at):
        thread = Thread(target=train_missing, args=([(MAZE, range(64))], root, Where("inline"), at))
        thread.start()
        deadline = time.monotonic() + 60
        while "units" not in Store(url).status() and time.monotonic() < deadline:
            time.sleep(0.05)
        Status(url, json=True).run()
        thread.join()
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["units"] == 8
    with pytest.raises(ValueError, match="no status file found in"):
        Status(f"{url}-other").run()


@pytest.mark.slow
def test_the_next_driver_uploads_records_whose_upload_failed(url, expected, monkeypatch):  # noqa: F811
    monkeypatch.setattr(object_store, "_TRIES", 1)
    put = Store.put

    def down(self, folder):
        raise OSError("can't be reached (no route to host)")

    monkeypatch.setattr(Store, "put", down)
    words = r"can't be written to file://.* \(can't be reached .*: finished records are kept"
    with pytest.raises(OSError, match=words), opened(url) as (root, at):
        train_missing(ASKED[:1], root, Where("inline"), at)
    monkeypatch.setattr(Store, "put", put)
    trained, trained_now = units.trained, []
    monkeypatch.setattr(
        engines,
        "trained",
        lambda unit, *rest: trained_now.append(len(unit.runs)) or trained(unit, *rest),
    )
    with opened(url) as (root, at):
        assert train_missing(ASKED[:1], root, Where("inline"), at) == 0
    assert trained_now == [2]  # of 8 and 2
    with copied(url) as root:
        assert everything(root).items() < expected.items()


def test_a_network_that_fails_now_and_then(url, expected, monkeypatch):  # noqa: F811
    failed, pipe = [], fsspec.get_filesystem_class("file").pipe_file

    def sometimes(self, path, value, **more):
        if len(failed) % 2 == 0:
            failed.append(path)
            raise ConnectionError("reset by peer")
        failed.append(path)
        return pipe(self, path, value, **more)

    monkeypatch.setattr(object_store, "sleep", lambda seconds: None)
    monkeypatch.setattr(fsspec.get_filesystem_class("file"), "pipe_file", sometimes)
    with opened(url) as (root, at):
        assert train_missing(ASKED[:1], root, Where("inline"), at) == 0
    assert len(failed) > 4


@pytest.mark.slow
def test_checkpoints_follow_a_unit_to_another_machine(url, monkeypatch):
    """A process without a common disk resumes another's checkpoint, to the same bits."""
    unit = Unit(((CART, 0),))
    whole = units.trained(unit, None, lambda n: None)
    steps, restored, load = [], [], checkpoint.load

    def interrupt(n):
        steps.append(n)
        if sum(steps) > 200:
            raise KeyboardInterrupt

    monkeypatch.setattr(compiled_groups, "CHUNK_STEPS", 50)
    monkeypatch.setattr(compiled_groups, "WRITE_EVERY_SECONDS", -1.0)
    with pytest.raises(KeyboardInterrupt):
        units.trained(unit, f"{url}/.checkpoints", interrupt)
    (left,) = names(url)
    assert left.startswith(f".checkpoints/{unit.id}/")
    monkeypatch.setattr(checkpoint, "load", lambda *a: restored.append(a) or load(*a))
    again = units.trained(unit, f"{url}/.checkpoints", lambda n: None)
    assert len(restored) == 1
    assert (again[0].scores, again[0].curve.tobytes()) == (
        whole[0].scores,
        whole[0].curve.tobytes(),
    )
    assert names(url), "its record is not safe yet"
    (damaged,) = (Path(url.removeprefix("file://")) / ".checkpoints" / unit.id).iterdir()
    damaged.write_bytes(b"damaged")
    with pytest.raises(
        ValueError, match=f"{url}/.checkpoints/{unit.id}/.*: delete it, and the run starts again"
    ):
        units.trained(unit, f"{url}/.checkpoints", lambda n: None)
    checkpoint_store.drop_checkpoints(unit.id, f"{url}/.checkpoints")
    assert not names(url)


def test_checkpoints_that_can_not_be_deleted_do_no_harm(url, expected, monkeypatch):  # noqa: F811
    def denied(self, *more):
        raise PermissionError("DeleteObject denied")

    monkeypatch.setattr(compiled_groups, "CHUNK_STEPS", 50)
    monkeypatch.setattr(compiled_groups, "WRITE_EVERY_SECONDS", -1.0)
    monkeypatch.setattr(fsspec.get_filesystem_class("file"), "rm_file", denied)
    with opened(url) as (root, at):
        assert train_missing(ASKED[1:], root, Where("inline", retries=0), at) == 0
    with copied(url) as root:
        assert everything(root).items() < expected.items()


@pytest.mark.slow
def test_records_of_another_version_are_kept_and_run_again(url, expected, monkeypatch):  # noqa: F811
    with opened(url) as (root, at):
        assert train_missing(ASKED[:1], root, Where("inline"), at) == 0
    monkeypatch.setattr(MazeFamily, "version", 99)
    new = replace(MAZE)
    for seeds in (3, 12):
        with opened(url) as (root, at):
            assert train_missing([(new, range(seeds))], root, Where("inline"), at) == 0
            ((_, results),) = folder_report.experiments(root)
            assert [(result.spec.id, result.seeds) for result in results.values()] == [
                (new.id, [*range(seeds)])
            ]
    with copied(url) as root:
        old = {key: value for key, value in everything(root).items() if not key[0].endswith(new.id)}
        assert old == {key: value for key, value in expected.items() if key[0].startswith("maze")}
        with pytest.raises(ValueError, match=f"holds runs of .*, not of {new.id}: delete it"):
            records.add(root / next(iter(old))[0], records.read(root / new.name))


def test_what_is_no_record_is_named(url, tmp_path):
    (tmp_path / "bucket/sweep").mkdir(parents=True)
    (tmp_path / "bucket/sweep/notes.npz").write_bytes(b"mine")
    with (
        pytest.raises(
            ValueError, match=f"{url}/notes.npz holds no records .*or delete it and run them again"
        ),
        opened(url),
    ):
        pass
    (tmp_path / ".units").mkdir()
    (tmp_path / ".units/0123456789ab.npz").touch()
    with pytest.raises(
        ValueError, match=r"\.units/0123456789ab\.npz holds no records .*or delete it"
    ):
        train_missing(ASKED, tmp_path)


def test_errors_of_wrong_urls(tmp_path):
    with pytest.raises(ValueError, match=r"a URL is one that fsspec knows; got 'nope://x'"):
        Store("nope://x")
    with checkpoints_of("id", None) as folder:
        assert folder is None
    with checkpoints_of("id", str(tmp_path)) as folder:
        assert folder == tmp_path / "id"
    with pytest.raises(
        ValueError, match=r"a URL of records has no wildcards \(.*\); got 'file:///a\[1\]'"
    ):
        Store("file:///a[1]")
    assert (Store("memory://").url, Store("memory://a/").url) == ("memory://", "memory://a")


def test_an_upload_that_is_not_permitted_is_not_retried(url, monkeypatch):
    def denied(self, *more, **other):
        raise PermissionError("PutObject denied")

    monkeypatch.setattr(
        store, "sleep", lambda seconds: pytest.fail("waited") if seconds > 1 else None
    )
    monkeypatch.setattr(fsspec.get_filesystem_class("file"), "pipe_file", denied)
    with pytest.raises(OSError, match="PutObject denied"), opened(url) as (root, at):
        train_missing(ASKED[:1], root, Where("inline"), at)
