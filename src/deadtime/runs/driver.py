"""The driver of every command that trains: it starts units, records them, and retries failed ones.

One driver at a time works in the folder of a sweep or a study, where it writes a status file. A
unit's records are first written to one file, so that all or none are added, even if the driver dies
or the disk is full.
"""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from deadtime._support import ending, files
from deadtime._support.ending import uninterrupted
from deadtime._support.files import whole
from deadtime._support.machine import cores
from deadtime._support.names import nearest
from deadtime._support.progress import about, bar
from deadtime._support.terminal import console, counted
from deadtime.runs import records
from deadtime.runs.checkpoint_store import CHECKPOINTS, checkpoints_at, drop_checkpoints
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.driven import STATUS, last_status
from deadtime.runs.engines import Engine, Inline, Local, gpus_here
from deadtime.runs.estimates import seconds_needed
from deadtime.runs.ray_engine import Ray
from deadtime.runs.record import Record
from deadtime.runs.record_format import from_bytes, to_bytes
from deadtime.runs.specs import folder_of
from deadtime.runs.store import Store
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runs.units import Keep, Unit, units_of
from deadtime.runs.wanted import Runs, count
from deadtime.runs.where import ENGINES, Where

_UNITS = ".units"
_UNIT_BYTES = 2**28
"""The largest file of a unit's records. Few records keep policies, and these are small."""
_LOOK_EVERY_SECONDS = 1.0
_LONG_SECONDS = 60
"""Estimated times from this value on are printed; the only driver of a folder prints all."""


def run(left: Runs, root: Path, where: Where, store: Store | None, how: How) -> int:
    """Train the missing runs, and return the number of runs that failed."""
    if not left:
        if how.alone:
            Sweep([], root, 0, how, store).show(last=True)
        return 0
    engine, units, gpus = _engine(left, where, how)
    units = [unit._replace(keep=how.keep) for unit in units]
    sweep = Sweep(units, root, where.retries, how, store)
    try:
        with sweep.checkpoints_noted(), closing(engine), _compiling(how):
            workers = not isinstance(engine, Inline)
            seconds = seconds_needed(left, gpus, how.together, how.figures, workers)
            if how.alone or seconds >= _LONG_SECONDS:
                console(stderr=True).print(f"{counted(count(left), 'run')} to do, {about(seconds)}")
            failed = sweep.run(engine)
    except _TimeIsUpError:
        failed = sweep.failed
        there = [path for unit in sweep.running for path in checkpoints_at(unit, sweep.checkpoints)]
        written = counted(len(there), "checkpoint")
        console(stderr=True).print(
            f"time is up: finished runs are recorded, {written} written; run the same command to "
            "continue"
        )
    if failed:
        for unit, reason in failed:
            console(stderr=True).print(f"failed: {unit.name}: {reason}", soft_wrap=True)
        console(stderr=True).print(
            f"{len(failed)} of {len(units)} failed; run the same command to retry only these"
        )
    return sum(len(unit.runs) for unit, _ in failed)


class _TimeIsUpError(Exception):
    """The command's time is up before all units are done."""


def _compiling(how: How) -> AbstractContextManager[None]:
    """Return a context that compiles faster, to slower programs, for very short runs."""
    if not how.together:
        return nullcontext()
    with uninterrupted():
        from deadtime.learn.memory import compiled_quickly  # noqa: PLC0415  (JAX)

    return compiled_quickly()


@dataclass(frozen=True)
class How:
    """The options by which a command trains and records its runs."""

    keep: Keep = Keep()  # noqa: RUF009  (it is never changed)
    """The policies that records keep."""
    alone: bool = True
    """Whether this is the folder's only driver, which writes a status file.

    Otherwise several may add to the folder at once, and the first error ends the command."""
    together: bool = False
    """Whether runs are very short: they then share programs that are compiled faster."""
    figures: int = 0
    """The number of figures drawn from the runs, for the estimate of the time."""
    until: float = math.inf
    """The time by `monotonic` at which unfinished units write checkpoints and stop."""


