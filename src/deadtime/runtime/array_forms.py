"""The kind and shape that an array must have, without the array."""

from __future__ import annotations

import numpy as np


class Form:
    """A kind of number and a shape, for `check_fit`; it takes no memory, however large."""

    def __init__(self, kind: type[np.generic], *shape: int):
        """`kind` is NumPy's name of the numbers."""
        self.dtype = np.dtype(kind)
        self.shape = shape
        self.ndim = len(shape)
