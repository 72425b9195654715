"""Predictive log-likelihood of each lag: how much better the model predicts with that action.

A model with lag k predicts the change of row t from the state and the action chosen k steps before.
Its score is the log-likelihood of held-out rows, less that of the model without actions. Rows whose
episode has no action of that lag count 0, so lags are compared on the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deadtime.identify.features import Form, fits, shifted, state_features, with_gain
from deadtime.identify.transitions import Transitions

FOLDS = 5
FREEDOM = 4.0
"""Degrees of freedom of the Student law of residuals; its heavy tails allow for impacts."""
FLOOR = 1e-3
"""The smallest scale of residuals, in standard deviations of the change."""
_SCALE_STEPS = 6
_CHANGES: tuple[dict[str, Any], ...] = (
    {"waves": True},
    {"gain": True},
    {"squares": True},
    {"squares": True, "cubes": True},
    {"before": True},
    {"ridge": 1e-6},
    {"ridge": 3e-2},
)
"""Changes of the form that the search tries, in order."""


@dataclass(frozen=True)
class LagScores:
    """Scores of lags 0 … K for each row, (K + 1, n), and the form of their model."""

    form: Form
    gains: np.ndarray
    base: float
    """Log-likelihood of the model without actions, over all rows."""

    @property
    def totals(self) -> np.ndarray:
        """The score of each lag, summed over rows."""
        return self.gains.sum(1)


def best_scores(data: Transitions) -> LagScores:
    """Return the scores under the model form whose best lag predicts best.

    The search begins with the simplest form and keeps each change that predicts better.
    """
    best = lag_scores(data, Form())
    for change in _CHANGES:
        form = replace(best.form, **change)
        if fits(data, form):
            found = lag_scores(data, form)
            best = max(best, found, key=lambda one: one.base + one.totals.max())
    return best


def lag_scores(data: Transitions, form: Form) -> LagScores:
    """Return the scores of all lags under one model form, each row held out once."""
    phi = state_features(data, form)
    lagged = with_gain(data.lagged, data, form)
    gains = np.zeros((data.lags, data.rows))
    base = 0.0
    for test in folds(data.rows):
        rest, acted = remainders(phi, data.change, lagged, data.free & ~test, form.ridge)
        train = data.known & ~test
        weights = ridge_fits(acted, rest, train, form.ridge)
        left = rest - acted @ weights
        seen = data.known[:, test]
        with_action = log_density(left[:, test], scales(left, train))
        without = log_density(rest[test], scales(rest, train))
        enough = train.sum(1, keepdims=True) >= 2 * FOLDS
        gains[:, test] = np.where(seen & enough, with_action - without, 0.0)
        held = data.free & test
        base += float(log_density(rest[held], scales(rest, data.free & ~test)).sum())
    return LagScores(form, gains, base)


def news_gains(data: Transitions, form: Form, news: np.ndarray) -> np.ndarray:
    """Return the gains of what is new in the action of each lag, (K + 1, n).

    The model also has what was expected of the action, the state from which it was chosen, and the
    action before it. So an action counts only by its `news`. That part can't be related to a
    change before its effect, even if the one-step model misses much.
    """
    phi = state_features(data, form)
    acted = with_gain(data.lagged, data, form)
    expected = data.lagged[0] - news
    gains = np.zeros((data.lags, data.rows))
    for k in range(data.lags):
        shown = data.known[k] & (data.in_stretch >= k)
        chosen_from = shifted(phi[:, 1:], k) if k else phi[:, :0]
        before = data.lagged[min(k + 1, data.lags - 1)] if data.lags > 1 else phi[:, :0]
        controls = np.concatenate([phi, chosen_from, before, shifted(expected, k)], axis=1)
        for test in folds(data.rows):
            train = shown & ~test
            if train.sum() < 2 * FOLDS:
                continue
            rest, news = remainders(controls, data.change, acted[k][None], train, form.ridge)
            left = rest - news[0] @ ridge_fits(news[0], rest, train, form.ridge)
            held = shown & test
            gains[k, held] = log_density(left[held], scales(left, train)) - log_density(
                rest[held], scales(rest, train)
            )
    return gains


def folds(rows: int) -> list[np.ndarray]:
    """Return the masks of the rows that each fold holds out: contiguous blocks."""
    place = np.arange(rows) * FOLDS // rows
    return [place == fold for fold in range(FOLDS)]


def remainders(
    phi: np.ndarray, change: np.ndarray, lagged: np.ndarray, train: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of changes and actions that the state does not explain.

    They are the residuals of a fit on the rows of `train`. By the theorem of Frisch, Waugh and
    Lovell a regression of these remainders has the coefficients of the regression on state and
    actions together.
    """
    lags, rows, width = lagged.shape
    flat = np.moveaxis(lagged, 0, 1).reshape(rows, -1)
    targets = np.concatenate([change, flat], axis=1)
    weights = ridge_fits(phi, targets, train, ridge)
    left = targets - phi @ weights
    acted = left[:, change.shape[1] :].reshape(rows, lags, width)
    return left[:, : change.shape[1]], np.ascontiguousarray(np.moveaxis(acted, 1, 0))


def ridge_fits(
    features: np.ndarray, targets: np.ndarray, rows: np.ndarray, ridge: float
) -> np.ndarray:
    """Return the coefficients of ridge regressions on the chosen `rows`, batched over lags."""
    chosen = np.where(rows[..., None], features, 0.0)
    across = np.swapaxes(chosen, -1, -2)
    penalty = ridge * rows.sum(-1)[..., None, None] + 1e-9
    gram = across @ features + penalty * np.eye(features.shape[-1])
    return np.linalg.solve(gram, across @ targets)


def scales(residuals: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the maximum-likelihood scale of the Student law of each column.

    `rows` chooses rows, or has their weights. The shape is (…, 1, c), for rows of shape (…, n).
    """
    share = rows / np.maximum(rows.sum(-1, keepdims=True), 1e-9)
    squares = residuals**2
    scale = np.maximum(share[..., None, :] @ squares, FLOOR**2)
    for _ in range(_SCALE_STEPS):
        ratio = squares / scale
        ratio += FREEDOM
        np.divide(squares, ratio, out=ratio)
        scale = np.maximum((FREEDOM + 1) * (share[..., None, :] @ ratio), FLOOR**2)
    return np.sqrt(scale)


def log_density(residuals: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the log-density of each row, without the constant of the Student law."""
    ratio = residuals / scale
    each = np.log(scale) + (FREEDOM + 1) / 2 * np.log1p(ratio**2 / FREEDOM)
    return -each.sum(-1)
