"""The split into action and observation delay, from time stamps of both ends of a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from deadtime.delays import Categorical, Constant, DelayProcess

_LEAST = 5e-3
_MOST_STEPS = 10_000
"""The longest delay of a message, in steps."""


@dataclass(frozen=True)
class Split:
    """Action and observation delay in seconds: means, and the processes in whole steps.

    A part without time stamps is None, or the rest of the whole delay.
    """

    action_seconds: float | None
    observation_seconds: float | None
    action: DelayProcess | None
    observation: DelayProcess | None

    def to_json(self) -> dict[str, Any]:
        """Return the split as plain data."""
        return {
            "action_seconds": self.action_seconds,
            "observation_seconds": self.observation_seconds,
            "action": None if self.action is None else self.action.to_json(),
            "observation": None if self.observation is None else self.observation.to_json(),
        }

    def __str__(self) -> str:
        """Return the split as one line."""
        parts = [
            f"{name} delay {seconds:.4g} s{'' if process is None else f' ({process} steps)'}"
            for name, seconds, process in (
                ("action", self.action_seconds, self.action),
                ("observation", self.observation_seconds, self.observation),
            )
            if seconds is not None
        ]
        return "split: " + ", ".join(parts)


def split_delay(
    action_stamps: Sequence[ArrayLike] | None,
    observation_stamps: Sequence[ArrayLike] | None,
    step: float | None,
    steps: float | None,
) -> Split | None:
    """Return the split from pairs of stamps: (chosen, executed) and (sampled, received).

    Where one pair is missing, its part is the rest of the whole delay of `steps`.
    """
    if action_stamps is None and observation_stamps is None:
        return None
    if step is None:
        raise ValueError(
            "a split needs the duration of a step; got neither times nor step: pass step in "
            "seconds, for example 0.02"
        )
    late = {
        name: None if pair is None else _latencies(pair, name, step)
        for name, pair in (("action", action_stamps), ("observation", observation_stamps))
    }
    means = {name: None if one is None else float(one.mean()) for name, one in late.items()}
    whole = None if steps is None else steps * step
    for name, other in (("action", "observation"), ("observation", "action")):
        there = means[other]
        if means[name] is None and whole is not None and there is not None:
            means[name] = max(whole - there, 0.0)
    processes = {name: None if one is None else _process(one / step) for name, one in late.items()}
    return Split(
        means["action"], means["observation"], processes["action"], processes["observation"]
    )


def _latencies(pair: Sequence[ArrayLike], name: str, step: float) -> np.ndarray:
    """Return the seconds from the first stamp of a pair to the second."""
    columns = [np.asarray(one).reshape(-1) for one in pair]
    sizes = [len(one) for one in columns]
    if len(columns) != 2 or sizes[0] != sizes[1] or not sizes[0]:
        raise ValueError(
            f"the stamps of the {name} delay are two columns of equal length; got lengths {sizes}: "
            "pass one pair for each step"
        )
    if any(one.dtype.kind not in "iuf" for one in columns):
        kinds = " and ".join(str(one.dtype) for one in columns)
        raise ValueError(
            f"the stamps of the {name} delay are numbers of seconds; got {kinds}: write seconds"
        )
    first, second = (one.astype(np.float64) for one in columns)
    with np.errstate(all="ignore"):
        late = second - first
    late = late[np.isfinite(late)]
    if not len(late) or (late < 0).any():
        raise ValueError(
            f"the second stamp of the {name} delay is not before the first; got a difference of "
            f"{late.min(initial=0.0):g} s: swap the columns, or synchronize the clocks"
        )
    if late.max() > _MOST_STEPS * step:
        raise ValueError(
            f"a message of the {name} delay takes at most {_MOST_STEPS:,} steps of {step:g} s; got "
            f"{late.max():g} s: write all times in seconds"
        )
    return late


def _process(steps: np.ndarray) -> DelayProcess:
    """Return the law of latencies, rounded up to whole steps."""
    whole = np.ceil(steps - 1e-6).astype(np.int64)
    law = np.bincount(whole) / len(whole)
    law[law < _LEAST] = 0.0
    if (law > 0).sum() == 1:
        return Constant(int(law.argmax()))
    return Categorical(tuple((law / law.sum()).tolist()))
