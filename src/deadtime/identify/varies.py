"""Whether a delay varies: a law of ages beside the best constant delay."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from deadtime.identify.best_lag import BestLag
from deadtime.identify.evidence import tempered
from deadtime.identify.reasons import LEAST_ROWS
from deadtime.identify.shares import shows_other_ages
from deadtime.identify.transitions import Transitions
from deadtime.identify.varying_ages import LEAST_OTHER, Ages, varying_ages

_SURE = 5.0
"""Log-odds above which a law of ages replaces a constant delay."""
_LEAST_CERTAINTY = 0.1
"""The least `Ages.certainty` of a log that shows a delay that varies."""
_LEAST_SEEN = 2 * LEAST_ROWS
"""A delay varies only if this many steps have an action of its longest age in their episode."""
_RARE = 0.02
"""Ages with a smaller share are not counted as the longest."""


def seems_to_vary(ages: Ages, rival: np.ndarray, lag: BestLag, data: Transitions) -> bool:
    """Return whether a law of several ages explains the log better than a constant delay.

    A mixture of models also fits what the one-step model can't. So it must explain the log better
    than a mixture in which all ages but one have the actions of another part of the log.
    """
    penalty = ages.chain.numbers / 2 * math.log(data.rows)
    longest = int(np.flatnonzero(ages.law > _RARE)[-1])
    seen = data.known[longest]  # before that, steps execute actions that the log does not have
    sure = ages.certainty > _LEAST_CERTAINTY and seen.sum() >= _LEAST_SEEN
    if not sure or 1 - float(ages.law.max()) < LEAST_OTHER:
        return False
    if tempered((ages.evidence - rival) * seen) - penalty < _SURE:
        return False
    elsewhere = np.roll(data.lagged, data.rows // 2, axis=1)
    elsewhere[lag.best] = data.lagged[lag.best]
    placebo = varying_ages(replace(data, lagged=elsewhere), lag.form)
    return bool(tempered((ages.evidence - placebo.evidence) * seen) - penalty > _SURE)


def news_varies(ages: Ages, lag: BestLag, data: Transitions) -> bool:
    """Return whether what is new in the actions of other ages has an effect too."""
    second = int(ages.law.argsort()[-2])
    known = tempered(lag.news_gains[second]) > _SURE
    return bool(known and shows_other_ages(data, lag.form, lag.news, ages.law))
