"""The forward models that a network policy can roll, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from deadtime.runtime.manifest import Manifest
from deadtime.runtime.rolled_model import RolledModel


class ForwardModel(Protocol):
    """A model that predicts where the pending actions lead."""

    def roll(self, observation: np.ndarray, queue: np.ndarray) -> np.ndarray:
        """Return the observation predicted after the actions of `queue`, oldest first.

        The observation is an array of single precision, and so is the prediction. `queue` has shape
        (m,) for numbered actions, and (m, numbers of an action) for those of a box.
        """


FORWARD_MODELS: dict[str, Callable[[Manifest, Mapping[str, np.ndarray]], ForwardModel]] = {
    "learned": RolledModel,
    "change": RolledModel,
}
"""How a forward model is made from a manifest and arrays, by the manifest's `model`.

Add a kind of your own with `FORWARD_MODELS["mine"] = MyModel`. Arrays whose names begin with
"model/" are stacked over the members; a model is given those of one member.
"""


def models_of(manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> list[ForwardModel]:
    """Return the forward models of a policy, or raise if it can't have them."""
    if not manifest.predicts or manifest.encoder == "frames":
        return []
    if manifest.model == "simulator":
        rule = "this agent predicts with the simulator, so it can't act without its environment"
        raise ValueError(f"{rule}: train one with the model learned or change")
    if manifest.model not in FORWARD_MODELS or manifest.members < 1:
        raise ValueError(
            f"an agent that predicts has 1 forward model or more of kind "
            f"{' or '.join(FORWARD_MODELS)}; got {manifest.members} of kind {manifest.model!r}: "
            "train it again"
        )
    make = FORWARD_MODELS[manifest.model]
    return [make(manifest, _own(arrays, member)) for member in range(manifest.members)]


def _own(arrays: Mapping[str, np.ndarray], member: int) -> dict[str, np.ndarray]:
    """Return the arrays with those of the models cut down to one member."""
    stacked = {name: array[member] for name, array in arrays.items() if name.startswith("model/")}
    return {**arrays, **stacked}
