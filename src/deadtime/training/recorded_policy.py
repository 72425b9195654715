"""Policies from the arrays of a record; no environment is made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deadtime.agents.deep_policy import DeepPolicy
from deadtime.agents.pixel_policy import PixelPolicy, RecurrentPixelPolicy
from deadtime.agents.policy import Policy
from deadtime.agents.recurrent_policy import RecurrentPolicy
from deadtime.agents.tabular_policy import from_arrays
from deadtime.agents.views import VIEWS
from deadtime.experiments.deep_specs import DeepSpec
from deadtime.experiments.spec_checks import own_environment
from deadtime.experiments.specs import TabularSpec

Arrays = dict[str, np.ndarray]


def policy_of(spec: TabularSpec | DeepSpec, seed: int, arrays: Arrays) -> Policy:
    """Return the policy of one seed, or raise if no training of `spec` gives such arrays."""
    try:
        policy = _built(spec, seed, arrays)
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(
            f"a policy has the arrays that its agent learns; that of seed {seed} has others ({error!r:.99}): train it again"
        ) from error
    policy.env = spec.env
    own = None if isinstance(spec, DeepSpec) and spec.atari else own_environment(spec.env, spec.settings)
    if own is not None and not policy.fits(own.action_space(), own.observation_space()):
        raise ValueError(f"a policy has the sizes of its environment; got {policy!r}: train it again")
    return policy


def _built(spec: TabularSpec | DeepSpec, seed: int, arrays: Arrays) -> Policy:
    if isinstance(spec, TabularSpec):
        return from_arrays(arrays, spec.agent, spec.delay, spec.states, seed)
    return _BY_LEARNER[spec.learner.kind](arrays, spec)


def _deep(arrays: Arrays, spec: DeepSpec) -> Policy:
    return DeepPolicy(arrays, VIEWS[spec.agent], spec.learner, spec.delay, int(arrays["capacity"]))


def _pixel(arrays: Arrays, spec: DeepSpec) -> Policy:
    return PixelPolicy(arrays, VIEWS[spec.agent], spec.learner, _actions_of(arrays, spec), spec.delay)


def _recurrent_pixel(arrays: Arrays, spec: DeepSpec) -> Policy:
    return RecurrentPixelPolicy(arrays, spec.learner, _actions_of(arrays, spec), spec.delay)


def _actions_of(arrays: Arrays, spec: DeepSpec) -> int:
    """Return the number of a game's actions; the emulator knows it where an old record does not."""
    return int(arrays["actions"]) if "actions" in arrays else spec.environment(0).num_actions


_BY_LEARNER: dict[str, Callable[[Arrays, DeepSpec], Policy]] = {
    "double-q": _deep,
    "a2c": lambda arrays, spec: RecurrentPolicy(arrays, spec.delay),
    "pixel-q": _pixel,
    "pixel-a2c": _recurrent_pixel,
}
"""The policy of each kind of learner."""
