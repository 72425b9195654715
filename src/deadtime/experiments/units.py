"""Work in units that any process can do: runs that are trained together, as JSON, and what they need.

On a CPU a unit is one deep run, or some seeds of a tabular spec; on a GPU it is what shares a compiled program. Units are
formed by this one rule whatever runs them, of all that is missing, and a unit's records are kept all or none: so the same
sweep has the same units, and the same bits, however it is scheduled, interrupted and resumed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple

from deadtime.experiments import records
from deadtime.experiments.deep_specs import DeepSpec
from deadtime.experiments.records import Record
from deadtime.experiments.specs import TabularSpec
from deadtime.experiments.store import checkpoints_of
from deadtime.machine import cores
from deadtime.training.result import Spec, from_canonical
from deadtime.training.tabular import run_seeds, table_of

Pair = tuple[Spec, int]
_SEEDS = 8
"""Of a tabular spec, in one unit."""


class Unit(NamedTuple):
    """Runs that are trained together, and what they need."""

    runs: tuple[Pair, ...]
    cpus: int = 1
    gpus: int = 0
    memory: int = 0
    """Bytes, where they are known."""

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that stand for its runs."""
        return hashlib.sha256(json.dumps([(spec.id, seed) for spec, seed in self.runs]).encode()).hexdigest()[:12]

    @property
    def work(self) -> int:
        """Steps or episodes of all its runs."""
        return sum(spec.episodes if isinstance(spec, TabularSpec) else spec.length for spec, _ in self.runs)

    @property
    def name(self) -> str:
        """What people call it."""
        spec, seed = self.runs[0]
        more = f" and {len(self.runs) - 1} more" if len(self.runs) > 1 else ""
        return f"{spec.env} {spec.agent} m={spec.delay} seed {seed}{more}"

    def said(self) -> str:
        """As JSON, for another process."""
        return json.dumps([[spec.canonical(), seed] for spec, seed in self.runs])


def heard(said: str) -> Unit:
    """The runs of a unit that was `said`."""
    return Unit(tuple((from_canonical(spec), seed) for spec, seed in json.loads(said)))


def units_of(missing: Sequence[tuple[Spec, Sequence[int]]], device: str) -> list[Unit]:
    """All that is missing, in units; the largest first, so that none is left alone at the end."""
    found = []
    for spec, seeds in missing:
        if isinstance(spec, TabularSpec):
            parts = [seeds[i : i + _SEEDS] for i in range(0, len(seeds), _SEEDS)]
            memory = int(4 * table_of(spec)[1])  # of one seed at a time, while its table grows
            found += [Unit(tuple((spec, seed) for seed in part), memory=memory) for part in parts]
    pairs = [(spec, seed) for spec, seeds in missing if isinstance(spec, DeepSpec) for seed in seeds]
    if pairs:
        found += _deep_units(pairs, device)
    return sorted(found, key=lambda unit: -unit.work)


def _deep_units(pairs: list[tuple[DeepSpec, int]], device: str) -> list[Unit]:
    from deadtime.training import atari, deep  # noqa: PLC0415  (JAX takes a while to load)

    gpus = int(device == "gpu")
    found = []
    for program, mine in deep.groups_of([pair for pair in pairs if not pair[0].outside], device):
        found.append(Unit(tuple(mine), 1, gpus, 2 * deep.bytes_of(program, mine)))
    for mine in atari.parts_of([pair for pair in pairs if pair[0].atari], device):
        memory = 2 * atari.bytes_of(atari.program_of(mine[0][0], device), mine)
        found.append(Unit(tuple(mine), cores(), gpus, memory))
    found += [Unit(((spec, seed),)) for spec, seed in pairs if spec.outside and not spec.atari]  # they learn on a CPU
    return found


def trained(unit: Unit, checkpoints: str | None, progress: Callable[[int], None]) -> list[Record]:
    """The records of a unit's runs, a spec each; its checkpoints are kept in a folder or at a URL until these are safe."""
    progress(0)  # it has begun
    specs = {spec.id: spec for spec, _ in unit.runs}
    checked = {name: replace(spec) for name, spec in specs.items()}  # with their environments: from JSON they are data
    unit = unit._replace(runs=tuple((checked[spec.id], seed) for spec, seed in unit.runs))
    first, together = unit.runs[0][0], dict[str, list[Record]]()
    with checkpoints_of(unit.id, checkpoints) as folder:
        if isinstance(first, TabularSpec):
            new = run_seeds(first, tuple(seed for _, seed in unit.runs), progress, keep_policies=False)
        else:
            from deadtime.training.deep import run_deep  # noqa: PLC0415

            new = run_deep(list(unit.runs), progress, False, folder, drop_checkpoints=False)  # type: ignore[arg-type]
        for record in new:
            together.setdefault(record.id, []).append(record)
    return [reduce(records.joined, those) for those in together.values()]


def reason(error: Exception) -> str:
    """Why a unit failed, and where."""
    at = [f"{Path(frame.filename).name}, line {frame.lineno}" for frame in extract_tb(error.__traceback__)[-1:]]
    return f"{type(error).__name__}: {error} ({', '.join(at)})"
