"""The range that an episode's return can have, by environment: no interval is shown beyond it."""

from __future__ import annotations

import math
from typing import Any

Limits = tuple[float, float]

ANY: Limits = (-math.inf, math.inf)
_LIMITS: dict[str, Limits] = {"maze": (-1.0, 1.0), "cartpole": (0.0, 500.0), "acrobot": (-500.0, 0.0)}


def return_limits(spec: Any) -> Limits:
    """Return the least and the largest return of an episode of `spec`'s environment, infinite where they are not known."""
    if spec.env == "walk":
        return 0.0, float(spec.settings.get("length", 40))
    return _LIMITS.get(spec.env.removeprefix("noisy-"), ANY)
