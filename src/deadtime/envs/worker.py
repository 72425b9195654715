"""The process of a pool's worker: its memory, its commands and its errors.

A worker reads its setup, a pickled object, from its input. Then it reads one byte for each command
and answers with one byte. It ends when its input is closed.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

DONE, FAILED = b".", b"!"
"""The answers to a command. A line of JSON with the error follows `FAILED`."""
RESET, STEP, SAVE, LOAD = b"r", b"s", b"w", b"l"
"""The commands."""
LENGTH = struct.Struct("q")
"""The binary form of the setup's length in bytes, which precedes the setup."""
Layout = dict[str, tuple[tuple[int, ...], Any]]
"""The shape and the type of each array that a pool and its workers share."""


class Worker(Protocol):
    """The lanes of one worker, which writes to the shared arrays."""

    @property
    def commands(self) -> Mapping[bytes, Callable[[], None]]:
        """The function of each command."""


def shared_bytes(layout: Layout) -> int:
    """Return the size of the shared memory."""
    return sum(_aligned(shape, kind) for shape, kind in layout.values())


def shared_arrays(memory: mmap.mmap, layout: Layout) -> dict[str, np.ndarray]:
    """Return the arrays that a pool and its workers share."""
    found = {}
    first = 0
    for name, (shape, kind) in layout.items():
        found[name] = np.ndarray(shape, kind, memory, first)
        first += _aligned(shape, kind)
    return found


def _aligned(shape: tuple[int, ...], kind: DTypeLike) -> int:
    return -(-int(np.prod(shape)) * np.dtype(kind).itemsize // 64) * 64


def serve(begin: Callable[[dict[str, Any], dict[str, np.ndarray]], Worker]) -> None:
    """Run the commands of the pool until the input is closed.

    `begin` makes the worker from the pool's setup and the shared arrays.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool's process handles interrupts
    os.nice(5)  # where cores are few, the pool's process goes first
    requests = sys.stdin.fileno()
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what an environment prints is no answer
    setup = pickle.loads(_read(requests, *LENGTH.unpack(_read(requests, LENGTH.size))))
    memory = shared_arrays(mmap.mmap(setup["memory"], 0), setup["layout"])
    worker: Worker | None = None
    while command := os.read(requests, 1):
        try:
            if worker is None:
                worker = begin(setup, memory)
            worker.commands[command]()
            answer = DONE
        except Exception as error:
            answer = FAILED + _described(error)
        os.write(answers, answer)


def _read(file: int, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = os.read(file, count - len(found))
        if not part:
            sys.exit()
        found += part
    return found


def _described(error: Exception) -> bytes:
    """Return an error as a line of JSON, with the traceback of an error that names no remedy."""
    known = isinstance(error, ValueError)
    text = str(error) if known else "".join(traceback.format_exception(error))
    return json.dumps({"known": known, "text": text}).encode() + b"\n"


def raise_described(line: bytes, who: str) -> None:
    """Raise the error that a worker described."""
    about = json.loads(line)
    if about["known"]:
        raise ValueError(about["text"])
    raise RuntimeError(f"{who} raised an error in a worker process:\n{about['text']}")
