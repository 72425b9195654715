"""Delays of single actuators, where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from deadtime.identify.evidence import interval_of, posterior_of, tempered
from deadtime.identify.features import Form, shifted
from deadtime.identify.lag_scores import lag_scores
from deadtime.identify.responses import responses
from deadtime.identify.transitions import Transitions

_SURE = 5.0
"""Log-odds above which actuators differ."""


def actuator_lags(
    data: Transitions, form: Form, common: int, news: np.ndarray | None = None
) -> tuple[int, ...] | None:
    """Return the lag of each action number, or None if they share the lag `common`.

    The largest response of each actuator proposes its lag. The proposal must then predict better.
    With `news`, under feedback, the news of the actions must predict better by it too.
    """
    lags = np.full(data.lagged.shape[2], common)
    proposed = responses(data, form, np.arange(data.lags)).actuator_lags
    if len(lags) < 2 or (proposed == common).all():
        return None
    views = [data] if news is None else [data, _with_news(data, news)]
    before = [_gains(view, form, lags) for view in views]
    for place in np.flatnonzero(proposed != common):
        moved = lags.copy()
        moved[place] = proposed[place]
        after = [_gains(view, form, moved) for view in views]
        if min(tempered(b - a) for a, b in zip(before, after, strict=True)) > _SURE:
            lags, before = moved, after
    return None if (lags == common).all() else tuple(int(one) for one in lags)


def _with_news(data: Transitions, news: np.ndarray) -> Transitions:
    """Return the data with the news of each action in its place."""
    lagged = np.stack([shifted(news, lag) for lag in range(data.lags)])
    place = data.in_stretch >= np.arange(data.lags)[:, None]
    return replace(data, lagged=lagged, known=data.known & place)


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
