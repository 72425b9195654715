"""The state of runs on disk: arrays in a safetensors file, the rest as JSON in its header; loading can't run code."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from deadtime.pictures import whole


def save(path: Path, state: Any, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """Write a pytree and further arrays, whole or not at all."""
    leaves = {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        save_file({**leaves, **arrays}, part, metadata={"about": json.dumps(about)})


def load(path: Path, like: Any) -> tuple[Any, dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save` wrote, in the shape of `like`."""
    try:
        with safe_open(path, "numpy") as file:
            about = json.loads(file.metadata()["about"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        leaves, shape = jax.tree.flatten(like)
        found = [arrays.pop(f"state/{i}") for i in range(len(leaves))]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no checkpoint of this run ({error}): delete it, and the run begins anew") from error
    for leaf, new in zip(leaves, found, strict=True):
        if leaf.shape != new.shape or leaf.dtype != new.dtype:
            raise ValueError(f"{path} is a checkpoint of another run: delete it, and the run begins anew")
    return jax.tree.unflatten(shape, [jax.numpy.asarray(leaf) for leaf in found]), arrays, about


def remove(path: Path) -> None:
    """Delete a checkpoint that is no longer needed, and its folder with the last one."""
    path.unlink(missing_ok=True)
    with suppress(OSError):  # others are still there, or another thread was faster
        path.parent.rmdir()
