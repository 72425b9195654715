"""Logs from files: CSV, NPZ and Parquet, read as untrusted files.

Sizes are checked before anything is allocated, links are not followed, and no code of a file runs.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deadtime._support.files import arrays, opened, plain
from deadtime._support.names import nearest

MOST_BYTES = 2**28
"""The largest number of bytes that the numbers of a log take in memory, eight for each."""
MOST_TEXT = 2**26
"""The largest CSV file that is read."""
_MOST_COLUMNS = 2048
_NAMES = {
    "observations": ("observations", "observation", "obs", "states"),
    "actions": ("actions", "action", "act"),
    "episode": ("episode", "episodes", "episode_id"),
    "time": ("time", "times", "timestamps", "timestamp", "t"),
}
"""Names of arrays and columns that are looked for where none are given."""
_ENDS = ("terminals", "timeouts", "dones", "done", "terminated", "truncated")
"""Arrays that mark the last row of an episode."""


@dataclass(frozen=True)
class Columns:
    """The names of a log's columns, or of its arrays in an NPZ file; by default usual names."""

    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    episode: str = ""
    time: str = ""
    action_stamps: tuple[str, ...] = ()
    observation_stamps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """The columns of a log as arrays with one row per step."""

    observations: np.ndarray
    actions: np.ndarray
    episodes: np.ndarray | None
    times: np.ndarray | None
    action_stamps: tuple[np.ndarray, ...] | None
    observation_stamps: tuple[np.ndarray, ...] | None


class _Found(dict[str, np.ndarray]):
    """The arrays of a file by name; `texts` are the names of those whose cells are text."""

    texts: frozenset[str] = frozenset()


def read_table(path: Path, columns: Columns) -> Table:
    """Read the columns of a log from a CSV, NPZ or Parquet file."""
    readers = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"a log is a file that ends in {', '.join(readers)}; got {path.name!r}: save it as one "
            "of these"
        )
    try:
        return _chosen(reader(path), columns)
    except ValueError as error:
        raise ValueError(f"{path.name} is a log that can't be read: {error}") from None


def _chosen(found: _Found, columns: Columns) -> Table:
    """Return the named arrays of a file, checked to be of one length."""
    table = Table(
        observations=_stacked(found, columns.observations, "observations"),
        actions=_stacked(found, columns.actions, "actions"),
        episodes=_optional(found, columns.episode, "episode"),
        times=_optional(found, columns.time, "time"),
        action_stamps=_pair(found, columns.action_stamps, "action stamps"),
        observation_stamps=_pair(found, columns.observation_stamps, "observation stamps"),
    )
    count = table.observations.size + table.actions.size
    if 8 * count > MOST_BYTES:
        raise ValueError(
            f"it has {count:,} numbers, and at most {MOST_BYTES // 8:,} are read: cut the log"
        )
    return table if table.episodes is not None else _ended(table, found)


def _stacked(found: _Found, names: Sequence[str], what: str) -> np.ndarray:
    if not names:
        usual = [name for name in _NAMES[what] if name in found]
        prefixed = [name for name in found if _numbered(name, what)]
        names = usual[:1] or prefixed
        if not names:
            raise ValueError(
                f"no column is called {_NAMES[what][0]!r}; the columns are "
                f"{', '.join(list(found)[:20]) or 'none'}: name them with --{what}"
            )
    if what == "observations":
        _check_numbers(found, names, what)
    parts = [_named(found, name) for name in names]
    if len(parts) == 1:
        return parts[0]
    flat = [part.reshape(len(part), -1) for part in parts]
    if len({len(part) for part in flat}) != 1:
        raise ValueError(f"the columns of {what} have one length; got {[len(p) for p in flat]}")
    return np.concatenate(flat, axis=1)


def _numbered(name: str, what: str) -> bool:
    """Return whether a column is called obs0, obs_1, observation_2, action_0 and the like."""
    for start in (what, *_NAMES[what]):
        rest = name.removeprefix(start).lstrip("_")
        if name.startswith(start) and rest.isdecimal():
            return True
    return False


def _optional(found: _Found, name: str, what: str) -> np.ndarray | None:
    names = [name] if name else [one for one in _NAMES[what] if one in found][:1]
    if what == "time":
        _check_numbers(found, names, "times")
    return _named(found, names[0]) if names else None


def _check_numbers(found: _Found, names: Sequence[str], what: str) -> None:
    """Raise if a column has text, which would be numbered in order of appearance."""
    for name in names:
        if name in found.texts:
            unit = "" if what == "observations" else " of seconds"
            raise ValueError(
                f"{what} are numbers{unit}; got text in the column {name!r}: write numbers, or "
                "rename the column"
            )


def _pair(found: _Found, names: Sequence[str], what: str) -> tuple[np.ndarray, ...] | None:
    if not names:
        return None
    if len(names) != 2:
        raise ValueError(
            f"{what} are two columns, the earlier time first; got {len(names)}: name two columns"
        )
    _check_numbers(found, names, what)
    return tuple(_named(found, name) for name in names)


