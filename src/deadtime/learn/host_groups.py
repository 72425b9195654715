"""Groups of runs whose environments are outside the program.

On a CPU each run is trained alone. On a GPU, runs on frames are trained together if their
environments are of one family, even with different games, agents, delays and seeds. So are runs on
numbers with large networks, if they have the same environment, learner and length. Runs with small
networks are trained on the CPU even if there is a GPU (see `host_programs.is_large`).

Two groups are trained at a time on a GPU: while the environments and the host of one group are
busy, the GPU learns for the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from deadtime.learn.host_loop import HostGroup
from deadtime.learn.host_programs import Pair, bytes_of, program_of, trains_together
from deadtime.learn.memory import most_at_once
from deadtime.learn.program import Program
from deadtime.learn.run_spec import DeepRun
from deadtime.runtime.views import VIEWS

RunT = TypeVar("RunT", bound=DeepRun)
_MOST_RUNS = 12
"""The largest number of runs in a group on frames; more would wait for emulators."""
_MOST_TOGETHER = 128
"""The largest number of runs on numbers trained at a time; more do not use the GPU better."""


def groups_of(pairs: Sequence[Pair], device: str) -> list[HostGroup]:
    """Return the groups in which pairs are trained."""
    return [HostGroup(program, mine) for program, mine in programs_of(pairs, device)]


def parts_of(pairs: Sequence[tuple[RunT, int]], device: str) -> list[list[tuple[RunT, int]]]:
    """Return the pairs that are trained at a time: on a CPU one pair, on a GPU up to two groups."""
    found: list[list[tuple[RunT, int]]] = []
    free = 0
    """The number of runs on numbers that the last part has room for."""
    for program, mine in _wholes(pairs, device):
        joins = program.together and len(mine) <= free
        if joins:
            found[-1] += mine
        else:
            found.append(mine)
        free = 0 if joins or not program.together else _most_runs(program, mine) - len(mine)
    return found


def memory_of(pairs: Sequence[Pair], device: str) -> int:
    """Return the size of the states of pairs that are trained at a time."""
    return sum(bytes_of(program, mine) for program, mine in programs_of(pairs, device))


def programs_of(
    pairs: Sequence[tuple[RunT, int]], device: str
) -> list[tuple[Program, list[tuple[RunT, int]]]]:
    """Return each group's program and pairs; runs on frames make two groups."""
    found = []
    for program, mine in _wholes(pairs, device):
        halves = (mine[::2], mine[1::2]) if program.env is None else (mine,)
        found += [(program, half) for half in halves if half]
    return found


def _wholes(
    pairs: Sequence[tuple[RunT, int]], device: str
) -> list[tuple[Program, list[tuple[RunT, int]]]]:
    """Return the pairs that share a program, as many as are trained at a time."""
    found: dict[Any, list[tuple[RunT, int]]] = {}
    for i, (spec, seed) in enumerate(pairs):
        shares = trains_together(spec, device)
        place = (program_of(spec, device), spec.length, spec.family.name) if shares else i
        found.setdefault(place, []).append((spec, seed))
    wholes = []
    for place, mine in found.items():
        alone = isinstance(place, int)
        program = program_of(mine[0][0], device) if alone else _narrowed(place[0], mine)
        most = 1 if alone else _most_runs(program, mine)
        wholes += [(program, mine[i : i + most]) for i in range(0, len(mine), most)]
    return wholes


def _narrowed(program: Program, pairs: Sequence[tuple[RunT, int]]) -> Program:
    """Return a program without a forward model if none of its runs has one."""
    if program.env is None or program.view is not None:
        return program
    return replace(program, may_predict=any(VIEWS[spec.agent].predicts for spec, _ in pairs))


def _most_runs(program: Program, pairs: Sequence[tuple[RunT, int]]) -> int:
    """Return the largest number of runs that are trained at a time."""
    if program.env is None:
        return 2 * _MOST_RUNS
    return max(1, min(_MOST_TOGETHER, most_at_once(bytes_of(program, pairs[:1]))))
