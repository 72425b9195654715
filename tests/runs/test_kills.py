"""Drivers and workers are killed at any moment: no process stays, and the records are the same."""

import random
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import NamedTuple

import pytest

from deadtime.runs import records, sweep_file
from deadtime.runs.runner import train_missing
from deadtime.runs.where import Where
from tests.commands import full
from tests.processes import marked, nothing_left, send, start, wait_for  # noqa: F401
from tests.runs import stuck_env
from tests.runs.test_engines import everything

pytestmark = [
    pytest.mark.xdist_group("engines"),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
    pytest.mark.slow,
]
MODULE = stuck_env.__name__
SWEEP = f"""
environments = ["maze", "cartpole", "gym:{MODULE}:deadtime-test/Stuck-v0"]
agents = ["oblivious"]
delays = [1]
seeds = 2
presets = ["paper"]
[overrides.maze]
size = 4
episodes = 20_000
[overrides.cartpole]
steps = 4_000
hidden = [4]
batch_size = 4
buffer_size = 50
evaluation_episodes = 2
[overrides."gym:{MODULE}:deadtime-test/Stuck-v0"]
steps = 4_001
hidden = [4]
batch_size = 4
buffer_size = 50
evaluation_episodes = 1
"""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


class Round(NamedTuple):
    """A driver, and how it is killed."""

    engine: str
    stuck: str
    """How its environment hangs; see `stuck_env`."""
    workers: tuple[signal.Signals, ...]
    """What its workers are sent, one after the other."""
    driver: tuple[signal.Signals, ...]
    """What it is sent itself."""
    waits: bool = False
    """Whether that is when its environment hangs, and not before."""


SHORT = [
    Round("local", "greedy", (signal.SIGKILL, signal.SIGTERM), (signal.SIGKILL,), waits=True),
    Round("inline", "deaf", (), (signal.SIGTERM,), waits=True),
    Round("local", "", (signal.SIGKILL,), (signal.SIGINT,)),
]


def drawn(rng):
    """Draw a round at random."""
    engine, stuck = rng.choice(["local", "local", "inline"]), rng.choice([*stuck_env.HOWS])
    workers = tuple(rng.choices(SIGNALS, k=rng.randrange(4) if engine == "local" else 0))
    hears = engine == "local" or stuck != "greedy"  # else its own interpreter is held for good
    driver = (rng.choice(SIGNALS) if hears else signal.SIGKILL,) * rng.choice([1, 1, 1, 2])
    return Round(engine, stuck, workers, driver, waits=bool(stuck) and rng.random() < 0.5)


def killed(one, rng, folder, seconds):
    """Start a driver, kill some of its workers and then it, and wait for the end of all processes.

    Return the number of processes that were alive when a signal was sent.
    """
    met = 0
    words = ["-m", "deadtime", "sweep", "x.toml", "--engine", one.engine, "--retries", "99"]
    (folder / "once").unlink(missing_ok=True)
    driver, marker = start(
        *words, cwd=folder, STUCK=one.stuck, ONCE=str(folder / "once"), DEADTIME_IMPORT=MODULE
    )
    for number in one.workers:
        wait_for(lambda: driver.poll() is not None or len(marked(marker)) > 2)
        pause(rng, driver)
        workers = sorted(marked(marker) - {driver.pid})
        chosen = rng.sample(workers, k=min(1, len(workers)))
        met += len(chosen)
        send(number, *chosen)
    if one.waits:
        wait_for(lambda: driver.poll() is not None or (folder / "once").exists())
    for number in one.driver:
        pause(rng, driver)
        met += driver.poll() is None
        send(number, driver.pid)
    wait_for(lambda: not marked(marker), seconds)
    error = driver.communicate(timeout=60)[1]
    assert driver.returncode in (0, -one.driver[0], 128 + one.driver[0]), (
        one,
        driver.returncode,
        error,
    )
    return met


def pause(rng, driver):
    """Wait until a random moment between a program's first line and the middle of its work."""
    with suppress(TimeoutExpired):
        driver.wait(rng.choice([0.3, 1.0, 3.0, 6.0]) * rng.random())


