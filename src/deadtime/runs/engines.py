"""Engines that run units on this machine: in this process, or in worker processes.

An engine starts units and reports events. The driver does the rest: it records, retries, gives up
and shows progress. `ray_engine` has the engine for clusters.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from functools import partial
from itertools import takewhile
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Event as StopEvent
from typing import NamedTuple, Protocol

from deadtime._support.ending import GRACE_SECONDS, WRITING_SECONDS, Guard, unhurried
from deadtime._support.machine import CORES, cores, free_memory, started
from deadtime.runs.record import Record
from deadtime.runs.record_format import from_bytes
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runs.unit_worker import DONE, LAST, PROGRESS
from deadtime.runs.units import Unit, reason, trained


class Event(NamedTuple):
    """An event of a unit: its records, the reason why it failed, or its progress."""

    unit: Unit
    progress: int = 0
    records: list[Record] | None = None
    failed: str = ""
    error: Exception | None = None
    """The exception behind `failed`, if it was raised in this process."""


class Engine(Protocol):
    """An engine: it runs units, several at a time."""

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Start a unit and return True, or return False if there is no room for it now."""

    def events(self) -> Iterator[Event]:
        """Yield new events, after waiting a moment for one."""

    def close(self) -> None:
        """Stop all units; they write checkpoints."""


class Inline:
    """The engine of threads in this process: on a CPU, one deep run for each core.

    A tabular unit runs alone, since it starts threads of its own.
    """

    def __init__(self, width: int = 1, together: bool = False):
        """Run up to `width` units at a time; `together` is for very short runs."""
        self._pool = ThreadPoolExecutor(width)
        self._width = width
        self._together = together
        self._running: dict[Future[list[Record]], Unit] = {}
        self._progress: SimpleQueue[tuple[Unit, int]] = SimpleQueue()
        self._stopped = StopEvent()
        self._memory = free_memory()

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Start a unit if a thread and enough memory are free."""
        running = [*self._running.values()]
        wide = any(isinstance(one.runs[0][0], TabularSpec) for one in [*running, unit])
        full = len(running) >= (1 if wide else self._width)
        if running and (full or sum(one.memory for one in [*running, unit]) > self._memory):
            return False
        tell = partial(self._tell, unit)
        future = self._pool.submit(trained, unit, checkpoints, tell, self._stopped, self._together)
        self._running[future] = unit
        return True

    def _tell(self, unit: Unit, n: int) -> None:
        self._progress.put((unit, n))

    def events(self) -> Iterator[Event]:
        """Yield new events, after waiting a moment for one."""
        done, _ = wait_for(self._running, 0.2, FIRST_COMPLETED)
        steps: dict[str, tuple[Unit, int]] = {}
        while not self._progress.empty():
            unit, n = self._progress.get()
            steps[unit.id] = unit, n + steps.get(unit.id, (unit, 0))[1]
        for unit, n in steps.values():
            if unit in self._running.values():
                yield Event(unit, progress=n)
        for future in done:
            yield _ended(self._running.pop(future), future)

    def finish(self) -> Iterator[Event]:
        """Stop all units, and yield the events of those that give records."""
        self._stopped.set()
        for future, unit in [*self._running.items()]:
            event = _ended(unit, future)
            if event.records:
                yield event

    def close(self) -> None:
        """Stop all units, and wait until they have written checkpoints."""
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)


def _ended(unit: Unit, future: Future[list[Record]]) -> Event:
    """Wait for a unit's end, and return its event."""
    try:
        return Event(unit, records=future.result())
    except Exception as error:
        return Event(unit, failed=reason(error), error=error)


def event_of(unit: Unit, content: bytes) -> Event:
    """Return the event of a unit's end from the message of its process."""
    if content[:1] == DONE:
        return Event(unit, records=from_bytes(content[1:]))
    return Event(unit, failed=content[1:].decode())


