"""Records on disk: one folder for each spec, with all its seeds.

    NAME-ID/run.json      spec, seeds, scores, provenance, times, and the digests of the other files
            curves.npz    returns during training, one row for each seed
            policies.npz  the trained policies, if they are kept

A folder is written under a temporary name and then renamed, so it is complete or absent. Adding
seeds writes a new folder with all rows, and moves the user's own files into it. A folder that does
not match its digests is reported and never read. Reading a record imports nothing that it names.

A record may also lie in a pack, such as `maze.zip`, beside the folders (see `pack_archive`). The
folder takes precedence: seeds that are added to a packed record make a folder with all its seeds.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from deadtime._support import files
from deadtime._support.machine import free_memory
from deadtime.runs import folder_swap, pack_archive
from deadtime.runs.pack_archive import CURVES, FILES, POLICIES, RUN
from deadtime.runs.record import Record, joined
from deadtime.runs.record_format import SCHEMA, from_json, is_known, to_json

_CURVE_BYTES = 2**26
"""The largest file of curves; uncompressed it may have four times as many bytes."""


class Source(Protocol):
    """The files of one record, in a folder or in a pack."""

    @property
    def remedy(self) -> str:
        """The remedy if the record is damaged."""

    def has(self, file: str) -> bool:
        """Return whether the record has a file of this name."""

    def opened(self, file: str, most: float) -> AbstractContextManager[BinaryIO]:
        """Open one file of at most `most` bytes for reading."""


@dataclass(frozen=True)
class Folder:
    """A record in a folder of its own."""

    path: Path

    remedy = "delete the folder and run it again"

    def __str__(self) -> str:
        """Return the folder's path."""
        return str(self.path)

    def has(self, file: str) -> bool:
        """Return whether the folder has a file of this name."""
        return os.path.lexists(self.path / file)

    def opened(self, file: str, most: float) -> AbstractContextManager[BinaryIO]:
        """Open one file of at most `most` bytes for reading."""
        return files.opened(self.path / file, most)


def _source(folder: Path) -> Source | None:
    """Return where a record is: in its folder or, if that has none, in a pack beside it."""
    there = files.is_folder(folder)
    if there and os.path.lexists(folder / RUN):
        return Folder(folder)
    packed = pack_archive.find(folder.parent, folder.name)
    return packed or (Folder(folder) if there else None)


def names(root: Path) -> list[str]:
    """List the names of the records in `root`: in folders, and in packs that can be read."""
    there = root.iterdir() if root.is_dir() else ()
    own = {path.name for path in there if path.name[0] != "." and os.path.lexists(path / RUN)}
    return sorted(own | pack_archive.names(root))


