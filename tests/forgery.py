"""Forged files, as an attacker may write them, and the check that they are refused."""

import io
import json
import os
import pickle
import struct
import tracemalloc
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from deadtime.learn import checkpoint
from deadtime.runs import records

STATE = {"weights": jnp.arange(12.0).reshape(3, 4), "updates": jnp.int32(7)}
FURTHER = {"ended": np.zeros((0, 3))}
EXTENT = checkpoint.Extent(10, runs=2)
BIG = 2**28


class Payload:
    """An object whose pickle creates the folder `marker` when it is loaded."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy(header, content=bytes(64), version=b"\1\0"):
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + content


def claims(shape, kind="'<f8'"):
    """Return the member of 8 numbers whose header states a shape and a kind."""
    return npy(f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}")


def zipped(part, size=None, method=8, flags=0, crc=None, deflated=None, name=b"a.npy"):
    """Return an archive of one member, whose directory may state anything."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    content = deflated or (packer.compress(part) + packer.flush() if method == 8 else part)
    crc = zlib.crc32(part) if crc is None else crc
    about = struct.pack(
        "<HHHHHIIIHH", 20, flags, method, 0, 33, crc, len(content), size or len(part), len(name), 0
    )
    local = b"PK\3\4" + about + name + content
    entry = b"PK\1\2" + struct.pack("<H", 20) + about + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    return (
        local + entry + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)
    )


def zeros(size):
    """Return `size` zeros, deflated to a thousandth."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * (size // 2**20) + b"\3\0"


def hidden():
    """Return an archive of two members in which the comment of the first contains the second."""
    content = npz(a=np.ones(3), b=np.ones(3))
    first = content.index(b"PK\1\2")
    end = content.index(b"PK\5\6")
    second = content.index(b"PK\1\2", first + 1)
    return content[: first + 32] + struct.pack("<H", end - second) + content[first + 34 :]


CONTENTS = {
    "nothing": lambda marker: b"",
    "a pickle": lambda marker: pickle.dumps(Payload(marker)),
    "objects": lambda marker: npz(a=np.array([Payload(marker)], dtype=object)),
    "objects of a false kind": lambda marker: zipped(
        claims("(1,)", "'|O'") + pickle.dumps([Payload(marker)])
    ),
    "words": lambda marker: npz(a=np.array(["a"])),
    "records of fields": lambda marker: npz(a=np.zeros(2, [("x", "f8"), ("y", "i4")])),
    "a bare array": lambda marker: npy("{'descr': '<f8', 'fortran_order': False, 'shape': (8,), }"),
    "2^60 elements": lambda marker: zipped(claims(f"({2**60},)")),
    "a negative axis": lambda marker: zipped(claims("(-8,)")),
    "two negative axes": lambda marker: zipped(claims("(-2, -4)")),
    "a product that wraps to 0": lambda marker: zipped(claims(f"({2**32}, {2**32})")),
    "fewer elements than bytes": lambda marker: zipped(claims("(2,)")),
    "no shape": lambda marker: zipped(claims("None")),
    "a header that goes on": lambda marker: zipped(npy("{'descr': ('<f8', ")),
    "a header that is deep": lambda marker: zipped(npy("-" * 9000 + "1")),
    "a header that is long": lambda marker: zipped(npy(" " * 60_000)),
    "a bomb": lambda marker: zipped(
        claims(f"({BIG // 8},)")[:128], size=BIG + 128, deflated=zeros(BIG)
    ),
    "a secret": lambda marker: zipped(claims("(8,)"), flags=1),
    "an unknown packing": lambda marker: zipped(claims("(8,)"), method=99),
    "another packing": lambda marker: zipped(claims("(8,)"), method=12),
    "damage": lambda marker: zipped(claims("(8,)"), crc=1),
    "no deflation": lambda marker: zipped(claims("(8,)"), deflated=b"\xff" * 40),
    "a hidden member": lambda marker: hidden(),
    "half of it": lambda marker: npz(a=np.zeros(100))[:500],
}


def bounded(action, most=2**25):
    """Return the value of `action`, and check that it allocates at most `most` bytes."""
    tracemalloc.start()
    try:
        return action()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most


def refused(action, match="."):
    """Check that `action` raises a ValueError in little memory."""
    with pytest.raises(ValueError, match=match):
        bounded(action)


def forge(folder, contents=(), **changes):
    """Change files and fields of a record, and write the digests that fit."""
    for name, part in dict(contents).items():
        (folder / name).write_bytes(part)
    content = json.loads((folder / "run.json").read_text())
    content["files"] = {
        path.name: records._digest(path.read_bytes()) for path in folder.glob("*.npz")
    }
    content = {
        name: value
        for name, value in (content | changes).items()
        if value is not Ellipsis and name != "digest"
    }
    content["digest"] = records._digest(records._text(content).encode())
    (folder / "run.json").write_text(json.dumps(content))
    return folder


def spec_of(env="maze", kind="tabular", **more):
    return {"kind": kind, "env": env, "agent": "delayed"} | more


def changed(arrays, **changes):
    """Return arrays of which some are changed by functions, or left out if that is None."""
    return {
        name: changes[name.replace("/", "_")](array) if name.replace("/", "_") in changes else array
        for name, array in arrays.items()
        if changes.get(name.replace("/", "_"), True) is not None
    }


def checkpointed(path, parts=None, about='{"steps": 7, "seconds": 1.5}', right=True):
    """Write a checkpoint, with the right checksum or a wrong one."""
    usual = {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(STATE))} | {
        "ended": np.ones((4, 3))
    }
    parts = {name: part for name, part in (usual | (parts or {})).items() if part is not None}
    save_file(
        parts,
        path,
        metadata={"about": about, "sum": checkpoint._sum(parts, about) if right else "0"},
    )
    return path
