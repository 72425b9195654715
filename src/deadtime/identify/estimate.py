"""`identify_delay`: from a log to a delay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from deadtime.delays import Constant, DelayProcess, check_delay
from deadtime.identify.actuators import actuator_lags, are_sure, moved_actions
from deadtime.identify.age_model import AgeModel
from deadtime.identify.best_lag import BestLag, best_lag
from deadtime.identify.correlation import news_correlation
from deadtime.identify.evidence import interval_of
from deadtime.identify.features import Form
from deadtime.identify.lag_scores import best_scores
from deadtime.identify.log import Log, make_log
from deadtime.identify.reasons import Why, before_fitting, no_effect, predictability, several_lags
from deadtime.identify.result import Identification
from deadtime.identify.shares import Fraction
from deadtime.identify.stamps import split_delay
from deadtime.identify.step_parts import (
    MOST_ERROR,
    mixed_evidence,
    part_of_a_step,
    part_unknown,
    with_part,
)
from deadtime.identify.transitions import Transitions, transitions
from deadtime.identify.varies import news_varies, seems_to_vary
from deadtime.identify.varying_ages import (
    Ages,
    constant_evidence,
    decorrelated,
    most_others,
    varying_ages,
)

MOST_LAGS = 200
"""The longest delay that can be estimated, in steps."""
_SURE = 5.0
"""Log-odds above which a richer answer replaces a simpler one."""
_FEEDBACK = 0.1
"""Actions are feedback if the observation explains more than this share of their variance."""
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


def _identified(log: Log, max_delay: int, level: float) -> Identification:
    data = transitions(log, max_delay)
    warnings = _warnings(log, data)
    empty = _answer(log, data, level, warnings)
    why = before_fitting(log, data)
    if why is not None:
        return _unknown(empty, why)
    scores = best_scores(data)
    lag = best_lag(data, scores)
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
    part, rival = part_of_a_step(data, mixed, lag, interval, constant)
    feedback = predictability(data, lag.news) > _FEEDBACK
    lags = None
    if not log.discrete:
        lags = actuator_lags(data, lag.form, best, lag.news if feedback else None)
    if lags is not None and part is not None and _is_common(data, lag.form, part, lags):
        lags = None
    if lags is not None:
        shown = data.known[max(lags)]
        part, rival = None, constant_evidence(mixed, lag.form, moved_actions(mixed, lags), shown)
        interval = min(interval[0], *lags), max(interval[1], *lags)
    varies = seems_to_vary(ages, rival, lag, mixed)
    if varies and (not feedback or news_varies(ages, lag, mixed)):
        model = AgeModel.of(data, mixed, lag.form, ages.fit, log.numbers)
        return _varying(replace(empty, ages=model), ages, level)
    if varies:
        empty = replace(empty, warnings=(*empty.warnings, _MAY_VARY))
    if lag.effect < _SURE:
        return _unknown(empty, no_effect(data, lag.news))
    sure = is_narrow or (part is not None and part.error <= MOST_ERROR)
    if not sure and lags is not None and not feedback:
        sure = are_sure(data, lag.form, lags, level)
    if not sure:
        return _unknown(
            replace(empty, interval=interval), several_lags(data, lag.news, interval, level)
        )
    found = _constant(replace(empty, actuators=lags), lag, part, interval)
    if lags is None and found.steps == best:
        return replace(found, others=most_others(ages, best, level))
    return found


def _is_common(data: Transitions, form: Form, part: Fraction, lags: tuple[int, ...]) -> bool:
    """Return whether one delay with a fraction explains the log better than those of actuators."""
    shown = data.known[max(lags)]
    apart = constant_evidence(data, form, moved_actions(data, lags), shown)
    return float((mixed_evidence(data, form, part) - apart)[shown].sum()) > 0


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
    empty: Identification, lag: BestLag, part: Fraction | None, interval: tuple[int, int]
) -> Identification:
    steps, ends = float(lag.best), (float(interval[0]), float(interval[1]))
    warnings = empty.warnings
    if empty.actuators is None:
        steps, ends = with_part(steps, ends, part, _NORMAL[empty.level])
        if ends[1] - ends[0] > 2 * _NORMAL[empty.level] * MOST_ERROR:
            warnings += (part_unknown(ends),)
    process: DelayProcess = Constant(math.ceil(steps))
    if empty.actuators is not None:
        process = Constant(max(empty.actuators))
    return replace(
        empty,
        identifiable=True,
        delay=round(steps),
        interval=(min(interval[0], round(steps)), max(interval[1], round(steps))),
        steps=steps,
        steps_interval=ends,
        process=process,
        warnings=warnings,
    )
