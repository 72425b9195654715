"""Runs to do: specs with their seeds, and the seeds that are not recorded yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from deadtime.runs import records
from deadtime.runs.specs import Spec
from deadtime.runs.units import Keep

Runs = Sequence[tuple[Spec, Sequence[int]]]


def missing(
    runs: Iterable[tuple[Spec, Sequence[int]]], root: Path, keep: Keep | None = None
) -> Runs:
    """Return the seeds of each spec that its record does not hold, each once.

    If `keep` keeps policies of any size, a seed whose record has no policy is missing too.
    """
    kept = {*keep.seeds} if keep is not None and keep.most_bytes is None else set()
    left: dict[str, tuple[Spec, list[int]]] = {}
    known: dict[str, set[int]] = {}
    for spec, seeds in runs:
        if spec.name not in known:
            folder = root / spec.name
            known[spec.name] = _recorded(folder, kept)
        new = [seed for seed in seeds if seed not in known[spec.name]]
        known[spec.name] |= {*new}
        if new:
            left.setdefault(spec.name, (spec, []))[1].extend(new)
    return [*left.values()]


def _recorded(folder: Path, kept: set[int]) -> set[int]:
    """Return the seeds that a record holds; seeds in `kept` need a policy."""
    if not records.exists(folder):
        return set()
    record = records.read(folder)
    return {seed for seed in record.seeds if seed not in kept or seed in record.policy_seeds}


def count(runs: Runs) -> int:
    """Count the runs; each is a spec and a seed."""
    return sum(len(seeds) for _, seeds in runs)
