"""Where units of work are done: in this process or in processes of this machine; `cluster` has Ray.

An engine starts units and tells what becomes of them; all else is the driver's (`run`): what is recorded, tried again, given
up, shown. Whatever an engine loses is lost with it alone: a unit that is done is written whole, by the driver, before the next.
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
    """What an engine tells of a unit: its records, why it failed, or else that it has progressed."""

    unit: Unit
    progress: int = 0
    records: list[Record] | None = None
    failed: str = ""
    error: Exception | None = None
    """The exception that made it fail, where it was raised in this process."""


class Engine(Protocol):
    """Somewhere to do units."""

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Begin a unit, if there is room for it now."""

    def events(self) -> Iterator[Event]:
        """What has happened; waits a moment for something to."""

    def close(self) -> None:
        """Stop what is running; units write checkpoints."""


class Inline:
    """Threads of this process: on a CPU a deep run a core; tabular units have threads of their own."""

    def __init__(self, width: int = 1, together: bool = False):
        """Do up to `width` units at a time; `together` is for runs that hardly train (see `trained`)."""
        self._pool = ThreadPoolExecutor(width)
        self._width = width
        self._together = together
        self._running: dict[Future[list[Record]], Unit] = {}
        self._progress: SimpleQueue[tuple[Unit, int]] = SimpleQueue()
        self._stopped = StopEvent()
        self._memory = free_memory()

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Begin a unit, if a thread and the memory for it are free."""
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
        """Tell what has happened; wait a moment for something to."""
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
        """Stop what is running: checkpoints are written, and the steps until then are reported."""
        self._stopped.set()
        for future, unit in [*self._running.items()]:
            event = _ended(unit, future)
            if event.records:
                yield event

    def close(self) -> None:
        """Stop what is running, and wait until checkpoints are written."""
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)


def _ended(unit: Unit, future: Future[list[Record]]) -> Event:
    """Return the event of a unit's end; waits for it."""
    try:
        return Event(unit, records=future.result())
    except Exception as error:
        return Event(unit, failed=reason(error), error=error)


def event_of(unit: Unit, content: bytes) -> Event:
    """Return the event of a unit's end from what its process sent."""
    if content[:1] == DONE:
        return Event(unit, records=from_bytes(content[1:]))
    return Event(unit, failed=content[1:].decode())


class _Worker:
    """A process that does one unit at a time."""

    def __init__(self, gpu: str, narrow: bool, group: int):
        """Start it, on one GPU or on none, for units of one core or of more, in the group of a guard."""
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
        """Whether it ends after the unit that it does now."""
        self.gpu, self.narrow = gpu, narrow

    def end(self) -> None:
        """End a process that has nothing to do."""
        self.connection.close()
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Local:
    """Processes of this machine: one a core, and for what needs a GPU one a GPU."""

    def __init__(self, gpus: Sequence[str] = ()):
        """They start when there is something to do; `gpus` are called as CUDA_VISIBLE_DEVICES does."""
        self._cores, self._gpus = cores(), list(gpus)
        self._workers: list[_Worker] = []
        self._guard: Guard | None = None
        self._memory = free_memory()

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Give it to a process that has nothing to do, if what it needs is free."""
        running = [worker.unit for worker in self._workers if worker.unit is not None]
        alike = [
            one for one in running if one.gpus == unit.gpus
        ]  # what is on a GPU takes its memory there
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
        with suppress(OSError):  # it has died: `events` finds out
            worker.connection.send_bytes(f"{checkpoints}\n{unit.to_json()}".encode())
        return True

    def _new(self, unit: Unit) -> _Worker:
        taken = {worker.gpu for worker in self._workers if worker.unit is not None}
        free = [gpu for gpu in self._gpus if gpu not in taken]
        for other in [
            one for one in self._workers if unit.gpus and one.gpu == free[0]
        ]:  # idle, and of another width
            self._workers.remove(other)
            other.end()
        self._guard = self._guard or Guard()
        self._workers.append(
            _Worker(free[0] if unit.gpus else "", unit.cpus == 1, self._guard.group)
        )
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
            elif content[:1] == LAST:
                worker.last = True
            else:
                worker.unit = None
                if worker.last:
                    self._workers.remove(worker)
                    worker.end()
                yield event_of(unit, content)

    def close(self) -> None:
        """End all processes: together they have the grace period, and longer while one writes its checkpoint."""
        with unhurried():
            try:
                for worker in self._workers:
                    worker.connection.close()
                if self._guard is not None:
                    self._guard.hurry()
                with suppress(subprocess.TimeoutExpired):
                    for worker in self._workers:
                        worker.process.wait(WRITING_SECONDS + GRACE_SECONDS)
            finally:  # also if someone does not want to wait
                if self._guard is not None:
                    self._guard.end()
                while self._workers:
                    last = self._workers.pop()
                    last.process.kill()
                    last.process.wait()


def gpus_here() -> list[str]:
    """This machine's GPUs that may be used, without taking any."""
    visible, platforms = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("JAX_PLATFORMS", "")
    if platforms and not {"cuda", "gpu"} & {*platforms.split(",")}:
        return []
    if visible is not None:
        return [
            *takewhile(lambda gpu: gpu not in ("", "-1"), visible.split(","))
        ]  # CUDA too goes no further
    if not shutil.which("nvidia-smi"):
        return []
    listed = subprocess.run(
        ["nvidia-smi", "-L"], capture_output=True, text=True, check=False
    ).stdout
    return [str(i) for i in range(listed.count("GPU "))]


def _how_it_ended(code: int) -> str:
    if code == -9:
        return (
            "its process was killed (SIGKILL): by someone, or because there was too little memory"
        )
    return f"its process ended with {f'signal {-code}' if code < 0 else f'exit status {code}'}; its output is above"
