"""The choice of the engine that does the runs."""

from __future__ import annotations

from dataclasses import dataclass

ENGINES = ("inline", "local", "ray")
"""This process, processes of this machine, or a Ray cluster."""


@dataclass(frozen=True)
class Where:
    """The engine that does the runs, and how often it retries."""

    engine: str = ""
    """One of `ENGINES`; empty: `local` for several units of work, else `inline`."""
    address: str = ""
    """The address of a running Ray cluster; `auto`: the one of this machine; empty: start one."""
    retries: int = 2
    """How often a failed unit of work is retried from its last checkpoint."""
