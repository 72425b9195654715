"""Planning and reinforcement learning when actions land late."""

from typing import TYPE_CHECKING, Any

from deadtime import delays
from deadtime._support.version import __version__
from deadtime.envs import register as _register
from deadtime.wrappers import (
    ActionDelay,
    AugmentObservation,
    ObservationDelay,
    VectorActionDelay,
    VectorAugmentObservation,
    VectorObservationDelay,
)

if TYPE_CHECKING:
    from deadtime.learn.evaluate import evaluate
    from deadtime.runs.comparison import compare
    from deadtime.runs.result import load
    from deadtime.runs.training import train

_register()

__all__ = [
    "ActionDelay",
    "AugmentObservation",
    "ObservationDelay",
    "VectorActionDelay",
    "VectorAugmentObservation",
    "VectorObservationDelay",
    "__version__",
    "compare",
    "delays",
    "evaluate",
    "load",
    "train",
]
_LAZY = {
    "compare": "deadtime.runs.comparison",
    "evaluate": "deadtime.learn.evaluate",
    "load": "deadtime.runs.result",
    "train": "deadtime.runs.training",
}
"""The modules of names that are imported when they are first used."""


def __getattr__(name: str) -> Any:
    """Import a function that learns or evaluates when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'deadtime' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  (like the modules: only when it is needed)

    from deadtime._support.extras import extras_needed  # noqa: PLC0415

    with extras_needed("learn"):
        return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return __all__
