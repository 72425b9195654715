"""Names of a package that are imported on first use, because they need an extra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from deadtime._support.extras import extras_needed


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of `package`, which imports each name from its module."""

    def imported(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with extras_needed("learn"):
            return getattr(import_module(modules[name]), name)

    return imported
