"""Planning and reinforcement learning when actions land late."""

from typing import TYPE_CHECKING, Any

from deadtime.envs import register as _register
from deadtime.envs.gym import ActionDelay, AugmentObservation, ObservationDelay
from deadtime.envs.gym_vector import VectorActionDelay, VectorAugmentObservation, VectorObservationDelay

if TYPE_CHECKING:
    from deadtime.training.evaluate import evaluate
    from deadtime.training.result import load, train

_register()

__version__ = "0.1.0"
__all__ = [
    "ActionDelay",
    "AugmentObservation",
    "ObservationDelay",
    "VectorActionDelay",
    "VectorAugmentObservation",
    "VectorObservationDelay",
    "evaluate",
    "load",
    "train",
]


def __getattr__(name: str) -> Any:
    """What learns is imported when it is first used, so that worker processes with an environment start fast."""
    if name in ("evaluate", "load", "train"):
        from deadtime.training import evaluate, result  # noqa: PLC0415

        return evaluate.evaluate if name == "evaluate" else getattr(result, name)
    raise AttributeError(f"module 'deadtime' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