def _named(found: _Found, name: str) -> np.ndarray:
    if name not in found:
        there = ", ".join(list(found)[:20])
        raise ValueError(
            f"no column is called {name!r}{nearest(name, found)}; the columns are {there}"
        )
    return found[name]


def _ended(table: Table, found: _Found) -> Table:
    """Number the episodes by the arrays that mark their last rows, if there are any."""
    marks = [np.asarray(found[name]).reshape(-1) for name in _ENDS if name in found]
    rows = len(table.actions)
    marks = [one.astype(bool) for one in marks if len(one) == rows]
    if not marks or len(table.observations) != rows:
        return table
    ended = np.logical_or.reduce(marks)
    numbers = np.concatenate([[0], np.cumsum(ended[:-1])])
    return replace(table, episodes=numbers)


def _read_npz(path: Path) -> _Found:
    """Read numbers and flags of an NPZ file; other arrays are refused."""
    with opened(path, MOST_BYTES) as file:
        found = arrays(file, MOST_BYTES, kinds="biuf")
    return _Found({name: one for name, one in found.items() if one.ndim})


def _read_csv(path: Path) -> _Found:
    """Read a CSV file whose first line has the names of the columns."""
    try:
        text = plain(path, MOST_TEXT).decode("utf-8-sig")  # spreadsheets write a mark in front
    except UnicodeDecodeError:
        raise ValueError("a CSV file is UTF-8 text: save it as text") from None
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        head = [name.strip() for name in next(rows, [])]
        _check_head(head)
        columns = [_Column() for _ in head]
        for row in rows:
            if not row:
                continue
            if len(row) != len(head):
                raise ValueError(
                    f"each row has the {len(head)} columns of the first line; got {len(row)} in "
                    f"line {rows.line_num}: repair the line"
                )
            for column, cell in zip(columns, row, strict=True):
                column.add(cell)
    except csv.Error as error:
        raise ValueError(f"it is not a table of values between commas ({error})") from None
    if not len(columns[0].numbers):
        raise ValueError("a log has one row per step; got only the names of the columns: log steps")
    named = dict(zip(head, columns, strict=True))
    found = _Found({name: column.values() for name, column in named.items()})
    found.texts = frozenset(name for name, column in named.items() if column.texts)
    return found


class _Column:
    """Cells of a column: numbers, or texts that are numbered in order of appearance.

    If a column has both, its texts become NaN.
    """

    def __init__(self) -> None:
        self.numbers = array("d")
        self.texts: dict[str, int] = {}
        self.text_rows = array("q")
        self.whole = True

    def add(self, cell: str) -> None:
        """Add a cell; an empty cell becomes NaN."""
        cell = cell.strip()
        try:
            value = float(cell or "nan")
        except ValueError:
            value = float(self.texts.setdefault(cell, len(self.texts)))
            self.text_rows.append(len(self.numbers))
        self.whole = self.whole and cell.lstrip("+-").isdecimal() and abs(value) < 2**53
        self.numbers.append(value)

    def values(self) -> np.ndarray:
        """Return the column as an array, of integers if all its numbers are whole."""
        values = np.array(self.numbers)
        if 0 < len(self.text_rows) < len(values):
            values[np.array(self.text_rows)] = np.nan
            return values
        return values.astype(np.int64) if self.whole or self.texts else values


def _check_head(head: Sequence[str]) -> None:
    if not 2 <= len(head) <= _MOST_COLUMNS:
        raise ValueError(
            f"a log has 2 to {_MOST_COLUMNS} columns with names in the first line; got "
            f"{len(head)}: put commas between the columns"
        )
    if len({*head}) < len(head):
        raise ValueError("each column has a name of its own; got one twice: rename it")
    if all(_is_number(name) for name in head):
        raise ValueError(
            "the first line has the names of the columns; got numbers: write a first line such as "
            "obs0,obs1,action"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> _Found:
    """Read the columns of numbers of a Parquet file, if pyarrow is installed."""
    try:
        from pyarrow import parquet, types  # noqa: PLC0415  (an optional package)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Parquet files need pyarrow, which is not installed: pip install pyarrow, or save the "
            "log as CSV or NPZ",
            name="pyarrow",
        ) from None
    with opened(path, MOST_BYTES) as file:
        try:
            table = parquet.ParquetFile(file)
            about = table.metadata
            names = [
                field.name
                for field in table.schema_arrow
                if any(is_kind(field.type) for is_kind in (types.is_integer, types.is_floating))
                or types.is_boolean(field.type)
            ]
            size = 8 * about.num_rows * max(len(names), 1)
            if size > MOST_BYTES or about.num_columns > _MOST_COLUMNS:
                raise ValueError(
                    f"it has {about.num_rows:,} rows of {about.num_columns:,} columns, and at most "
                    f"{MOST_BYTES:,} bytes are read: cut the log"
                )
            read = table.read(columns=names)
            return _Found({name: read.column(name).to_numpy() for name in names})
        # For a damaged file, pyarrow raises several kinds.
        except Exception as error:
            why, *_ = str(error).splitlines() or [type(error).__name__]
            raise ValueError(f"it is no Parquet file that can be read ({why})") from None
