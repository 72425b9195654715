"""Planning and reinforcement learning when actions land late."""

from typing import TYPE_CHECKING

from deadtime import delays
from deadtime._support.lazy import lazy_names
from deadtime._support.version import __version__
from deadtime.envs import register as _register
from deadtime.wrappers import (
    ActionDelay,
    AugmentObservation,
    ObservationDelay,
    PredictObservation,
    VectorActionDelay,
    VectorAugmentObservation,
    VectorObservationDelay,
)

if TYPE_CHECKING:
    from deadtime.identify import identify_delay
    from deadtime.learn.evaluate import evaluate
    from deadtime.runs.comparison import compare
    from deadtime.runs.result import load
    from deadtime.runs.training import train

_register()

__all__ = [
    "ActionDelay",
    "AugmentObservation",
    "ObservationDelay",
    "PredictObservation",
    "VectorActionDelay",
    "VectorAugmentObservation",
    "VectorObservationDelay",
    "__version__",
    "compare",
    "delays",
    "evaluate",
    "identify_delay",
    "load",
    "train",
]
__getattr__ = lazy_names(
    __name__,
    {
        "compare": "deadtime.runs.comparison",
        "evaluate": "deadtime.learn.evaluate",
        "identify_delay": "deadtime.identify",
        "load": "deadtime.runs.result",
        "train": "deadtime.runs.training",
    },
)
"""Names that are imported on first use; most need the extra `learn`."""


def __dir__() -> list[str]:
    return __all__
