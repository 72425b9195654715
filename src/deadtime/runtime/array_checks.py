"""Checks of the dtype and shape of a policy's arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from deadtime._support.files import check_fit

NO_FIT = "the layers of a policy fit each other and its environment; these do not: train it again"
"""The error message for arrays of mismatched shapes."""


class Form:
    """A dtype and a shape, which `check_fit` compares with an array."""

    def __init__(self, kind: type[np.generic], *shape: int):
        """Take a NumPy scalar type and the size of each axis."""
        self.dtype = np.dtype(kind)
        self.shape = shape
        self.ndim = len(shape)


def check_arrays(
    arrays: Mapping[str, np.ndarray],
    forms: Mapping[str, Form],
    of_any_length: Collection[str] = (),
) -> None:
    """Raise if an array is missing or not of its form.

    The first axis of the arrays `of_any_length` is not checked.
    """
    missing_first = {name: forms[name] for name in sorted(forms, key=lambda name: name in arrays)}
    try:
        check_fit(arrays, missing_first, of_any_length)
    except ValueError as error:
        raise ValueError(f"{error}: train it again") from None


def check_layers(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise if an array of a network is missing, empty, or of another dtype or shape."""
    check_arrays(arrays, {name: Form(np.float32, *shape) for name, shape in shapes.items()})
    if not shapes or any(0 in shape for shape in shapes.values()):
        raise ValueError(NO_FIT)


def size_of(arrays: Mapping[str, np.ndarray], name: str, axis: int) -> int:
    """Return the size of one axis of an array, or 0 if there is no such array or axis."""
    shape = arrays[name].shape if name in arrays else ()
    return shape[axis] if axis < len(shape) else 0


def single(arrays: Mapping[str, np.ndarray], *starts: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with `starts`, as C-contiguous float32."""
    chosen = [name for name in arrays if name.startswith(starts)]
    return {name: np.ascontiguousarray(arrays[name], np.float32) for name in chosen}
