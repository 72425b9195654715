"""Engines: the same records wherever runs are done, whatever dies on the way."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deadtime.experiments import driver, engines, records, units
from deadtime.experiments.deep_specs import DeepSpec
from deadtime.experiments.driver import Status
from deadtime.experiments.runner import Where, train_missing
from deadtime.experiments.specs import TabularSpec
from deadtime.experiments.units import Unit, heard, units_of

TINY = {"hidden": (4,), "batch": 4, "replay_transitions": 50}
MAZE = TabularSpec("maze", "delayed", 2, 60, {"size": 4}, evaluation_episodes=3)
CART = DeepSpec("cartpole", "oblivious", 1, "paper", 400, changes=TINY, evaluation_episodes=2)
ASKED = [(MAZE, range(10)), (CART, [0, 1])]
pytestmark = pytest.mark.xdist_group("engines")


def everything(root):
    """What is recorded, but when and how fast."""
    found = {}
    for folder in root.iterdir():
        if (folder / "run.json").exists():
            record = records.read(folder)
            for i, seed in enumerate(record.seeds):
                found[folder.name, seed] = record.scores[i], record.training_scores[i], record.curve[i].tobytes()
    return found


def children():
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    root = tmp_path_factory.mktemp("inline")
    assert train_missing(ASKED, root, Where("inline")) == 0
    found = everything(root)
    assert len(found) == 12
    return found


def test_units():
    found = units_of([(spec, list(seeds)) for spec, seeds in ASKED], "cpu")
    assert [len(unit.runs) for unit in found] == [8, 1, 1, 2]
    assert [unit.work for unit in found] == [480, 400, 400, 120]
    assert [heard(unit.said()) for unit in found] == [unit.runs for unit in found]
    assert len({unit.id for unit in found}) == 4
    assert all(unit.memory > 1000 for unit in found if isinstance(unit.runs[0][0], DeepSpec))
    shared = units_of([(spec, list(seeds)) for spec, seeds in ASKED], "gpu")
    assert sorted((len(unit.runs), unit.gpus) for unit in shared) == [(2, 0), (2, 1), (8, 0)]


def test_packed_records_come_out_as_they_went_in(tmp_path, expected):
    train_missing(ASKED[:1], tmp_path, Where("inline"))
    record = records.read(tmp_path / MAZE.name)
    (again,) = records.unpacked(records.packed([record]))
    assert (again.scores, again.made, again.spec) == (record.scores, record.made, record.spec)
    np.testing.assert_array_equal(again.curve, record.curve)


def test_local_processes_give_the_same_records(tmp_path, expected, capsys):
    before, open_files = children(), len(os.listdir("/proc/self/fd"))
    assert train_missing(ASKED, tmp_path, Where("local")) == 0
    assert everything(tmp_path) == expected
    assert children() == before
    assert len(os.listdir("/proc/self/fd")) == open_files
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".")} == {".driver", ".status.json"}
    assert Status(tmp_path, json=True).run() == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["units"], said["done"], said["work"], said["work_done"]) == (4, 4, 1400, 1400)
    assert (said["driven"], said["failed"], said["running"]) == (False, [], [])
    assert train_missing(ASKED, tmp_path) == 0  # nothing is left, so nothing is started


def test_a_process_that_is_killed_is_replaced_and_its_unit_done_again(tmp_path, expected, monkeypatch):
    killed, events = [], engines.Local.events

    def once(self):
        for worker in self._workers:
            if worker.unit is not None and len(killed) < 2 and worker.process.pid not in killed:
                killed.append(worker.process.pid)
                os.kill(worker.process.pid, signal.SIGKILL)
        yield from events(self)

    monkeypatch.setattr(engines.Local, "events", once)
    assert train_missing(ASKED, tmp_path, Where("local")) == 0
    assert len(killed) == 2
    assert everything(tmp_path) == expected


def test_what_fails_again_and_again_is_given_up_and_the_rest_goes_on(tmp_path, expected, monkeypatch, capsys):
    tried, trained = [], units.trained

    def sometimes(runs, *rest):
        if runs[0] == (CART, 1):
            tried.append(runs)
            raise RuntimeError("no luck")
        return trained(runs, *rest)

    monkeypatch.setattr(engines, "trained", sometimes)
    assert train_missing(ASKED, tmp_path, Where("inline", retries=1)) == 1
    assert len(tried) == 2
    said = capsys.readouterr().err
    assert "failed: cartpole oblivious m=1 seed 1: RuntimeError: no luck" in said
    assert "1 of 4 failed; the same command tries only these again" in said
    assert everything(tmp_path).items() < expected.items()
    assert len(everything(tmp_path)) == 11
    assert Status(tmp_path).run() == 1
    assert "no luck" in capsys.readouterr().out
    monkeypatch.undo()
    assert train_missing(ASKED, tmp_path, Where("inline")) == 0
    assert everything(tmp_path) == expected


def test_one_driver_a_folder(tmp_path, capsys):
    with driver._alone(tmp_path), pytest.raises(ValueError, match=f"process {os.getpid()} on .* works in .*: wait for it"):
        train_missing(ASKED, tmp_path, Where("inline"))
    train_missing(ASKED[:1], tmp_path, Where("inline"))
    with driver._alone(tmp_path):
        Status(tmp_path, json=True).run()
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["driven"]


def test_a_full_disk_loses_nothing_that_was_done(tmp_path, expected, monkeypatch):
    """The driver stops with words; what it had put aside is added by the next one, and not trained again."""
    add, left = records.add, [1]

    def full(folder, record):
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left.pop()
        return add(folder, record)

    monkeypatch.setattr(records, "add", full)
    with pytest.raises(OSError, match=r"records can't be written to .* \(No space left on device\): what is recorded stays"):
        train_missing(ASKED, tmp_path, Where("inline"))
    monkeypatch.setattr(records, "add", add)
    trained, trained_now = units.trained, []
    monkeypatch.setattr(engines, "trained", lambda runs, *rest: trained_now.append(len(runs)) or trained(runs, *rest))
    assert train_missing(ASKED, tmp_path, Where("inline")) == 0
    assert everything(tmp_path) == expected
    assert sorted(trained_now) == [1, 2]  # of 8, 1, 1 and 2


def test_a_driver_that_is_killed_leaves_no_process(tmp_path):
    """Its workers write down where they are and end; a new driver goes on from there."""
    long = DeepSpec("cartpole", "oblivious", 1, "paper", 2_000_000, changes=TINY)
    script = f"""
