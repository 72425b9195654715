"""`identify_delay`: from a log to a delay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from deadtime.delays import Constant, DelayProcess, check_delay
from deadtime.identify.actuators import actuator_lags, are_sure, moved_actions
from deadtime.identify.correlation import news_correlation
from deadtime.identify.evidence import interval_of, posterior_of, tempered
from deadtime.identify.features import Form, with_gain
from deadtime.identify.lag_scores import LagScores, best_scores, news_gains
from deadtime.identify.log import Log, make_log
from deadtime.identify.news import action_news
from deadtime.identify.reasons import (
    LEAST_ROWS,
    Why,
    before_fitting,
    no_effect,
    predictability,
    several_lags,
)
from deadtime.identify.result import Identification
from deadtime.identify.shares import Fraction, fraction_near, shows_other_ages
from deadtime.identify.stamps import split_delay
from deadtime.identify.transitions import Transitions, transitions
from deadtime.identify.varying_ages import (
    LEAST_OTHER,
    Ages,
    constant_evidence,
    decorrelated,
    varying_ages,
)

MOST_LAGS = 200
"""The longest delay that can be estimated, in steps."""
_SURE = 5.0
"""Log-odds above which a richer answer replaces a simpler one."""
_LEAST_SHARE = 0.08
"""The smallest fraction of a step that is reported; a slightly wrong model shows smaller ones."""
_LEAST_CERTAINTY = 0.1
"""The least `Ages.certainty` of a log that shows a delay that varies."""
_LEAST_SEEN = 2 * LEAST_ROWS
"""A delay varies only if this many steps have an action of its longest age in their episode."""
_RARE = 0.02
"""Ages with a smaller share are not counted as the longest."""
_MOST_ERROR = 0.05
"""The largest standard error of a known fraction of a step; three of them are 0.15 step."""
_FEEDBACK = 0.1
"""Actions are feedback if the observation explains more than this share of their variance."""
_WIDE = 3
"""With an interval of whole delays of this width or more, no fraction of a step is estimated."""
_UNKNOWN_PART = (1.0, 0.5)
"""Steps before and after a whole delay that the interval has if the fraction can't be estimated.
A position shows the effect of an action about half a step late."""
_MAY_VARY = (
    "the delay may vary: the log fits that better, but under feedback the model's errors do too; "
    "to tell, log random actions or more dither"
)
_NORMAL = {0.9: 1.645, 0.95: 1.96, 0.99: 2.576}


def identify_delay(
    observations: ArrayLike,
    actions: ArrayLike,
    *,
    episodes: ArrayLike | None = None,
    times: ArrayLike | None = None,
    step: float | None = None,
    discrete: bool | None = None,
    max_delay: int = 20,
    level: float = 0.9,
    action_stamps: Sequence[ArrayLike] | None = None,
    observation_stamps: Sequence[ArrayLike] | None = None,
) -> Identification:
    """Estimate the delay from a log of observations and of the actions chosen from them.

    `observations` and `actions` are arrays with one row per step, or lists of arrays, one per
    episode. `episodes` numbers the episode of each row. `times` has the time of each row in
    seconds; without it, `step` is the duration of a step in seconds. Whole-numbered actions of one
    column are numbered actions unless `discrete` is False.

    `max_delay` is the longest delay that is considered, and `level` the probability of intervals,
    0.9, 0.95 or 0.99. `action_stamps` are two columns of times: when each action was chosen, and
    when it was executed. `observation_stamps` are those when each observation was sampled, and when
    it was received. With either of them, the answer separates action and observation delay.
    """
    log = make_log(
        observations, actions, episodes=episodes, times=times, step=step, discrete=discrete
    )
    found = _identified(log, _checked_lags(max_delay), _checked_level(level))
    split = split_delay(action_stamps, observation_stamps, log.step, found.steps)
    return replace(found, split=split)


def _checked_lags(max_delay: object) -> int:
    most = check_delay(max_delay)
    if not 1 <= most <= MOST_LAGS:
        raise ValueError(
            f"max_delay is 1 to {MOST_LAGS} steps; got {most}: pass the longest delay that is "
            "possible"
        )
    return most


def _checked_level(level: object) -> float:
    if level not in _NORMAL:
        raise ValueError(
            f"level is one of {', '.join(map(str, _NORMAL))}; got {level!r}: pass 0.9, for example"
        )
    return float(level)


@dataclass(frozen=True)
class _Lag:
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


def _identified(log: Log, max_delay: int, level: float) -> Identification:
    data = transitions(log, max_delay)
    warnings = _warnings(log, data)
    empty = _answer(log, data, level, warnings)
    why = before_fitting(log, data)
    if why is not None:
        return _unknown(empty, why)
    scores = best_scores(data)
    lag = _best_lag(data, scores)
    best = lag.best
    empty = replace(
        empty,
        witness=news_correlation(data, lag.news),
        model=lag.form.label,
        posterior=tuple(lag.posterior.tolist()),
    )
    mixed = decorrelated(data, lag.form, best)
    constant = constant_evidence(mixed, lag.form, data.lagged[best], data.known[best])
    ages = varying_ages(mixed, lag.form)
    interval = interval_of(lag.posterior, level)
    is_narrow = interval[1] - interval[0] <= 1 and lag.posterior[best] >= 0.5
    part, rival = _part_of_a_step(data, mixed, lag, interval, constant)
    feedback = predictability(data, lag.news) > _FEEDBACK
    lags = None
    if not log.discrete:
        lags = actuator_lags(data, lag.form, best, lag.news if feedback else None)
    if lags is not None:
        moved = moved_actions(mixed, lags)
        shown = data.known[max(lags)]
        evidence = constant_evidence(mixed, lag.form, moved, shown)
        own = constant_evidence(data, lag.form, moved_actions(data, lags), shown)
        if part is not None and _is_better(_mixed_evidence(data, lag.form, part), own, shown):
            lags = None
        else:
            part, rival = None, evidence
            interval = min(interval[0], *lags), max(interval[1], *lags)
    varies = _seems_to_vary(ages, rival, lag, mixed)
    if varies and (not feedback or _news_varies(ages, lag, mixed)):
        return _varying(empty, ages, level)
    if varies:
        empty = replace(empty, warnings=(*empty.warnings, _MAY_VARY))
    if lag.effect < _SURE:
        return _unknown(empty, no_effect(data, lag.news))
    sure = is_narrow or (part is not None and part.error <= _MOST_ERROR)
    if not sure and lags is not None and not feedback:
        sure = are_sure(data, lag.form, lags, level)
    if not sure:
        return _unknown(
            replace(empty, interval=interval), several_lags(data, lag.news, interval, level)
        )
    return _constant(replace(empty, actuators=lags), lag, part, interval)


def _best_lag(data: Transitions, scores: LagScores) -> _Lag:
    """Return the most probable lag; its posterior is the mean of the posteriors of two scores.

    The second score uses only the news of each action. If actions are feedback and the model is
    poor, the first score may prefer a wrong lag. The second one then disagrees or shows nothing, so
    the mean is wide.
    """
    news = action_news(data, scores.form)
    gains = news_gains(data, scores.form, news)
    posterior = (posterior_of(scores.gains) + posterior_of(gains)) / 2
    effect = float(tempered(scores.gains[scores.totals.argmax()]))
    return _Lag(scores.form, posterior, int(posterior.argmax()), effect, news, gains)


def _warnings(log: Log, data: Transitions) -> tuple[str, ...]:
    found = []
    if log.gaps:
        found.append(
            f"time stamps show {log.gaps:,} gaps; each begins a new episode: log every step"
        )
    width = log.actions[0].shape[1]
    if 0 < len(data.action_columns) < width and not log.discrete:
        still = sorted({*range(width)} - {*data.action_columns})
        found.append(f"action numbers {still} never change, so their delays are unknown")
    repeated = float((np.abs(data.change).sum(1) < 1e-12).mean()) if data.change.size else 0.0
    stays = (np.diff(data.state, axis=0) == 0).all(1).mean() if data.state.size else repeated
    if stays > 0.02 and data.rows > 1:
        found.append(
            f"{stays:.0%} of observations repeat the one before: if they arrive late and some are "
            "skipped, the delay of actions is known less well than it seems"
        )
    if data.rows < data.logged:
        found.append(f"the log is large: {data.rows:,} transitions, spread over it, were used")
    return tuple(found)


def _answer(log: Log, data: Transitions, level: float, warnings: tuple[str, ...]) -> Identification:
    """Return an answer without a delay, to be completed."""
    return Identification(
        identifiable=False,
        reason="",
        advice="",
        posterior=(1 / data.lags,) * data.lags,
        delay=None,
        interval=None,
        level=level,
        steps=None,
        steps_interval=None,
        varies=False,
        process=None,
        actuators=None,
        witness=None,
        split=None,
        model="",
        rows=data.rows,
        episodes=int(data.starts.sum()),
        step=log.step,
        warnings=warnings,
    )


def _unknown(empty: Identification, why: Why) -> Identification:
    return replace(empty, reason=why.reason, advice=why.advice)


def _part_of_a_step(
    data: Transitions,
    mixed: Transitions,
    lag: _Lag,
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
        else max(constant, _mixed_evidence(mixed, lag.form, part), key=np.sum)
    )
    for low in range(interval[0] - 1, interval[1] + 1):
        if 0 <= low < data.lags - 1 and data.known[low + 1].sum() >= LEAST_ROWS:
            rival = max(rival, _apart_evidence(mixed, lag.form, low), key=np.sum)
    return part, rival


def _is_better(first: np.ndarray, second: np.ndarray, rows: np.ndarray) -> bool:
    """Return whether the first density explains the chosen rows better."""
    return float((first - second)[rows].sum()) > 0


def _mixed_evidence(data: Transitions, form: Form, part: Fraction) -> np.ndarray:
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


def _seems_to_vary(ages: Ages, rival: np.ndarray, lag: _Lag, data: Transitions) -> bool:
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


def _news_varies(ages: Ages, lag: _Lag, data: Transitions) -> bool:
    """Return whether what is new in the actions of other ages has an effect too."""
    second = int(ages.law.argsort()[-2])
    known = tempered(lag.news_gains[second]) > _SURE
    return bool(known and shows_other_ages(data, lag.form, lag.news, ages.law))


def _varying(empty: Identification, ages: Ages, level: float) -> Identification:
    law = ages.law / ages.law.sum()
    return replace(
        empty,
        identifiable=True,
        posterior=tuple(law.tolist()),
        delay=int(law.argmax()),
        interval=interval_of(law, level),
        steps=float(np.arange(len(law)) @ law),
        varies=True,
        process=ages.chain.process(),
    )


def _constant(
    empty: Identification, lag: _Lag, part: Fraction | None, interval: tuple[int, int]
) -> Identification:
    steps, ends = float(lag.best), (float(interval[0]), float(interval[1]))
    warnings = empty.warnings
    if empty.actuators is None:
        steps, ends = _with_part(steps, ends, part, empty.level)
        if ends[1] - ends[0] > 2 * _NORMAL[empty.level] * _MOST_ERROR:
            warnings += (_part_unknown(ends),)
    process: DelayProcess = Constant(math.ceil(steps))
    if empty.actuators is not None:
        process = Constant(max(empty.actuators))
    return replace(
        empty,
        identifiable=True,
        delay=round(steps),
        interval=interval,
        steps=steps,
        steps_interval=ends,
        process=process,
        warnings=warnings,
    )


def _with_part(
    whole: float, ends: tuple[float, float], part: Fraction | None, level: float
) -> tuple[float, tuple[float, float]]:
    """Return the delay in steps with its interval; a whole delay if the log shows no fraction."""
    if part is None:
        return whole, (max(ends[0] - _UNKNOWN_PART[0], 0.0), ends[1] + _UNKNOWN_PART[1])
    if part.error <= _MOST_ERROR:
        whole = float(round(part.steps))
        if abs(part.steps - whole) > max(_LEAST_SHARE, 3 * part.error):
            whole = part.steps
    half = _NORMAL[level] * part.error
    return whole, (max(min(part.steps - half, whole), 0.0), max(part.steps + half, whole))


def _part_unknown(ends: tuple[float, float]) -> str:
    return (
        f"the fraction of a step is not known: {ends[0]:.2f} to {ends[1]:.2f} steps fit the log; "
        "if it matters, log more steps, more dither, and speeds"
    )
