"""Planning and reinforcement learning when actions land late."""

from typing import TYPE_CHECKING, Any

from deadtime.envs import register as _register
from deadtime.envs.gym import ActionDelay, AugmentObservation, ObservationDelay
from deadtime.envs.gym_vector import VectorActionDelay, VectorAugmentObservation, VectorObservationDelay

if TYPE_CHECKING:
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
    "load",
    "train",
]


def __getattr__(name: str) -> Any:
    """What learns is imported when it is first used, so that worker processes with an environment start fast."""
    if name in ("load", "train"):
        from deadtime.training import result  # noqa: PLC0415

        return getattr(result, name)
    raise AttributeError(f"module 'deadtime' has no attribute {name!r}")
