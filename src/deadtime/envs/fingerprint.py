"""Fingerprints of functions and objects: digests of their code and of all values that they hold.

Equal fingerprints mean equal code and equal values. The converse may fail: a value that pickles
differently in each process gives another fingerprint. Its run is then trained again, which costs
time but mixes up no results.
Code of installed packages counts by its name; all other code counts by its content.
"""

from __future__ import annotations

import dis
import hashlib
import io
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from types import (
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

_HELD_BY_EVERY_CLASS = (GetSetDescriptorType, MemberDescriptorType)
_PYTHON = Path(sysconfig.get_path("stdlib")).resolve()
_PACKAGES = {"site-packages", "dist-packages"}
"""The names of folders of installed packages."""


def fingerprint(thing: object) -> str:
    """Return twelve hexadecimal digits that stand for the code and the values of `thing`."""
    try:
        return _Fingerprint({}).digest(thing)[:12]
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as problem:
        raise ValueError(
            "a run is identified by the code of its environment and the values in it; "
            f"{thing!r:.200} holds one that can't be pickled ({problem}): pass such values by "
            "name in env_kwargs, or register the environment with Gymnasium and pass its id"
        ) from problem


class _Fingerprint:
    """The digests of one object and of everything in it."""

    def __init__(self, seen: dict[int, tuple[int, Any]]):
        self._seen = seen

    def digest(self, thing: object) -> str:
        """Return the digest of the pickle of `thing`, with code by content."""
        file = io.BytesIO()
        pickler = _Pickler(file, protocol=4)
        pickler.describe = self._described
        pickler.dump(thing)
        return hashlib.sha256(file.getvalue()).hexdigest()

    def _described(self, one: object) -> str | None:
        """Return a text in place of an object; None if the pickle of the object identifies it."""
        if isinstance(one, str):
            return f"text {one}"  # equal texts give equal bytes, whether they are one object or two
        if isinstance(one, FunctionType | type):
            return self._once(one)
        if isinstance(one, set | frozenset):
            return f"set {sorted(map(self.digest, one))}"
        for kind, parts_of in _PARTS.items():
            if isinstance(one, kind):
                return f"{kind.__name__} {self.digest(parts_of(one))}"
        if callable(one) and isinstance(inner := getattr(one, "__wrapped__", None), FunctionType):
            return f"wrapped {self.digest(inner)}"  # such as a compiled function
        return None

    def _once(self, one: FunctionType | type) -> str:
        """Return the text of a function or class: its name or, the first time, its content."""
        if _is_installed(one.__module__) and _is_found(one):
            return f"named {one.__module__}.{one.__qualname__}"
        if id(one) in self._seen:
            return f"again {self._seen[id(one)][0]}"
        self._seen[id(one)] = len(self._seen), one
        parts = _parts_of_class(one) if isinstance(one, type) else _parts_of_function(one)
        return f"{type(one).__name__} {self.digest(parts)}"


class _Pickler(pickle.Pickler):
    """A pickler that writes a text in place of some objects."""

    describe: Any

    def persistent_id(self, obj: object) -> str | None:
        """Return the text in place of an object."""
        return self.describe(obj)


def _is_installed(module: str | None) -> bool:
    """Return whether a module belongs to Python, to an installed package or to deadtime."""
    top = (module or "").partition(".")[0]
    if top in ("deadtime", "builtins"):
        return True
    if top == "__main__" or top not in sys.modules:
        return False
    file = getattr(sys.modules[top], "__file__", None)
    if file is None:
        return top in sys.stdlib_module_names
    path = Path(file).resolve()
    return path.is_relative_to(_PYTHON) or not _PACKAGES.isdisjoint(path.parts)


def _is_found(one: FunctionType | type) -> bool:
    """Return whether a function or a class is what its module has under its name."""
    there: Any = sys.modules.get(one.__module__)
    for name in one.__qualname__.split("."):
        there = getattr(there, name, None)
    return there is one


def _parts_of_code(code: CodeType) -> tuple[Any, ...]:
    """Return what decides the behaviour of code, without its place in a file."""
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_code, code.co_consts, *names, *counts, code.co_exceptiontable


_PARTS: dict[type, Callable[[Any], Any]] = {
    ModuleType: lambda one: one.__name__,
    CodeType: _parts_of_code,
    MappingProxyType: dict,
    property: lambda one: (one.fget, one.fset, one.fdel),
    cached_property: lambda one: one.func,
    staticmethod: lambda one: one.__func__,
    classmethod: lambda one: one.__func__,
}
"""For each kind that pickle can't hold: the function that returns what identifies an object."""


def _parts_of_function(function: FunctionType) -> tuple[Any, ...]:
    """Return the code of a function, its defaults, its captured values and the globals it reads."""
    captured = [_content(cell) for cell in function.__closure__ or ()]
    space = function.__globals__
    names = sorted({*_globals_of(function.__code__)} & space.keys())
    read = [(name, space[name]) for name in names]
    defaults = function.__defaults__, function.__kwdefaults__
    return function.__code__, *defaults, captured, read


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _globals_of(code: CodeType) -> Iterator[str]:
    """Yield the names of globals that code reads, also in the functions inside it."""
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield one.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _parts_of_class(kind: type) -> tuple[Any, ...]:
    """Return the name, the bases and the members of a class."""
    members = [
        (name, member)
        for name, member in sorted(vars(kind).items())
        if not isinstance(member, _HELD_BY_EVERY_CLASS)
        and (isinstance(member, FunctionType) or not name.startswith(("__", "_abc_")))
    ]
    return kind.__qualname__, kind.__bases__, members
