"""Transitions of a log as standardised arrays, with the actions of every lag beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from deadtime.identify.log import Log

MOST_ROWS = 20_000
"""The largest number of transitions used; a longer log gives stretches from all its parts."""
_MOST_NUMBERS = 2**24
"""The largest count of observations and actions, over all lags; wide logs use fewer rows."""
_LEAST_ROWS = 1000
"""A log so wide that fewer rows than this could be used is refused."""
_STRETCHES = 20
_SMALL = 1e-12
_LEAST_AT_LIMIT = 0.01
"""The least share of rows with an extreme value for it to be a limit."""
_LEAST_ROWS_AT_LIMIT = 4
_LEAST_DISTINCT = 0.3
"""The least share of distinct values among the other rows; fewer mean a coarse sensor."""
_LEAST_FREE = 0.15
"""Rows at limits are kept if fewer than this share of rows are without."""


class Scaling(NamedTuple):
    """The columns of an array that vary, with their means and standard deviations."""

    columns: tuple[int, ...]
    centre: np.ndarray
    spread: np.ndarray

    def __call__(self, values: Any) -> Any:
        """Return these columns of an array (…, d) of NumPy or JAX, centred and scaled."""
        return (values[..., np.array(self.columns, int)] - self.centre) / self.spread


class Scalings(NamedTuple):
    """How the parts of `Transitions` follow from observations and actions."""

    state: Scaling
    before: Scaling
    change: Scaling
    action: Scaling


@dataclass(frozen=True)
class Transitions:
    """Transitions of all episodes, in order: n rows, d numbers of state, c of change, u of action.

    Row t of an episode goes from the observation of step t to that of step t + 1. All columns are
    centred and scaled to a standard deviation of 1; constant columns are left out.
    """

    state: np.ndarray
    """The observation of each row, (n, d)."""
    angles: np.ndarray
    """The same numbers in the log's units, of which sine and cosine are taken, (n, d)."""
    before: np.ndarray
    """The change that led to the observation, 0 at the start of an episode, (n, d)."""
    change: np.ndarray
    """The change of the observation in the row's step, (n, c)."""
    lagged: np.ndarray
    """The action of each lag 0 … K before the row, 0 where there is none, (K + 1, n, u)."""
    known: np.ndarray
    """Whether the episode has an action of that lag, and the row is free, (K + 1, n)."""
    free: np.ndarray
    """Whether no number is at a limit before or after the step, (n,)."""
    starts: np.ndarray
    """Whether the row is not the successor of the row before it, (n,)."""
    action_columns: tuple[int, ...]
    """The columns of the log's actions that vary."""
    logged: int
    """The number of transitions of the log, of which these are all or some."""
    scalings: Scalings

    @property
    def rows(self) -> int:
        """The number of transitions, n."""
        return len(self.change)

    @property
    def in_stretch(self) -> np.ndarray:
        """The place of each row in its stretch of successive rows, (n,)."""
        place = np.arange(self.rows)
        return place - np.maximum.accumulate(np.where(self.starts, place, 0))

    @property
    def lags(self) -> int:
        """The number of lags, K + 1."""
        return len(self.lagged)


def transitions(log: Log, max_delay: int) -> Transitions:
    """Return the transitions of a log with the actions of lags 0 … `max_delay`."""
    spans = [min(len(a), len(o) - 1) for o, a in zip(log.observations, log.actions, strict=True)]
    pairs = [
        (o[: n + 1], a[:n])
        for o, a, n in zip(log.observations, log.actions, spans, strict=True)
        if n > 0
    ]
    if not pairs:
        raise ValueError(
            "a log has two steps or more in an episode; got episodes of one step: check how the "
            "episodes are numbered"
        )
    seen = np.concatenate([o for o, _ in pairs])
    actions = np.concatenate([a for _, a in pairs])
    step = np.concatenate([np.arange(len(a)) for _, a in pairs])
    width = seen.shape[1] + actions.shape[1]
    most = _MOST_NUMBERS // ((max_delay + 1) * width)
    if most < _LEAST_ROWS:
        longest = _MOST_NUMBERS // (_LEAST_ROWS * width) - 1
        raise ValueError(
            f"for {width} numbers per step, max_delay is at most {longest}; got {max_delay}: pass "
            "that, or leave out columns"
        )
    chosen = _stretches(len(step), min(MOST_ROWS, most))
    # Each episode has one observation more than actions.
    now = chosen + np.cumsum(step == 0)[chosen] - 1
    state, following = seen[now], seen[now + 1]
    before = seen[np.where(step[chosen] > 0, now - 1, now)]
    lags = np.arange(max_delay + 1)[:, None]
    places = chosen[None] - lags
    limit = at_limits(seen)
    free = ~(limit[now] | limit[now + 1])
    inside = step[chosen][None] >= lags
    known = inside & free
    steps = Scalings(*map(_scaling, (state, state - before, following - state, actions)))
    scaled = steps.action(actions)
    lagged = np.where(inside[..., None], scaled[np.maximum(places, 0)], 0.0)
    new = (step[chosen] == 0) | np.diff(chosen, prepend=-2).astype(bool) & (
        np.diff(chosen, prepend=-2) != 1
    )
    return Transitions(
        state=steps.state(state),
        angles=state[:, np.array(steps.state.columns, int)],
        before=steps.before(state - before),
        change=steps.change(following - state),
        lagged=lagged,
        known=known,
        free=free,
        starts=new,
        action_columns=steps.action.columns,
        logged=len(step),
        scalings=steps,
    )


def at_limits(seen: np.ndarray) -> np.ndarray:
    """Return which observations have a number at a limit, where actions have no effect, (n,).

    A limit is an extreme value that many rows share, of a number with many other values: the end of
    a sensor's range, a stop, or the largest speed.
    """
    found = np.zeros(len(seen), bool)
    for column in seen.T:
        for extreme in (column.min(), column.max()):
            stays = column == extreme
            few = stays.sum() < max(_LEAST_AT_LIMIT * len(seen), _LEAST_ROWS_AT_LIMIT)
            if few or stays.mean() > 1 - _LEAST_FREE:
                continue
            others = column[~stays]
            if len(np.unique(others)) >= _LEAST_DISTINCT * len(others):
                found |= stays
    return found if found.mean() <= 1 - _LEAST_FREE else np.zeros(len(seen), bool)


def _stretches(rows: int, most: int) -> np.ndarray:
    """Return the rows to use: all, or equal stretches spread over a long log."""
    if rows <= most:
        return np.arange(rows)
    length = most // _STRETCHES
    firsts = np.linspace(0, rows - length, _STRETCHES).astype(np.int64)
    return (firsts[:, None] + np.arange(length)).ravel()


def _scaling(values: np.ndarray) -> Scaling:
    """Return the scaling of the columns that vary."""
    centre = values.mean(0)
    spread = values.std(0)
    size = np.abs(values).max(0, initial=0.0)
    varies = np.flatnonzero(spread > _SMALL * np.maximum(size, 1e-300))
    return Scaling(tuple(int(one) for one in varies), centre[varies], spread[varies])
