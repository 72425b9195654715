"""What this process may use of its machine."""

from __future__ import annotations

import os

CORES = "NPROC"
"""Says that fewer cores are to be used than there are; XLA heeds it too, and starts no more threads."""


def cores() -> int:
    """How many this process may use."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get(CORES, "")
    return min(int(told), there) if told.isdigit() and int(told) else there


def free_memory() -> float:
    """Bytes that can be allocated without swapping."""
    try:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":") for line in file)
        return float(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
