"""Files: written completely or not at all, and read as untrusted files.

Reading runs no code of a file, follows no link, and allocates nothing before its size is known.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import platform
import re
import stat
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from threading import get_ident
from typing import Any, BinaryIO

import numpy as np

from deadtime._support.ending import unhurried

TEXT_BYTES = 2**24
"""The largest file that is read as text."""
_JSON_LEVELS, _JSON_VALUES = 32, 2**20
"""The deepest nesting of JSON that is read, and approximately the most values."""
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A JSON string. An unclosed one matches to the end of the text, so no part is searched twice."""
_INFLATED_BYTES = 2**26
"""The largest number of bytes that a small compressed file may inflate to."""
_INFLATED_PART = 32
"""The largest ratio of inflated to stored size of a larger file; trained tables reach about 15."""
_ZIP64 = b"\1\0"
"""The bytes that begin the extra field of a member of more than 4 GiB."""


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file and return its descriptor, or raise.

    A link may lead anywhere, and a device or pipe never ends. A file that is opened for writing
    may have no second hard link either, since that could lie anywhere too.
    """
    try:
        found = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO):
            raise _not_plain(path) from None
        raise
    about = os.fstat(found)
    has_others = flags & os.O_ACCMODE != os.O_RDONLY and about.st_nlink > 1
    if not stat.S_ISREG(about.st_mode) or has_others:
        os.close(found)
        raise _not_plain(path)
    return found


def _not_plain(path: Path) -> ValueError:
    return ValueError(f"{path.name} is no plain file but a link, pipe or the like")


@contextmanager
def opened(path: Path, most: float) -> Iterator[io.BufferedReader]:
    """Open a plain file of at most `most` bytes to be read."""
    with open(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"{path.name} has {size:,} bytes, and at most {most:,.0f} are read")
        yield file


def plain(path: Path, most: float = TEXT_BYTES) -> bytes:
    """Return the content of a plain file of at most `most` bytes."""
    with opened(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def is_folder(path: Path) -> bool:
    """Return whether a folder exists at `path`; raise if it is something else, such as a link."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISDIR(mode):
        raise ValueError(
            f"{path} is no folder but a link, file or the like: delete it, or name another place"
        )
    return True


def folder_in(root: Path, *names: str) -> Path:
    """Return a folder inside `root` to which no link leads; make it if it does not exist."""
    root.mkdir(parents=True, exist_ok=True)
    for name in names:
        root /= name
        with suppress(FileExistsError):
            root.mkdir()
        is_folder(root)
    return root


def from_json(content: bytes) -> Any:
    """Parse JSON after a check of its size and depth; raise if an object has a name twice."""
    try:
        if len(content) > TEXT_BYTES:
            raise ValueError(f"it has {len(content):,} bytes, and at most {TEXT_BYTES:,} are read")
        text = content.decode()
        _check_nesting(text)
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON that can be read ({error})") from None


def _check_nesting(text: str) -> None:
    """Raise if JSON is nested deeply or has very many values, since both take long to parse."""
    marks = np.frombuffer(re.sub(r"[^][{},]+", "", _STRINGS.sub("", text)).encode(), np.uint8)
    opens = np.isin(marks, list(b"[{"))
    closes = np.isin(marks, list(b"]}"))
    depth = np.cumsum(opens.astype(np.int8) - closes.astype(np.int8), dtype=np.int32).max(initial=0)
    if depth > _JSON_LEVELS:
        raise ValueError(f"it is nested {depth:,} levels deep, and at most {_JSON_LEVELS} are read")
    if len(marks) > _JSON_VALUES:
        raise ValueError(
            f"it has about {len(marks):,} values, and at most {_JSON_VALUES:,} are read"
        )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def arrays(source: bytes | BinaryIO, most: float = 0, kinds: str = "iuf") -> dict[str, np.ndarray]:
    """Return the arrays of numbers in an .npz file of at most `most` bytes uncompressed.

    Raises if the sizes that the file states are wrong. `source` is the file's content, or the open
    file: then `most` must be given, and nothing is read before the file's directory is checked.
    `kinds` are the kinds of dtypes that are allowed.
    """
    if isinstance(source, bytes):
        most = most or max(_INFLATED_BYTES, _INFLATED_PART * len(source))
        source = io.BytesIO(source)
    try:
        with zipfile.ZipFile(source) as file:
            members = file.infolist()
            size = sum(member.file_size for member in members)
            if size > most:
                raise ValueError(
                    f"its arrays would take {size:,} bytes, and at most {most:,.0f} are read"
                )
            if any(member.comment or member.extra[:2] not in (b"", _ZIP64) for member in members):
                raise ValueError(
                    "its directory is damaged: it has comments or extra fields, which NumPy never "
                    "writes and which may hide other members"
                )
            return {
                member.filename.removesuffix(".npy"): _array(_inflated(file, member), kinds)
                for member in members
            }
    # For a damaged file, zipfile, zlib and NumPy raise a dozen kinds, MemoryError among them.
    except Exception as error:
        why, *_ = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"it is no .npz file that can be read ({why})") from error