def check(where: Where) -> None:
    """Raise if the requested engine is not available."""
    if where.engine and where.engine not in ENGINES:
        hint = nearest(where.engine, ENGINES)
        raise ValueError(
            f"no engine is called {where.engine!r}{hint}: choose one of {', '.join(ENGINES)}"
        )
    if where.address and where.engine != "ray":
        raise ValueError(
            f"--address is the address of a Ray cluster; got {where.address!r} without "
            "--engine ray: add that"
        )
    if where.retries < 0:
        raise ValueError(f"retries are 0 or more; got {where.retries}: 2 are usual")


def has_failed_units(root: Path, store: Store | None) -> bool:
    """Return whether the last status file lists failed units."""
    return bool((last_status(root) if store is None else store.status()).get("failed"))


def _engine(left: Runs, where: Where, how: How) -> tuple[Engine, list[Unit], int]:
    """Return the engine, the units, and the number of GPUs."""
    if how.together:
        return Inline(cores(), together=True), units_of(left, "gpu"), 0
    if where.engine == "ray":
        ray = Ray(where.address or None)
        return ray, units_of(left, "gpu" if ray.gpus else "cpu"), ray.gpus
    if all(isinstance(spec, TabularSpec) for spec, _ in left):
        units = units_of(left, "cpu")
        local = (where.engine or _usual(units)) == "local"
        return (Local() if local else Inline(cores())), units, 0
    with uninterrupted():
        import jax  # noqa: PLC0415  (it takes a while to load)

    gpus = gpus_here()
    if where.engine == "local" or (len(gpus) > 1 and not where.engine):
        # This process takes no GPU itself.
        jax.config.update("jax_platforms", "cpu")
        return Local(gpus), units_of(left, "gpu" if gpus else "cpu"), len(gpus)
    with uninterrupted():
        device = jax.default_backend()
    units = units_of(left, device)
    local = device == "cpu" and (where.engine or _usual(units)) == "local"
    if local:
        return Local(), units, 0
    return Inline(_at_once(units, device)), units, int(device == "gpu")


def _at_once(units: list[Unit], device: str) -> int:
    """Return the number of units that are trained at a time in this process.

    On a GPU two units on numbers share the device: one learns while the other's environments play.
    """
    if device == "cpu":
        return cores()
    specs = [unit.runs[0][0] for unit in units]
    outside = [spec for spec in specs if isinstance(spec, DeepSpec) and spec.outside]
    return 2 if outside == specs and not any(spec.frames for spec in outside) else 1


def _usual(units: list[Unit]) -> str:
    return "local" if len(units) > 1 else "inline"


def finish_writing(root: Path, store: Store | None) -> None:
    """Add the records of finished units that a killed driver left in files."""
    for path in sorted((root / _UNITS).glob("*.npz")) if files.is_folder(root / _UNITS) else []:
        _add(root, path, store)


def _add(root: Path, path: Path, store: Store | None) -> None:
    try:
        content = files.plain(path, _UNIT_BYTES)
    except ValueError as error:
        raise ValueError(
            f"{path} holds no records that can be read ({error}): delete it and run them again"
        ) from None
    for record in from_bytes(content, str(path)):
        _add_record(root, record, store)
    path.unlink()


def _add_record(root: Path, record: Record, store: Store | None) -> None:
    """Add a record to the folder, and to the store if there is one."""
    folder = root / folder_of(record)
    records.add(folder, record)
    if store is not None:
        store.put(folder)


