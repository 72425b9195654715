"""Files: written whole or not at all, and read as if a stranger had made them.

Nothing in them is run, and nothing is allocated before its size is known.
"""

from __future__ import annotations

import io
import json
import math
import os
import platform
import stat
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np

TEXT_BYTES = 2**26
"""The largest file that is read as text."""
_INFLATED_BYTES, _INFLATED_PART = 2**26, 100
"""What a file may inflate to: so many bytes, or so many times its own size. Tables of trained agents reach about 15."""
_ZIP64 = b"\1\0"
"""How a directory's entry goes on for members of more than 4 GiB."""


def plain(path: Path, most: float = math.inf) -> bytes:
    """What a file holds, if it is one: a link may lead anywhere, and a device or pipe never ends."""
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode):
        raise ValueError(f"{path.name} is no plain file but a link, pipe or the like: put the file itself there")
    if about.st_size > most:
        raise ValueError(f"{path.name} has {about.st_size:,} bytes, and at most {most:,} are read")
    return path.read_bytes()


def said(content: bytes) -> Any:
    """What JSON says, each name once."""
    try:
        return json.loads(content, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON that can be read ({error})") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def arrays(content: bytes, most: float = 0) -> dict[str, np.ndarray]:
    """The arrays of numbers that an .npz file holds, if all that it says of their sizes is true and at most `most` bytes."""
    most = most or max(_INFLATED_BYTES, _INFLATED_PART * len(content))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            members = file.infolist()
            size = sum(member.file_size for member in members)
            if size > most:
                raise ValueError(f"its arrays would take {size:,} bytes, and at most {most:,.0f} are read")
            if any(member.comment or member.extra[:2] not in (b"", _ZIP64) for member in members):
                raise ValueError("its directory is damaged: in what NumPy never writes there, others may be hidden")
            return {member.filename.removesuffix(".npy"): _array(_inflated(file, member)) for member in members}
    except Exception as error:  # of a damaged file zipfile, zlib and NumPy raise a dozen kinds, MemoryError among them
        why, *_ = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"it is no .npz file that can be read ({why})") from error


def _inflated(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with file.open(member) as stream:
        return stream.read(member.file_size)  # without a number it would inflate all there is, and then cut it


def _array(content: bytes) -> np.ndarray:
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("its arrays are not in the format of numpy.savez")
    shape, _, kind = np.lib.format.read_array_header_1_0(stream)
    if kind.kind not in "iuf":
        raise ValueError(f"it holds {kind}, and only numbers are read")
    if math.prod(shape) * kind.itemsize != len(content) - stream.tell():
        raise ValueError(f"it says that {len(content) - stream.tell():,} bytes are {kind} of shape {shape}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def check_fit(found: Mapping[str, np.ndarray], wanted: Mapping[str, Any], of_any_length: Collection[str] = ()) -> None:
    """Refuse arrays unless each wanted one is there, of the same kind of numbers and shape; some may have any length."""
    for name, like in wanted.items():
        got = found.get(name, np.zeros(0, np.void))
        first = 1 if name in of_any_length else 0
        if got.dtype != like.dtype or got.ndim != like.ndim or got.shape[first:] != like.shape[first:]:
            there = f"{got.dtype} of shape {got.shape}" if name in found else "nothing"
            raise ValueError(f"{name} is {like.dtype} of shape {like.shape}; got {there}")


def printable(words: str) -> str:
    """The same without what a terminal obeys instead of showing."""
    return "".join(letter if letter.isprintable() else "?" for letter in words)


def listed(values: Any, kind: type) -> list[Any]:
    """The same, if it is a list of such; whole numbers are of the size that arrays hold."""
    kinds = (int, float) if kind is float else (kind,)
    if not isinstance(values, list) or any(type(one) not in kinds for one in values):
        raise ValueError(f"{values!r:.50} is no list of {kind.__name__}")
    if any(type(one) is int and abs(one) >= 2**63 for one in values):
        raise ValueError("a number in it is too large")
    return values


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` when all went well and is gone when it did not."""
    start = f".{path.name}.part-{platform.node()}-"
    part = path.with_name(f"{start}{os.getpid()}-{get_ident()}")
    for left in path.parent.glob(f"{escape(start)}*"):
        if not _alive(left.name.removeprefix(start).partition("-")[0]):
            left.unlink(missing_ok=True)
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _alive(process: str) -> bool:
    """Whether this machine has such a process; one that was killed has left what it was writing."""
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except (PermissionError, ValueError):
        pass
    return True
