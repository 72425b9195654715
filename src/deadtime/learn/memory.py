"""Memory checks before a training, and the cache and options of the compiler."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax

from deadtime._support.machine import free_memory
from deadtime._support.version import __version__
from deadtime.learn.program import Program, Setup


def bytes_a_run(begin_all: Any, program: Program, setups: Setup) -> int:
    """Return the size of one run's state: networks and moments, replay buffer, environment."""
    state = begin_all.eval_shape(program, setups)
    width = len(setups.delay)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)) // width


def check_memory(bytes_at_once: int, runs: int) -> None:
    """Raise, before anything is allocated, if the states of runs and their copy would not fit."""
    needed = 2 * bytes_at_once
    free = _free()
    if needed > free:
        raise MemoryError(
            f"{runs} runs at once need {needed / 2**30:.3g} GiB; {free / 2**30:.3g} GiB are free: "
            "train fewer seeds at a time, or with a smaller buffer_size"
        )


def most_at_once(bytes_a_run: int) -> int:
    """Return the number of runs whose states, and their copies, fit."""
    return int(_free() / (2 * bytes_a_run))


def _free() -> float:
    """Return the bytes of the device's memory that runs may take."""
    stats = jax.devices()[0].memory_stats() or {}
    on_device = "bytes_limit" in stats
    return 0.9 * (stats["bytes_limit"] - stats["bytes_in_use"] if on_device else free_memory())


def keep_compiled() -> None:
    """Cache compiled programs for later processes, unless the user has configured JAX's cache."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is None and config.jax_enable_compilation_cache:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        config.update("jax_compilation_cache_dir", str(Path(base) / "deadtime"))


def note_compiled(program: Program) -> None:
    """Record that the cache of compiled programs holds this one; time estimates read it."""
    if (mark := _mark(program)) is not None:
        with suppress(OSError):
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()


def has_compiled(program: Program) -> bool:
    """Return whether the cache of compiled programs holds this one, as far as is noted."""
    mark = _mark(program)
    return mark is not None and mark.exists()


def _mark(program: Program) -> Path | None:
    """Return the path of the note on a program, or None if there is no cache in a folder."""
    keep_compiled()
    config: Any = jax.config
    folder = config.jax_compilation_cache_dir
    if not folder or "://" in folder or not config.jax_enable_compilation_cache:
        return None
    facts = (
        __version__,
        jax.__version__,
        jax.default_backend(),
        config.values["jax_disable_most_optimizations"],
    )
    text = re.sub(r" at 0x\w+", "", f"{facts} {program}")
    return Path(folder) / "programs" / hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def compiled_quickly() -> Iterator[None]:
    """Compile faster, but to slower programs, within this context."""
    config: Any = jax.config
    config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        config.update("jax_disable_most_optimizations", False)
