"""Policies from the arrays of a record; no environment is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deadtime.envs.families import family_of
from deadtime.learn.views import VIEWS
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runtime.dense_layers import outputs_of
from deadtime.runtime.frame_layers import FRAMES, MOST_ACTIONS, torso_outputs
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.runtime.policy import Policy, fitting
from deadtime.runtime.table_policy import TablePolicy

Arrays = dict[str, np.ndarray]


def policy_of(spec: TabularSpec | DeepSpec, seed: int, arrays: Arrays) -> Policy:
    """Return the policy of one seed, or raise if no training of `spec` gives such arrays."""
    manifest = manifest_of(spec, arrays, seed)
    policy = TablePolicy(manifest, arrays) if manifest.states else NetworkPolicy(manifest, arrays)
    family = family_of(spec.env)
    own = None if family.frames else family.describe(spec.env, spec.settings)
    if own is not None and not policy.fits(own.action_space(), own.observation_space()):
        rule = "a policy has the sizes of its environment"
        raise ValueError(f"{rule}; got {policy!r}: train it again")
    return policy


def manifest_of(spec: TabularSpec | DeepSpec, arrays: Arrays, seed: int = 0) -> Manifest:
    """Return the manifest of the policy that a training of `spec` gave these arrays."""
    view = VIEWS.get(spec.agent)
    sees = view.sees if view else "state"
    with fitting():
        if isinstance(spec, TabularSpec):
            own = {"states": spec.states, "actions": arrays["q"].shape[1], "seed": seed}
        else:
            own = _BY_LEARNER[spec.learner.kind](arrays, spec)
            if view and view.predicts:
                own |= {"model": spec.learner.model}
        return Manifest(spec.agent, sees, spec.delay, spec.env, **own)


def _double_q(arrays: Arrays, spec: DeepSpec) -> dict[str, Any]:
    return {
        "observation_shape": arrays["inputs/mean"].shape,
        "actions": outputs_of(arrays, "q"),
        "capacity": int(arrays["capacity"]),
        "one_hot_queue": spec.learner.one_hot_queue,
        "members": spec.learner.members,
    }


def _a2c(arrays: Arrays, spec: DeepSpec) -> dict[str, Any]:
    return {
        "observation_shape": arrays["layer/0/weight"].shape[1:],
        "actions": outputs_of(arrays, "layer") - 1,
        "head": "logits",
        "memory": True,
    }


def _pixel_q(arrays: Arrays, spec: DeepSpec) -> dict[str, Any]:
    seen = torso_outputs(spec.learner.channels)
    return {
        "observation_shape": FRAMES,
        "actions": _actions_of(arrays, spec),
        "encoder": "frames",
        "head": "dueling" if spec.learner.dueling else "values",
        "capacity": max(arrays[".hidden"].shape[1] - seen, 0) // MOST_ACTIONS,
    }


def _pixel_a2c(arrays: Arrays, spec: DeepSpec) -> dict[str, Any]:
    return {
        "observation_shape": FRAMES,
        "actions": _actions_of(arrays, spec),
        "encoder": "frames",
        "head": "logits",
        "memory": True,
    }


def _actions_of(arrays: Arrays, spec: DeepSpec) -> int:
    """Return the number of a game's actions; the emulator knows it where an old record does not."""
    return int(arrays["actions"]) if "actions" in arrays else spec.environment(0).num_actions


_BY_LEARNER: dict[str, Callable[[Arrays, DeepSpec], dict[str, Any]]] = {
    "double-q": _double_q,
    "a2c": _a2c,
    "pixel-q": _pixel_q,
    "pixel-a2c": _pixel_a2c,
}
"""The manifest's fields for each kind of learner."""
