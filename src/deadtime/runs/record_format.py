"""The format of records: which parts are JSON and which are arrays, and records as bytes."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from deadtime._support import files
from deadtime.runs.record import A_SEED, Record
from deadtime.runs.record_checks import check_record

SCHEMA = 2
"""The format of records that are written. Format 1, with `made` for `provenance`, is read too."""
_FIELDS = ("id", "spec", *A_SEED, "policy_seeds", "provenance")
"""The fields that are written as JSON."""
_ROWS = ("points", "curve", "others", "evaluations")


def to_json(record: Record) -> dict[str, Any]:
    """Return the fields of a record that are written as JSON."""
    return {name: getattr(record, name) for name in _FIELDS}


def from_json(
    content: dict[str, Any],
    schema: int,
    rows: dict[str, Any],
    policies: dict[str, np.ndarray],
) -> Record:
    """Return a record from the parts of a file, or raise if no training can give it."""
    if schema == 1:
        content["provenance"] = content.pop("made")
    fields = {name: content[name] for name in _FIELDS}
    record = Record(**fields, **rows, policies=policies)
    check_record(record)
    return record


def is_known(schema: object) -> bool:
    """Return whether this version reads a format."""
    return type(schema) is int and 1 <= schema <= SCHEMA


def to_bytes(those: list[Record]) -> bytes:
    """Return records as bytes, for another process."""
    arrays: dict[str, Any] = {}
    for i, one in enumerate(those):
        arrays |= {f"{i}/{name}": getattr(one, name) for name in _ROWS}
        arrays |= {f"{i}/policy/{name}": part for name, part in sorted(one.policies.items())}
    text = json.dumps({"schema": SCHEMA, "records": [to_json(one) for one in those]})
    file = io.BytesIO()
    np.savez(file, json=np.frombuffer(text.encode(), np.uint8), **arrays)
    return file.getvalue()


def from_bytes(content: bytes, name: str = "") -> list[Record]:
    """Return the records of `to_bytes`, or raise; `name` is the file's name, for the error."""
    try:
        arrays = files.arrays(content, 2 * len(content) + 2**20)  # they were not compressed
        text = arrays.pop("json" if "json" in arrays else "said")  # of format 1
        whole = files.from_json(text.tobytes())
        schema = whole["schema"]
        if not is_known(schema):
            raise ValueError(f"their format is {schema!r:.50}; this version reads up to {SCHEMA}")
        parts: dict[str, dict[str, np.ndarray]] = {}
        for key, array in arrays.items():
            number, _, rest = key.partition("/")
            parts.setdefault(number, {})[rest] = array
        found = []
        for i, fields in enumerate(whole["records"]):
            own = parts[str(i)]
            rows = {row: own.pop(row) for row in _ROWS if row in own}
            policies = {key.removeprefix("policy/"): part for key, part in own.items()}
            found.append(from_json(fields, schema, rows, policies))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        delete = "delete it and " if name else ""
        raise ValueError(
            f"{name or 'this'} holds no records that can be read ({error}): "
            f"use the version that wrote them, or {delete}run them again"
        ) from error
    return found
