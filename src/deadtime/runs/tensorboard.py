"""Records as TensorBoard event files: each seed's training returns, and its final greedy return.

A file is a chain of records: a length, its checksum, a content, its checksum. A content is an
`Event` message of TensorBoard's protocol. A scalar needs five of its fields, so this module writes
them without TensorBoard.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from deadtime._support.files import folder_in, whole
from deadtime.runs import records
from deadtime.runs.record import Record
from deadtime.runs.specs import Spec


def write_all(specs: Iterable[Spec], root: Path) -> None:
    """Write an event file for every seed of the specs that has a record under `root`."""
    for spec in specs:
        if records.exists(root / spec.name):
            write(records.read(root / spec.name), folder_in(root, "tensorboard", spec.name))


def write(record: Record, folder: Path) -> None:
    """Write an event file for every seed; the same record gives the same bytes."""
    dates = {seed: one["date"] for one in record.provenance for seed in one["seeds"]}
    deep = record.spec["kind"] == "deep"
    tag = f"training return by {'step' if deep else 'episode'}"
    for i, seed in enumerate(record.seeds):
        time = datetime.fromisoformat(dates[seed]).replace(tzinfo=UTC).timestamp()
        parts = [_message(time, 0, _field(3, b"brain.Event:2"))]
        for at, value in zip(record.points, record.curve[i], strict=True):
            if not np.isnan(value):
                parts.append(_message(time, int(at), _scalar(tag, float(value))))
        last = int(record.points[-1]) if deep else record.episodes[i]
        parts.append(_message(time, last, _scalar("greedy return", record.scores[i])))
        with whole(folder_in(folder, f"seed-{seed}") / "events.out.tfevents.0.deadtime") as part:
            part.write_bytes(b"".join(map(_framed, parts)))


def _message(time: float, step: int, rest: bytes) -> bytes:
    """Return an `Event` message: its wall time, its step, and the field `rest`."""
    return b"\x09" + struct.pack("<d", time) + b"\x10" + _varint(step) + rest


def _scalar(tag: str, value: float) -> bytes:
    """Return the field of a summary with one value."""
    return _field(5, _field(1, _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)))


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field of a protocol buffer."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Return a whole number of at least 0 as a protocol buffer holds it, 7 bits per byte."""
    small = bytearray()
    while value > 127:
        small.append(value & 127 | 128)
        value >>= 7
    return bytes([*small, value])


def _framed(content: bytes) -> bytes:
    """Return a record of the file: a length and a content, each with its checksum."""
    length = struct.pack("<Q", len(content))
    return (
        length
        + struct.pack("<I", _checksum(length))
        + content
        + struct.pack("<I", _checksum(content))
    )


def _checksum(content: bytes) -> int:
    """Return the masked CRC-32C of a content, as the format defines it."""
    table = _crc_table()
    value = 0xFFFFFFFF
    for byte in content:
        value = table[(value ^ byte) & 255] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return table
