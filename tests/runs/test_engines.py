"""Engines: every engine gives the same records, whichever process dies."""

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from queue import Queue
from threading import active_count
from types import SimpleNamespace

import numpy as np
import pytest

from deadtime._support import machine
from deadtime._support.timeouts import limited_steps
from deadtime.cli.status import Status
from deadtime.delays import Uniform
from deadtime.learn import checkpoint, compiled_groups
from deadtime.runs import driven, driver, engines, estimates, records, unit_worker, units
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.record_format import from_bytes, to_bytes
from deadtime.runs.runner import How, train_missing
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runs.units import Unit, from_json, units_of
from deadtime.runs.where import Where
from tests.commands import full, run
from tests.processes import wait_for
from tests.runs import stuck_env

TINY = {"hidden": (4,), "batch_size": 4, "buffer_size": 50}
MAZE = TabularSpec("maze", "delayed", 2, 60, {"size": 4}, evaluation_episodes=3)
CART = DeepSpec("cartpole", "oblivious", 1, "paper", 400, changes=TINY, evaluation_episodes=2)
LATE = TabularSpec(
    "noisy-maze",
    "projected",
    episodes=60,
    settings={"size": 4},
    evaluation_episodes=3,
    process=Uniform(1, 3),
    observed="hindsight",
    wrong_delays=(3,),
)
ASKED = [(MAZE, range(10)), (CART, [0, 1])]
DISK_FULL = r"records can't be written to .* \(No space left on device\): finished records are kept"
pytestmark = pytest.mark.xdist_group("engines")


def everything(root):
    """Return the content of a folder's records without dates and times."""
    found = {}
    for folder in root.iterdir():
        if (folder / "run.json").exists():
            record = records.read(folder)
            for i, seed in enumerate(record.seeds):
                found[folder.name, seed] = (
                    record.scores[i],
                    record.training_scores[i],
                    record.curve[i].tobytes(),
                )
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
    assert [from_json(unit.to_json()).runs for unit in found] == [unit.runs for unit in found]
    assert len({unit.id for unit in found}) == 4
    assert all(unit.memory > 1000 for unit in found if isinstance(unit.runs[0][0], DeepSpec))
    (late,) = units_of([(LATE, [0, 1])], "cpu")
    assert from_json(late.to_json()).runs == late.runs == ((LATE, 0), (LATE, 1))
    shared = units_of([(spec, list(seeds)) for spec, seeds in ASKED], "gpu")
    assert sorted((len(unit.runs), unit.gpus) for unit in shared) == [(2, 0), (2, 1), (8, 0)]


@pytest.mark.full
def test_packed_records_come_out_as_they_went_in(tmp_path, expected):
    train_missing(ASKED[:1], tmp_path, Where("inline"))
    record = records.read(tmp_path / MAZE.name)
    (again,) = from_bytes(to_bytes([record]))
    assert (again.scores, again.provenance, again.spec) == (
        record.scores,
        record.provenance,
        record.spec,
    )
    np.testing.assert_array_equal(again.curve, record.curve)


@pytest.mark.slow
def test_local_processes_give_the_same_records(tmp_path, expected, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queue.py").write_text("raise ImportError('processes import what lies about')")
    before, open_files = children(), len(os.listdir("/proc/self/fd"))
    assert train_missing(ASKED, tmp_path, Where("local")) == 0
    assert everything(tmp_path) == expected
    assert children() == before
    assert len(os.listdir("/proc/self/fd")) == open_files
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".")} == {
        ".driver",
        ".status.json",
    }
    assert Status(tmp_path, json=True).run() == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["units"], shown["done"], shown["work"], shown["work_done"]) == (4, 4, 1400, 1400)
    assert (shown["driven"], shown["failed"], shown["running"]) == (False, [], [])
    assert train_missing(ASKED, tmp_path) == 0  # nothing is left, so nothing is started


@pytest.mark.full
def test_a_delay_that_varies_gives_the_same_records_in_processes(tmp_path):
    for engine in ("inline", "local"):
        assert train_missing([(LATE, range(9))], tmp_path / engine, Where(engine)) == 0
    assert everything(tmp_path / "inline") == everything(tmp_path / "local")
    one, other = (records.read(tmp_path / name / LATE.name) for name in ("inline", "local"))
    np.testing.assert_array_equal(one.others, other.others)
    assert one.others.shape == (9, 1)


