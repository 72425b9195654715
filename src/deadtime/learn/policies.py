"""Policies from the arrays of a training; no environment is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from deadtime.learn.learners import LEARNERS
from deadtime.learn.run_spec import Run
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.runtime.policy import Policy, fitting
from deadtime.runtime.table_policy import TablePolicy
from deadtime.runtime.views import VIEWS

Arrays = dict[str, np.ndarray]


def policy_of(spec: Run, seed: int, arrays: Arrays) -> Policy:
    """Return the policy of one seed; raise if the arrays do not fit `spec`."""
    manifest = manifest_of(spec, arrays, seed)
    policy = TablePolicy(manifest, arrays) if manifest.states else NetworkPolicy(manifest, arrays)
    family = spec.family
    frames = manifest.encoder == "frames"
    own = None if frames else family.describe(spec.env, spec.settings)
    if own is not None and not policy.fits(own.action_space(), own.observation_space()):
        rule = "a policy has the sizes of its environment"
        raise ValueError(f"{rule}; got {policy!r}: train it again")
    return policy


def manifest_of(spec: Run, arrays: Arrays, seed: int = 0) -> Manifest:
    """Return the manifest of the policy with these arrays, from a training of `spec`."""
    view = VIEWS[spec.agent]
    with fitting():
        own: dict[str, Any] = LEARNERS[spec.learner.kind].manifest(spec, arrays)
        if spec.family.loop == "tabular":
            own |= {"seed": seed}
        elif view.predicts:
            own |= {"model": spec.learner.model}
        own["process"] = spec.process
        own["observed"] = getattr(spec, "observed", "now")
        return Manifest(spec.agent, view.sees, spec.delay, spec.env, **own)
