"""A delay with a fraction of a step: whether the log shows it, and its interval."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from deadtime.identify.best_lag import BestLag
from deadtime.identify.features import Form, with_gain
from deadtime.identify.reasons import LEAST_ROWS
from deadtime.identify.shares import Fraction, fraction_near
from deadtime.identify.transitions import Transitions
from deadtime.identify.varying_ages import constant_evidence

MOST_ERROR = 0.05
"""The largest standard error of a known fraction of a step; three of them are 0.15 step."""
_LEAST_SHARE = 0.08
"""The smallest fraction of a step that is reported; a slightly wrong model shows smaller ones."""
_WIDE = 3
"""With an interval of whole delays of this width or more, no fraction of a step is estimated."""
_UNKNOWN_PART = (1.0, 0.5)
"""Steps before and after a whole delay that the interval has if the fraction can't be estimated.
A position shows the effect of an action about half a step late."""


def part_of_a_step(
    data: Transitions,
    mixed: Transitions,
    lag: BestLag,
    interval: tuple[int, int],
    constant: np.ndarray,
) -> tuple[Fraction | None, np.ndarray]:
    """Return the delay with its fraction of a step, None if the log can't show it.

    The second result is the log-density of each row under the best delay that may have a fraction.
    """
    if interval[1] - interval[0] >= _WIDE:
        return None, constant
    part = fraction_near(data, lag.form, lag.news, interval)
    if part is not None and not interval[0] - 1 <= part.steps <= interval[1] + 1:
        part = None
    rival = (
        constant
        if part is None
        else max(constant, mixed_evidence(mixed, lag.form, part), key=np.sum)
    )
    for low in range(interval[0] - 1, interval[1] + 1):
        if 0 <= low < data.lags - 1 and data.known[low + 1].sum() >= LEAST_ROWS:
            rival = max(rival, _apart_evidence(mixed, lag.form, low), key=np.sum)
    return part, rival


def mixed_evidence(data: Transitions, form: Form, part: Fraction) -> np.ndarray:
    """Return the log-density of each row if each step mixes two actions by their shares."""
    early, late = data.lagged[part.lag], data.lagged[part.lag + 1]
    mixed = (1 - part.share) * early + part.share * late
    return constant_evidence(data, form, mixed, data.known[part.lag + 1])


def _apart_evidence(data: Transitions, form: Form, lag: int) -> np.ndarray:
    """Return the log-density of each row if both actions of a step have effects of their own.

    The late part of a step moves a position less than a speed, so one share does not fit all
    outputs. The change before may hide that part, since it tells of the action before: without it
    the model is as good if the observation has the speeds. Numbers that the model has beside those
    of a whole delay are paid for.
    """
    both = np.concatenate([data.lagged[lag], data.lagged[lag + 1]], axis=-1)
    actions = with_gain(data.lagged[lag], data, form).shape[-1]
    found = []
    for other in {form, replace(form, before=False)}:
        evidence = constant_evidence(data, other, both, data.known[lag + 1])
        more = actions - (form.before - other.before) * data.before.shape[1]
        penalty = more * data.change.shape[1] / 2 * math.log(data.rows)
        found.append(evidence - max(penalty, 0.0) / data.rows)
    return max(found, key=np.sum)


def with_part(
    whole: float, ends: tuple[float, float], part: Fraction | None, normal: float
) -> tuple[float, tuple[float, float]]:
    """Return the delay in steps with its interval; a whole delay if the log shows no fraction.

    `ends` is the interval of whole delays. The interval is `normal` standard errors to each side.
    """
    if part is None:
        return whole, (max(ends[0] - _UNKNOWN_PART[0], 0.0), ends[1] + _UNKNOWN_PART[1])
    if part.error <= MOST_ERROR:
        whole = float(round(part.steps))
        if abs(part.steps - whole) > max(_LEAST_SHARE, 3 * part.error):
            whole = part.steps
    half = normal * part.error
    return whole, (max(min(part.steps - half, whole), 0.0), max(part.steps + half, whole))


def part_unknown(ends: tuple[float, float]) -> str:
    """Return the warning that the log does not show the fraction of a step."""
    return (
        f"the fraction of a step is not known: {ends[0]:.2f} to {ends[1]:.2f} steps fit the log; "
        "if it matters, log more steps, more dither, and speeds"
    )
