"""Units of work: runs that are trained together, and the resources that they need.

On a CPU a unit is one deep run, or some seeds of a tabular spec. On a GPU it is a group of runs
that share a compiled program. All missing runs are divided into units by this one rule, and a
unit's records are written all or none. So a sweep has the same units, and gives the same bits,
however it is scheduled, interrupted and resumed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from threading import Event
from traceback import extract_tb
from typing import NamedTuple

from deadtime._support.ending import uninterrupted
from deadtime._support.machine import cores
from deadtime.learn.outcome import Outcome
from deadtime.learn.tabular_loop import run_seeds, table_of
from deadtime.runs.checkpoint_store import checkpoints_of
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.record import Record, joined, record_of
from deadtime.runs.specs import Spec, from_canonical
from deadtime.runs.tabular_specs import TabularSpec

Pair = tuple[Spec, int]
SEEDS_A_UNIT = 8
"""The largest number of seeds of a tabular spec in one unit."""
KEPT_POLICY_BYTES = 2**17
"""The largest policy of one seed that records of a study keep, in bytes."""


class Keep(NamedTuple):
    """The choice of the policies that records keep."""

    seeds: tuple[int, ...] = ()
    most_bytes: int | None = None
    """The largest policy that is kept, in bytes; None: any size."""

    def kept(self, record: Record) -> Record:
        """Return the record of one seed, with its policy only if that is to be kept."""
        wanted = record.policies and {*record.seeds} <= {*self.seeds}
        if wanted and (self.most_bytes is None or record.policy_bytes() <= self.most_bytes):
            return record
        return record.without_policies()


class Unit(NamedTuple):
    """Runs that are trained together, and the resources that they need."""

    runs: tuple[Pair, ...]
    cpus: int = 1
    gpus: int = 0
    memory: int = 0
    """Bytes of memory; 0 if unknown."""
    keep: Keep = Keep()
    """The policies that the records keep."""

    @property
    def id(self) -> str:
        """The identity of the unit's runs: twelve hexadecimal digits."""
        return hashlib.sha256(
            json.dumps([(spec.id, seed) for spec, seed in self.runs]).encode()
        ).hexdigest()[:12]

    @property
    def work(self) -> int:
        """The number of steps, or of episodes, of all runs."""
        return sum(
            spec.episodes if isinstance(spec, TabularSpec) else spec.length for spec, _ in self.runs
        )

    @property
    def name(self) -> str:
        """The name of the unit in messages."""
        spec, seed = self.runs[0]
        more = f" and {len(self.runs) - 1} more" if len(self.runs) > 1 else ""
        return f"{spec.env} {spec.agent} {spec.delay_text} seed {seed}{more}"

    def to_json(self) -> str:
        """Return the unit as JSON, for another process."""
        for spec, _ in self.runs:
            spec.family.check_processes(spec.env)
        runs = [[spec.canonical(), seed] for spec, seed in self.runs]
        return json.dumps(
            {"runs": runs, "seeds": self.keep.seeds, "most_bytes": self.keep.most_bytes}
        )


def from_json(text: str) -> Unit:
    """Return a unit from the text of `to_json`."""
    content = json.loads(text)
    runs = tuple((from_canonical(spec), seed) for spec, seed in content["runs"])
    return Unit(runs, keep=Keep(tuple(content["seeds"]), content["most_bytes"]))


def units_of(missing: Sequence[tuple[Spec, Sequence[int]]], device: str) -> list[Unit]:
    """Divide missing runs into units, the largest first, so that no long one starts last."""
    found = []
    for spec, seeds in missing:
        if isinstance(spec, TabularSpec):
            parts = [seeds[i : i + SEEDS_A_UNIT] for i in range(0, len(seeds), SEEDS_A_UNIT)]
            memory = int(4 * table_of(spec)[1])  # a seed's table while it grows
            found += [Unit(tuple((spec, seed) for seed in part), memory=memory) for part in parts]
    pairs = [
        (spec, seed) for spec, seeds in missing if isinstance(spec, DeepSpec) for seed in seeds
    ]
    if pairs:
        found += _deep_units(pairs, device)
    return sorted(found, key=lambda unit: -unit.work)


