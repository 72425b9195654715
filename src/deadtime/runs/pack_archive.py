"""Packs: ZIP archives that hold the records of a folder.

    maze.zip    NAME/curves.npz, NAME/policies.npz, NAME/run.json of each record, sorted by name

A pack has exactly one form. Members are stored without further compression, they follow each other
without gaps, and every date is 1980-01-01. So the same records give the same bytes. A pack that
another program made is refused, and so is one with links, encrypted, overlapping or repeated
members.
Nothing is ever extracted to a path that a pack names.

A file NAME.zip that does not begin with a member of a record is the user's own and is left alone.
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import BinaryIO, NamedTuple

from deadtime._support import files

RUN = "run.json"
CURVES = "curves.npz"
POLICIES = "policies.npz"
FILES = (CURVES, POLICIES, RUN)
"""The files of a record, in the order in which a pack has them."""
MOST_MEMBERS = 30_000
PACK_BYTES = 2**32 - 2**24
"""The largest pack: its directory lies within the 4 GiB that plain ZIP archives address."""
_LONGEST_NAME = 200
_RECORD_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.,+=@-]{{0,{_LONGEST_NAME - 1}}}")
_LOCAL = struct.Struct("<4s5H3I2H")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_VERSION = 20
_DATE = 1 << 5 | 1
"""1980-01-01 as ZIP archives write it."""
_MADE_BY_UNIX = 3 << 8 | _VERSION
_PLAIN_FILE = (stat.S_IFREG | 0o644) << 16

Stamp = tuple[int, int, int, int]
"""Device, inode, time of change and size of a file."""


class Member(NamedTuple):
    """The place of one file in a pack."""

    record: str
    file: str
    offset: int
    size: int
    checksum: int

    @property
    def path(self) -> bytes:
        """The member's name in the archive."""
        return f"{self.record}/{self.file}".encode()

    @property
    def header(self) -> bytes:
        """The bytes before the member's content."""
        about = (_VERSION, 0, 0, 0, _DATE, self.checksum, self.size, self.size, len(self.path), 0)
        return _LOCAL.pack(b"PK\3\4", *about) + self.path

    @property
    def entry(self) -> bytes:
        """The member's entry in the archive's directory."""
        content = self.checksum, self.size, self.size
        lengths = len(self.path), 0, 0
        about = (
            _MADE_BY_UNIX,
            _VERSION,
            0,
            0,
            0,
            _DATE,
            *content,
            *lengths,
            0,
            0,
            _PLAIN_FILE,
            self.offset,
        )
        return _ENTRY.pack(b"PK\1\2", *about) + self.path

    @property
    def end(self) -> int:
        """The offset behind the member's content."""
        return self.offset + _LOCAL.size + len(self.path) + self.size


Members = Mapping[str, Mapping[str, Member]]
"""The members of a pack, by record and file."""


@dataclass(frozen=True)
class Packed:
    """One record in a pack."""

    pack: Path
    name: str
    members: Mapping[str, Member]
    stamp: Stamp

    remedy = "restore the pack from a copy, or delete it and run its records again"

    def __str__(self) -> str:
        """Return the names of the record and its pack."""
        return f"{self.name} in {self.pack}"

    def has(self, file: str) -> bool:
        """Return whether the record has a file of this name."""
        return file in self.members

    @contextmanager
    def opened(self, file: str, most: float) -> Iterator[BinaryIO]:
        """Open one file of at most `most` bytes for reading."""
        yield io.BytesIO(self.content(file, most))

    def content(self, file: str, most: float) -> bytes:
        """Return the content of one file of at most `most` bytes."""
        if file not in self.members:
            raise FileNotFoundError(f"{self} has no {file}")
        member = self.members[file]
        if member.size > most:
            raise ValueError(f"{file} has {member.size:,} bytes, and at most {most:,.0f} are read")
        with files.opened(self.pack, PACK_BYTES) as pack:
            if _stamp(os.fstat(pack.fileno())) != self.stamp:
                raise ValueError("the pack was replaced while it was read")
            pack.seek(member.offset)
            found = pack.read(member.end - member.offset)
        header = member.header
        if found[: len(header)] != header or len(found) != member.end - member.offset:
            raise ValueError(f"the pack's header of {file} differs from its entry in the directory")
        return found[len(header) :]


