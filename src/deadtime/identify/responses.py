"""The joint response to the actions of all lags: one regression, with a coefficient for each lag.

If step t executes the action of age z with probability p_z, the expected change is linear in the
actions of all lags, with coefficients p_z B. So the coefficients of a constant delay stand at one
lag. They spread over two adjacent lags if the delay is not a whole number of steps, and over more
if it varies.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from deadtime.identify.evidence import blocks_of
from deadtime.identify.features import Form, shifted, state_features, with_gain
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


@dataclass(frozen=True)
class Fraction:
    """A delay of `lag` whole steps and a `share` of a step, with the standard error of the share.

    For the fraction `share` of each step, the action of age `lag` + 1 is still executed.
    """

    lag: int
    share: float
    error: float

    @property
    def steps(self) -> float:
        """The delay in steps."""
        return self.lag + self.share


def fraction_between(data: Transitions, form: Form, lag: int, feedback: bool = False) -> Fraction:
    """Return the share of the action of age `lag` + 1 beside that of age `lag`.

    Outputs are weighted by how much of their variance actions explain. So velocities count more
    than positions, on which the late part of a step has less effect. Under `feedback` the model
    also has the states from which the actions were chosen: only what is new in an action counts.
    """
    phi = state_features(data, form)
    pair = [with_gain(data.lagged[k], data, form) for k in (lag, lag + 1)]
    chosen_from = [shifted(phi[:, 1:], k) for k in (lag, lag + 1) if k and feedback]
    controls = np.concatenate([phi, *chosen_from], axis=1)
    features = np.concatenate([controls, *pair], axis=1)
    use = data.known[lag + 1]
    if feedback:
        use = use & (data.in_stretch > lag)
    features, change = features[use], data.change[use]
    block = blocks_of(len(features))
    count = int(block[-1]) + 1
    bounds = np.searchsorted(block, np.arange(count + 1))
    spans = [slice(*ends) for ends in pairwise(bounds.tolist())]
    grams = np.stack([features[one].T @ features[one] for one in spans])
    sides = np.stack([features[one].T @ change[one] for one in spans])
    whole_gram, whole_side = grams.sum(0), sides.sum(0)
    penalty = RIDGE * len(features) * np.eye(features.shape[1])
    left = np.stack([whole_gram, *(whole_gram - grams)]) + penalty
    right = np.stack([whole_side, *(whole_side - sides)])
    weights = np.linalg.solve(left, right)[:, controls.shape[1] :]
    early, late = np.split(weights, 2, axis=1)
    both = early + late
    shares = (late * both).sum((1, 2)) / np.maximum((both * both).sum((1, 2)), 1e-300)
    error = np.sqrt((count - 1) / count * ((shares[1:] - shares[1:].mean()) ** 2).sum())
    return Fraction(lag, float(np.clip(shares[0], 0.0, 1.0)), float(error))