def _deep_units(pairs: list[tuple[DeepSpec, int]], device: str) -> list[Unit]:
    with uninterrupted():
        from deadtime.learn import compiled_groups, host_groups  # noqa: PLC0415  (JAX)

    gpus = int(device == "gpu")
    found = []
    inside = [pair for pair in pairs if not pair[0].outside]
    for program, mine in compiled_groups.parts_of(inside, device):
        found.append(Unit(tuple(mine), 1, gpus, 2 * compiled_groups.bytes_of(program, mine)))
    for mine in host_groups.parts_of([pair for pair in pairs if pair[0].outside], device):
        family = mine[0][0].family
        if not family.in_processes:  # these learn on a CPU
            found.append(Unit(tuple(mine)))
            continue
        memory = 2 * host_groups.memory_of(mine, device)
        found.append(Unit(tuple(mine), cores(), gpus, memory))
    return found


def trained(
    unit: Unit,
    checkpoints: str | None,
    progress: Callable[[int], None],
    stopped: Event | None = None,
    together: bool = False,
) -> list[Record]:
    """Train a unit's runs, and return a record for each spec.

    Checkpoints stay in a folder or at a URL until the caller deletes them. When `stopped` is set,
    deep runs write checkpoints and return no records. Of a tabular spec, the finished seeds are
    returned. With `together`, for very short runs, runs share programs on a CPU too.
    """
    progress(0)  # reports the start
    specs = {spec.id: replace(spec) for spec, _ in unit.runs}  # replace checks specs from JSON
    first = specs[unit.runs[0][0].id]
    found: dict[str, list[Record]] = {}
    with checkpoints_of(unit.id, checkpoints) as folder:
        if isinstance(first, TabularSpec):
            seeds = [seed for _, seed in unit.runs]
            new = _tabular_records(first, seeds, unit.keep, progress, stopped)
        else:
            new = _deep_records(unit, specs, progress, folder, stopped, together)
        for record in new:
            found.setdefault(record.id, []).append(unit.keep.kept(record))
    return [reduce(joined, those) for those in found.values()]


def _tabular_records(
    spec: TabularSpec,
    seeds: list[int],
    keep: Keep,
    progress: Callable[[int], None],
    stopped: Event | None,
) -> Iterator[Record]:
    """Train the seeds that keep policies first; the tables of other seeds are freed once scored."""
    for kept in (True, False):
        mine = tuple(seed for seed in seeds if (seed in keep.seeds) == kept)
        if mine:
            for outcome in run_seeds(spec, mine, progress, kept, stopped):
                yield _record(spec, outcome)


def _deep_records(
    unit: Unit,
    specs: dict[str, Spec],
    progress: Callable[[int], None],
    folder: Path | None,
    stopped: Event | None,
    together: bool,
) -> Iterator[Record]:
    with uninterrupted():
        from deadtime.learn.deep_training import run_deep  # noqa: PLC0415  (JAX)

    checked = [(specs[spec.id], seed) for spec, seed in unit.runs]
    pairs = [(spec, seed) for spec, seed in checked if isinstance(spec, DeepSpec)]
    kept = any(seed in unit.keep.seeds for _, seed in pairs)
    for spec, outcome in run_deep(pairs, progress, kept, folder, together, stopped):
        yield _record(spec, outcome)


def _record(spec: Spec, outcome: Outcome) -> Record:
    """Return the record of an outcome, with the provenance of its environment."""
    about = spec.family.provenance(spec.environment(0))
    notes = outcome.notes | ({"environment": about} if about else {})
    return record_of(spec, replace(outcome, notes=notes))


def reason(error: Exception) -> str:
    """Return why a unit failed, and at which line."""
    at = [
        f"{Path(frame.filename).name}, line {frame.lineno}"
        for frame in extract_tb(error.__traceback__)[-1:]
    ]
    return f"{type(error).__name__}: {error} ({', '.join(at)})"
