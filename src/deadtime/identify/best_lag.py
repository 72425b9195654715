"""The constant delay that explains a log best, by two scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadtime.identify.evidence import posterior_of, tempered
from deadtime.identify.features import Form
from deadtime.identify.lag_scores import LagScores, news_gains
from deadtime.identify.news import action_news
from deadtime.identify.transitions import Transitions


@dataclass(frozen=True)
class BestLag:
    """The constant delay that explains the log best."""

    form: Form
    posterior: np.ndarray
    best: int
    effect: float
    """Calibrated log-odds against no effect of actions."""
    news: np.ndarray
    """What is new in the action of each row, (n, u)."""
    news_gains: np.ndarray
    """The gains of what is new in the action of each lag, (K + 1, n)."""


def best_lag(data: Transitions, scores: LagScores) -> BestLag:
    """Return the most probable lag; its posterior is the mean of the posteriors of two scores.

    The second score uses only the news of each action. If actions are feedback and the model is
    poor, the first score may prefer a wrong lag. The second one then disagrees or shows nothing, so
    the mean is wide.
    """
    news = action_news(data, scores.form)
    gains = news_gains(data, scores.form, news)
    posterior = (posterior_of(scores.gains) + posterior_of(gains)) / 2
    effect = float(tempered(scores.gains[scores.totals.argmax()]))
    return BestLag(scores.form, posterior, int(posterior.argmax()), effect, news, gains)