def paths(root: Path) -> list[Path]:
    """List everything in a folder that may be a pack: NAME.zip, unless it is a folder or hidden."""
    try:
        with os.scandir(root) as entries:
            there = [one for one in entries if one.name.endswith(".zip") and one.name[0] != "."]
            return sorted(root / one.name for one in there if not one.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def find(root: Path, name: str) -> Packed | None:
    """Return a record that a pack in `root` holds.

    A pack that can't be read may hold the record: raise then, unless another pack has it.
    """
    found: list[Packed] = []
    unread: list[str] = []
    for path in paths(root):
        try:
            stamp, members = _index(path)
        except ValueError as error:
            unread.append(str(error))
            continue
        if name in members:
            found.append(Packed(path, name, members[name], stamp))
    if len(found) > 1:
        both = f"{found[0].pack} and {found[1].pack}"
        rule = f"one pack of a folder holds a record; {name} is in {both}"
        raise ValueError(f"{rule}: move one of them elsewhere")
    if unread and not found:
        raise ValueError(unread[0])
    return found[0] if found else None


def names(root: Path) -> set[str]:
    """Return the names of the records in all packs of a folder that can be read."""
    found: set[str] = set()
    for path in paths(root):
        try:
            found |= {*members(path)}
        except ValueError:
            continue
    return found


def unreadable(root: Path) -> dict[str, str]:
    """Return the packs of a folder that can't be read, by name, each with the reason."""
    found = {}
    for path in paths(root):
        try:
            _index(path)
        except ValueError as error:
            found[path.name] = str(error)
    return found


def members(path: Path) -> Members:
    """Return the members of a pack; a file that is not there, or is the user's own, has none."""
    return _index(path)[1]


def is_record_name(name: str) -> bool:
    """Return whether a pack can hold a record of this name."""
    return bool(_RECORD_NAME.fullmatch(name))


_INDEXES: dict[Path, tuple[Stamp, Members]] = {}


def _index(path: Path) -> tuple[Stamp, Members]:
    """Return a pack's stamp and members; they are read again when the file has changed."""
    try:
        known = _INDEXES.get(path)
        if known is None or known[0] != _stamp(path.lstat()):
            with files.opened(path, inf) as file:
                stamp = _stamp(os.fstat(file.fileno()))
                known = _INDEXES[path] = stamp, _members(file, stamp[-1])
        return known
    except FileNotFoundError:
        return (0, 0, 0, 0), {}
    except ValueError as error:
        wrong = f"{path} is no pack of records that can be read ({error})"
        remedy = "restore it from a copy, move it elsewhere, or delete it and run its records again"
        raise ValueError(f"{wrong}: {remedy}") from None


def _stamp(about: os.stat_result) -> Stamp:
    return about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size


def _members(file: BinaryIO, size: int) -> Members:
    """Read the directory of a pack, and raise unless `write` could have written it."""
    if not size:
        raise ValueError("it is empty")
    if not _begins_with_a_record(file.read(_LOCAL.size + 2 * _LONGEST_NAME)):
        return {}
    if size > PACK_BYTES:
        raise ValueError(f"it has {size:,} bytes, and a pack has at most {PACK_BYTES:,}")
    file.seek(max(size - _END.size, 0))
    end = file.read(_END.size)
    if len(end) < _END.size or end[:4] != b"PK\5\6":
        raise ValueError("it is cut off, or bytes follow its end")
    _, _, _, _, count, length, first, _ = _END.unpack(end)
    if count > MOST_MEMBERS or length > count * (_ENTRY.size + 2 * _LONGEST_NAME):
        got = f"it has {count:,} members in {length:,} bytes"
        raise ValueError(f"{got}, and at most {MOST_MEMBERS:,} are read")
    if first + length + _END.size != size:
        raise ValueError("its directory is not where its end says")
    file.seek(first)
    directory = file.read(length)
    found = [*_entries(directory, count)]
    if not found or found[-1].end != first or b"".join(one.entry for one in found) != directory:
        raise ValueError("members overlap or have attributes that deadtime never writes")
    if end != _end(len(found), length, first):
        raise ValueError("its end has values that deadtime never writes")
    together: dict[str, dict[str, Member]] = {}
    for one in found:
        together.setdefault(one.record, {})[one.file] = one
    bare = [name for name, mine in together.items() if RUN not in mine]
    if bare:
        raise ValueError(f"a record has a {RUN}; {bare[0]} has none")
    return together


def _begins_with_a_record(start: bytes) -> bool:
    """Return whether a file begins as a pack does; others belong to the user."""
    if len(start) < _LOCAL.size or start[:4] != b"PK\3\4":
        return False
    length = _LOCAL.unpack(start[: _LOCAL.size])[-2]
    folder, _, file = start[_LOCAL.size : _LOCAL.size + length].rpartition(b"/")
    return bool(folder) and file.decode("ascii", "replace") in FILES


def _entries(directory: bytes, count: int) -> Iterator[Member]:
    """Yield the members that a directory names, each at the offset where it must be."""
    at = offset = 0
    last = b""
    for _ in range(count):
        if len(directory) < at + _ENTRY.size or directory[at : at + 4] != b"PK\1\2":
            raise ValueError("its directory is damaged")
        entry = _ENTRY.unpack_from(directory, at)
        flags, method, _, _, checksum, stored, size, length, extra, comment = entry[3:13]
        path = directory[at + _ENTRY.size : at + _ENTRY.size + length]
        record, _, file = path.decode("ascii", "replace").partition("/")
        if not is_record_name(record) or file not in FILES:
            rule = f"a member is RECORD/FILE with FILE one of {', '.join(FILES)}"
            raise ValueError(f"{rule}; got {path[:100]!r}")
        if flags & 1:
            raise ValueError(f"members are not encrypted; {path.decode()} is")
        if method or stored != size:
            raise ValueError(f"members are stored as they are; {path.decode()} is compressed")
        if path <= last:
            rule = "each member occurs once, in the order of the names"
            raise ValueError(f"{rule}; {path.decode()} is not")
        member = Member(record, file, offset, size, checksum)
        yield member
        at += _ENTRY.size + length + extra + comment
        offset = member.end
        last = path


def _end(count: int, length: int, first: int) -> bytes:
    return _END.pack(b"PK\5\6", 0, 0, count, count, length, first, 0)


def write(file: BinaryIO, contents: Iterable[tuple[str, str, bytes]]) -> None:
    """Write a pack of (record, file, content), sorted by `order`."""
    written: list[Member] = []
    offset = 0
    for record, name, content in contents:
        member = Member(record, name, offset, len(content), zlib.crc32(content))
        if len(written) == MOST_MEMBERS or member.end > PACK_BYTES - 2**24:
            most = f"{MOST_MEMBERS:,} files and {PACK_BYTES - 2**24:,} bytes"
            rule = f"a pack has at most {most}; {record} would exceed that"
            raise ValueError(f"{rule}: keep some records in another folder")
        file.write(member.header)
        file.write(content)
        written.append(member)
        offset = member.end
    directory = b"".join(one.entry for one in written)
    file.write(directory)
    file.write(_end(len(written), len(directory), offset))


def order(name: str) -> str:
    """Return the key that sorts records as a pack does: by the names of their members."""
    return f"{name}/"
