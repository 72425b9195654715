"""The joint response to the actions of all lags: one regression, with a coefficient for each lag.

If step t executes the action of age z with probability p_z, the expected change is linear in the
actions of all lags, with coefficients p_z B. So the coefficients of a constant delay stand at one
lag. They spread over two adjacent lags if the delay is not a whole number of steps, and over more
if it varies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadtime.identify.features import Form, state_features
from deadtime.identify.transitions import Transitions

RIDGE = 1e-4


@dataclass(frozen=True)
class Responses:
    """Coefficients of the actions of each lag, (K + 1, u, c), in standardised units."""

    coefficients: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """The share of each lag in the whole response, at least 0, summing to 1."""
        whole = self.coefficients.sum(0)
        parts = np.clip((self.coefficients * whole).sum((1, 2)), 0.0, None)
        total = parts.sum()
        return parts / total if total > 0 else np.full(len(parts), 1 / len(parts))

    @property
    def actuator_lags(self) -> np.ndarray:
        """The lag at which each action number has its largest response, (u,)."""
        return (self.coefficients**2).sum(2).argmax(0)


def responses(data: Transitions, form: Form, lags: np.ndarray) -> Responses:
    """Return the joint response to the actions of `lags`."""
    phi = state_features(data, form)
    actions = np.moveaxis(data.lagged[lags], 0, 1).reshape(data.rows, -1)
    weights = _fit(np.concatenate([phi, actions], axis=1), data.change)
    shape = (len(lags), data.lagged.shape[2], data.change.shape[1])
    return Responses(weights[phi.shape[1] :].reshape(shape))


def _fit(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    gram = features.T @ features
    gram[np.diag_indices_from(gram)] += RIDGE * len(features)
    return np.linalg.solve(gram, features.T @ targets)
