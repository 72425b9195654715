"""Features of one-step models: functions of the state, and of the state and an action."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, TypeVar

import numpy as np

from deadtime.identify.transitions import Transitions

ArrayT = TypeVar("ArrayT", bound=Any)


@dataclass(frozen=True)
class Form:
    """The form of a one-step model, which is linear in its features."""

    squares: bool = False
    """Whether products of two state numbers are features, beside the numbers."""
    cubes: bool = False
    """Whether products of three state numbers are features, beside those of two."""
    before: bool = False
    """Whether the previous change is a feature, for observations without velocities."""
    waves: bool = False
    """Whether sine and cosine of the state's numbers are features, for angles in radians."""
    gain: bool = False
    """Whether the effect of an action depends on the state."""
    ridge: float = 1e-3
    """Ridge penalty, for each row and unit variance of a feature."""

    @property
    def label(self) -> str:
        """The form in words."""
        degree = "cubic" if self.cubes else "quadratic" if self.squares else "affine"
        state = f"{degree} in the state"
        waves = ", its sine and cosine" if self.waves else ""
        history = " and the previous change" if self.before else ""
        gain = "gain of actions depends on the state" if self.gain else "constant gain of actions"
        return f"{state}{waves}{history}; {gain}"


_COLUMNS_PER_ROW = 0.2
"""The largest number of features of a model for each row of data."""
_MOST_GAINS = 40
"""The largest number of features of an action."""


def fits(data: Transitions, form: Form) -> bool:
    """Return whether the log is long enough for a model of this form."""
    d = data.state.shape[1]
    u = data.lagged.shape[2]
    products = d * (d + 1) // 2
    of_state = 1 + d * (1 + form.before + 2 * form.waves) + products * form.squares
    of_state += products * (d + 2) // 3 * form.cubes
    of_action = u * (1 + d * form.gain)
    few = not form.gain or of_action <= _MOST_GAINS
    return few and of_state + of_action <= _COLUMNS_PER_ROW * data.rows


def raw_features(state: ArrayT, angles: ArrayT, before: ArrayT, form: Form) -> ArrayT:
    """Return the features of states, (…, p), before products and waves are scaled.

    The arguments are those parts of `Transitions`, as arrays of NumPy or JAX.
    """
    xp = state.__array_namespace__()
    numbers = range(state.shape[-1])
    parts = [xp.ones((*state.shape[:-1], 1), dtype=state.dtype), state]
    for size in [2] * form.squares + [3] * form.cubes:
        places = np.array([*combinations_with_replacement(numbers, size)], int).reshape(-1, size)
        product = state[..., places[:, 0]]
        for column in places.T[1:]:
            product = product * state[..., column]
        parts.append(product)
    if form.waves:
        parts += [xp.sin(angles), xp.cos(angles)]
    if form.before:
        parts.append(before)
    return xp.concat(parts, axis=-1)


def state_features(data: Transitions, form: Form) -> np.ndarray:
    """Return the features of the state, (n, p)."""
    found = raw_features(data.state, data.angles, data.before, form)
    centre, spread = feature_scales(data, form, found)
    return (found - centre) / spread


def feature_scales(data: Transitions, form: Form, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and spread of raw features: 0 and 1, but of products and waves their own."""
    centre, spread = np.zeros(raw.shape[1]), np.ones(raw.shape[1])
    first = 1 + data.state.shape[1]
    last = raw.shape[1] - form.before * data.before.shape[1]
    own = raw[:, first:last].std(0)
    centre[first:last] = raw[:, first:last].mean(0)
    spread[first:last] = np.where(own > 0, own, 1.0)
    return centre, spread


def shifted(columns: np.ndarray, lag: int) -> np.ndarray:
    """Return the columns `lag` rows before each row; the first rows repeat the first one."""
    return columns[np.maximum(np.arange(len(columns)) - lag, 0)]


def with_gain(actions: np.ndarray, data: Transitions, form: Form) -> np.ndarray:
    """Return the features of actions (…, n, u): the actions, and their products with the state."""
    if not form.gain:
        return actions
    products = actions[..., None] * data.state[:, None, :]
    width = products.shape[-2] * products.shape[-1]
    return np.concatenate([actions, products.reshape(*products.shape[:-2], width)], axis=-1)
