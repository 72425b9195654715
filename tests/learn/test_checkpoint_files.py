"""Forged checkpoints: none runs code or takes the memory, and each is refused."""

import json
import pickle
import struct

import numpy as np
import pytest

from deadtime.learn import checkpoint
from tests.forgery import EXTENT, FURTHER, STATE, Payload, checkpointed, refused


@pytest.mark.slow
def test_a_checkpoint_is_read(tmp_path):
    state, arrays, about = checkpoint.load(checkpointed(tmp_path / "x"), STATE, FURTHER, EXTENT)
    assert (state["weights"] == STATE["weights"]).all()
    assert (arrays["ended"].tolist(), about) == (
        [[1.0] * 3] * 4,
        {"steps": 7, "seconds": 1.5, "resumed_at": []},
    )


ABOUT = [
    "[" * 99_999,
    "[]",
    "{}",
    '{"steps": "7", "seconds": 1}',
    '{"steps": 7, "seconds": []}',
    '{"steps": 7, "steps": 8}',
]
ABOUT += [
    '{"steps": 1e9, "seconds": 1}',
    f'{{"steps": {10**30}, "seconds": 1}}',
    '{"steps": 7, "seconds": 1, "resumed_at": 5}',
]


def raw(header, content=bytes(64)):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + content


def tensor(kind="F32", shape=(4,), first=0, last=16):
    return {"dtype": kind, "shape": shape, "data_offsets": [first, last]}


HEADERS = {
    "a pickle": lambda marker: pickle.dumps(Payload(marker)),
    "nothing": lambda marker: b"",
    "a header of 2^60 bytes": lambda marker: struct.pack("<Q", 2**60) + bytes(64),
    "a header of 2^64 - 1 bytes": lambda marker: b"\xff" * 8 + bytes(64),
    "a header that is deep": lambda marker: raw(b'{"a":' * 9999),
    "no header": lambda marker: raw([]),
    "overlapping arrays": lambda marker: raw(
        {"a": tensor(), "b": tensor(first=8, last=24)}, bytes(24)
    ),
    "arrays beyond the end": lambda marker: raw({"a": tensor(shape=[2**40], last=2**42)}),
    "a shape that wraps": lambda marker: raw({"a": tensor(shape=[2**33, 2**33, 4])}),
    "a negative shape": lambda marker: raw({"a": tensor(shape=[-4])}),
    "an unknown kind": lambda marker: raw({"a": tensor("PICKLE")}),
    "a kind that NumPy lacks": lambda marker: raw({"a": tensor("F8_E4M3", (64,), last=64)}),
    "a name twice": lambda marker: raw(b'{"a":1,"a":2}'),
}


@pytest.mark.parametrize("what", HEADERS)
def test_no_checkpoint_does_harm(what, tmp_path, marker):
    path = tmp_path / "x.safetensors"
    path.write_bytes(HEADERS[what](marker))
    refused(
        lambda: checkpoint.load(path, STATE, FURTHER, EXTENT),
        "x.safetensors is no checkpoint of this run .*: delete it",
    )


@pytest.mark.parametrize("about", ABOUT, ids=lambda about: about[:50])
def test_checkpoints_that_say_what_no_run_says(about, tmp_path):
    refused(
        lambda: checkpoint.load(checkpointed(tmp_path / "x", about=about), STATE, FURTHER, EXTENT),
        "is no checkpoint of this run",
    )


@pytest.mark.parametrize(
    "parts",
    [
        {"state/0": None},
        {"state/0": np.zeros(4, np.int32)},
        {"state/1": np.zeros((3, 5), np.float32)},
        {"state/1": np.zeros((3, 4))},
        {"ended": None},
        {"ended": np.zeros((4, 2))},
        {"ended": np.zeros((4, 3), np.float32)},
    ],
    ids=str,
)
def test_checkpoints_of_other_runs(parts, tmp_path):
    refused(
        lambda: checkpoint.load(checkpointed(tmp_path / "x", parts), STATE, FURTHER, EXTENT),
        "(is .* of shape .*|has at most .* numbers); got ",
    )


def test_a_damaged_checkpoint(tmp_path):
    refused(
        lambda: checkpoint.load(checkpointed(tmp_path / "x", right=False), STATE, FURTHER, EXTENT),
        "it is damaged",
    )
