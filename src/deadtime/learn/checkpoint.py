"""The state of runs on disk: arrays in a safetensors file, the rest as JSON in its header; loading can't run code."""

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
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from deadtime._support import ending, files
from deadtime._support.files import whole

_OTHER_BYTES = 2**31
"""The most bytes beside a run's state, each number counted as 8: of emulators, and of a step not learned from yet."""
_FAILED: set[Path] = set()
"""Paths of checkpoints that could not be written."""


class Extent(NamedTuple):
    """How far a run, or runs side by side, can get."""

    length: int
    stride: int = 1
    """The steps that are made at once; the last of them may lie beyond the end."""
    runs: int = 1

    @property
    def steps(self) -> int:
        """The most environment steps of all runs, those beyond the end included."""
        return (self.length + self.stride) * self.runs


def save(path: Path, state: Any, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """Write a pytree and further arrays, whole or not at all; where that can't be done, say so once and go on."""
    parts = {
        f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))
    } | arrays
    said = json.dumps(about)
    try:
        files.folder_in(path.parent.parent, path.parent.name)
        with whole(path) as part:
            save_file(parts, part, metadata={"about": said, "sum": _sum(parts, said)})
    except (OSError, SafetensorError) as error:
        if path not in _FAILED:
            _FAILED.add(path)
            why = getattr(error, "strerror", None) or error
            print(
                f"deadtime: warning: a checkpoint can't be written to {path} ({why}): the run goes on, "
                "but an interruption loses what it did; make room there",
                file=sys.stderr,
            )
    else:
        ending.CHECKPOINTS.add(str(path))


def load(
    path: Path, like: Any, further: dict[str, np.ndarray], extent: Extent
) -> tuple[Any, dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save` wrote, in the shape of `like` and of `further` arrays, of which `ended` may have any length."""
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


def _check_sizes(file: Any, wanted: dict[str, Any], extent: Extent) -> None:
    """Raise before anything is read if an array is larger than such a run's: a sparse file may claim any size."""
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
            f"what it holds beside a run's state is larger than {_OTHER_BYTES:,} bytes"
        )


def _check(about: dict[str, Any], ended: np.ndarray, extent: Extent) -> None:
    """Raise if a checkpoint says what no such run can say of its steps, its time and its ended episodes."""
    steps, *resumed_at = files.listed([about["steps"], *about.setdefault("resumed_at", [])], int)
    (seconds,) = files.listed([about["seconds"]], float)
    if not 0 <= steps < extent.length + extent.stride:
        raise ValueError(
            f"a run of {extent.length} steps has done none or more of them; got {steps}"
        )
    if not all(0 <= step <= steps for step in resumed_at):
        raise ValueError(f"a run went on at steps that it has done; got {resumed_at} of {steps}")
    if not 0 <= seconds < math.inf:
        raise ValueError(f"a run takes 0 seconds or more; got {seconds}")
    *runs, at, earned = ended.T
    whole_numbers = all((column == np.floor(column)).all() for column in (*runs, at))
    inside = ((at >= 0) & (at < steps)).all() and all(
        ((run >= 0) & (run < extent.runs)).all() for run in runs
    )
    if not (whole_numbers and inside and np.isfinite(earned).all()):
        raise ValueError(
            f"episodes end in steps that were done, with finite returns; got {ended.tolist()!s:.99}"
        )


@contextmanager
def of_this_run(path: Path) -> Iterator[None]:
    """Say of whatever goes wrong with a checkpoint what to do: safetensors, JSON and emulators raise a dozen kinds."""
    try:
        yield
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise ValueError(
            f"{path} is no checkpoint of this run ({error}): delete it, and the run begins anew"
        ) from error


def _sum(arrays: dict[str, np.ndarray], said: str) -> str:
    """Return a checksum; it is fast, since a checkpoint may hold gigabytes."""
    found = zlib.crc32(said.encode())
    for name, array in sorted(arrays.items()):
        found = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), found)
        found = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, found)
    return f"{found:08x}"
