"""What training will need, known and checked before it starts; and what was compiled once, kept for the next time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from deadtime._support.machine import free_memory
from deadtime.learn.program import Setup


def bytes_a_run(begin_all: Any, program: Any, setups: Setup) -> int:
    """Of one run's state: networks and their moments, replay, environment."""
    state = begin_all.eval_shape(program, setups)
    width = len(setups.delay)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)) // width


def check_memory(bytes_at_once: int, runs: int) -> None:
    """Refuse, before anything is allocated, what would not fit: a state and, while it is stepped, as much again."""
    device, needed = jax.devices()[0], 2 * bytes_at_once
    stats = device.memory_stats() or {}
    free = 0.9 * (
        stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else free_memory()
    )
    if needed > free:
        raise MemoryError(
            f"{runs} runs at once need {needed / 2**30:.3g} GiB; {free / 2**30:.3g} GiB are free: "
            "train fewer seeds at a time, or with a smaller buffer_size"
        )


def keep_compiled() -> None:
    """Let later processes reuse what was compiled, unless the user has said where to or not to."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is None and config.jax_enable_compilation_cache:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        config.update("jax_compilation_cache_dir", str(Path(base) / "deadtime"))


def has_compiled() -> bool:
    """Return whether the cache of compiled programs holds any."""
    keep_compiled()
    folder = getattr(jax.config, "jax_compilation_cache_dir")  # noqa: B009  (mypy knows no settings)
    return folder is not None and any(Path(folder).glob("jit_*"))


@contextmanager
def compiled_quickly() -> Iterator[None]:
    """Compile in less time what then runs slower: for what hardly runs."""
    config: Any = jax.config
    config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        config.update("jax_disable_most_optimizations", False)
