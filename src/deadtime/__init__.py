"""Planning and reinforcement learning when actions land late."""

from deadtime.envs import register as _register
from deadtime.envs.gym import ActionDelay, AugmentObservation, ObservationDelay
from deadtime.envs.gym_vector import VectorActionDelay, VectorAugmentObservation, VectorObservationDelay

_register()

__version__ = "0.1.0"
__all__ = [
    "ActionDelay",
    "AugmentObservation",
    "ObservationDelay",
    "VectorActionDelay",
    "VectorAugmentObservation",
    "VectorObservationDelay",
]
