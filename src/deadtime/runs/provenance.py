"""Provenance: the date, the versions and the machine that a record was made with."""

from __future__ import annotations

import os
import platform
import re
import tomllib
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from deadtime._support import files
from deadtime._support.version import __version__

_LARGEST_REFS = 2**26
_PACKAGES = (
    "jax",
    "optax",
    "numba",
    "numpy",
    "scipy",
    "gymnasium",
    "gymnax",
    "mujoco",
    "ale-py",
)


def current_provenance(device: str = "") -> dict[str, Any]:
    """Return the date, the versions and the machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": dict(_versions()),
        "commit": _commit(),
        "device": device or f"CPU, {os.cpu_count()} cores",
    }


@cache
def _versions() -> dict[str, str]:
    """Return the versions of the installed packages that results depend on."""
    found = {"deadtime": __version__}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that holds this code, or None if there is none."""
    return commit_of(Path(__file__).parents[3])


def commit_of(top: Path) -> str | None:
    """Return the commit that the checkout of deadtime at `top` is at, or None if there is none.

    Git's files are read and git is not run, so no hook or setting of a repository takes effect.
    Whether files were changed since the commit is therefore not known.
    """
    try:
        if tomllib.loads(_text(top / "pyproject.toml"))["project"]["name"] != "deadtime":
            return None
        folder = top / ".git"
        if folder.is_file():  # of a worktree or a submodule: it names the folder
            folder = top / _text(folder).removeprefix("gitdir:").strip()
        head = _text(folder / "HEAD").strip()
        shared = (
            folder / _text(folder / "commondir").strip()
            if (folder / "commondir").exists()
            else folder
        )
        found = (
            _resolved(head.removeprefix("ref:").strip(), shared)
            if head.startswith("ref:")
            else head
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", found) else None


def _resolved(ref: str, folder: Path) -> str:
    """Return the commit of a branch: git keeps it in its own file, or in a list of branches."""
    if not re.fullmatch(r"refs(/[\w.@+-]+)+", ref) or ".." in ref:
        return ""
    with suppress(FileNotFoundError):
        return _text(folder / ref).strip()
    lines = _text(folder / "packed-refs").splitlines()
    return next((line.partition(" ")[0] for line in lines if line.partition(" ")[2] == ref), "")


def _text(path: Path) -> str:
    return files.plain(path, _LARGEST_REFS).decode()
