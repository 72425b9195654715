"""Runs: specs, records, the driver and its engines, sweeps and statistics.

`deadtime.train` returns a `Result`, and `deadtime.compare` a `Comparison` with an `Estimate` for
each agent and delay. `Where` chooses the engine that runs them.

`train_untold` trains an agent that must find the delay first.

`make_spec` returns a run as data, and `train_missing` trains the runs that a folder has no records
of, so a sweep can be written in Python. All names are imported on first use.
"""

from typing import TYPE_CHECKING

from deadtime._support.lazy import lazy_names

if TYPE_CHECKING:
    from deadtime.runs.comparison import Comparison
    from deadtime.runs.result import Curve, Result
    from deadtime.runs.runner import train_missing
    from deadtime.runs.specs import make_spec
    from deadtime.runs.statistics import Estimate
    from deadtime.runs.unknown_delay import train_untold
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
    "train_untold",
]
__getattr__ = lazy_names(
    __name__,
    {
        "ENGINES": "deadtime.runs.where",
        "Comparison": "deadtime.runs.comparison",
        "Curve": "deadtime.runs.result",
        "Estimate": "deadtime.runs.statistics",
        "Result": "deadtime.runs.result",
        "Where": "deadtime.runs.where",
        "make_spec": "deadtime.runs.specs",
        "train_missing": "deadtime.runs.runner",
        "train_untold": "deadtime.runs.unknown_delay",
    },
)
"""Names that need the extra `learn` are imported on first use."""


def __dir__() -> list[str]:
    return __all__