@pytest.mark.slow
def test_an_environment_that_a_module_registers(tmp_path):
    """Workers import the module by the run's name, and a progress of 0 is no failure."""
    spec = DeepSpec(
        "gym:tests.learn.gym_probe:deadtime-test/Probe-v0",
        "oblivious",
        1,
        "paper",
        60,
        changes=TINY,
    )
    for engine in ("inline", "local"):
        assert train_missing([(spec, [0, 1])], tmp_path / engine, Where(engine, retries=0)) == 0
    assert everything(tmp_path / "inline") == everything(tmp_path / "local")


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced_and_its_unit_done_again(
    tmp_path, expected, monkeypatch
):
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


@pytest.mark.slow
def test_a_process_that_has_grown_is_replaced_and_the_records_are_the_same(
    tmp_path, expected, monkeypatch
):
    """Every process counts as grown, so each does one unit."""
    code = "import sys, deadtime.runs.unit_worker as it; it._MOST_GROWTH = -1; "
    code += "it.main(*map(int, sys.argv[1:]))"
    pids = []

    def small(module, *words, env, **how):
        worker = subprocess.Popen(
            [sys.executable, "-c", code, *words], env={**os.environ, **env}, **how
        )
        pids.append(worker.pid)
        return worker

    monkeypatch.setattr(engines, "started", small)
    before = children()
    assert train_missing(ASKED, tmp_path, Where("local", retries=0)) == 0
    assert len({*pids}) == 4
    assert everything(tmp_path) == expected
    assert children() == before


@pytest.mark.parametrize(
    ("sizes", "sent"),
    [([10, 10, 310, 311, 0], b"ffflf"), ([400, 500, 700], b"fff"), ([0] * 9, b"f" * 9)],
)
def test_a_process_ends_after_a_unit_that_left_it_too_large(sizes, sent, monkeypatch):
    """The process then holds over 300 MB more than after its first unit."""
    asked, answers, left = Queue(), [], iter(sizes)
    for content in [b'\n{"runs": [], "seeds": [], "most_bytes": null}'] * len(sizes) + [b""]:
        asked.put(content)
    monkeypatch.setattr(unit_worker, "resident_memory", lambda: next(left) * 2**20)
    monkeypatch.setattr(unit_worker, "done", lambda *unit: b"f")
    unit_worker._serve(SimpleNamespace(send_bytes=answers.append), asked)
    assert b"".join(answers) == sent


@pytest.mark.slow
def test_an_environment_that_hangs_fails_its_unit_and_not_the_next(tmp_path, monkeypatch, capsys):
    """A stuck process ends with its unit; a second attempt in a new process succeeds."""
    spec = DeepSpec(
        f"gym:{stuck_env.__name__}:deadtime-test/Stuck-v0",
        "oblivious",
        1,
        "paper",
        60,
        changes=TINY,
    )
    monkeypatch.setenv("STUCK", "once")
    monkeypatch.setenv("ONCE", str(tmp_path / "once"))
    asked = [(spec, [0]), (MAZE, range(2))]
    with limited_steps(2):
        assert train_missing(asked, tmp_path / "all", Where("local", retries=1)) == 0
    assert (tmp_path / "once").exists()
    monkeypatch.setenv("STUCK", "greedy")
    with limited_steps(1):
        assert train_missing([(spec, [1])], tmp_path / "all", Where("local", retries=0)) == 1
    assert (
        "Stuck-v0 oblivious m=1 seed 1: its process ended with exit status 1; its output is above"
        in capsys.readouterr().err
    )
    monkeypatch.setenv("STUCK", "sleep")
    with limited_steps(1):
        assert train_missing([(spec, [1])], tmp_path / "all", Where("local", retries=0)) == 1
    assert (
        "Stuck-v0 takes at most 1 s (--step-timeout); one took longer: fix the"
        in capsys.readouterr().err
    )


def test_a_unit_that_keeps_failing_is_given_up_and_the_others_finish(
    tmp_path, expected, monkeypatch, capsys
):
    tried, trained = [], units.trained

    def sometimes(unit, *rest):
        if unit.runs[0] == (CART, 1):
            tried.append(unit)
            raise RuntimeError("no luck")
        return trained(unit, *rest)

    monkeypatch.setattr(engines, "trained", sometimes)
    assert train_missing(ASKED, tmp_path, Where("inline", retries=1)) == 1
    assert len(tried) == 2
    shown = capsys.readouterr().err
    assert (
        "failed: cartpole oblivious m=1 seed 1: RuntimeError: no luck (test_engines.py, line "
        in shown
    )
    assert "1 of 4 failed; run the same command to retry only these" in shown
    assert everything(tmp_path).items() < expected.items()
    assert len(everything(tmp_path)) == 11
    assert Status(tmp_path).run() == 1
    assert "no luck" in capsys.readouterr().out
    assert (
        train_missing(ASKED[:1], tmp_path, Where("inline")) == 0
    )  # without what failed all is well
    assert Status(tmp_path).run() == 0
    assert "0 of 0 units done, 100% of the work" in capsys.readouterr().out
    monkeypatch.undo()
    assert train_missing(ASKED, tmp_path, Where("inline")) == 0
    assert everything(tmp_path) == expected


