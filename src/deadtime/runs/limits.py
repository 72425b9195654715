"""The range that an episode's return can have: no interval is shown beyond it."""

from __future__ import annotations

from typing import Any

from deadtime.envs.families import family_of
from deadtime.envs.family import ANY_RETURN as ANY
from deadtime.envs.family import Limits

__all__ = ["ANY", "Limits", "return_limits"]


def return_limits(spec: Any) -> Limits:
    """Return the least and the largest return of an episode of `spec`'s environment."""
    return family_of(spec.env).return_limits(spec.settings)