def done(folder, engine):
    """Return the final records, and the runs that were resumed in new episodes."""
    (folder / "x.toml").write_text(SWEEP)
    assert train_missing(sweep_file.read(folder / "x.toml"), folder / "x", Where(engine)) == 0
    resumed = set()
    for path in (folder / "x").glob("*/run.json"):
        for one in records.read(path.parent).provenance:
            resumed |= {(path.parent.name, seed) for seed in one["seeds"] if "resumed_at" in one}
    return everything(folder / "x"), resumed


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    found, resumed = done(tmp_path_factory.mktemp("undisturbed"), "inline")
    assert (len(found), resumed) == (6, set())
    return found


def check(folder, expected):
    """Finish what a folder lacks, and compare its records with those of an undisturbed run."""
    found, resumed = done(folder, "local")
    assert found.keys() == expected.keys()
    assert {name for name, _ in resumed} <= {name for name, _ in found if name.startswith("gym")}
    same = found.keys() - resumed
    assert {key: found[key] for key in same} == {key: expected[key] for key in same}


@pytest.mark.parametrize(("kills", "seconds"), [(6, 120), full(50, 10)])
def test_no_kill_leaves_a_process_or_changes_a_record(kills, seconds, tmp_path, expected):
    """When all runs of a folder are recorded, it is checked, and the next round has a new one."""
    rng = random.Random(kills)
    rounds = iter(SHORT) if kills == 6 else iter(lambda: drawn(rng), None)
    folder = begun(tmp_path / "0")
    met = 0
    for one in rounds:
        met += killed(one, rng, folder, seconds)
        if met >= kills:
            break
        if (folder / "x").exists() and len(everything(folder / "x")) == len(expected):
            check(folder, expected)
            folder = begun(tmp_path / str(met))
    check(folder, expected)


def begun(folder):
    """Make a folder with the sweep's file."""
    folder.mkdir()
    (folder / "x.toml").write_text(SWEEP)
    return folder


def long(folder, stuck, engine, code=None):
    """Start a sweep of one very long run, which creates the file `once` when it hangs."""
    text = f'environments = ["gym:{MODULE}:deadtime-test/Stuck-v0"]\nagents = ["oblivious"]\n'
    text += 'presets = ["paper"]\n'
    text += "delays = [1]\nseeds = 1\n[overrides]\nat = 2000\nsteps = 9_000_000\nhidden = [4]\n"
    (folder / "x.toml").write_text(text)
    words = [
        *(["-m", "deadtime"] if code is None else ["-c", code]),
        "sweep",
        "x.toml",
        "--engine",
        engine,
    ]
    return start(*words, cwd=folder, STUCK=stuck, ONCE=str(folder / "once"), DEADTIME_IMPORT=MODULE)


@pytest.mark.parametrize("engine", ["inline", full("local")])
def test_a_command_ends_though_its_environment_hangs(engine, tmp_path):
    """The first Ctrl-C suffices, and the last message says that no checkpoint was written."""
    driver, marker = long(tmp_path, "once", engine)
    wait_for((tmp_path / "once").exists)
    driver.send_signal(signal.SIGINT)
    wait_for(lambda: not marked(marker), 120)
    error = driver.communicate()[1]
    assert (
        driver.returncode,
        error.count("interrupted; finished seeds are recorded, no checkpoint was written"),
    ) == (130, 1)
    assert "Traceback" not in error


def test_a_second_interrupt_ends_all_at_once(tmp_path):
    """The grace period of this guard never begins, and the worker receives no signal."""
    code = "import deadtime._support.ending as it; it.Guard.hurry = lambda self: None; "
    code += "from deadtime.cli import main; main()"
    driver, marker = long(tmp_path, "greedy", "local", code)
    wait_for((tmp_path / "once").exists)
    driver.send_signal(signal.SIGINT)
    with pytest.raises(TimeoutExpired):
        driver.wait(2)
    driver.send_signal(signal.SIGINT)
    wait_for(lambda: not marked(marker), 120)
    driver.communicate()
    assert driver.returncode == 130


def test_an_interrupt_that_meets_garbage_collection_is_not_lost(tmp_path):
    """The worker of a driver that was killed writes its checkpoint."""
    driver, marker = long(tmp_path, "collecting", "local")
    wait_for((tmp_path / "once").exists)
    driver.kill()
    driver.wait()
    wait_for(lambda: not marked(marker), 120)
    assert len(list((tmp_path / "x/.checkpoints").glob("*/*.safetensors"))) == 1
