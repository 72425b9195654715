"""Where units of work are done: in this process, in processes of this machine, on a Ray cluster.

An engine starts units and tells what becomes of them; all else is the driver's (`run`): what is recorded, tried again, given
up, shown. Whatever an engine loses is lost with it alone: a unit that is done is written whole, by the driver, before the next.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any, NamedTuple, Protocol

from deadtime.experiments.records import Record, unpacked
from deadtime.experiments.unit_worker import DONE, PROGRESS, done
from deadtime.experiments.units import Unit, heard, reason, trained
from deadtime.machine import CORES, cores, free_memory, started

ENGINES = ("inline", "local", "ray")


class Event(NamedTuple):
    """What an engine tells of a unit: its records, why it failed, or else that it has progressed."""

    unit: Unit
    progress: int = 0
    records: list[Record] | None = None
    failed: str = ""


class Engine(Protocol):
    """Somewhere to do units."""

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Begin a unit, if there is room for it now."""

    def events(self) -> Iterator[Event]:
        """What has happened; waits a moment for something to."""

    def close(self) -> None:
        """Stop what is running; what can be gone on from is written down."""


class Inline:
    """One unit after the other, in this process."""

    def __init__(self) -> None:
        """Nothing to prepare."""
        self._asked: deque[tuple[Unit, str]] = deque()

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """One at a time."""
        if self._asked:
            return False
        self._asked.append((unit, checkpoints))
        return True

    def events(self) -> Iterator[Event]:
        """Do it, and tell what came of it; progress is told on the way."""
        unit, checkpoints = self._asked.popleft()
        try:
            found = trained(unit, checkpoints, self.tell)
        except Exception as error:
            yield Event(unit, failed=reason(error))
        else:
            yield Event(unit, records=found)

    def tell(self, n: int) -> None:
        """Replaced by who wants to know."""

    def close(self) -> None:
        """Nothing runs between units."""


def _told(unit: Unit, content: bytes) -> Event:
    """What a process said of a unit at its end."""
    if content[:1] == DONE:
        return Event(unit, records=unpacked(content[1:]))
    return Event(unit, failed=content[1:].decode())


class _Worker:
    """A process that does one unit at a time."""

    def __init__(self, gpu: str, narrow: bool):
        """Start it, on one GPU or on none, for units of one core or of more."""
        ours, its = socket.socketpair()
        device = {"CUDA_VISIBLE_DEVICES": gpu, "JAX_PLATFORMS": "" if gpu else "cpu"} | ({CORES: "1"} if narrow else {})
        with its:
            settings, fd = {**device, "NUMBA_NUM_THREADS": "1"}, its.fileno()
            self.process = started("deadtime.experiments.unit_worker", str(fd), env=settings, pass_fds=[fd])
        self.connection = Connection(ours.detach())
        self.unit: Unit | None = None
        self.gpu, self.narrow = gpu, narrow

    def end(self) -> None:
        """Let it write down what it was doing, and end."""
        self.connection.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Local:
    """Processes of this machine: one a core, and for what needs a GPU one a GPU."""

    def __init__(self, gpus: Sequence[str] = ()):
        """They start when there is something to do; `gpus` are called as CUDA_VISIBLE_DEVICES does."""
        self._cores, self._gpus = cores(), list(gpus)
        self._workers: list[_Worker] = []
        self._memory = free_memory()

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Give it to a process that has nothing to do, if what it needs is free."""
        running = [worker.unit for worker in self._workers if worker.unit is not None]
        alike = [one for one in running if one.gpus == unit.gpus]  # what is on a GPU takes its memory there
        full = running and (
            sum(min(one.cpus, self._cores) for one in [*running, unit]) > self._cores
            or (not unit.gpus and sum(one.memory for one in alike) + unit.memory > self._memory)
            or (unit.gpus and len(alike) >= len(self._gpus))
        )
        if full:
            return False
        kind = bool(unit.gpus), unit.cpus == 1
        idle = [one for one in self._workers if one.unit is None and (bool(one.gpu), one.narrow) == kind]
        worker = idle[0] if idle else self._new(unit)
        worker.unit = unit
        with suppress(OSError):  # it has died: `events` finds out
            worker.connection.send_bytes(f"{checkpoints}\n{unit.said()}".encode())
        return True

    def _new(self, unit: Unit) -> _Worker:
        taken = {worker.gpu for worker in self._workers if worker.unit is not None}
        free = [gpu for gpu in self._gpus if gpu not in taken]
        for other in [one for one in self._workers if unit.gpus and one.gpu == free[0]]:  # idle, and of another width
            self._workers.remove(other)
            other.end()
        self._workers.append(_Worker(free[0] if unit.gpus else "", unit.cpus == 1))
        return self._workers[-1]

    def events(self) -> Iterator[Event]:
        """What processes tell, and that they have died."""
        busy = {worker.connection: worker for worker in self._workers if worker.unit is not None}
        for connection in wait(list(busy), timeout=0.5):
            worker = busy[connection]  # type: ignore[index]
            assert worker.unit is not None
            unit = worker.unit
            try:
                content = worker.connection.recv_bytes()
            except (EOFError, OSError):
                code = worker.process.wait()
                self._workers.remove(worker)
                worker.connection.close()
                yield Event(unit, failed=_how_it_ended(code))
                continue
            if content[:1] == PROGRESS:
                yield Event(unit, progress=int(content[1:]))
            else:
                worker.unit = None
                yield _told(unit, content)

    def close(self) -> None:
        """All processes end."""
        for worker in self._workers:
            worker.connection.close()
        while self._workers:
            self._workers.pop().end()


def gpus_here() -> list[str]:
    """This machine's GPUs that may be used, without taking any."""
    told, platforms = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("JAX_PLATFORMS", "")
    if platforms and not {"cuda", "gpu"} & {*platforms.split(",")}:
        return []
    if told is not None:
        return [*takewhile(lambda gpu: gpu not in ("", "-1"), told.split(","))]  # CUDA too goes no further
    if not shutil.which("nvidia-smi"):
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return [str(i) for i in range(listed.count("GPU "))]