def add(folder: Path, record: Record) -> Record:
    """Write a record together with the seeds recorded before; a new row replaces an old one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder_swap.locked(folder):
        folder_swap.settled(folder, FILES)
        source = _source(folder)
        if source is not None:
            known = read_from(source, policies=True)
            if known.id != record.id:
                other = f"{source} holds runs of {known.id}, not of {record.id}"
                raise ValueError(f"{other}: delete it, and they are run again")
            new = {*record.seeds}
            others = [seed for seed in known.seeds if seed not in new]
            record = joined(known.rows(others), record) if others else record
        _write(folder, record)
    return record


def write(folder: Path, record: Record) -> Path:
    """Write a record completely or not at all; it may replace only an earlier record."""
    if not folder.is_symlink():
        folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder_swap.locked(folder):
        return _write(folder, record)


def _write(folder: Path, record: Record) -> Path:
    _check_place(folder)
    for left in folder.parent.glob(f".{escape(folder.name)}.part-*"):  # of a killed process
        shutil.rmtree(left, ignore_errors=True)
    part = folder.with_name(f".{folder.name}.part-{os.getpid()}")
    part.mkdir()
    try:
        optional = {"others": record.others, "evaluations": record.evaluations}
        rest: dict[str, Any] = {name: part for name, part in optional.items() if part.size}
        np.savez_compressed(part / CURVES, points=record.points, curve=record.curve, **rest)
        if record.policies:
            with (part / POLICIES).open("wb") as file:
                record.write_policies(file)
        digests = {path.name: _digest(path.read_bytes()) for path in sorted(part.glob("*.npz"))}
        content = {"schema": SCHEMA, **to_json(record), "files": digests}
        content["digest"] = _digest(_text(content).encode())
        (part / RUN).write_text(_text(content) + "\n", encoding="utf-8")
        folder_swap.put(part, folder, FILES)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _check_place(folder: Path) -> None:
    """Raise if the place holds anything but a record or an empty folder."""
    is_other = folder.is_symlink() or (folder.exists() and not folder.is_dir())
    if not is_other and folder_swap.settled(folder, FILES):
        is_other = not (folder / RUN).exists() and any(folder.iterdir())
    if is_other:
        raise ValueError(
            "a record is written to a new folder or in place of a record; "
            f"{folder} is neither: name another"
        )


def exists(folder: Path) -> bool:
    """Return whether there is a record, after repairing a replacement that was interrupted."""
    _settle(folder)
    return _source(folder) is not None


def _settle(folder: Path) -> None:
    """Restore a folder whose process ended while it was replaced."""
    if os.path.lexists(folder_swap.old_of(folder)):
        with suppress(OSError), folder_swap.locked(folder):
            folder_swap.settled(folder, FILES)


def read(folder: Path, policies: bool = False) -> Record:
    """Read a record from its folder or from a pack beside it, or raise if it is damaged."""
    if folder.is_symlink():  # the user named it, so it is followed
        folder = folder.resolve()
    if not folder.parent.is_dir() or (folder.exists() and not folder.is_dir()):
        return read_from(Folder(folder), policies)
    _settle(folder)
    with folder_swap.locked(folder, fcntl.LOCK_SH):
        return read_from(_source(folder) or Folder(folder), policies)


def read_from(source: Source, policies: bool = False) -> Record:
    """Read a record under a lock, or raise if it is damaged."""
    content, schema = _run_json(source)
    try:
        if not source.has(POLICIES):  # a copy may leave them out
            content["policy_seeds"] = []
            content["files"].pop(POLICIES, None)
        if {*content["files"]} - {CURVES, POLICIES}:
            raise ValueError(
                f"its files are {CURVES} and {POLICIES}; got {[*content['files']]!r:.200}"
            )
        wanted = (CURVES, POLICIES) if policies else (CURVES,)
        arrays = {
            name: _arrays(source, name, expected, name in wanted)
            for name, expected in content["files"].items()
        }
        return from_json(content, schema, arrays[CURVES], arrays.get(POLICIES, {}))
    except ValueError as error:
        raise _damaged(source, str(error)) from error
    except (LookupError, TypeError, AttributeError) as error:
        raise _damaged(source, f"something is missing in it ({error!r:.100})") from error


def _run_json(source: Source) -> tuple[dict[str, Any], int]:
    """Return the content of run.json without its digest, and its format."""
    try:
        with source.opened(RUN, files.TEXT_BYTES) as file:
            content = files.from_json(file.read())
        digest = content.pop("digest")
        schema = content["schema"]
        unchanged = digest == _digest(_text(content).encode())
    except (FileNotFoundError, NotADirectoryError):
        rule = f"a record is a folder with a run.json; {source} has none"
        raise ValueError(f"{rule}: name the folder that `deadtime train` printed") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(source, f"run.json can't be read ({error})") from None
    if not is_known(schema):
        raise ValueError(
            f"{source} has the record format {schema!r:.50}; this version reads up to {SCHEMA}: "
            "use the version that wrote it"
        )
    if not unchanged:
        raise _damaged(source, "run.json was changed after it was written")
    return content, schema


def _arrays(source: Source, name: str, expected: str, wanted: bool) -> dict[str, np.ndarray]:
    """Return the arrays of a file if they are wanted; its digest is compared in any case."""
    curves = name == CURVES
    content = b""
    try:
        with source.opened(name, _CURVE_BYTES if curves else free_memory() / 2) as file:
            unchanged = hashlib.file_digest(file, "sha256").hexdigest() == expected  # type: ignore[arg-type]
            if unchanged and wanted:
                file.seek(0)
                content = file.read()
    except FileNotFoundError:
        unchanged = False
    if not unchanged:
        raise ValueError(f"{name} is missing or was changed after it was written")
    try:
        return files.arrays(content, 4 * _CURVE_BYTES if curves else 0) if wanted else {}
    except ValueError as error:
        raise ValueError(f"{name} can't be read, {error}") from error


def _damaged(source: Source, why: str) -> ValueError:
    return ValueError(f"{source} is damaged, {why}: {source.remedy}")


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
