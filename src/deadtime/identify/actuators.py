"""Delays of single actuators, where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from deadtime.identify.evidence import interval_of, posterior_of, tempered
from deadtime.identify.features import Form
from deadtime.identify.lag_scores import lag_scores
from deadtime.identify.responses import responses
from deadtime.identify.transitions import Transitions

_SURE = 5.0
"""Log-odds above which actuators differ."""


def actuator_lags(data: Transitions, form: Form, common: int) -> tuple[int, ...] | None:
    """Return the lag of each action number, or None if they share the lag `common`.

    The largest response of each actuator proposes its lag. The proposal must then predict better.
    """
    lags = np.full(data.lagged.shape[2], common)
    proposed = responses(data, form, np.arange(data.lags)).actuator_lags
    if len(lags) < 2 or (proposed == common).all():
        return None
    before = _gains(data, form, lags)
    for place in np.flatnonzero(proposed != common):
        moved = lags.copy()
        moved[place] = proposed[place]
        after = _gains(data, form, moved)
        if tempered(after - before) > _SURE:
            lags, before = moved, after
    return None if (lags == common).all() else tuple(int(one) for one in lags)


def are_sure(data: Transitions, form: Form, lags: Sequence[int], level: float) -> bool:
    """Return whether the lag of each actuator is sure, given those of the others.

    The posterior of a common lag is wide where actuators differ, and says nothing of that.
    """
    known = np.repeat(data.known[-1][None], data.lags, axis=0)
    for place, lag in enumerate(lags):
        lagged = np.repeat(moved_actions(data, lags)[None], data.lags, axis=0)
        lagged[..., place] = data.lagged[..., place]
        gains = lag_scores(replace(data, lagged=lagged, known=known), form).gains
        posterior = posterior_of(gains)
        low, high = interval_of(posterior, level)
        if posterior.argmax() != lag or high > low:
            return False
    return True


def moved_actions(data: Transitions, lags: Sequence[int]) -> np.ndarray:
    """Return the actions of each row with the lag of each action number, (n, u)."""
    columns = [data.lagged[lag, :, place] for place, lag in enumerate(lags)]
    return np.stack(columns, axis=-1)


def _gains(data: Transitions, form: Form, lags: np.ndarray) -> np.ndarray:
    known = data.known[-1][None]
    moved = replace(data, lagged=moved_actions(data, lags.tolist())[None], known=known)
    return lag_scores(moved, form).gains[0]
