"""Records as TensorBoard event files: the training return of every seed, and its greedy return at the end.

A file is a chain of records (length, its checksum, content, its checksum); the contents are `Event` messages of TensorBoard's
protocol, of which a scalar needs five fields, so nothing has to be installed to write them.
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
    """Write a file for every seed of the specs that is recorded under `root`."""
    for spec in specs:
        if records.exists(root / spec.name):
            write(records.read(root / spec.name), folder_in(root, "tensorboard", spec.name))


def write(record: Record, folder: Path) -> None:
    """Write a file for every seed; written again it has the same bytes."""
    dates = {seed: one["date"] for one in record.provenance for seed in one["seeds"]}
    deep = record.spec["kind"] == "deep"
    for i, seed in enumerate(record.seeds):
        time = datetime.fromisoformat(dates[seed]).replace(tzinfo=UTC).timestamp()
        parts = [_message(time, 0, _field(3, b"brain.Event:2"))]
        for at, value in zip(record.points, record.curve[i], strict=True):
            if not np.isnan(value):
                parts.append(
                    _message(
                        time,
                        int(at),
                        _scalar(
                            f"training return by {'step' if deep else 'episode'}", float(value)
                        ),
                    )
                )
        last = int(record.points[-1]) if deep else record.episodes[i]
        parts.append(_message(time, last, _scalar("greedy return", record.scores[i])))
        with whole(folder_in(folder, f"seed-{seed}") / "events.out.tfevents.0.deadtime") as part:
            part.write_bytes(b"".join(map(_framed, parts)))


def _message(time: float, step: int, rest: bytes) -> bytes:
    """An Event: wall time, step, and what it tells."""
    return b"\x09" + struct.pack("<d", time) + b"\x10" + _varint(step) + rest


def _scalar(tag: str, value: float) -> bytes:
    """A summary with one value."""
    return _field(5, _field(1, _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)))


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    small = bytearray()
    while value > 127:
        small.append(value & 127 | 128)
        value >>= 7
    return bytes([*small, value])


def _framed(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return (
        length
        + struct.pack("<I", _checksum(length))
        + content
        + struct.pack("<I", _checksum(content))
    )


def _checksum(content: bytes) -> int:
    """CRC-32C, turned and shifted as the format wants."""
    table, value = _crc_table(), 0xFFFFFFFF
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
