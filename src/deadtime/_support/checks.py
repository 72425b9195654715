"""Checks of numbers that people pass."""

from __future__ import annotations

from operator import index
from typing import Any

_USUAL = {"episodes": 5000, "evaluation_episodes": 100}


def check_count(name: str, value: Any) -> int:
    """Return `value` as an int of at least 1, or say what is wrong with it."""
    try:
        count = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        count = -1
    if not 1 <= count < 2**31:
        raise ValueError(
            f"{name} is a whole number, 1 or more; got {value!r}: pass one such as {_USUAL.get(name, 5)}"
        )
    return count
