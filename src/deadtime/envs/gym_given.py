"""Environments that are given as functions or as instances.

Each is registered with Gymnasium under an id of its own, so everything that works for ``gym:ID``
works for it. The id has the name of the function, or of the instance's class, and a fingerprint.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from deadtime.envs.fingerprint import fingerprint

Given = str | gym.Env | Callable[..., gym.Env]
"""An environment as users give it: a name or an id, an instance, or a function that makes one."""
FUNCTION, INSTANCE = "function", "instance"
"""The namespaces of the ids."""
_GIVEN = re.compile(rf"({FUNCTION}|{INSTANCE})/(.+)-[0-9a-f]{{12}}")
_WAYS = "a name such as gym:CartPole-v1, a Gymnasium id, a function that makes one, or an instance"


class Copies:
    """The entry point of an instance: each call returns a copy of it."""

    def __init__(self, template: gym.Env):
        """Take an instance that nobody else uses."""
        self.template = template

    def __call__(self, render_mode: str | None = None) -> gym.Env:
        """Return a copy, which renders as the instance does."""
        own = self.template.render_mode
        if render_mode not in (None, own):
            raise ValueError(f"the instance has render_mode={own!r}; got {render_mode!r}")
        return copy.deepcopy(self.template)

    def __deepcopy__(self, memo: object) -> Copies:
        """Return this object: specs are copied often, and the template never changes."""
        return self


def given_id(env: object) -> str:
    """Register a function or an instance with Gymnasium, and return its id."""
    if isinstance(env, gym.Env):
        entry: Callable[..., Any] = Copies(_copy_of(env))
        label = type(env.unwrapped).__qualname__
        found = f"{INSTANCE}/{_word(label)}-{fingerprint(_at_start(env))}"
    elif callable(env) and not isinstance(env, gym.vector.VectorEnv):
        entry = env
        found = f"{FUNCTION}/{_word(_name_of(env))}-{fingerprint(env)}"
    else:
        raise ValueError(f"an environment is {_WAYS}; got {env!r:.200}: pass one of these")
    gym.registry[found] = EnvSpec(
        found, entry_point=entry, order_enforce=False, disable_env_checker=True
    )
    return found


def is_given(known: str) -> bool:
    """Return whether an id stands for a function or an instance."""
    return _GIVEN.fullmatch(known) is not None


def unknown_given(known: str) -> ValueError:
    """Return the error for a function or an instance that this process was not given."""
    kind, name = _GIVEN.fullmatch(known).groups()  # type: ignore[union-attr]
    return ValueError(
        f"this run's environment is the {kind} {name}, which a record can't hold; this process "
        "has none with the same code and values: in Python, pass it yourself, as in "
        "deadtime.evaluate(deadtime.load(folder), env); for the command line, register the "
        "environment with Gymnasium and train on its id"
    )


def origin(spec: EnvSpec) -> dict[str, str]:
    """Return what a record says about an environment: its function or instance, and its id."""
    entry = spec.entry_point
    if isinstance(entry, Copies):
        own = entry.template.spec
        return {INSTANCE: str(entry.template)} | ({"id": own.id} if own is not None else {})
    if is_given(spec.id):
        return {FUNCTION: _name_of(entry)}
    return {"id": spec.id}


def _copy_of(env: gym.Env) -> gym.Env:
    try:
        return copy.deepcopy(env)
    except Exception as problem:  # each environment fails in its own way
        raise ValueError(
            f"training copies an instance, and {env} can't be copied ({problem!r:.200}): pass a "
            "function that makes the environment"
        ) from problem


def _at_start(env: gym.Env) -> gym.Env:
    """Return a copy after a seeded reset, a step and a reset, which hide the instance's past."""
    whole = part = _copy_of(env)
    while True:
        part.action_space.seed(0)
        part.observation_space.seed(0)
        if part is part.unwrapped:
            break
        part = part.env  # type: ignore[attr-defined]
    whole.reset(seed=0)
    whole.step(whole.action_space.sample())
    whole.reset(seed=0)
    _ = whole.spec  # wrappers keep their spec once it is asked for, so it is asked for now
    return whole


def _name_of(function: object) -> str:
    """Return the module and the name of a function, of a class, or of what a partial calls."""
    while isinstance(function, partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _word(name: str) -> str:
    """Return a name as an id may hold it: lambda for <lambda>."""
    return re.sub(r"[^\w.]+", "", name.replace("<locals>.", ""))
