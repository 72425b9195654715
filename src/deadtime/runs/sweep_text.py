"""The text of sweep files: how it is read, and on which lines its names are."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from deadtime._support import files
from deadtime._support.names import nearest

USUAL: dict[str, Any] = {
    "environments": [],
    "agents": ["delayed", "augmented", "oblivious"],
    "delays": [0, 5, 15],
    "seeds": 5,
    "presets": ["best"],
    "overrides": {},
    "env_kwargs": {},
}
_FILE_BYTES = 2**18
_LINE_DOTS = 100
"""The largest number of dots in a line: a key of n parts takes n² time to parse."""


class Place(NamedTuple):
    """The place of a name in the file."""

    table: str
    key: str
    value: Any = None


Wrong = Callable[[Place, str], ValueError]
"""A function that returns the error for a place in the file, from its message."""


def keep_copy(path: Path, folder: Path) -> None:
    """Copy a sweep's file into the folder of its records.

    The copy may replace only the copy of an earlier sweep.
    """
    copy = folder / path.name
    if os.path.lexists(copy):
        if os.path.samestat(copy.lstat(), path.stat()):
            return
        parsed(text_of(copy), copy)
    folder.mkdir(parents=True, exist_ok=True)
    with files.whole(copy) as part:
        part.write_bytes(files.plain(path.resolve(), _FILE_BYTES))


def text_of(path: Path) -> str:
    """Return the text of a plain file; raise if it is too large for a sweep."""
    try:
        text = files.plain(path, _FILE_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: a sweep is a text file in UTF-8: save it as such") from None
    except ValueError as error:
        raise ValueError(
            f"{path}: a sweep is a small text file, and {error}: delete it, or name another"
        ) from None
    if any(line.count(".") > _LINE_DOTS for line in text.split("\n")):
        raise ValueError(
            f"{path}: a sweep has no line with more than {_LINE_DOTS} dots: write shorter keys"
        )
    return text


def parsed(text: str, path: Path) -> dict[str, Any]:
    """Return the content of a sweep's TOML; raise if it has an unknown key."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: this is not TOML, {error}: write keys as `delays = [0, 5]`"
        ) from None
    for key in content:
        if key not in USUAL:
            why = f"a sweep has no key {key!r:.100}{nearest(key, USUAL)}: it has {', '.join(USUAL)}"
            raise ValueError(f"{path}, line {line_of(text, Place('', key))}: {why}")
    if "environments" not in content:
        raise ValueError(
            f"{path}: a sweep names its environments; got none: write "
            'environments = ["noisy-cartpole"], for example'
        )
    return content


def line_of(text: str, place: Place) -> int:
    """Return the number of the line of a value; if it is not found, of its key or its table."""
    table = ""
    best = 1
    inside = False
    whole_name = f"{place.table}.{place.key}".lstrip(".")
    uncommented = (re.sub(r"\s#.*|^#.*", "", line) for line in text.splitlines())
    for number, line in enumerate(uncommented, 1):
        header = re.match(r"\s*\[{1,2}([^\[\]=]+)\]{1,2}\s*$", line)
        key, equals, _ = line.partition("=")
        if header:
            table = _bare(header[1])
            inside = False
            if table in (place.table, whole_name):
                best = number
        elif equals and not {*"[]#"} & {*key}:
            name = f"{table}.{_bare(key)}".lstrip(".")
            inside = name == whole_name
            is_inline_table = whole_name.startswith(f"{name}.")
            if inside or is_inline_table:
                best = number
        if inside and (
            place.value is None
            or re.search(rf"(?<![\w.:-]){re.escape(str(place.value))}(?![\w.:-])", line)
        ):
            return number
    return best


def _bare(name: str) -> str:
    """Return a key without its quotes and spaces."""
    return re.sub("[\"'\\s]", "", name)
