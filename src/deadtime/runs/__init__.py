"""Runs: specs, records, the driver and its engines, sweeps and statistics.

`deadtime.train` returns a `Result`, and `deadtime.compare` a `Comparison` with an `Estimate` for
each agent and delay. `Where` chooses the engine that runs them. All are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deadtime.runs.comparison import Comparison
    from deadtime.runs.result import Curve, Result
    from deadtime.runs.statistics import Estimate
    from deadtime.runs.where import Where

__all__ = ["Comparison", "Curve", "Estimate", "Result", "Where"]
_LAZY = {
    "Comparison": "comparison",
    "Curve": "result",
    "Estimate": "statistics",
    "Result": "result",
    "Where": "where",
}
"""The module of each name."""


def __getattr__(name: str) -> object:
    """Import a name on first use, because most of them need the extra `learn`."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from deadtime._support.extras import extras_needed  # noqa: PLC0415

    with extras_needed("learn"):
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return __all__
