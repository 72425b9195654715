"""Records at a URL, without a shared disk: `s3://bucket/sweep`, `gs://...`, or others of fsspec.

    NAME-ID.npz      a record, one object each, so that it is complete or absent
    NAME.zip         a pack of records that a user copied there; it is read, never written
    .status.json     the progress of the sweep and its driver, written every few seconds
    .checkpoints/    checkpoints of the units that run, or ran when their node was lost

The driver works in a local folder with copies of the records. It uploads each record before the
record counts as done. Clocks differ between machines and are not compared: a driver is alive if its
status keeps changing.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import Any
from uuid import uuid4

from deadtime._support import files
from deadtime._support.machine import free_memory
from deadtime.runs import object_store, pack_archive, records
from deadtime.runs.checkpoint_store import CHECKPOINTS
from deadtime.runs.driven import STATUS, alone, last_status, read_status
from deadtime.runs.object_store import file_system, patiently, write
from deadtime.runs.places import is_url
from deadtime.runs.record_format import from_bytes, to_bytes
from deadtime.runs.specs import folder_of


def local_folder(out: Path) -> Path:
    """Return the folder; raise if it was given as a URL, of which a Path keeps only one slash."""
    if re.match("[A-Za-z][A-Za-z0-9+.-]+:/", str(out)):
        raise ValueError(
            f"this command writes to a folder of this machine; got the URL {out}: write a sweep, "
            "`deadtime sweep FILE.toml --out URL` takes a URL"
        )
    return out


@contextmanager
def opened(out: str | Path) -> Iterator[tuple[Path, Store | None]]:
    """Yield the folder to work in and the URL's store; the folder is `out` unless that is a URL.

    The folder with copies of a URL's records is kept, so that the next driver on this machine
    uploads records whose upload failed.
    """
    if not is_url(out):
        yield Path(out), None
        return
    store = Store(str(out))
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = Path(base) / "deadtime" / "stores" / hashlib.sha256(store.url.encode()).hexdigest()[:16]
    with alone(root, "set XDG_CACHE_HOME to a folder for copies of what is at the URL", store.url):
        store.pull(root)
        yield root, store
        store.put_files(root)


@contextmanager
def copied(place: str | Path) -> Iterator[Path]:
    """Yield the folder of records to read: `place`, or a temporary copy of a URL's records."""
    if not is_url(place):
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="deadtime-") as name:
        Store(str(place)).pull(Path(name))
        yield Path(name)


def _kept(name: str) -> bool:
    """Return whether a file is a record, or describes records."""
    return name.endswith((".npz", ".zip", ".toml", "/ceilings.json"))


class Store:
    """Records at a URL."""

    def __init__(self, url: str):
        """Check the URL; nothing is downloaded yet."""
        if {*"*?["} & {*url}:
            raise ValueError(
                f"a URL of records has no wildcards (*, ? or [); got {url!r}: choose another"
            )
        scheme, _, path = url.partition("://")
        self.url = f"{scheme}://{path.rstrip('/')}"
        self._fs, self._base = file_system(self.url)
        self._me = ""
        self._beats = 0
        self._lost = ""

    def pull(self, root: Path) -> None:
        """Make a folder hold exactly the records at the URL."""
        names = self._names()
        contents = (
            patiently(self._fs.cat, names)
            if len(names) > 1
            else {name: patiently(self._fs.cat_file, name) for name in names}
        )
        for old in (root / name for name in records.names(root)):
            if old.is_dir():
                shutil.rmtree(old)
        for pack in pack_archive.paths(root):
            pack.unlink()
        for name, content in contents.items():
            if not name.endswith(".npz"):
                with files.whole(root / name.rpartition("/")[2]) as part:
                    part.write_bytes(content)
                continue
            for record in from_bytes(content, f"{self.url}/{name.rpartition('/')[2]}"):
                records.write(root / folder_of(record), record)

    def _names(self) -> list[str]:
        """Return the names of records and of the files that explain them; raise if one is unfit."""
        self._fs.invalidate_cache()
        try:
            found = [one for one in patiently(self._fs.ls, self._base, True) if _kept(one["name"])]
        except FileNotFoundError:
            return []
        for one in found:
            if one["type"] != "file" or one.get("islink"):
                raise ValueError(
                    f"records at a URL are plain files; {one['name']} is a link, pipe or the like: "
                    "delete it"
                )
            if (one.get("size") or 0) > free_memory() / 2:
                raise ValueError(
                    f"a record fits in memory; {one['name']} has {one['size']:,} bytes: delete it"
                )
        return [one["name"] for one in found]

    def status(self) -> dict[str, Any]:
        """Return the last status that a driver wrote, or an empty dict."""
        self._fs.invalidate_cache()
        try:
            return read_status(patiently(self._fs.cat_file, f"{self._base}/{STATUS}"))
        except FileNotFoundError:
            return {}

    def alive(self) -> dict[str, Any]:
        """Return the status if it keeps changing, else an empty dict."""
        first = self.status()
        if not first.get("driver"):
            return {}
        for _ in range(3):
            sleep(object_store.BEAT_SECONDS)
            second = self.status()
            if second != first:
                return second if second.get("driver") else {}
        return {}

    @contextmanager
    def driven(self, root: Path) -> Iterator[None]:
        """Register as the URL's only driver, which works in `root`, until the end of the block."""
        other = self.alive()
        if other:
            raise ValueError(
                f"one driver at a time works at a URL; {other['driver']} works at {self.url}: "
                "wait for it, or stop it"
            )
        self._me = f"process {os.getpid()} on {platform.node()} ({uuid4().hex[:8]})"
        self._lost = ""
        self._beat(root)
        sleep(1.0)  # another driver may start at the same moment: the last to write continues
        self._check()
        stop = Event()
        thread = Thread(target=self._beat_on, args=(root, stop), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            if not self._lost:
                self._beat(root, last=True)

    def _beat_on(self, root: Path, stop: Event) -> None:
        while not stop.wait(object_store.BEAT_SECONDS):
            with suppress(OSError, ValueError):  # an upload that fails raises in `put`
                self._check()
                self._beat(root)

    def _beat(self, root: Path, last: bool = False) -> None:
        self._beats += 1
        status = last_status(root) | {"driver": "" if last else self._me, "beat": self._beats}
        self._write(STATUS, json.dumps(status).encode())

    def _write(self, name: str, content: bytes) -> None:
        write(self._fs, f"{self._base}/{name}", content)

    def _check(self) -> None:
        """Raise if another driver has taken over."""
        who = self.status().get("driver")
        if who != self._me:
            self._lost = who or "another one"
        if self._lost:
            raise ValueError(
                f"one driver at a time works at a URL; {self._lost} took over {self.url}: "
                "stop this command"
            )

    def put(self, folder: Path) -> None:
        """Upload a record; it is complete when this returns."""
        self._check()
        self._write(f"{folder.name}.npz", to_bytes([records.read(folder, policies=True)]))

    def put_files(self, root: Path) -> None:
        """Upload figures, tables and other files that are no records."""
        packs = pack_archive.paths(root)
        for path in root.rglob("*"):
            inside = path.relative_to(root)
            hidden = any(part.startswith(".") for part in inside.parts)
            own = path in packs or (root / inside.parts[0] / "run.json").exists()
            if path.is_file() and not hidden and not own:
                self._write(inside.as_posix(), path.read_bytes())

    @property
    def checkpoints(self) -> str:
        """The URL of the units' checkpoints."""
        return f"{self.url}/{CHECKPOINTS}"
