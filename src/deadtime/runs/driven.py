"""The lock of a folder's driver, and the status file that it writes for `deadtime status`."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any

from deadtime._support import files

STATUS, _LOCK = ".status.json", ".driver"
_SWEEP = {"units": int, "done": int, "work": int, "work_done": int, "seconds": float}
_RUNNING = {"name": str, "work": int, "done": int, "attempt": int, "since": float}
_FAILED = {"name": str, "reason": str}
"""The fields of a status: of a sweep, and of each unit that runs or failed."""


@contextmanager
def alone(
    root: Path, remedy: str = "name another folder, --out NAME", place: str = ""
) -> Iterator[None]:
    """Lock a folder, named `place` in errors, for one driver; the lock ends with the process."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = _opened(root, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise OSError(f"records can't be written to {root} ({error.strerror}): {remedy}") from error
    try:
        if not _locked(lock, fcntl.LOCK_EX, tries=20):  # `is_driven` holds it for a moment
            who = os.read(lock, 1000).decode(errors="replace").strip() or "another process"
            raise ValueError(
                f"one driver at a time works in a folder; {who} works in {place or root}: "
                "wait for it, or stop it"
            )
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()} on {platform.node()}".encode(), 0)
        yield
    finally:
        os.close(lock)


def is_driven(root: Path) -> bool:
    """Return whether a driver works in a folder at present."""
    try:
        lock = _opened(root, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return not _locked(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def _opened(root: Path, flags: int) -> int:
    try:
        return files.open_plain(root / _LOCK, flags)
    except ValueError as error:
        raise ValueError(
            f"a driver locks its folder by a file; in {root} {error}: delete {root / _LOCK}"
        ) from None


def _locked(lock: int, how: int, tries: int = 1) -> bool:
    """Take the lock and return True, or return False after `tries` tries, 0.05 s apart."""
    for again in range(tries):
        sleep(0.05 * bool(again))
        with suppress(BlockingIOError):
            fcntl.flock(lock, how | fcntl.LOCK_NB)
            return True
    return False


def last_status(root: Path) -> dict[str, Any]:
    """Return the status of a folder's last driver, or an empty dict."""
    try:
        content = files.plain(root / STATUS)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise _not_ours(error) from None
    return read_status(content)


def read_status(content: bytes) -> dict[str, Any]:
    """Return a checked status: known fields of the right types, and text without control codes."""
    try:
        status = {"driver": "", "beat": 0, "written": ""} | files.from_json(content)
        found = _like(status, {"driver": str, "beat": int, "written": str})
        if "units" in status:
            found |= _like(status, _SWEEP)
            found["running"] = [
                _like(one, _RUNNING) for one in files.listed(status["running"], dict)
            ]
            found["failed"] = [_like(one, _FAILED) for one in files.listed(status["failed"], dict)]
        return found
    except (ValueError, LookupError, TypeError) as error:
        raise _not_ours(error) from None


def _like(content: dict[str, Any], form: Mapping[str, type]) -> dict[str, Any]:
    """Return the value of each name in `form`, or raise if one has another type."""
    found = {name: files.listed([content[name]], kind)[0] for name, kind in form.items()}
    for name, value in found.items():
        if isinstance(value, str):
            found[name] = files.printable(value)
        elif not 0 <= value < 2**53:
            raise ValueError(f"{name} is a number, 0 or more; got {value}")
    return found


def _not_ours(why: Exception) -> ValueError:
    return ValueError(
        f"{STATUS} is no status file of a driver ({why}): delete it; the next driver writes one"
    )
