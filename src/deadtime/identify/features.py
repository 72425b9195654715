"""Features of one-step models: functions of the state, and of the state and an action."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from deadtime.identify.transitions import Transitions


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


def state_features(data: Transitions, form: Form) -> np.ndarray:
    """Return the features of the state, (n, p)."""
    parts = [np.ones((data.rows, 1)), data.state]
    if form.squares:
        first, second = np.triu_indices(data.state.shape[1])
        parts.append(_scaled(data.state[:, first] * data.state[:, second]))
    if form.cubes:
        for several in combinations_with_replacement(range(data.state.shape[1]), 3):
            parts.append(_scaled(data.state[:, several].prod(1, keepdims=True)))
    if form.waves:
        parts += [_scaled(np.sin(data.angles)), _scaled(np.cos(data.angles))]
    if form.before:
        parts.append(data.before)
    return np.concatenate(parts, axis=1)


def shifted(columns: np.ndarray, lag: int) -> np.ndarray:
    """Return the columns `lag` rows before each row; the first rows repeat the first one."""
    return columns[np.maximum(np.arange(len(columns)) - lag, 0)]


def _scaled(columns: np.ndarray) -> np.ndarray:
    spread = columns.std(0)
    return (columns - columns.mean(0)) / np.where(spread > 0, spread, 1.0)


def with_gain(actions: np.ndarray, data: Transitions, form: Form) -> np.ndarray:
    """Return the features of actions (…, n, u): the actions, and their products with the state."""
    if not form.gain:
        return actions
    products = actions[..., None] * data.state[:, None, :]
    width = products.shape[-2] * products.shape[-1]
    return np.concatenate([actions, products.reshape(*products.shape[:-2], width)], axis=-1)
