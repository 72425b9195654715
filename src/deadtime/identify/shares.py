"""The share of each step that executes the action of each lag: the fraction of a step of a delay.

A delay of m + f steps mixes two actions in each step: the one of age m + 1 for the fraction f, and
the one of age m for the rest. The change of row t is then

    change = F(state) + (1 - f) B action[t - m] + f B action[t - m - 1] + what the model misses.

Under feedback, what the model misses is related to the actions, so a regression is biased. The news
of an action is not: what came before the action can't be related to it. So the news is the
instrument of its action (the method of instrumental variables), whatever F misses. Only the part of
F that the news moves must be right, and that part is small.

Lags beside the two must have no share. What they seem to have shows how wrong the model is, and
counts as an error of the fraction: noise in the sensors, for example, or unlogged speeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from deadtime.identify.evidence import blocks_of
from deadtime.identify.features import Form, shifted, state_features, with_gain
from deadtime.identify.lag_scores import FREEDOM, scales
from deadtime.identify.transitions import Transitions

LEAST_ERROR = 0.03
"""The least standard error of a fraction of a step. The estimate has a small bias, since a position
feels the late part of a step less than a speed."""
_BESIDE = 2
"""The number of lags on each side that must have no share."""
_ROUNDS = 6
_LACKING = 0.5
"""Speeds are lacking if the change before reduces residuals to less than this."""
_RIDGE = 1e-6
_EFFECT_RIDGE = 1e-4
_LEAST_ROWS = 50
_ROWS_PER_COLUMN = 3
_RARE = 0.02
"""Ages with a smaller share are not looked for."""
_SURE = 3.0
"""The number of standard errors by which the share of other ages must exceed 0."""


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


def fraction_near(
    data: Transitions, form: Form, news: np.ndarray, interval: tuple[int, int]
) -> Fraction | None:
    """Return the delay with its fraction of a step, near an interval of whole delays.

    The two lags with the largest shares are chosen. The result is None if the log has too few rows
    or lacks the speeds: a position moves late, which looks like a fraction of a step.
    """
    last = data.lags - 1
    lags = range(max(interval[0] - _BESIDE, 0), min(interval[1] + _BESIDE + 1, last) + 1)
    around = _shares(data, form, news, lags)
    if around is None or len(lags) < 3:
        return None
    values = around[0]
    pairs = values[:-1] + values[1:]
    place = int(pairs.argmax())
    both = _shares(data, form, news, lags[place : place + 2])
    if both is None or pairs[place] <= 0 or _lacks_speeds(data, form, lags[place]):
        return None
    share, error = float(both[0][1]), float(both[1][1])
    beside = np.delete(values, [place, place + 1]) / pairs[place]
    misfit = float(np.sqrt((beside**2).mean()))
    whole = float(np.sqrt(error**2 + misfit**2 + LEAST_ERROR**2))
    return Fraction(lags[place], float(np.clip(share, 0.0, 1.0)), whole)


def shows_other_ages(data: Transitions, form: Form, news: np.ndarray, law: np.ndarray) -> bool:
    """Return whether the news of actions of several ages has an effect.

    If step t executes the action of age z with probability law[z], that is the share of lag z. So
    the largest share must leave about as much to other lags as the law does.
    """
    ages = np.flatnonzero(law > _RARE)
    first, last = max(int(ages[0]) - _BESIDE, 0), min(int(ages[-1]) + _BESIDE, data.lags - 1)
    found = _shares(data, form, news, range(first, last + 1))
    if found is None:
        return False
    largest = int(found[0].argmax())
    others = 1 - float(found[0][largest])
    return others > max(_SURE * float(found[1][largest]), (1 - float(law.max())) / 2)


def _shares(
    data: Transitions, form: Form, news: np.ndarray, lags: Sequence[int]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the shares of `lags`, whose sum is 1, and their standard errors."""
    # The change before would tell of the action before, and so hide the late part of a step.
    form = replace(form, before=False)
    expected = data.lagged[0] - news
    controls = [state_features(data, form), *(shifted(expected, lag) for lag in lags)]
    use = data.known[lags[-1]] & (data.in_stretch >= lags[-1])
    phi = np.concatenate(controls, axis=1)[use]
    width = phi.shape[1] + with_gain(news[:1], replace(data, state=data.state[:1]), form).shape[1]
    if len(phi) < max(_LEAST_ROWS, _ROWS_PER_COLUMN * width):
        return None
    change = data.change[use]
    acted = [with_gain(data.lagged[lag], data, form)[use] for lag in lags]
    new = [with_gain(shifted(news, lag), data, form)[use] for lag in lags]
    shares = np.full(len(lags), 1 / len(lags))
    trust = np.ones(len(phi))
    for _ in range(_ROUNDS):
        root = np.sqrt(trust)[:, None]
        weights = np.clip(shares, 0.0, None)
        weights /= max(float(weights.sum()), 1e-9)
        mixed = sum(one * part for one, part in zip(weights, acted, strict=True))
        columns = np.concatenate([phi, mixed], axis=1)
        found = _fit(root * columns, root * change)
        trust = _trust(change - columns @ found)
        effect = found[phi.shape[1] :]
        left = _Controlled(root * phi)
        moved = np.stack([left.of(root * (part @ effect)) for part in acted])
        tools = np.stack([root * (part @ effect) for part in new])
        shares, errors = _solved(moved, tools, left.of(root * change))
    return shares, errors