def test_one_driver_a_folder(tmp_path, capsys):
    with (
        driven.alone(tmp_path),
        pytest.raises(ValueError, match=f"process {os.getpid()} on .* works in .*: wait for it"),
    ):
        train_missing(ASKED, tmp_path, Where("inline"))
    train_missing(ASKED[:1], tmp_path, Where("inline"))
    with driven.alone(tmp_path):
        Status(tmp_path, json=True).run()
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["driven"]


def test_a_full_disk_loses_nothing_that_was_done(tmp_path, expected, monkeypatch):
    """The driver stops with an error; the next adds the records of its finished units."""
    add = records.add
    left = [1]

    def full(folder, record):
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left.pop()
        return add(folder, record)

    monkeypatch.setattr(records, "add", full)
    with pytest.raises(
        OSError,
        match=DISK_FULL,
    ):
        train_missing(ASKED, tmp_path, Where("inline"))
    monkeypatch.setattr(records, "add", add)
    trained, trained_now = units.trained, []
    monkeypatch.setattr(
        engines,
        "trained",
        lambda unit, *rest: trained_now.append(len(unit.runs)) or trained(unit, *rest),
    )
    assert train_missing(ASKED, tmp_path, Where("inline")) == 0
    assert everything(tmp_path) == expected
    assert 2 in trained_now
    assert sum(trained_now) <= 3  # of 8, 1, 1 and 2: what was running may have been done in time


