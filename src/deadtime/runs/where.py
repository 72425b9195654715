"""The choice of where runs are done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Where:
    """Where runs are done."""

    engine: str = ""
    """inline (this process), local (processes of this machine) or ray; default: local where there
    is more than one unit."""
    address: str = ""
    """ray: of a running cluster, `auto` for the one of this machine; default: one is started for
    this."""
    retries: int = 2
    """How often a unit of work that died or failed is tried again, from its last checkpoint."""
