"""Packing: record folders move into a few archives such as `maze.zip` and `atari.zip`.

A record that is in a folder and in a pack is read from the folder. So a process may be killed at
any moment: the new pack replaces the old one, and only then are its folders removed. The next
packing finishes an interrupted one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path

from deadtime._support import files
from deadtime.envs.families import family_of
from deadtime.runs import folder_swap, pack_archive, records
from deadtime.runs.driven import alone
from deadtime.runs.pack_archive import FILES, RUN
from deadtime.runs.record import Record

_PACK_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def pack_name(record: Record) -> str:
    """Return the pack's name for a record: its environment's family, such as maze or atari."""
    return family_of(record.spec["env"]).name


def pack(root: Path, name_of: Callable[[Record], str] = pack_name) -> list[Path]:
    """Move the record folders of `root` into packs, and return those packs.

    A record goes to the pack that already holds it, else to `name_of(record)`.zip. A folder stays
    if it holds files of the user, or a record that can't be read.
    """
    if not _folders(root) and not _left(root):
        return []
    with alone(root), folder_swap.locked(root / RUN):
        _finish(root)
        chosen: dict[Path, list[str]] = {}
        for folder in _folders(root):
            path = _pack_of(folder, name_of)
            if path is not None:
                chosen.setdefault(path, []).append(folder.name)
        for path, names in sorted(chosen.items()):
            _add(path, names)
            for name in names:
                _remove(root / name)
        return sorted(chosen)


def drop(root: Path, names: Collection[str]) -> None:
    """Remove records from the packs of `root`; other records stay as they are."""
    with alone(root), folder_swap.locked(root / RUN):
        for path in pack_archive.paths(root):
            there = pack_archive.members(path)
            left = {name: _in_pack(root, name) for name in there if name not in names}
            if len(left) == len(there):
                continue
            if left:
                _write(path, left)
            else:
                path.unlink()


def _folders(root: Path) -> list[Path]:
    """List the record folders of `root`, with those that a killed process was replacing."""
    found: set[Path] = set()
    for path in root.iterdir() if root.is_dir() else ():
        name = re.sub(r"^\.(.*)\.old$", r"\1", path.name)
        plain = path.is_dir() and not path.is_symlink()
        if plain and pack_archive.is_record_name(name) and os.path.lexists(path / RUN):
            found.add(root / name)
    return sorted(found)


def _pack_of(folder: Path, name_of: Callable[[Record], str]) -> Path | None:
    """Return the pack that a record folder goes into, or None if it stays a folder."""
    root = folder.parent
    try:
        folder_swap.settled(folder, FILES)
        if {path.name for path in folder.iterdir()} - {*FILES}:
            return None
        record = records.read_from(records.Folder(folder))
    except ValueError:  # reading the folder says why
        return None
    packed = pack_archive.find(root, folder.name)
    if packed is not None:
        return packed.pack
    name = name_of(record)
    if not _PACK_NAME.fullmatch(name):
        return None
    path = root / f"{name}.zip"
    if os.path.lexists(path) and not pack_archive.members(path):
        raise ValueError(f"a pack replaces only a pack; {path} is not one: move it elsewhere")
    return path


Content = Mapping[str, Callable[[], bytes]]
"""The files of a record, each with the function that reads it."""


def _in_folder(folder: Path) -> Content:
    there = [name for name in FILES if os.path.lexists(folder / name)]
    return {name: partial(files.plain, folder / name, inf) for name in there}


def _in_pack(root: Path, name: str) -> Content:
    packed = pack_archive.find(root, name)
    assert packed is not None, name
    return {file: partial(packed.content, file, inf) for file in packed.members}


def _add(path: Path, names: Collection[str]) -> None:
    """Add the record folders beside a pack to it; they replace its records of the same name."""
    root = path.parent
    new = {name: _in_folder(root / name) for name in names}
    old = {name: _in_pack(root, name) for name in pack_archive.members(path)}
    if any(name not in old or not _alike(mine, old[name]) for name, mine in new.items()):
        _write(path, old | new)


def _alike(one: Content, other: Content) -> bool:
    return {*one} == {*other} and all(read() == other[name]() for name, read in one.items())


def _write(path: Path, content: Mapping[str, Content]) -> None:
    """Write a pack completely, and flush it to the disk."""
    ordered = sorted(content, key=pack_archive.order)
    with files.whole(path) as part, part.open("wb") as file:
        members = ((name, one) for name in ordered for one in sorted(content[name]))
        pack_archive.write(file, ((name, one, content[name][one]()) for name, one in members))
        file.flush()
        os.fsync(file.fileno())
    found = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(found)
    finally:
        os.close(found)


def _hidden(folder: Path) -> Path:
    """Return the hidden name of a folder while it is removed."""
    return folder.with_name(f".{folder.name}.packed")


def _remove(folder: Path) -> None:
    """Remove a record folder that a pack holds; files of the user's own stay."""
    hidden = _hidden(folder)
    if os.path.lexists(hidden):  # an earlier one with a file of the user
        return
    folder.rename(hidden)
    _empty(hidden)


def _empty(folder: Path) -> None:
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # it has a file of the user's own
        folder.rmdir()


def _finish(root: Path) -> None:
    """Remove the rest of packed folders that a killed process was removing."""
    for path in _left(root):
        if pack_archive.find(root, path.name[1:].removesuffix(".packed")) is not None:
            _empty(path)


def _left(root: Path) -> list[Path]:
    """List the folders that a killed process was removing."""
    return [path for path in root.glob(".*.packed") if path.is_dir() and not path.is_symlink()]
