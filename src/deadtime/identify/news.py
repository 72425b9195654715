"""The news (innovation) of an action: what the observation and earlier actions do not predict.

A controller's action depends on what happened before, so it is related to changes that it does not
cause. Its news is not: nothing before the action is related to it, whatever the system does. So the
news tells of delays even where the one-step model misses much of the system.
"""

from __future__ import annotations

import numpy as np

from deadtime.identify.features import Form, state_features
from deadtime.identify.lag_scores import FOLDS, ridge_fits
from deadtime.identify.transitions import Transitions
from deadtime.identify.trees import held_out_predictions

_PAST = 3
"""The number of earlier actions that a controller may depend on."""
_MOST_COLUMNS = 64
"""The largest number of columns of a controller's model by trees; wider ones are linear."""
_RIDGE = 1e-4


def action_news(data: Transitions, form: Form) -> np.ndarray:
    """Return the news of the action of each row, (n, u).

    The model of the controller is linear in the numbers or in the features of the state, whichever
    predicts better; trees explain what is left. Each row is predicted by a model of other rows.
    """
    past = np.moveaxis(data.lagged[1 : _PAST + 1], 0, 1).reshape(data.rows, -1)
    numbers = np.concatenate([data.state, data.before, past], axis=1)
    features = np.concatenate([state_features(data, form), data.before, past], axis=1)
    ones = np.ones((data.rows, 1))
    # A controller is a function of the present, so rows of all times may stand in each fold.
    parts = [np.arange(data.rows) % FOLDS == fold for fold in range(FOLDS)]
    each = [
        _held_out(columns, data.lagged[0], parts)
        for columns in (np.concatenate([ones, numbers], axis=1), features)
    ]
    left = min(each, key=lambda one: float((one**2).sum()))
    if numbers.shape[1] > _MOST_COLUMNS:
        return left
    return left - held_out_predictions(numbers, left, parts)


def _held_out(columns: np.ndarray, targets: np.ndarray, parts: list[np.ndarray]) -> np.ndarray:
    """Return the residuals of ridge regressions, each row held out once."""
    left = np.empty_like(targets)
    for test in parts:
        left[test] = (targets - columns @ ridge_fits(columns, targets, ~test, _RIDGE))[test]
    return left
