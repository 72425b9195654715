"""Runs: specs, records, the driver and its engines, sweeps and statistics.

`deadtime.train` returns a `Result`, and `deadtime.compare` a `Comparison` with an `Estimate` for
each agent and delay. `Where` chooses the engine that runs them.

`make_spec` returns a run as data, and `train_missing` trains the runs that a folder has no records
of, so a sweep can be written in Python. All names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deadtime.runs.comparison import Comparison
    from deadtime.runs.result import Curve, Result
    from deadtime.runs.runner import train_missing
    from deadtime.runs.specs import make_spec
    from deadtime.runs.statistics import Estimate
    from deadtime.runs.where import ENGINES, Where

__all__ = [
    "ENGINES",
    "Comparison",
    "Curve",
    "Estimate",
    "Result",
    "Where",
    "make_spec",
    "train_missing",
]
_LAZY = {
    "ENGINES": "where",
    "Comparison": "comparison",
    "Curve": "result",
    "Estimate": "statistics",
    "Result": "result",
    "Where": "where",
    "make_spec": "specs",
    "train_missing": "runner",
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