class _Worker:
    """A process that does one unit at a time."""

    def __init__(self, gpu: str, narrow: bool, group: int):
        """Start the process in a guard's group, on one GPU or none, for narrow or wide units."""
        ours, its = socket.socketpair()
        device = {"CUDA_VISIBLE_DEVICES": gpu, "JAX_PLATFORMS": "" if gpu else "cpu"} | (
            {CORES: "1"} if narrow else {}
        )
        with its:
            self.process = started(
                "deadtime.runs.unit_worker",
                str(its.fileno()),
                str(group),
                env={**device, "NUMBA_NUM_THREADS": "1"},
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=group,
            )
        self.connection = Connection(ours.detach())
        self.unit: Unit | None = None
        self.last = False
        """Whether the process ends after its present unit."""
        self.gpu = gpu
        self.narrow = narrow
        """Whether its units need one core."""

    def end(self) -> None:
        """End an idle process."""
        self.connection.close()
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Local:
    """The engine of worker processes on this machine: one for each core, and one for each GPU."""

    def __init__(self, gpus: Sequence[str] = ()):
        """Start no process yet; `gpus` have the names of CUDA_VISIBLE_DEVICES."""
        self._cores = cores()
        self._gpus = list(gpus)
        self._workers: list[_Worker] = []
        self._guard: Guard | None = None
        self._memory = free_memory()

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Give a unit to an idle process, if its cores, memory and GPU are free."""
        running = [worker.unit for worker in self._workers if worker.unit is not None]
        alike = [one for one in running if one.gpus == unit.gpus]  # on a GPU, memory is the GPU's
        full = running and (
            sum(min(one.cpus, self._cores) for one in [*running, unit]) > self._cores
            or (not unit.gpus and sum(one.memory for one in alike) + unit.memory > self._memory)
            or (unit.gpus and len(alike) >= len(self._gpus))
        )
        if full:
            return False
        kind = bool(unit.gpus), unit.cpus == 1
        idle = [
            one for one in self._workers if one.unit is None and (bool(one.gpu), one.narrow) == kind
        ]
        worker = idle[0] if idle else self._new(unit)
        worker.unit = unit
        with suppress(OSError):  # it died: `events` reports that
            worker.connection.send_bytes(f"{checkpoints}\n{unit.to_json()}".encode())
        return True

    def _new(self, unit: Unit) -> _Worker:
        taken = {worker.gpu for worker in self._workers if worker.unit is not None}
        free = [gpu for gpu in self._gpus if gpu not in taken]
        idle = [one for one in self._workers if unit.gpus and one.gpu == free[0]]
        for other in idle:  # of another width
            self._workers.remove(other)
            other.end()
        self._guard = self._guard or Guard()
        self._workers.append(
            _Worker(free[0] if unit.gpus else "", unit.cpus == 1, self._guard.group)
        )
        return self._workers[-1]

    def events(self) -> Iterator[Event]:
        """Yield the events of the processes, their deaths included."""
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
            elif content[:1] == LAST:
                worker.last = True
            else:
                worker.unit = None
                if worker.last:
                    self._workers.remove(worker)
                    worker.end()
                yield event_of(unit, content)

    def close(self) -> None:
        """End all processes within the grace period, or later while one writes its checkpoint."""
        with unhurried():
            try:
                for worker in self._workers:
                    worker.connection.close()
                if self._guard is not None:
                    self._guard.hurry()
                with suppress(subprocess.TimeoutExpired):
                    for worker in self._workers:
                        worker.process.wait(WRITING_SECONDS + GRACE_SECONDS)
            finally:  # also after a second interrupt
                if self._guard is not None:
                    self._guard.end()
                while self._workers:
                    last = self._workers.pop()
                    last.process.kill()
                    last.process.wait()


def gpus_here() -> list[str]:
    """Return the names of the GPUs that may be used, without initializing any."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms and not {"cuda", "gpu"} & {*platforms.split(",")}:
        return []
    if visible is not None:
        return [*takewhile(lambda gpu: gpu not in ("", "-1"), visible.split(","))]  # as CUDA does
    if not shutil.which("nvidia-smi"):
        return []
    listed = subprocess.run(
        ["nvidia-smi", "-L"], capture_output=True, text=True, check=False
    ).stdout
    return [str(i) for i in range(listed.count("GPU "))]


def _how_it_ended(code: int) -> str:
    if code == -9:
        return "its process was killed (SIGKILL), perhaps because memory ran out"
    how = f"signal {-code}" if code < 0 else f"exit status {code}"
    return f"its process ended with {how}; its output is above"