@dataclass
class Sweep:
    """The units of one command, and their progress."""

    units: list[Unit]
    root: Path
    retries: int
    how: How
    store: Store | None = None
    done: int = 0
    work_done: int = 0
    running: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: list[tuple[Unit, str]] = field(default_factory=list)
    _began: float = field(default_factory=monotonic)
    _looked: float = -_LOOK_EVERY_SECONDS

    def run(self, engine: Engine) -> list[tuple[Unit, str]]:
        """Run all units, and return those that failed in every attempt, with the reasons."""
        waiting = deque(self.units)
        attempts = Counter[str]()
        files.is_folder(self.root / CHECKPOINTS)
        checkpoints = self.checkpoints
        runs = counted(sum(len(unit.runs) for unit in self.units), "run")
        with bar(runs, sum(unit.work for unit in self.units), "steps") as tell:
            try:
                while waiting or self.running:
                    self._check_time()
                    while waiting and engine.start(waiting[0], checkpoints):
                        unit = waiting.popleft()
                        attempts[unit.id] += 1
                        self.running[unit.id] = {
                            "name": unit.name,
                            "work": unit.work,
                            "done": 0,
                            "attempt": attempts[unit.id],
                        }
                    for event in engine.events():
                        if event.records is None and not event.failed:
                            self._progress(event.unit.id, event.progress, tell)
                            continue
                        about = self.running.pop(event.unit.id)
                        if event.records is not None:
                            self._record(event.unit, event.records)
                            drop_checkpoints(event.unit.id, checkpoints)
                            tell(event.unit.work - about["done"])
                            self.work_done += event.unit.work
                            self.done += 1
                        elif not self.how.alone and event.error is not None:
                            raise event.error
                        elif attempts[event.unit.id] <= self.retries:
                            tell(-about["done"])
                            waiting.append(event.unit)
                        else:
                            self.failed.append((event.unit, event.failed))
                    tell(0)
                    self.show()
            except BaseException:
                if isinstance(engine, Inline):  # finished seeds of tabular units are kept
                    for event in engine.finish():
                        self._record(event.unit, event.records or [])
                raise
            finally:
                self.show(last=True)
        return self.failed

    def _check_time(self) -> None:
        """Raise if the time of the command is up."""
        if monotonic() > self.how.until:
            raise _TimeIsUpError

    @property
    def checkpoints(self) -> str:
        """The folder or URL of the units' checkpoints."""
        return (
            str(self.root.resolve() / CHECKPOINTS) if self.store is None else self.store.checkpoints
        )

    @contextmanager
    def checkpoints_noted(self) -> Iterator[None]:
        """Note the checkpoints of interrupted units, which the command's last message names."""
        try:
            yield
        finally:
            for unit in self.running:
                ending.CHECKPOINTS.update(checkpoints_at(unit, self.checkpoints))

    def _progress(self, unit: str, n: int, tell: Callable[[int], None]) -> None:
        self.running[unit].setdefault("since", monotonic())
        self.running[unit]["done"] += n
        tell(n)
        self.show()

    def _record(self, unit: Unit, those: list[Record]) -> None:
        """Write a unit's records; the only driver of a folder writes them to one file first."""
        try:
            if self.how.alone:
                self._put_aside(unit, those)
            else:
                for record in those:
                    _add_record(self.root, record, self.store)
        except OSError as error:
            place = self.store.url if self.store else self.root
            raise OSError(
                f"records can't be written to {place} ({error.strerror or error}): finished "
                "records are kept; fix the cause and run the same command again"
            ) from error

    def _put_aside(self, unit: Unit, those: list[Record]) -> None:
        aside = self.root / _UNITS / f"{unit.id}.npz"
        files.folder_in(self.root, _UNITS)
        with whole(aside) as part:
            part.write_bytes(to_bytes(those))
        _add(self.root, aside, self.store)
        if not any(aside.parent.iterdir()):
            aside.parent.rmdir()

    def show(self, last: bool = False) -> None:
        """Write the status file, at most once a second; failures are ignored."""
        if not self.how.alone or (not last and monotonic() - self._looked < _LOOK_EVERY_SECONDS):
            return
        self._looked = monotonic()
        begun = [about for about in self.running.values() if "since" in about]
        running = [{**about, "since": round(monotonic() - about["since"], 1)} for about in begun]
        status = {
            "units": len(self.units),
            "done": self.done,
            "work": sum(unit.work for unit in self.units)
            - sum(unit.work for unit, _ in self.failed),
            "work_done": self.work_done + sum(about["done"] for about in running),
            "seconds": round(monotonic() - self._began, 1),
            "running": [] if last else running,
            "failed": [{"name": unit.name, "reason": reason} for unit, reason in self.failed],
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with suppress(OSError), whole(self.root / STATUS) as part:
            part.write_text(json.dumps(status, indent=1), encoding="utf-8")
