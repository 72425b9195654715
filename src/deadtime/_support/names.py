"""Names in messages and help: lists of them, and the known name that a user probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SYNONYMS = (
    ("steps", "episodes"),
    ("discount", "gamma"),
    ("lr", "alpha", "step_size", "learning_rate"),
    ("eps", "epsilon", "epsilon_floor"),
    ("batch", "batch_size"),
    ("replay_transitions", "buffer_size"),
    ("target_rate", "tau"),
)
"""Names of one thing, here or elsewhere."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown name: the known one with its meaning, or else the closest."""
    known = [*names]
    same = [one for group in _SYNONYMS if name in group for one in group if one in known]
    close = same or get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def listed(names: Iterable[str], last: str = "and") -> str:
    """Return names as a list of a sentence: `a, b and c`."""
    *first, end = names
    return f"{', '.join(first)} {last} {end}" if first else end
