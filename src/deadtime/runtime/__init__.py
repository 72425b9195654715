"""Trained policies, which act with NumPy and Gymnasium alone."""

from deadtime.runtime.deep_policy import DeepPolicy
from deadtime.runtime.pixel_policy import PixelPolicy, RecurrentPixelPolicy
from deadtime.runtime.policy import Policy
from deadtime.runtime.recurrent_policy import RecurrentPolicy
from deadtime.runtime.tabular_policy import TabularPolicy

__all__ = [
    "DeepPolicy",
    "PixelPolicy",
    "Policy",
    "RecurrentPixelPolicy",
    "RecurrentPolicy",
    "TabularPolicy",
]
