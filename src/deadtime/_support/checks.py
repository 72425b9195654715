"""Checks of numbers in arguments."""

from __future__ import annotations

from operator import index

_USUAL = {"episodes": 5000, "evaluation_episodes": 100}
"""The number that an error message proposes, by argument."""


def check_count(name: str, value: object) -> int:
    """Return `value` as an int, or raise if it is not a whole number, 1 or more."""
    try:
        count = -1 if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if not 1 <= count < 2**31:
        such = _USUAL.get(name, 5)
        raise ValueError(
            f"{name} is a whole number, 1 or more; got {value!r}: pass one such as {such}"
        )
    return count
