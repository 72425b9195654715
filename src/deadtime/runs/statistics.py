"""Estimates over seeds, and over seeds and tasks, with their 95% intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deadtime.runs.limits import ANY, Limits

if TYPE_CHECKING:
    from jaxtyping import Float

    Scores = Float[np.ndarray, " seeds"]

RESAMPLES = 4000
FEWEST = 3
"""The fewest seeds of an interval. With two, it would be 13 times as wide as their distance."""


class Estimate(NamedTuple):
    """A value and its 95% interval, whose ends are NaN for fewer than three seeds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return text such as `0.930 [0.910, 0.950]`."""
        return f"{self.value:.3f}" + (
            "" if np.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]"
        )

    def columns(self, name: str) -> dict[str, float]:
        """Return the value and its interval as columns of a table."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}

    def to_json(self) -> dict[str, Any]:
        """Return a mean and its interval for JSON, with None for NaN."""
        return {
            name: None if np.isnan(one) else one
            for name, one in zip(("mean", "low", "high"), self, strict=True)
        }


def seeds_shown(count: int, intervals: str = ", 95% intervals") -> str:
    """Return the number of seeds in words; `intervals` is added if there are intervals."""
    return f"{count} seed{'s' * (count != 1)}{intervals if count >= FEWEST else ''}"


def mean(values: Scores | Sequence[float], limits: Limits = ANY) -> Estimate:
    """Return the mean over seeds and Student's interval, cut at the `limits` of a single value.

    At few seeds a bootstrap's interval is too narrow. Student's still covers the truth in 95% of
    cases.
    """
    values = np.asarray(values, float)
    middle = float(values.mean())
    if len(values) < FEWEST:
        return Estimate(middle, np.nan, np.nan)
    from scipy.special import stdtrit  # noqa: PLC0415  (few seeds have no interval, and need no SciPy)

    half = float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values)))
    least, most = min(limits[0], middle), max(limits[1], middle)  # a forged score may lie beyond
    return Estimate(middle, max(middle - half, least), min(middle + half, most))


def difference(first: Scores, second: Scores, limits: Limits = ANY) -> Estimate:
    """Return the mean of first - second, paired by seed; `limits` bound a single score."""
    widest = limits[1] - limits[0]
    return mean(np.asarray(first, float) - np.asarray(second, float), (-widest, widest))


def mean_over(tasks: Sequence[Scores], seed: int = 0) -> Estimate:
    """Return the mean of the tasks' means."""
    return _bootstrapped(
        tasks, lambda drawn: np.mean([task.mean(axis=-1) for task in drawn], axis=0), seed
    )


def median(tasks: Sequence[Scores], seed: int = 0) -> Estimate:
    """Return the median over all runs of all tasks."""
    return _bootstrapped(
        tasks, lambda drawn: np.median(np.concatenate(drawn, axis=-1), axis=-1), seed
    )


def iqm(tasks: Sequence[Scores], seed: int = 0) -> Estimate:
    """Return the interquartile mean over all runs: without the lowest and the highest quarter."""

    def middle(drawn: list[np.ndarray]) -> Any:
        ordered = np.sort(np.concatenate(drawn, axis=-1), axis=-1)
        cut = ordered.shape[-1] // 4
        return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)

    return _bootstrapped(tasks, middle, seed)


def improvement(first: Sequence[Scores], second: Sequence[Scores], seed: int = 0) -> Estimate:
    """Return the probability that `first` beats `second` on the same seed, as a mean over tasks.

    Ties count half.
    """
    won = [(np.sign(np.subtract(x, y)) + 1) / 2 for x, y in zip(first, second, strict=True)]
    found = mean_over(won, seed)
    return Estimate(found.value, *np.clip(found[1:], 0.0, 1.0).tolist())


def _bootstrapped(
    tasks: Sequence[Scores], statistic: Callable[[list[np.ndarray]], Any], seed: int
) -> Estimate:
    """Return a statistic and its interval by resampling the seeds within each task.

    Resampling n seeds gives only (n - 1) / n of their variance, so deviations are multiplied by
    √(n / (n - 1)).
    """
    tasks = [np.asarray(task, float) for task in tasks]
    value = float(statistic(tasks))
    fewest = min(len(task) for task in tasks)
    if fewest < FEWEST:
        return Estimate(value, np.nan, np.nan)
    rng = np.random.default_rng(seed)
    drawn = statistic(
        [task[rng.integers(len(task), size=(RESAMPLES, len(task)))] for task in tasks]
    )
    low, high = np.percentile(value + (drawn - value) * np.sqrt(fewest / (fewest - 1)), [2.5, 97.5])
    return Estimate(value, float(low), float(high))