import deadtime.experiments.runner as r, deadtime.experiments.engines as e
from deadtime.training.result import from_canonical
from pathlib import Path
new = e.Local._new
def told(self):
    worker = new(self)
    print(worker.process.pid, flush=True)
    return worker
e.Local._new = told
r.train_missing([(from_canonical({long.canonical()!r}), [0, 1])], Path({str(tmp_path)!r}), r.Where("local"))
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pids = [int(process.stdout.readline()) for _ in range(min(2, os.cpu_count()))]
    wait_for(lambda: any(one["done"] for one in status(tmp_path).get("running", [])))
    process.kill()
    process.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    assert list((tmp_path / ".checkpoints").iterdir())


def status(root):
    return json.loads((root / ".status.json").read_text()) if (root / ".status.json").exists() else {}


def wait_for(true, seconds=60):
    import time

    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_words_for_what_is_wrong(tmp_path):
    for where, words in (
        (Where("lokal"), "no engine is called 'lokal'; did you mean 'local'"),
        (Where("local", "auto"), "an address is that of a Ray cluster; got 'auto' without --engine ray"),
        (Where(retries=-1), "retries are 0 or more; got -1"),
    ):
        with pytest.raises(ValueError, match=words):
            train_missing(ASKED, tmp_path, where)
    with pytest.raises(ValueError, match="nothing was ever run in"):
        Status(tmp_path / "none").run()


def test_ray_gives_the_same_records(tmp_path, expected):
    pytest.importorskip("ray", reason="needs pip install 'deadtime[ray]'")
    assert train_missing(ASKED, tmp_path, Where("ray")) == 0
    assert everything(tmp_path) == expected


def test_a_unit_needs_no_checkpoint_folder():
    (record,) = units.trained(((MAZE, 3),), None, lambda n: None)
    assert record.seeds == [3]
    assert Unit(((MAZE, 3),)).name == "maze delayed m=2 seed 3"
