"""The state of runs on disk: arrays in a safetensors file, the rest as JSON in its header; loading can't run code."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from deadtime import files
from deadtime.files import whole


def save(path: Path, state: Any, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """Write a pytree and further arrays, whole or not at all."""
    parts = {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))} | arrays
    said = json.dumps(about)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        save_file(parts, part, metadata={"about": said, "sum": _sum(parts, said)})


def load(path: Path, like: Any, further: dict[str, np.ndarray]) -> tuple[Any, dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save` wrote, in the shape of `like` and of `further` arrays, of which `ended` may have any length."""
    leaves, shape = jax.tree.flatten(like)
    with of_this_run(path):
        with safe_open(path, "numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header.get("sum") != _sum(arrays, header.get("about", "")):
            raise ValueError("it is damaged")
        about = files.said(header["about"].encode())
        files.listed([about["steps"], *about.setdefault("resumed_at", [])], int)
        files.listed([about["seconds"]], float)
        files.check_fit(arrays, {f"state/{i}": leaf for i, leaf in enumerate(leaves)} | further, ("ended",))
    found = [jax.numpy.asarray(arrays.pop(f"state/{i}")) for i in range(len(leaves))]
    return jax.tree.unflatten(shape, found), arrays, about


@contextmanager
def of_this_run(path: Path) -> Iterator[None]:
    """Say of whatever goes wrong with a checkpoint what to do: safetensors, JSON and emulators raise a dozen kinds."""
    try:
        yield
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise ValueError(f"{path} is no checkpoint of this run ({error}): delete it, and the run begins anew") from error


def _sum(arrays: dict[str, np.ndarray], said: str) -> str:
    """What tells damage; it is fast, since a checkpoint may hold gigabytes."""
    found = zlib.crc32(said.encode())
    for name, array in sorted(arrays.items()):
        found = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), found)
        found = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, found)
    return f"{found:08x}"


def remove(path: Path) -> None:
    """Delete a checkpoint that is no longer needed, and its folder with the last one."""
    path.unlink(missing_ok=True)
    with suppress(OSError):  # others are still there, or another thread was faster
        path.parent.rmdir()