def _inflated(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with file.open(member) as stream:
        # Without a size, `read` would inflate the whole member first.
        return stream.read(member.file_size)


def _array(content: bytes, kinds: str) -> np.ndarray:
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("its arrays are not in the format of numpy.savez")
    shape, _, kind = np.lib.format.read_array_header_1_0(stream)
    if kind.kind not in kinds:
        raise ValueError(f"it holds {kind}, and only numbers are read")
    if math.prod(shape) * kind.itemsize != len(content) - stream.tell():
        raise ValueError(
            f"it states an array of {kind} of shape {shape}, but has "
            f"{len(content) - stream.tell():,} bytes for it"
        )
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def check_fit(
    found: Mapping[str, np.ndarray], wanted: Mapping[str, Any], of_any_length: Collection[str] = ()
) -> None:
    """Raise unless `found` has each wanted array, with its dtype and shape.

    Arrays named in `of_any_length` may differ in their first axis.
    """
    for name, like in wanted.items():
        got = found.get(name, np.zeros(0, np.void))
        first = 1 if name in of_any_length else 0
        if (
            got.dtype != like.dtype
            or got.ndim != like.ndim
            or got.shape[first:] != like.shape[first:]
        ):
            there = f"{got.dtype} of shape {got.shape}" if name in found else "nothing"
            raise ValueError(f"{name} is {like.dtype} of shape {like.shape}; got {there}")


def printable(words: str) -> str:
    """Return a line of text with "?" for each control character."""
    return "".join(letter if letter.isprintable() else "?" for letter in words)


def printable_lines(words: str) -> str:
    """Return text of several lines with "?" for each other control character."""
    return "\n".join(printable(line) for line in words.split("\n"))


def listed(values: object, kind: type) -> list[Any]:
    """Return `values` if it is a list of `kind` whose whole numbers fit into arrays."""
    kinds = (int, float) if kind is float else (kind,)
    if not isinstance(values, list) or any(type(one) not in kinds for one in values):
        raise ValueError(f"{values!r:.50} is no list of {kind.__name__}")
    if any(type(one) is int and abs(one) >= 2**63 for one in values):
        raise ValueError("a number in it is too large")
    return values


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, which becomes `path` at the end of the block.

    If the block raises, the temporary file is deleted. The file is created here, so a link of that
    name is not followed.
    """
    start = f".{path.name}.part-{platform.node()}-"
    part = path.with_name(f"{start}{os.getpid()}-{get_ident()}")
    for left in path.parent.glob(f"{escape(start)}*"):
        if not _alive(left.name.removeprefix(start).partition("-")[0]):
            with suppress(OSError):  # another process deleted it first, or it is a folder
                left.unlink()
    part.unlink(missing_ok=True)
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        with unhurried():
            yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _alive(process: str) -> bool:
    """Return whether this machine has a process of that number.

    If it has none, a temporary file with this number was left by a killed process.
    """
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except (PermissionError, ValueError):
        pass
    return True
