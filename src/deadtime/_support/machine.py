"""The cores and the memory of this process, and a function that starts another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

CORES = "NPROC"
"""The environment variable that limits the number of cores; XLA limits its threads to it too."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    there = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        there = len(os.sched_getaffinity(0))
    given = os.environ.get(CORES, "")
    return min(int(given), there) if given.isdigit() and int(given) else there


def free_memory() -> float:
    """Return the bytes of memory that can be allocated without swapping."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            lines = dict(line.split(":") for line in file)
        return float(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def resident_memory() -> int:
    """Return the bytes of memory that this process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def started(
    module: str, *words: str, env: dict[str, str] | None = None, **how: Any
) -> subprocess.Popen[bytes]:
    """Start a process that runs a module with this Python and its search path.

    The process does not receive Ctrl-C.
    """
    paths = os.pathsep.join(filter(None, sys.path))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the process inherits this
    try:
        command = [sys.executable, "-P", "-m", module, *words]
        return subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": paths, **(env or {})}, **how
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
