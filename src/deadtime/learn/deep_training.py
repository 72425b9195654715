"""Training of deep runs: each run goes to the loop that its environment needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import TypeVar, cast

import jax

from deadtime._support.machine import cores
from deadtime.learn import compiled_groups, host_groups
from deadtime.learn.compiled_groups import CompiledGroup
from deadtime.learn.host_loop import HostGroup
from deadtime.learn.memory import check_memory, keep_compiled, note_compiled
from deadtime.learn.outcome import Outcome
from deadtime.learn.program import Program
from deadtime.learn.run_spec import DeepRun
from deadtime.learn.trainer import Progress, train_groups

RunT = TypeVar("RunT", bound=DeepRun)


def groups_of(
    pairs: Sequence[tuple[RunT, int]], device: str, alone: bool = False
) -> list[CompiledGroup | HostGroup]:
    """Return the groups in which pairs of a spec and a seed are trained on "cpu" or "gpu".

    On a GPU, pairs share a program if they can. With `alone`, a program that contains
    its environment is for one view and delay.
    """
    inside = compiled_groups.parts_of([one for one in pairs if not one[0].outside], device, alone)
    outside = host_groups.groups_of([one for one in pairs if one[0].outside], device)
    return [*(CompiledGroup(program, mine) for program, mine in inside), *outside]


def run_deep(
    pairs: Sequence[tuple[RunT, int]],
    progress: Progress,
    keep_policies: bool = True,
    checkpoints: Path | None = None,
    together: bool = False,
    stopped: Event | None = None,
) -> Iterator[tuple[RunT, Outcome]]:
    """Train pairs, and yield the outcome of each as its group is done (see `trainer`).

    On a GPU, pairs share a program if they can. With `together` they do so on a CPU too, which
    compiles less and steps small networks more slowly.
    """
    keep_compiled()
    device = jax.default_backend()
    groups = groups_of(pairs, "gpu" if together else device)
    workers = _workers(groups, device)
    sizes = sorted(((group.bytes, len(group.pairs)) for group in groups), reverse=True)[:workers]
    check_memory(sum(size for size, _ in sizes), sum(runs for _, runs in sizes))
    found = train_groups(groups, workers, progress, keep_policies, checkpoints, stopped)
    programs = {(spec.id, seed): group.program for group in groups for spec, seed in group.pairs}
    return _noted(cast("Iterator[tuple[RunT, Outcome]]", found), programs)


def _noted(
    found: Iterator[tuple[RunT, Outcome]], programs: dict[tuple[str, int], Program]
) -> Iterator[tuple[RunT, Outcome]]:
    """Yield finished runs, and note that the cache holds their programs."""
    for spec, outcome in found:
        note_compiled(programs[spec.id, outcome.seed])
        yield spec, outcome


def _workers(groups: Sequence[CompiledGroup | HostGroup], device: str) -> int:
    """Return the number of groups that are trained at a time; on a GPU few, since they share it."""
    if device != "gpu":
        return min(len(groups), cores())
    if any(isinstance(one, CompiledGroup) for one in groups):
        return 1
    return 2 if any(one.program.stacked for one in groups) else len(groups)
