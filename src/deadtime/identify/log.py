"""A log as arrays: episodes of observations and of the actions that were chosen from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike

_LARGEST = 1e150
"""The largest absolute value in a log; its square is finite."""
_MOST_CATEGORIES = 64
"""An action with more different values than this is not treated as a numbered action."""
_WIDEST = {"observations": 512, "actions": 64}
"""The largest count of numbers of an observation and of an action; work grows with its square."""
_GAP = 1.5
"""Time stamps that differ by more steps than this have a gap between them."""


@dataclass(frozen=True)
class Log:
    """Episodes of a log; row t of an episode has the observation of step t and the action chosen
    from it.

    `observations` may have one more row than `actions`, the last observation of the episode.
    Numbered actions are one-hot vectors in `actions`, and `discrete` is True.
    """

    observations: tuple[np.ndarray, ...]
    actions: tuple[np.ndarray, ...]
    discrete: bool
    step: float | None = None
    """The duration of a step in seconds, if it is known."""
    gaps: int = 0
    """The number of places where time stamps showed missing steps and an episode was split."""
    numbers: tuple[float, ...] = ()
    """The numbered action of each column of `actions`; empty if actions are vectors."""

    @property
    def steps(self) -> int:
        """The number of actions of all episodes."""
        return sum(len(actions) for actions in self.actions)


def make_log(
    observations: ArrayLike,
    actions: ArrayLike,
    *,
    episodes: ArrayLike | None = None,
    times: ArrayLike | None = None,
    step: float | None = None,
    discrete: bool | None = None,
) -> Log:
    """Check the arrays of a log and split them into episodes.

    `observations` and `actions` are arrays with one row per step, or lists of such arrays, one per
    episode. `episodes` numbers the episode of each row, and `times` has the time of each row in
    seconds. A gap of more than 1.5 steps in `times` begins a new episode.
    """
    if step is not None:
        step = check_seconds(step, "step")
    if _is_list_of_episodes(observations) != _is_list_of_episodes(actions):
        raise ValueError(
            "observations and actions are both arrays or both lists of arrays, one per episode; "
            f"got {type(observations).__name__} and {type(actions).__name__}: pass the same form"
        )
    if _is_list_of_episodes(observations) and _is_list_of_episodes(actions):
        if episodes is not None:
            raise ValueError(
                "episodes numbers the rows of one array; got it with lists, which are split "
                "already: leave episodes out"
            )
        if len(observations) != len(actions):
            raise ValueError(
                f"there are as many lists of observations as of actions; got {len(observations)} "
                f"and {len(actions)}: pass one array of each for each episode"
            )
        seen = [_table(one, "observations") for one in observations]
        chosen = [_rows(one, "actions") for one in actions]
        stamps = _stamps_of(cast("Sequence[ArrayLike] | None", times), chosen)
    else:
        seen, chosen, stamps = _split(observations, actions, episodes, times)
    for one, other in zip(seen, chosen, strict=True):
        if len(one) not in (len(other), len(other) + 1):
            raise ValueError(
                "an episode has as many observations as actions, or one more; got "
                f"{len(one)} and {len(other)}: align the rows"
            )
    _check_widths(seen, "observations")
    _check_widths(chosen, "actions")
    encoded, numbers = _encoded(chosen, discrete)
    is_discrete = numbers is not None
    if stamps is None:
        return Log(tuple(seen), tuple(encoded), is_discrete, step, numbers=numbers or ())
    usual = _usual_step(stamps)
    if step is not None and not usual / _GAP < step < usual * _GAP:
        raise ValueError(
            f"step is the usual difference of times; got {step:g} s, and times differ by {usual:g} "
            "s: leave step out, or write both in seconds"
        )
    seconds = step or usual
    return _without_gaps(
        Log(tuple(seen), tuple(encoded), is_discrete, seconds, numbers=numbers or ()), stamps
    )


def check_seconds(value: float, name: str) -> float:
    """Return a positive finite number of seconds as a float, or raise."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value <= 0:
        raise ValueError(
            f"{name} is a time in seconds, more than 0; got {value!r}: pass, for example, 0.02"
        )
    return float(value)


def _is_list_of_episodes(values: ArrayLike) -> TypeGuard[Sequence[ArrayLike]]:
    """Return whether `values` is a list of two-dimensional arrays or of arrays of rows."""
    if isinstance(values, np.ndarray) or not isinstance(values, Sequence) or not values:
        return False
    return all(isinstance(one, np.ndarray | list | tuple) for one in values) and (
        all(isinstance(one, np.ndarray) for one in values) or np.ndim(values[0]) > 1
    )


def _numbers(values: ArrayLike, name: str) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} are numbers; got {array.dtype}: leave columns of text out, or number them"
        )
    if array.dtype.kind == "f":
        good = np.abs(array, dtype=np.float64) <= _LARGEST
        if not good.all():
            place = tuple(np.argwhere(~good)[0])
            raise ValueError(
                f"{name} are finite numbers up to {_LARGEST:g}; got {array[place]} in row "
                f"{int(place[0]) if place else 0}: cut these rows, and begin a new episode after "
                "them"
            )
    return array


