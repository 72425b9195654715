"""Returns of results over seeds: no interval goes beyond the returns that an episode can have."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from deadtime.runs import statistics
from deadtime.runs.limits import return_limits
from deadtime.runs.result import Result
from deadtime.runs.statistics import Estimate

if TYPE_CHECKING:
    from jaxtyping import Float

    Returns = Float[np.ndarray, " seeds"]

Score = Callable[[Result], "Returns"]
"""A function that returns the score of each seed."""
SCORES: Score = attrgetter("scores")
"""The mean greedy return of each seed."""


def mean_return(result: Result, returns: Returns | None = None) -> Estimate:
    """Return the mean of `returns`, one entry for each seed; default: the greedy returns."""
    values = result.scores if returns is None else returns
    return statistics.mean(values, return_limits(result.spec))


def columns(result: Result, greedy_name: str = "greedy") -> dict[str, float]:
    """Return the mean greedy and training returns as columns of a table."""
    greedy = mean_return(result).columns(greedy_name)
    return greedy | mean_return(result, result.training_scores).columns("training")


def difference(first: Result, second: Result, score: Score = SCORES) -> Estimate | None:
    """Return the mean of first - second over the seeds that both have; None if they share none."""
    seeds = [seed for seed in first.seeds if seed in {*second.seeds}]
    if not seeds:
        return None
    ours, theirs = (score(Result(one.record.rows(seeds))) for one in (first, second))
    return statistics.difference(ours, theirs, return_limits(second.spec))


def difference_columns(name: str, less: Estimate | None) -> dict[str, float | str]:
    """Return a difference as columns of a table: `name`, and `difference_low` and `_high`."""
    value, low, high = less or ("", "", "")
    return {name: value, "difference_low": low, "difference_high": high}
