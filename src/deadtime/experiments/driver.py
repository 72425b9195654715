"""What drives a sweep, whatever the engine: units are started, recorded, tried again or given up, and anyone can look on.

One driver at a time works in a folder of records. It alone writes there: a unit's records go to a file of their own first, so
that they are added all or none, whenever it dies.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Any

import tyro

from deadtime import ending, files
from deadtime.envs import nearest
from deadtime.experiments import records
from deadtime.experiments.cluster import Ray
from deadtime.experiments.driven import STATUS, is_driven, last_status
from deadtime.experiments.engines import ENGINES, Engine, Inline, Local, gpus_here
from deadtime.experiments.runner import Runs, Where, count, counted, time_needed
from deadtime.experiments.specs import TabularSpec
from deadtime.experiments.store import CHECKPOINTS, Store, checkpoints_at, drop_checkpoints, is_url
from deadtime.experiments.units import Unit, units_of
from deadtime.files import whole
from deadtime.terminal import console
from deadtime.training.result import bar, folder_of

_UNITS = ".units"
_UNIT_BYTES = 2**26
"""The largest file of a unit's records, which have no policies."""
_LOOK_EVERY_SECONDS = 1.0


def run(left: Runs, root: Path, where: Where, store: Store | None) -> int:
    """Do all units of what is missing; returns how many runs could not be done."""
    if not left:
        Sweep([], root, 0, store).show(last=True)
        return 0
    engine, units, gpus = _engine(left, where)
    sweep = Sweep(units, root, where.retries, store)
    with sweep.checkpoints_noted(), closing(engine):
        about = f"{counted(count(left), 'run')} to do, {time_needed(left, gpus)}"
        console(stderr=True).print(about)
        failed = sweep.run(engine)
    if failed:
        for unit, reason in failed:
            console(stderr=True).print(f"failed: {unit.name}: {reason}", soft_wrap=True)
        console(stderr=True).print(f"{len(failed)} of {len(units)} failed; the same command tries only these again")
    return sum(len(unit.runs) for unit, _ in failed)


def check(where: Where) -> None:
    """Refuse what there is not."""
    if where.engine and where.engine not in ENGINES:
        hint = nearest(where.engine, ENGINES)
        raise ValueError(f"no engine is called {where.engine!r}{hint}: choose one of {', '.join(ENGINES)}")
    if where.address and where.engine != "ray":
        raise ValueError(f"an address is that of a Ray cluster; got {where.address!r} without --engine ray: add it")
    if where.retries < 0:
        raise ValueError(f"retries are 0 or more; got {where.retries}: 2 are usual")


def said_failed(root: Path, store: Store | None) -> bool:
    """Return whether the last driver's status says that a unit failed."""
    return bool((last_status(root) if store is None else store.status()).get("failed"))


def _engine(left: Runs, where: Where) -> tuple[Any, list[Unit], int]:
    """Where it is done, in which units, and with how many GPUs."""
    if where.engine == "ray":
        ray = Ray(where.address or None)
        return ray, units_of(left, "gpu" if ray.gpus else "cpu"), ray.gpus
    if all(isinstance(spec, TabularSpec) for spec, _ in left):
        units = units_of(left, "cpu")
        return (Local() if (where.engine or _usual(units)) == "local" else Inline()), units, 0
    import jax  # noqa: PLC0415  (it takes a while to load)

    gpus = gpus_here()
    if where.engine == "local" or (len(gpus) > 1 and not where.engine):  # then this process takes no GPU itself
        jax.config.update("jax_platforms", "cpu")
        return Local(gpus), units_of(left, "gpu" if gpus else "cpu"), len(gpus)
    device = jax.default_backend()
    units = units_of(left, device)
    local = device == "cpu" and (where.engine or _usual(units)) == "local"
    return (Local() if local else Inline()), units, int(device == "gpu")


def _usual(units: list[Unit]) -> str:
    return "local" if len(units) > 1 else "inline"


def finish_writing(root: Path, store: Store | None) -> None:
    """Add the records that a driver which died had put aside whole."""
    for path in sorted((root / _UNITS).glob("*.npz")) if files.is_folder(root / _UNITS) else []:
        _add(root, path, store)


def _add(root: Path, path: Path, store: Store | None) -> None:
    try:
        content = files.plain(path, _UNIT_BYTES)
    except ValueError as error:
        raise ValueError(f"{path} holds no records that can be read ({error}): delete it and run them again") from None
    for record in records.unpacked(content, str(path)):
        folder = root / folder_of(record)
        records.add(folder, record)
        if store is not None:
            store.put(folder)
    path.unlink()