def _rows(values: ArrayLike, name: str) -> np.ndarray:
    array = _numbers(values, name)
    if array.ndim == 0 or array.size == 0:
        raise ValueError(
            f"{name} have one row per step; got shape {array.shape}: pass at least one row"
        )
    rows = array if array.ndim == 1 else array.reshape(len(array), -1)
    width, most = rows.size // len(rows), _WIDEST[name]
    if width > most:
        raise ValueError(
            f"{name} have at most {most} numbers per step; got {width:,}: leave out columns that "
            "actions move little"
        )
    return rows


def _table(values: ArrayLike, name: str) -> np.ndarray:
    array = _rows(values, name)
    return array.reshape(len(array), -1).astype(np.float64)


def _split(
    observations: ArrayLike, actions: ArrayLike, episodes: ArrayLike | None, times: ArrayLike | None
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray] | None]:
    seen = _table(observations, "observations")
    chosen = _rows(actions, "actions")
    stamps = None if times is None else _numbers(times, "times").reshape(-1).astype(np.float64)
    if stamps is not None and len(stamps) != len(chosen):
        raise ValueError(
            f"times has one entry for each of the {len(chosen)} actions; got {len(stamps)}: pass "
            "the time at which each action was chosen"
        )
    if episodes is None:
        return [seen], [chosen], None if stamps is None else [stamps]
    numbers = np.asarray(episodes).reshape(-1)
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise ValueError(
            f"episodes are numbers or names; got {numbers[row]} in row {row}: number each row"
        )
    if len(numbers) != len(chosen) or len(seen) != len(chosen):
        raise ValueError(
            "with episodes, observations, actions and episodes have one row per step; got "
            f"{len(seen)}, {len(chosen)} and {len(numbers)}: align the rows"
        )
    ends = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    parts = None if stamps is None else np.split(stamps, ends)
    return np.split(seen, ends), np.split(chosen, ends), parts


def _stamps_of(
    times: Sequence[ArrayLike] | None, chosen: list[np.ndarray]
) -> list[np.ndarray] | None:
    if times is None:
        return None
    stamps = [_numbers(one, "times").reshape(-1).astype(np.float64) for one in times]
    if [len(one) for one in stamps] != [len(one) for one in chosen]:
        raise ValueError(
            "times has one array for each episode, with one entry for each action; got lengths "
            f"{[len(one) for one in stamps][:5]} for {[len(one) for one in chosen][:5]}: pass the "
            "time at which each action was chosen"
        )
    return stamps


def _check_widths(parts: list[np.ndarray], name: str) -> None:
    shapes = {one.shape[1:] for one in parts}
    if len(shapes) != 1:
        raise ValueError(
            f"{name} have the same columns in all episodes; got shapes {sorted(shapes)}: pass "
            "episodes of one environment"
        )


def _encoded(
    chosen: list[np.ndarray], discrete: bool | None
) -> tuple[list[np.ndarray], tuple[float, ...] | None]:
    """Return actions as rows of numbers, numbered actions as one-hot vectors, and their numbers."""
    whole = all(one.dtype.kind in "biu" for one in chosen)
    single = all(one.ndim == 1 or one.shape[1] == 1 for one in chosen)
    values = np.unique(np.concatenate([one.ravel() for one in chosen])) if single else np.zeros(0)
    if discrete is None:
        discrete = whole and single and len(values) <= _MOST_CATEGORIES
    if not discrete:
        return [one.reshape(len(one), -1).astype(np.float64) for one in chosen], None
    if not single or len(values) > _MOST_CATEGORIES:
        raise ValueError(
            f"numbered actions are one column of at most {_MOST_CATEGORIES} values; got "
            f"{len(values)} values in shape {chosen[0].shape}: pass discrete=False"
        )
    numbers = tuple(float(one) for one in values)
    return [(one.reshape(-1, 1) == values).astype(np.float64) for one in chosen], numbers


def _usual_step(stamps: list[np.ndarray]) -> float:
    differences = np.concatenate([np.diff(one) for one in stamps])
    if not len(differences):
        raise ValueError("times has two rows or more in an episode; got one: pass a longer log")
    usual = float(np.median(differences))
    if not usual > 0:
        raise ValueError(
            f"times grow from row to row; got a median difference of {usual:g} s: sort the rows by "
            "time, and number the episodes"
        )
    return usual


def _without_gaps(log: Log, stamps: list[np.ndarray]) -> Log:
    """Split episodes where the time stamps show missing or unordered rows."""
    assert log.step is not None
    seen, chosen = [], []
    gaps = 0
    for one, other, times in zip(log.observations, log.actions, stamps, strict=True):
        differences = np.diff(times) / log.step
        ends = np.flatnonzero((differences > _GAP) | (differences <= 0)) + 1
        gaps += len(ends)
        seen += np.split(one, ends)
        chosen += np.split(other, ends)
    return replace(log, observations=tuple(seen), actions=tuple(chosen), gaps=gaps)
