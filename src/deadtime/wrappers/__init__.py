"""Gymnasium wrappers: delays and augmented observations, for single and vector environments."""

from deadtime.wrappers.prediction import PredictObservation
from deadtime.wrappers.scalar import ActionDelay, AugmentObservation, ObservationDelay
from deadtime.wrappers.vector import (
    VectorActionDelay,
    VectorAugmentObservation,
    VectorObservationDelay,
)

__all__ = [
    "ActionDelay",
    "AugmentObservation",
    "ObservationDelay",
    "PredictObservation",
    "VectorActionDelay",
    "VectorAugmentObservation",
    "VectorObservationDelay",
]
