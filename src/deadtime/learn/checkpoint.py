"""Checkpoints: arrays in a safetensors file, and JSON in its header. Loading can't run code."""

from __future__ import annotations

import json
import math
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from deadtime._support import ending, files
from deadtime._support.files import whole

_OTHER_BYTES = 2**31
"""The most bytes that emulators, and a step that is not learned from yet, take in a checkpoint.

Each number counts 8 bytes.
"""
_FAILED: set[Path] = set()
"""Paths of checkpoints that could not be written."""


class Extent(NamedTuple):
    """The lengths that the numbers in a checkpoint must agree with."""

    length: int
    stride: int = 1
    """The number of steps that are made at once; the last ones may exceed the length."""
    runs: int = 1

    @property
    def steps(self) -> int:
        """The largest number of steps of all runs, including those that exceed the length."""
        return (self.length + self.stride) * self.runs


def save(path: Path, state: PyTree, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """Write a pytree and further arrays atomically; warn once if that fails."""
    parts = {
        f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))
    } | arrays
    text = json.dumps(about)
    try:
        files.folder_in(path.parent.parent, path.parent.name)
        with whole(path) as part:
            save_file(parts, part, metadata={"about": text, "sum": _sum(parts, text)})
    except (OSError, SafetensorError) as error:
        if path not in _FAILED:
            _FAILED.add(path)
            why = getattr(error, "strerror", None) or error
            print(
                f"deadtime: warning: a checkpoint can't be written to {path} ({why}): the run "
                "continues, but an interruption would lose its progress; free some space there",
                file=sys.stderr,
            )
    else:
        ending.CHECKPOINTS.add(str(path))


def load(
    path: Path, like: PyTree, further: dict[str, np.ndarray], extent: Extent
) -> tuple[Any, dict[str, np.ndarray], dict[str, Any]]:
    """Read a checkpoint; return its pytree, its other arrays and its facts.

    The pytree has the shape of `like`, and arrays the shapes of `further`; `ended` may have any
    length.
    """
    leaves, shape = jax.tree.flatten(like)
    with of_this_run(path):
        os.close(files.open_plain(path))
        wanted = {f"state/{i}": leaf for i, leaf in enumerate(leaves)} | further
        with safe_open(path, "numpy") as file:
            header = file.metadata() or {}
            _check_sizes(file, wanted, extent)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header.get("sum") != _sum(arrays, header.get("about", "")):
            raise ValueError("it is damaged")
        about = files.from_json(header["about"].encode())
        files.check_fit(arrays, wanted, ("ended",))
        _check(about, arrays["ended"], extent)
    ending.CHECKPOINTS.add(str(path))
    found = [jax.numpy.asarray(arrays.pop(f"state/{i}")) for i in range(len(leaves))]
    return jax.tree.unflatten(shape, found), arrays, about


def _check_sizes(file: safe_open, wanted: dict[str, Any], extent: Extent) -> None:
    """Raise, before anything is read, if an array is too large; a file may claim any size."""
    others = 0
    for name in file.keys():  # noqa: SIM118  (a file of safetensors is no dict)
        numbers = math.prod(file.get_slice(name).get_shape())
        if name not in wanted:
            others += 8 * numbers
            continue
        most = 3 * extent.steps if name == "ended" else np.size(wanted[name])
        if numbers > most:
            raise ValueError(f"{name} has at most {most:,} numbers; got {numbers:,}")
    if others > _OTHER_BYTES:
        raise ValueError(
            f"its content beside the run's state is larger than {_OTHER_BYTES:,} bytes"
        )


def _check(about: dict[str, Any], ended: np.ndarray, extent: Extent) -> None:
    """Raise if the steps, seconds or ended episodes of a checkpoint are impossible in its run."""
    steps, *resumed_at = files.listed([about["steps"], *about.setdefault("resumed_at", [])], int)
    (seconds,) = files.listed([about["seconds"]], float)
    if not 0 <= steps < extent.length + extent.stride:
        raise ValueError(
            f"the steps of this run are 0 to {extent.length + extent.stride - 1}; got {steps}"
        )
    if not all(0 <= step <= steps for step in resumed_at):
        raise ValueError(f"a run resumes at steps that it has made; got {resumed_at} of {steps}")
    if not 0 <= seconds < math.inf:
        raise ValueError(f"the training time of a run is 0 seconds or more; got {seconds}")
    *runs, at, earned = ended.T
    whole_numbers = all((column == np.floor(column)).all() for column in (*runs, at))
    inside = ((at >= 0) & (at < steps)).all() and all(
        ((run >= 0) & (run < extent.runs)).all() for run in runs
    )
    if not (whole_numbers and inside and np.isfinite(earned).all()):
        raise ValueError(
            f"episodes end in steps that were made, with finite returns; got {ended.tolist()!s:.99}"
        )


@contextmanager
def of_this_run(path: Path) -> Iterator[None]:
    """Turn the many kinds of errors of safetensors, JSON and emulators into one with a remedy."""
    try:
        yield
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise ValueError(
            f"{path} is no checkpoint of this run ({error}): delete it, and the run starts again"
        ) from error


def _sum(arrays: dict[str, np.ndarray], text: str) -> str:
    """Return a checksum; it is fast, since a checkpoint may hold gigabytes."""
    found = zlib.crc32(text.encode())
    for name, array in sorted(arrays.items()):
        found = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), found)
        found = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, found)
    return f"{found:08x}"