def test_a_checkpoint_stays_until_its_record_is_safe(tmp_path, expected, monkeypatch):
    """The disk is so full that the driver can't even write a status."""

    def full_disk(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(compiled_groups, "CHUNK_STEPS", 50)
    monkeypatch.setattr(compiled_groups, "WRITE_EVERY_SECONDS", -1.0)
    with monkeypatch.context() as patched:
        patched.setattr(driver, "whole", full_disk)
        with pytest.raises(
            OSError,
            match=DISK_FULL,
        ):
            train_missing([(CART, [0])], tmp_path, Where("inline"))
    assert not (tmp_path / ".status.json").exists()
    restored, load = [], checkpoint.load
    monkeypatch.setattr(checkpoint, "load", lambda *a: restored.append(a) or load(*a))
    assert train_missing([(CART, [0])], tmp_path, Where("inline")) == 0
    assert len(restored) == 1
    assert everything(tmp_path).items() < expected.items()
    assert not (tmp_path / ".checkpoints").exists()


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_process(tmp_path):
    """The workers write checkpoints and end, and a new driver resumes them."""
    long = DeepSpec("cartpole", "oblivious", 1, "paper", 2_000_000, changes=TINY)
    script = f"""
import deadtime.runs.runner as r, deadtime.runs.engines as e
from deadtime.runs.where import Where
from deadtime.runs.specs import from_canonical
from pathlib import Path
new = e.Local._new
def counted(self, unit):
    worker = new(self, unit)
    print(worker.process.pid, flush=True)
    return worker
e.Local._new = counted
spec = from_canonical({long.canonical()!r})
r.train_missing([(spec, [0, 1])], Path({str(tmp_path)!r}), Where("local"))
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pids = [int(process.stdout.readline()) for _ in range(min(2, machine.cores()))]
    wait_for(lambda: any(one["done"] for one in status(tmp_path).get("running", [])))
    process.kill()
    process.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    assert list((tmp_path / ".checkpoints").iterdir())


def status(root):
    return (
        json.loads((root / ".status.json").read_text()) if (root / ".status.json").exists() else {}
    )


def test_words_for_what_is_wrong(tmp_path):
    for where, words in (
        (Where("lokal"), "no engine is called 'lokal'; did you mean 'local'"),
        (
            Where("local", "auto"),
            "--address is the address of a Ray cluster; got 'auto' without --engine ray",
        ),
        (Where(retries=-1), "retries are 0 or more; got -1"),
    ):
        with pytest.raises(ValueError, match=words):
            train_missing(ASKED, tmp_path, where)
    with pytest.raises(ValueError, match="no status file found in"):
        Status(tmp_path / "none").run()


def test_a_folder_that_can_not_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        OSError,
        match=r"records can't be written to .*/file/in \(Not a directory\): name another folder",
    ):
        train_missing(ASKED, tmp_path / "file" / "in")


def test_a_clock_that_goes_backwards(tmp_path, expected, monkeypatch, capsys):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: next(later))
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * next(later)))
    later = (now - 3600 * i for i in count())
    assert train_missing(ASKED, tmp_path, Where("inline")) == 0
    assert everything(tmp_path) == expected
    Status(tmp_path, json=True).run()
    assert 0 < json.loads(capsys.readouterr().out)["seconds"] < 600


def test_a_record_of_a_newer_version_is_left_alone(tmp_path):
    """No run starts, since the missing seeds are unknown."""
    train_missing(ASKED[:1], tmp_path, Where("inline"))
    shown = (tmp_path / MAZE.name / "run.json").read_text()
    (tmp_path / MAZE.name / "run.json").write_text(
        newer := shown.replace('"schema": 2', '"schema": 3')
    )
    with pytest.raises(
        ValueError,
        match="has the record format 3; this version reads up to 2: use the version that wrote it",
    ):
        train_missing(ASKED, tmp_path, Where("inline"))
    assert (tmp_path / MAZE.name / "run.json").read_text() == newer
    assert not (tmp_path / CART.name).exists()


def test_a_status_that_no_driver_wrote(tmp_path, capsys):
    for content in ('{"units": "many"}', "[]", '{"units": 1}', "{", '{"driver": 1, "driver": 2}'):
        (tmp_path / ".status.json").write_text(content)
        with pytest.raises(
            ValueError, match=r"\.status\.json is no status file of a driver|no status file found"
        ):
            Status(tmp_path).run()
    shown = {"units": 1, "done": 0, "work": 1, "work_done": 0, "seconds": 1.0, "running": []}
    (tmp_path / ".status.json").write_text(
        json.dumps(shown | {"failed": [{"name": "\x1b[2J", "reason": "gym:boom:X"}]})
    )
    Status(tmp_path).run()
    assert "failed: ?[2J: gym:boom:X" in capsys.readouterr().out


def test_gpus_are_given_out_one_a_process(monkeypatch):
    class Worker:
        def __init__(self, gpu, narrow, group):
            self.gpu, self.narrow, self.unit = gpu, narrow, None
            self.connection = SimpleNamespace(send_bytes=lambda content: None)

        def end(self):
            ended.append(self.gpu)

    ended = []
    monkeypatch.setattr(engines, "_Worker", Worker)
    monkeypatch.setattr(engines, "Guard", lambda: SimpleNamespace(group=0))
    monkeypatch.setattr(engines, "cores", lambda: 4)
    local = engines.Local(["3", "5"])
    trainer, plain = [Unit(((CART, seed),), gpus=1) for seed in range(3)], Unit(((MAZE, 0),))
    assert [local.start(unit, "") for unit in (*trainer, plain)] == [True, True, False, True]
    assert [(worker.gpu, worker.unit) for worker in local._workers] == [
        ("3", trainer[0]),
        ("5", trainer[1]),
        ("", plain),
    ]
    local._workers[1].unit = None
    assert local.start(trainer[2], "")
    assert [worker.gpu for worker in local._workers] == ["3", "5", ""]
    local._workers[0].unit = None
    assert local.start(
        Unit(((CART, 3),), cpus=2, gpus=1), ""
    )  # a process for more cores takes the place of one for one
    assert ended == ["3"]
    assert [(worker.gpu, worker.narrow) for worker in local._workers] == [
        ("5", True),
        ("", True),
        ("3", False),
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,7")
    assert engines.gpus_here() == ["2", "7"]
    for none in ("", "-1", "-1,0"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert engines.gpus_here() == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,7")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert engines.gpus_here() == []


def test_cores_are_those_that_may_be_used(monkeypatch):
    all_of_them = os.sched_getaffinity(0)
    assert machine.cores() == len(all_of_them)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5})
    assert machine.cores() == 3
    for given, there in (("2", 2), ("8", 3), ("0", 3), ("x", 3)):
        monkeypatch.setenv("NPROC", given)
        assert machine.cores() == there


@pytest.mark.full
def test_ray_gives_the_same_records(tmp_path, expected):
    pytest.importorskip("ray", reason="needs pip install 'deadtime[ray]'")
    assert train_missing(ASKED, tmp_path, Where("ray")) == 0
    assert everything(tmp_path) == expected


def test_a_unit_needs_no_checkpoint_folder():
    (record,) = units.trained(Unit(((MAZE, 3),)), None, lambda n: None)
    assert record.seeds == [3]
    assert Unit(((MAZE, 3),)).name == "maze delayed m=2 seed 3"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "many"),
    [
        ("inline", 60),
        ("local", 60),
        full("ray", 60),
        full("inline", 1000),
        full("local", 1000),
        full("ray", 1000),
    ],
)
def test_many_small_runs_leave_nothing_behind(engine, many, tmp_path, monkeypatch, request):
    """Every run is recorded; no process, open file, temporary file or thread is left."""
    if (
        engine == "ray"
    ):  # one cluster for all of it: Ray itself keeps two sockets of every one that it stops
        ray = pytest.importorskip("ray", reason="needs pip install 'deadtime[ray]'")
        ray.init(include_dashboard=False, log_to_driver=False)
        request.addfinalizer(ray.shutdown)
    temporary = Path(tempfile.mkdtemp())  # sockets of Ray's need a short name
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    specs = [
        TabularSpec("maze", "delayed", 1, 3, {"size": 3, "maze_seed": i}, evaluation_episodes=1)
        for i in range(many)
    ]
    train_missing([(spec, [1]) for spec in specs[:30]], tmp_path / "first", Where(engine))
    before = children(), len(os.listdir("/proc/self/fd")), active_count()
    assert train_missing([(spec, [0]) for spec in specs], tmp_path / "all", Where(engine)) == 0
    assert len(everything(tmp_path / "all")) == many
    assert [path.name for path in temporary.iterdir() if path.name != "ray"] == []
    assert children() == before[0]
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before[1] and active_count() <= before[2])


@pytest.mark.slow
def test_compare_has_engines(tmp_path):
    """Runs in this process and in worker processes give the same numbers."""
    shown = []
    for engine in ("inline", "local"):
        words = [
            "compare",
            "--env",
            "maze",
            "--size",
            "3",
            "--episodes",
            "20",
            "--agents",
            "delayed",
            "oblivious",
        ]
        words += [
            "--delays",
            "0",
            "1",
            "--seeds",
            "2",
            "--engine",
            engine,
            "--out",
            tmp_path / engine,
            "--json",
        ]
        done = run(*words)
        assert done.returncode == 0, done.stderr
        shown.append(json.loads(done.stdout))
    assert shown[0] == shown[1]
    assert shown[0]["trained"] == 8
    assert not (tmp_path / "inline" / ".status.json").exists()  # others may add to the same folder


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["inline", full("local")])
def test_units_stop_when_the_time_is_up_and_resume_to_the_same_bits(
    engine, tmp_path, capsys, monkeypatch
):
    asked = [(replace(CART, steps=40_000), [0])]
    assert train_missing(asked, tmp_path / "whole", Where("inline")) == 0

    def check(sweep):
        if any(one["done"] > 2_000 for one in sweep.running.values()):
            raise driver._TimeIsUpError

    with monkeypatch.context() as patched:
        patched.setattr(driver.Sweep, "_check_time", check)
        assert train_missing(asked, tmp_path / "x", Where(engine)) == 0
    assert "time is up: finished runs are recorded, 1 checkpoint" in capsys.readouterr().err
    assert not everything(tmp_path / "x")
    assert train_missing(asked, tmp_path / "x", Where(engine)) == 0
    assert everything(tmp_path / "x") == everything(tmp_path / "whole")


def test_a_driver_whose_time_is_up_starts_nothing(tmp_path, capsys):
    spent = How(until=time.monotonic() - 1)
    assert train_missing([(MAZE, range(2))], tmp_path / "x", Where("inline"), how=spent) == 0
    assert "time is up" in capsys.readouterr().err
    assert not everything(tmp_path / "x")


def test_runs_are_chosen_that_fit_into_a_time():
    runs = [(replace(CART, steps=100_000), [seed]) for seed in range(8)]
    enough = estimates.seconds_needed(runs[:5], 0)
    assert len(estimates.fitting(runs, enough)) >= 5
    assert len(estimates.fitting(runs, enough / 2)) < 5
    assert len(estimates.fitting(runs, 0)) == 1


def test_progress_costs_no_hash_of_specs(tmp_path, monkeypatch):
    """Hashing in the driver's thread once made training on frames five times slower."""
    hashed = []
    canonical = DeepSpec.canonical

    def trained(unit, checkpoints, tell, stopped, together):
        for _ in range(500):
            tell(1)
        return []

    def counted(spec):
        hashed.append(spec)
        return canonical(spec)

    monkeypatch.setattr(engines, "trained", trained)
    monkeypatch.setattr(DeepSpec, "canonical", counted)
    unit = Unit(((replace(CART), 0), (replace(CART, delay=2), 1)))
    sweep = driver.Sweep([unit], tmp_path, 0, How())
    assert sweep.run(engines.Inline()) == []
    assert (sweep.done, len(hashed)) == (1, 2)
