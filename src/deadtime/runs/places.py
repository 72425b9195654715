"""Places of records: folders and URLs."""

from __future__ import annotations

from pathlib import Path


def is_url(place: str | Path) -> bool:
    """Return whether a place is a URL rather than a path."""
    return "://" in str(place)
