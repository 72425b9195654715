"""Checks of a record after it was read: whether a training can give it.

Digests detect damage, not forgery, so a record may contain anything.
"""

from __future__ import annotations

import math
import re
from datetime import date

import numpy as np

from deadtime._support.files import listed
from deadtime.runs.record import Record

KINDS = {
    "scores": float,
    "training_scores": float,
    "seconds": float,
    "episodes": int,
    "status": str,
}
"""The kind of each list that has one entry for each seed."""
_LARGEST = float(np.finfo(np.float32).max)
"""The largest return that a curve, a figure and an event can show."""
_LONGEST_SECONDS, _LONGEST_STATUS, _MOST_POINTS = 1e12, 200, 10_000


def check_record(record: Record) -> None:
    """Raise if no training can give this record."""
    _check_seeds(record)
    _check_lists(record)
    if not isinstance(record.id, str) or not re.fullmatch("[0-9a-f]{12}", record.id):
        raise ValueError(f"its id is {record.id!r:.50}, and not twelve hexadecimal digits")
    if not isinstance(record.spec["env"], str) or record.spec["kind"] not in ("tabular", "deep"):
        raise ValueError("the name of its environment or the kind of its run is not valid")
    _check_rows(record)


def _check_seeds(record: Record) -> None:
    seeds = listed(record.seeds, int)
    kept = listed(record.policy_seeds, int)
    described: list[int] = []
    for one in listed(record.provenance, dict):
        date.fromisoformat(one["date"])
        described += listed(one["seeds"], int)
    if (
        not seeds
        or min(seeds) < 0
        or len({*seeds}) < len(seeds)
        or len({*kept}) < len(kept)
        or {*kept} - {*seeds}
    ):
        raise ValueError("its seeds are repeated, or lack a seed whose policy was kept")
    if sorted(described) != sorted(seeds):
        raise ValueError("its provenance does not name each seed once")
    if {name.partition("/")[0] for name in record.policies} - {str(seed) for seed in kept}:
        raise ValueError("it has the policy of a seed that it does not list")


def _check_lists(record: Record) -> None:
    count = len(record.seeds)
    if any(len(listed(getattr(record, name), kind)) != count for name, kind in KINDS.items()):
        raise ValueError(f"it has {count} seeds, but not as many of each of {', '.join(KINDS)}")
    for score in record.scores + record.training_scores:
        if not math.isnan(score) and abs(score) > _LARGEST:
            raise ValueError(
                f"one of its scores is {score:g}, and returns lie within {_LARGEST:.3g}"
            )
    if not all(0 <= seconds < _LONGEST_SECONDS for seconds in record.seconds):
        raise ValueError(f"its seconds are not all from 0 to {_LONGEST_SECONDS:g}")
    if min(record.episodes) < 0:
        raise ValueError("a number of episodes in it is negative")
    if max(map(len, record.status)) > _LONGEST_STATUS:
        raise ValueError(f"a status in it has more than {_LONGEST_STATUS} letters")


def _check_rows(record: Record) -> None:
    points, curve, others, seeds = record.points, record.curve, record.others, len(record.seeds)
    if (
        points.ndim != 1
        or points.dtype.kind != "i"
        or not 0 < points.size <= _MOST_POINTS
        or points.min() < 0
    ):
        raise ValueError(
            f"the points of its curve are {points.dtype} of shape {points.shape}, or negative"
        )
    if curve.shape != (seeds, len(points)) or curve.dtype != np.float32:
        raise ValueError(
            f"its curve is {curve.dtype} of shape {curve.shape} at points of shape {points.shape}"
        )
    parts = {"returns under other delays": others, "evaluations": record.evaluations}
    for name, part in parts.items():
        if part.size and (part.ndim != 2 or len(part) != seeds or part.dtype != np.float32):
            raise ValueError(f"its {name} are {part.dtype} of shape {part.shape}")
