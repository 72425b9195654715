"""Policies from the arrays of a record; no environment is made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deadtime.envs.families import family_of
from deadtime.learn.views import VIEWS
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runtime.deep_policy import DeepPolicy
from deadtime.runtime.pixel_policy import PixelPolicy, RecurrentPixelPolicy
from deadtime.runtime.policy import Policy
from deadtime.runtime.recurrent_policy import RecurrentPolicy
from deadtime.runtime.tabular_policy import TabularPolicy

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
    family = family_of(spec.env)
    own = None if family.frames else family.describe(spec.env, spec.settings)
    if own is not None and not policy.fits(own.action_space(), own.observation_space()):
        raise ValueError(f"a policy has the sizes of its environment; got {policy!r}: train it again")
    return policy


def _built(spec: TabularSpec | DeepSpec, seed: int, arrays: Arrays) -> Policy:
    if isinstance(spec, TabularSpec):
        sees = VIEWS[spec.agent].sees
        return TabularPolicy(arrays, spec.agent, sees, spec.delay, spec.states, seed)
    return _BY_LEARNER[spec.learner.kind](arrays, spec)


def _deep(arrays: Arrays, spec: DeepSpec) -> Policy:
    return DeepPolicy(
        arrays,
        spec.agent,
        VIEWS[spec.agent].sees,
        spec.delay,
        int(arrays["capacity"]),
        model=spec.learner.model,
        members=spec.learner.members,
        one_hot_queue=spec.learner.one_hot_queue,
    )


def _pixel(arrays: Arrays, spec: DeepSpec) -> Policy:
    return PixelPolicy(
        arrays,
        spec.agent,
        VIEWS[spec.agent].sees,
        spec.delay,
        _actions_of(arrays, spec),
        channels=spec.learner.channels,
        hidden=spec.learner.hidden,
        dueling=spec.learner.dueling,
        layer_norm=spec.learner.layer_norm,
        model=spec.learner.model,
    )


def _recurrent_pixel(arrays: Arrays, spec: DeepSpec) -> Policy:
    return RecurrentPixelPolicy(
        arrays,
        spec.delay,
        _actions_of(arrays, spec),
        channels=spec.learner.channels,
        hidden=spec.learner.hidden,
        lstm=spec.learner.lstm,
        layer_norm=spec.learner.layer_norm,
    )


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
