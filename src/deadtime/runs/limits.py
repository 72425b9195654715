"""The range of an episode's return, to which intervals are cut."""

from __future__ import annotations

from deadtime.envs.families import family_of
from deadtime.envs.family import ANY_RETURN as ANY
from deadtime.envs.family import Limits
from deadtime.runs.specs import Spec

__all__ = ["ANY", "Limits", "return_limits"]


def return_limits(spec: Spec) -> Limits:
    """Return the least and the largest return of an episode of `spec`'s environment."""
    return family_of(spec.env).return_limits(spec.settings)