def _lacks_speeds(data: Transitions, form: Form, lag: int) -> bool:
    """Return whether the change before says much that state and actions do not."""
    form = replace(form, before=False)
    use = data.known[lag + 1]
    acted = [with_gain(data.lagged[k], data, form) for k in (lag, lag + 1)]
    without = np.concatenate([state_features(data, form), *acted], axis=1)[use]
    change = data.change[use]
    sizes = []
    for columns in (without, np.concatenate([without, data.before[use]], axis=1)):
        left = change - columns @ _fit(columns, change)
        sizes.append(scales(left, np.ones(len(left), bool))[0])
    return bool(np.log(sizes[1] / sizes[0]).mean() < np.log(_LACKING))


def _trust(left: np.ndarray) -> np.ndarray:
    """Return the weight of each row, (n,): small where the model misses much, as at a limit."""
    scale = scales(left, np.ones(len(left), bool))
    return (FREEDOM + 1) / (FREEDOM + ((left / scale) ** 2).mean(1))


class _Controlled:
    """The residuals of regressions on control columns."""

    def __init__(self, phi: np.ndarray):
        self.phi = phi
        self.gram = phi.T @ phi + _RIDGE * len(phi) * np.eye(phi.shape[1])

    def of(self, targets: np.ndarray) -> np.ndarray:
        """Return what the controls do not explain of `targets`."""
        return targets - self.phi @ np.linalg.solve(self.gram, self.phi.T @ targets)


def _fit(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    gram = features.T @ features
    gram[np.diag_indices_from(gram)] += _EFFECT_RIDGE * len(features)
    return np.linalg.solve(gram, features.T @ targets)


def _solved(
    moved: np.ndarray, tools: np.ndarray, rest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return shares by instrumental variables, and their errors by leaving out blocks of rows.

    `moved` has the effect that each action would have, `tools` that of its news, (lags, n, c).
    """
    block = blocks_of(len(rest))
    count = int(block[-1]) + 1
    bounds = np.searchsorted(block, np.arange(count + 1))
    spans = [slice(*ends) for ends in pairwise(bounds.tolist())]
    left = np.stack([np.einsum("inc,jnc->ij", tools[:, one], moved[:, one]) for one in spans])
    right = np.stack([np.einsum("inc,nc->i", tools[:, one], rest[one]) for one in spans])
    some_left = np.stack([left.sum(0), *(left.sum(0) - left)])
    some_right = np.stack([right.sum(0), *(right.sum(0) - right)])
    tiny = 1e-9 * np.abs(some_left).max(axis=(1, 2), keepdims=True) + 1e-300
    found = np.linalg.solve(some_left + tiny * np.eye(len(moved)), some_right[..., None])[..., 0]
    sums = found.sum(1, keepdims=True)
    shares = found / np.where(np.abs(sums) > 1e-12, sums, 1e-12)
    spread = ((shares[1:] - shares[1:].mean(0)) ** 2).sum(0)
    return shares[0], np.sqrt((count - 1) / count * spread)
