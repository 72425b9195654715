"""Why a log does not show the delay, and what to log instead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadtime.identify.log import Log
from deadtime.identify.transitions import Transitions

LEAST_ROWS = 50
"""The fewest transitions from which a delay is estimated."""
_FEEDBACK = 0.9
_SLOW = 0.95
_LONG = 500
_FEW = 0.2
_EXCITE = "add a small random number to each action (dither), or log random actions"


@dataclass(frozen=True)
class Why:
    """A reason, and the remedy."""

    reason: str
    advice: str


def before_fitting(log: Log, data: Transitions) -> Why | None:
    """Return why the arrays alone show no delay, or None."""
    if data.rows < max(LEAST_ROWS, data.state.shape[1]):
        return Why(
            f"the log is too short: it has {data.rows} transitions of {data.state.shape[1]} "
            "varying numbers",
            "log 1,000 steps or more with varied actions",
        )
    if not data.lagged.shape[2]:
        return Why("the actions are constant", _EXCITE)
    if not data.change.shape[1]:
        return Why(
            "the observations never change",
            "log the sensors that the actions move, at the rate of the control loop",
        )
    return None


def no_effect(data: Transitions, news: np.ndarray) -> Why:
    """Return why no lag predicts better than the state alone."""
    share = predictability(data, news)
    if share > _FEEDBACK:
        return Why(_feedback(share), _EXCITE)
    shown = float(data.known[-1].mean())
    if shown < _FEW:
        return Why(
            f"episodes are short, {data.rows / data.starts.sum():.0f} steps on average, and no "
            "action has a visible effect within them",
            "log longer episodes: with an easier start, or a controller that keeps them going",
        )
    if data.rows < _LONG:
        return Why(
            f"the log is too short: no action has a visible effect in {data.rows} transitions",
            "log 1,000 steps or more with varied actions",
        )
    return Why(
        "no action has a visible effect on the observations at any delay up to "
        f"{data.lags - 1} steps",
        "check the columns and their order in time, raise max_delay, or log larger actions",
    )


def several_lags(
    data: Transitions, news: np.ndarray, interval: tuple[int, int], level: float
) -> Why:
    """Return why several lags explain the log equally well."""
    low, high = interval
    span = f"the delays {low} to {high} explain the log about equally well ({level:.0%} interval)"
    share = predictability(data, news)
    if share > _FEEDBACK:
        return Why(f"{span}: {_feedback(share)}", _EXCITE)
    slow = slowness(data)
    if slow > _SLOW:
        return Why(
            f"{span}: actions hardly change from step to step (correlation {slow:.2f})", _EXCITE
        )
    return Why(span, f"log more steps, or {_EXCITE}")


def predictability(data: Transitions, news: np.ndarray) -> float:
    """Return the share of the variance of actions that is not their news, 0 to 1."""
    return max(1 - float((news**2).sum() / (data.lagged[0] ** 2).sum()), 0.0)


def slowness(data: Transitions) -> float:
    """Return the correlation of actions with those of the step before."""
    use = data.known[1]
    now, before = data.lagged[0][use], data.lagged[1][use]
    size = np.sqrt((now**2).sum() * (before**2).sum())
    return float((now * before).sum() / size) if size > 0 else 1.0


def _feedback(share: float) -> str:
    return (
        f"the actions are almost a function of the observations ({share:.1%} of their variance), "
        "so a feedback law and a delay look alike"
    )