@dataclass
class Sweep:
    """Units on their way."""

    units: list[Unit]
    root: Path
    retries: int
    store: Store | None = None
    done: int = 0
    work_done: int = 0
    running: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: list[tuple[Unit, str]] = field(default_factory=list)
    _began: float = field(default_factory=monotonic)
    _looked: float = -_LOOK_EVERY_SECONDS
    _lock: Any = field(default_factory=RLock)
    """Inline units tell their progress from several threads."""

    def run(self, engine: Engine) -> list[tuple[Unit, str]]:
        """Until all is done or given up."""
        waiting, attempts = deque(self.units), Counter[str]()
        files.is_folder(self.root / CHECKPOINTS)
        checkpoints = self.checkpoints
        runs = counted(sum(len(unit.runs) for unit in self.units), "run")
        with bar(runs, sum(unit.work for unit in self.units), "steps") as tell:
            if isinstance(engine, Inline):
                engine.tell = lambda n: self._progress(next(iter(self.running)), n, tell)  # type: ignore[method-assign]
            try:
                while waiting or self.running:
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
                        elif attempts[event.unit.id] <= self.retries:
                            tell(-about["done"])
                            waiting.append(event.unit)
                        else:
                            self.failed.append((event.unit, event.failed))
                    self.show()
            finally:
                self.show(last=True)
        return self.failed

    @property
    def checkpoints(self) -> str:
        """The folder or URL of the units' checkpoints."""
        return str(self.root.resolve() / CHECKPOINTS) if self.store is None else self.store.checkpoints

    @contextmanager
    def checkpoints_noted(self) -> Iterator[None]:
        """Note afterwards which checkpoints there are of units that were running: what is said last tells of them."""
        try:
            yield
        finally:
            for unit in self.running:
                ending.CHECKPOINTS.update(checkpoints_at(unit, self.checkpoints))

    def _progress(self, unit: str, n: int, tell: Any) -> None:
        with self._lock:
            self.running[unit].setdefault("since", monotonic())
            self.running[unit]["done"] += n
            tell(n)
            self.show()

    def _record(self, unit: Unit, those: list[records.Record]) -> None:
        """Put a unit's records down, all or none."""
        aside = self.root / _UNITS / f"{unit.id}.npz"
        try:
            files.folder_in(self.root, _UNITS)
            with whole(aside) as part:
                part.write_bytes(records.packed(those))
            _add(self.root, aside, self.store)
            if not any(aside.parent.iterdir()):
                aside.parent.rmdir()
        except OSError as error:
            raise OSError(
                f"records can't be written to {self.store.url if self.store else self.root} ({error.strerror or error}): "
                "what is recorded stays; mend that, and the same command goes on"
            ) from error

    def show(self, last: bool = False) -> None:
        """Let others look on, once a second; if that can't be written, what matters says so when it can't be either."""
        if not last and monotonic() - self._looked < _LOOK_EVERY_SECONDS:
            return
        self._looked = monotonic()
        begun = [about for about in self.running.values() if "since" in about]
        running = [{**about, "since": round(monotonic() - about["since"], 1)} for about in begun]
        said = {
            "units": len(self.units),
            "done": self.done,
            "work": sum(unit.work for unit in self.units) - sum(unit.work for unit, _ in self.failed),
            "work_done": self.work_done + sum(about["done"] for about in running),
            "seconds": round(monotonic() - self._began, 1),
            "running": [] if last else running,
            "failed": [{"name": unit.name, "reason": reason} for unit, reason in self.failed],
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with suppress(OSError), whole(self.root / STATUS) as part:
            part.write_text(json.dumps(said, indent=1), encoding="utf-8")


@dataclass(frozen=True)
class Status:
    """Look at a sweep from another terminal: what is done, running, failed, and about how long the rest takes."""

    records: tyro.conf.Positional[str] = "results"
    """The folder or URL of records that it writes to."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        """Read and print; exits with 1 if something failed."""
        said = _said(self.records)
        if "units" not in said:
            raise ValueError(
                f"no sweep or reproduce has left word of itself in {self.records}: name the folder or URL that one writes to"
            )
        left, made = said["work"] - said["work_done"], said["work_done"]
        said["seconds_left"] = round(said["seconds"] * left / made) if made and said["driven"] else None
        if self.json:
            print(json.dumps(said))
            return 1 if said["failed"] else 0
        state = "is running" if said["driven"] else "is not running; the command that began it goes on with what is missing"
        if said["done"] == said["units"] and not said["driven"]:
            state = "has nothing left to do"
        units, share = counted(said["units"], "unit"), _percent(made, said["work"])
        shown = console()
        shown.print(f"{said['done']} of {units} done, {share}% of the work")
        for one in said["running"] if said["driven"] else []:
            again = f", attempt {one['attempt']}" if one["attempt"] > 1 else ""
            share = _percent(one["done"], one["work"])
            shown.print(f"running: {one['name']}: {share}% in {one['since']:.0f} s{again}")
        for one in said["failed"]:
            shown.print(f"failed: {one['name']}: {one['reason']}", soft_wrap=True)
        about = f", about {said['seconds_left']:,} s left" if said["seconds_left"] is not None else ""
        shown.print(f"the driver {state}{about}")
        return 1 if said["failed"] else 0


def _percent(part: int, whole: int) -> int:
    return 100 * part // whole if whole else 100


def _said(place: str) -> dict[str, Any]:
    """Return the status that a driver last wrote there, and whether it still works."""
    if is_url(place):
        store = Store(place)
        alive = store.alive()
        return (alive or store.status()) | {"driven": bool(alive)}
    return last_status(Path(place)) | {"driven": is_driven(Path(place))}
