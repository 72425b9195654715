"""Trained policies, which need only NumPy and Gymnasium to act.

A policy has a `Manifest`, which is plain data, and arrays. `NetworkPolicy(manifest, arrays)` acts
with a network, `TablePolicy(manifest, arrays)` with a table.
"""

from deadtime.runtime.forward_models import FORWARD_MODELS, ForwardModel
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.runtime.policy import Policy
from deadtime.runtime.table_policy import TablePolicy
from deadtime.runtime.views import VIEWS, Shown, View

__all__ = [
    "FORWARD_MODELS",
    "VIEWS",
    "ForwardModel",
    "Manifest",
    "NetworkPolicy",
    "Policy",
    "Shown",
    "TablePolicy",
    "View",
]
