"""A real Ray cluster of several nodes: nodes and workers are killed; the records are the same."""

import os
import random
import re
import signal
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from threading import Event, Thread

import pytest

from deadtime.cli.status import Status
from deadtime.runs import driver, ray_engine
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.runner import train_missing
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runs.units import Unit
from deadtime.runs.where import Where
from tests.commands import full
from tests.processes import nothing_left, start, wait_for  # noqa: F401
from tests.runs.test_engines import TINY, everything

ray = pytest.importorskip("ray", reason="needs pip install 'deadtime[ray]'")
pytestmark = pytest.mark.xdist_group("engines")
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def workers():
    """Return the numbers of the worker processes that run units, by Ray's names for them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if re.match(rb"ray::_on_ray", path.read_bytes()):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


class Trouble(Thread):
    """A thread that kills workers at intervals, and removes a node in between."""

    def __init__(self, cluster, kills, seed):
        super().__init__()
        self.cluster, self.kills, self.rng, self.over = cluster, kills, random.Random(seed), Event()
        self.killed, self.lost = 0, 0

    def run(self):
        node = self.cluster.worker_nodes and self.rng.choice(
            sorted(self.cluster.worker_nodes, key=lambda one: one.node_id)
        )
        while not self.over.wait(self.rng.uniform(0.3, 1.5)) and (
            self.killed < self.kills or not self.lost
        ):
            those = workers()
            if those and self.killed < self.kills:
                os.kill(self.rng.choice(those), signal.SIGKILL)
                self.killed += 1
            elif those and not self.lost:
                self.cluster.remove_node(node, allow_graceful=False)
                self.lost += 1


@pytest.mark.parametrize(("seeds", "steps", "kills"), [full(6, 4_000, 2), full(30, 20_000, 12)])
def test_a_lost_node_and_killed_workers_change_nothing(
    cluster, tmp_path, capsys, seeds, steps, kills
):
    cart = DeepSpec("cartpole", "delayed", 2, "paper", steps, changes=TINY, evaluation_episodes=2)
    maze = TabularSpec("maze", "augmented", 2, 2_000, {"size": 4}, evaluation_episodes=3)
    asked = [(cart, range(seeds)), (maze, range(4 * seeds))]
    trouble = Trouble(cluster, kills, seed=seeds)
    trouble.start()
    try:
        assert (
            train_missing(asked, tmp_path / "ray", Where("ray", cluster.address, retries=20)) == 0
        )
    finally:
        trouble.over.set()
        trouble.join()
    assert (trouble.killed, trouble.lost) == (kills, 1)
    assert Status(tmp_path / "ray").run() == 0
    assert train_missing(asked, tmp_path / "inline", Where("inline")) == 0
    assert everything(tmp_path / "ray") == everything(tmp_path / "inline")
    assert not [
        path for path in (tmp_path / "ray").iterdir() if path.name in (".units", ".checkpoints")
    ]


MAZE = TabularSpec("maze", "delayed", 2, 60, {"size": 4})
DRIVER = """
import time
from deadtime.runs.ray_engine import Ray
engine = Ray(None)
open("head", "w").write(f"{engine._head._process.pid} {engine._head._guard.group}")
time.sleep(1000)
"""


def table():
    """Return the parent and the group of every running process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, group = path.read_text().rpartition(")")[2].split()[:3]
            if state not in "ZX":
                found[int(path.parent.name)] = int(parent), int(group)
    return found


def listening(pids):
    """Return the addresses at which processes listen, as the kernel writes them."""
    inodes = set()
    for path in (path for pid in pids for path in Path(f"/proc/{pid}/fd").glob("*")):
        with suppress(OSError):
            inodes.add(os.readlink(path).removeprefix("socket:[").removesuffix("]"))
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[9] in inodes}


@pytest.mark.slow
def test_an_own_cluster_listens_to_no_other_machine_and_ends_with_its_driver(tmp_path):
    """Ray's agents change their names and environments; parents or groups identify them."""
    driver, _ = start("-c", DRIVER, cwd=tmp_path)
    wait_for(lambda: (tmp_path / "head").exists() and (tmp_path / "head").read_text())
    head, group = map(int, (tmp_path / "head").read_text().split())
    mine, processes = {head}, table()
    while more := {pid for pid, (parent, _) in processes.items() if parent in mine} - mine:
        mine |= more
    assert len(mine) > 5
    assert listening(mine) == {"0100007F", "0000000000000000FFFF00000100007F"}
    driver.kill()
    driver.wait()
    wait_for(
        lambda: (
            not mine & table().keys()
            and not [pid for pid, (_, its) in table().items() if its == group]
        ),
        30,
    )


def test_a_cluster_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ray._private.services._cached_find_gcs_addresses", cache(set)
    )  # one may run here, for others
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    for address in ("127.0.0.1:1", "auto"):
        with pytest.raises(
            ConnectionError, match=f"no Ray cluster answers at {address}: start one"
        ):
            train_missing([(MAZE, [0])], tmp_path, Where("ray", address))


@pytest.mark.full
def test_a_cluster_of_another_python(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ray._private.utils.compute_version_info", lambda: (ray.__version__, "3.9.1")
    )
    with pytest.raises(
        ConnectionError,
        match=r"Version mismatch.* 3\.9\.1.*install here the versions of Ray and Python",
    ):
        train_missing([(MAZE, [0])], tmp_path, Where("ray", cluster.address))


@pytest.mark.full
def test_what_a_cluster_can_not_do_and_what_is_interrupted(cluster, tmp_path, monkeypatch):
    def says_nothing(*more):
        raise NotImplementedError

    monkeypatch.chdir(tmp_path)
    engine, unit = ray_engine.Ray(cluster.address), Unit(((MAZE, 0),))
    for asked, words in (
        (unit._replace(memory=2**60), "it needs 1.07e+09 GiB, and no node of the cluster has that"),
        (unit._replace(gpus=1), "it needs a core and a GPU, and no node of the cluster has that"),
    ):
        assert engine.start(asked, "")
        assert [event.failed for event in engine.events()] == [words]
    assert engine.start(unit._replace(cpus=64), str(tmp_path))  # as many as a node has
    wait_for(lambda: any(event.records for event in engine.events()))
    with monkeypatch.context() as patched:
        patched.setattr(ray_engine, "_on_ray", says_nothing)
        assert engine.start(unit, "")
        assert _ended(engine).failed.startswith("RayTaskError(NotImplementedError): ")
    long = DeepSpec("cartpole", "oblivious", 1, "paper", 5_000_000, changes=TINY)
    Path("sub").mkdir()
    sweep = driver.Sweep([Unit(((long, 0),))], Path("sub"), 0)

    def interrupted(steps):
        if steps > 20_000:
            raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "_progress", lambda unit, n, tell: interrupted(n))
    with pytest.raises(KeyboardInterrupt), closing(engine):
        sweep.run(engine)
    (kept,) = (tmp_path / "sub/.checkpoints").rglob("*.safetensors")
    kept.write_bytes(b"damaged")
    again = ray_engine.Ray(cluster.address)
    assert again.start(sweep.units[0], str(tmp_path / "sub/.checkpoints"))
    why = _ended(again).failed
    rule = f"ValueError: {kept} is no checkpoint of this run"
    assert re.fullmatch(rf"{rule} .*: delete it.* \(checkpoint\.py, line \d+\)", why)


def _ended(engine):
    while True:
        for event in engine.events():
            if event.failed or event.records:
                return event
