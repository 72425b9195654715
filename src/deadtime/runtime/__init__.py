"""Trained policies, which need only NumPy and Gymnasium to act.

A policy has a `Manifest`, which is plain data, and arrays. `NetworkPolicy(manifest, arrays)` acts
with a network, `TablePolicy(manifest, arrays)` with a table. A `Controller` runs a policy in a
control loop, and `FixedRate` is such a loop. `save` and `load` keep a policy in a file, and
`to_onnx` makes an ONNX model of it.
"""

from deadtime.runtime.bundle import load, save
from deadtime.runtime.controller import Controller
from deadtime.runtime.fixed_rate import FixedRate, Timing
from deadtime.runtime.forward_models import FORWARD_MODELS, ForwardModel
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.runtime.onnx_graph import to_onnx
from deadtime.runtime.policy import Policy
from deadtime.runtime.stream_counts import Statistics
from deadtime.runtime.table_policy import TablePolicy
from deadtime.runtime.views import VIEWS, Shown, View

__all__ = [
    "FORWARD_MODELS",
    "VIEWS",
    "Controller",
    "FixedRate",
    "ForwardModel",
    "Manifest",
    "NetworkPolicy",
    "Policy",
    "Shown",
    "Statistics",
    "TablePolicy",
    "Timing",
    "View",
    "load",
    "save",
    "to_onnx",
]
