"""Replacement of a folder by another, which keeps the user's own files.

Each step is a rename, or the deletion of a file of which the new folder has a version. So whenever
a process is killed, all files are in one of the two folders, and the next process finishes the
replacement.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

from deadtime._support.files import is_folder


@contextmanager
def locked(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Let one process at a time replace folders beside `folder`, and none while others read.

    The lock ends with its process.
    """
    parent = os.open(folder.parent, os.O_RDONLY)
    try:
        fcntl.flock(parent, how)
        yield
    finally:
        os.close(parent)


def old_of(folder: Path) -> Path:
    """Return the name of a folder while another takes its place."""
    return folder.with_name(f".{folder.name}.old")


def put(part: Path, folder: Path, names: Collection[str]) -> None:
    """Replace a folder, whose own files have `names`, by `part`; the user's files are kept."""
    if is_folder(folder):
        _flush(part)
        folder.rename(old_of(folder))
    part.rename(folder)
    settled(folder, names)


def settled(folder: Path, names: Collection[str]) -> bool:
    """Finish a replacement that was interrupted, and return whether the folder exists."""
    old = old_of(folder)
    if not is_folder(old):
        return is_folder(folder)
    if not is_folder(folder):
        old.rename(folder)
        return True
    ours = [old / name for name in names if (old / name).is_symlink() or not (old / name).is_dir()]
    for path in {*old.iterdir()} - {*ours}:
        path.rename(_free(folder / path.name))
    for path in ours:
        path.unlink(missing_ok=True)
    old.rmdir()
    return True


def _free(path: Path) -> Path:
    """Return the path if nothing is there, else one with a number after it."""
    numbered = (path.with_name(f"{path.name}.{number}") for number in count(1))
    return next(one for one in chain([path], numbered) if not os.path.lexists(one))


def _flush(folder: Path) -> None:
    """Flush a folder and its files to the disk."""
    for path in (*folder.iterdir(), folder):
        found = os.open(path, os.O_RDONLY)
        try:
            os.fsync(found)
        finally:
            os.close(found)