def _how_it_ended(code: int) -> str:
    if code == -9:
        return "its process was killed (SIGKILL): by someone, or because there was too little memory"
    return f"its process ended with {f'signal {-code}' if code < 0 else f'exit status {code}'}; what it said is above"


class Ray:
    """A Ray cluster: one that runs at an address, or one of this machine that is started for it."""

    def __init__(self, address: str | None):
        """Connect, or start."""
        self._ray = _ray()
        self._started = not self._ray.is_initialized()
        if self._started:
            _check_answers(address or "")
            try:
                quietly = {"log_to_driver": False, "include_dashboard": False, "configure_logging": False}
                self._ray.init(address=address or "local", **quietly)
            except ConnectionError:
                raise _no_cluster(address) from None
            except RuntimeError as error:  # other versions of Ray or Python there, say
                why = " ".join(str(error).split())
                raise ConnectionError(
                    f"Ray can't be used ({why}): this driver needs the cluster's own Ray and Python"
                ) from error
        self._running: dict[Any, Unit] = {}
        self._refused: list[Event] = []
        self._nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        here = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            self._ray.get_runtime_context().get_node_id(), soft=True
        )
        self._board = self._ray.remote(num_cpus=0, max_restarts=-1, scheduling_strategy=here)(_Board).remote()

    @property
    def gpus(self) -> int:
        """Of the whole cluster."""
        return int(self._ray.cluster_resources().get("GPU", 0))

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Ray decides when and where; some wait there, so that no node waits for us."""
        most = 2 * int(self._ray.cluster_resources().get("CPU", 1)) + 8
        if len(self._running) + len(self._refused) >= most:
            return False
        widest = max((int(node.get("CPU", 0)) for node in self._nodes if node.get("GPU", 0) >= unit.gpus), default=0)
        largest = max((node.get("memory", 0) for node in self._nodes), default=0)
        memory = 0 if unit.gpus else unit.memory  # what is on a GPU takes its memory there
        if not widest or memory > largest:
            what = f"{memory / 2**30:.3g} GiB" if widest else "a core and a GPU" if unit.gpus else "a core"
            self._refused.append(Event(unit, failed=f"it needs {what}, and no node of the cluster has that"))
            return True
        needs = {"num_cpus": min(unit.cpus, widest), "num_gpus": unit.gpus, "memory": memory}
        task = self._ray.remote(**needs, max_retries=0)(_on_ray)
        self._running[task.remote(unit.said(), needs["num_cpus"], checkpoints, self._board)] = unit
        return True

    def events(self) -> Iterator[Event]:
        """What is done or lost, and how far the rest is."""
        while self._refused:
            yield self._refused.pop()
        if not self._running:
            return
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0.5)
        by_id = {unit.id: unit for unit in self._running.values()}
        for unit_id, n in self._progress().items():
            if unit_id in by_id:
                yield Event(by_id[unit_id], progress=n)
        for reference in ready:
            unit = self._running.pop(reference)
            try:
                yield _told(unit, self._ray.get(reference))
            except self._ray.exceptions.RayError as error:
                first, *_ = [*str(error).strip().splitlines(), ""]
                yield Event(unit, failed=f"{type(error).__name__}: {first}")

    def _progress(self) -> dict[str, int]:
        try:
            return self._ray.get(self._board.taken.remote(), timeout=5)
        except self._ray.exceptions.RayError:  # it will start again somewhere, and nothing depends on it
            return {}

    def close(self) -> None:
        """Cancel what runs, which has a minute to write down where it is; a cluster that was started for this ends."""
        for force in (False, True):
            for reference in self._running:
                with suppress(Exception):
                    self._ray.cancel(reference, force=force)
            if self._running and not force:
                with suppress(Exception):
                    self._ray.wait(list(self._running), num_returns=len(self._running), timeout=60)
        if self._started:
            self._ray.shutdown()


def _check_answers(address: str) -> None:
    """Ray itself would wait for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError:
            raise _no_cluster(address) from None


def _no_cluster(address: str | None) -> ConnectionError:
    return ConnectionError(f"no Ray cluster answers at {address}: start one (`ray start --head`), or leave --address out")


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"--engine ray needs Ray, which can't be imported ({error}): pip install 'deadtime[ray]'") from error
    return ray


class _Board:
    """Where units of a cluster write how far they are."""

    def __init__(self) -> None:
        self._untaken: dict[str, int] = {}

    def told(self, unit: str, n: int) -> None:
        self._untaken[unit] = self._untaken.get(unit, 0) + n

    def taken(self) -> dict[str, int]:
        taken, self._untaken = self._untaken, {}
        return taken


def _on_ray(said: str, cpus: int, checkpoints: str, board: Any) -> bytes:
    """A unit, on some node of a cluster."""
    os.environ[CORES] = str(cpus)  # before JAX starts
    unit, untold, last = heard(said), 0, 0.0

    def tell(n: int) -> None:
        nonlocal untold, last
        untold += n
        if monotonic() - last > 1.0:
            board.told.remote(unit.id, untold)
            untold, last = 0, monotonic()

    return done(unit, checkpoints, tell)
