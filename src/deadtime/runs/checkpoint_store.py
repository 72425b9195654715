"""Checkpoints of the units of a sweep, in a folder or at a URL."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from deadtime._support import files
from deadtime._support.ending import unhurried
from deadtime.runs import object_store
from deadtime.runs.object_store import file_system, patiently, write
from deadtime.runs.places import is_url

CHECKPOINTS = ".checkpoints"


@contextmanager
def checkpoints_of(unit: str, place: str | None) -> Iterator[Path | None]:
    """Yield the folder of a unit's checkpoints below `place`; for a URL, a copy kept in sync."""
    if place is None or not is_url(place):
        folder = None if place is None else Path(place) / unit
        if folder is not None:  # links are refused
            files.is_folder(folder.parent)
            files.is_folder(folder)
        try:
            yield folder
        finally:
            for empty in () if folder is None else (folder, folder.parent):
                with suppress(OSError):  # it is missing, or holds checkpoints
                    empty.rmdir()
        return
    fs, base = file_system(f"{place}/{unit}")
    with tempfile.TemporaryDirectory(prefix="deadtime-") as name:
        folder = Path(name)
        stop = Event()
        fs.invalidate_cache()
        with suppress(FileNotFoundError):
            for path in patiently(fs.ls, base, False):
                if path.endswith(".safetensors"):
                    patiently(fs.get_file, path, str(folder / Path(path).name))
        there = _stamps(folder)

        def push() -> None:
            for path, stamp in _stamps(folder).items():
                if there.get(path) != stamp:
                    write(fs, f"{base}/{path.name}", path)
                    there[path] = stamp

        def keep_pushing() -> None:
            while not stop.wait(object_store.BEAT_SECONDS):
                with suppress(OSError):  # it is retried
                    push()

        thread = Thread(target=keep_pushing, daemon=True)
        thread.start()
        try:
            yield folder
        except BaseException as error:
            stop.set()
            thread.join()
            with suppress(OSError), unhurried():
                push()
            if isinstance(error, ValueError) and name in str(error):  # users know the URL
                raise ValueError(str(error).replace(name, f"{place}/{unit}")) from error
            raise
        stop.set()
        thread.join()


def checkpoints_at(unit: str, place: str) -> list[str]:
    """Return the paths or URLs of a unit's checkpoints."""
    if not is_url(place):
        return [str(path) for path in (Path(place) / unit).glob("*.safetensors")]
    with suppress(Exception):  # stores raise errors of their own
        fs, base = file_system(f"{place}/{unit}")
        fs.invalidate_cache()
        return [f"{place}/{unit}/{path.rpartition('/')[2]}" for path in fs.find(base)]
    return []


def drop_checkpoints(unit: str, place: str) -> None:
    """Delete the checkpoints of a recorded unit; if that fails they stay, and do no harm."""
    if not is_url(place):
        shutil.rmtree(Path(place) / unit, ignore_errors=True)
        with suppress(OSError):  # other units have some
            Path(place).rmdir()
        return
    fs, base = file_system(f"{place}/{unit}")
    fs.invalidate_cache()
    with suppress(Exception):  # stores raise errors of their own
        for path in fs.find(base):
            fs.rm_file(path)
        for folder in (base, base.rpartition("/")[0]):  # object stores have no folders
            fs.rmdir(folder)


def _stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the checkpoint files, each with its time of change and size."""
    found = {}
    for path in folder.glob("*.safetensors"):
        with suppress(FileNotFoundError):
            at = path.stat()
            found[path] = at.st_mtime_ns, at.st_size
    return found
