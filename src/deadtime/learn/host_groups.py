"""Groups of runs whose environments are outside the program.

On a CPU each run is trained alone. On a GPU, runs on frames of a family are trained together, even
with different games, agents, delays and seeds. So are runs on numbers with large networks, if they
have the same environment, learner and length. Runs with small networks are trained on the CPU even
if there is a GPU (see `host_programs.is_large`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from deadtime.learn.host_loop import HostGroup
from deadtime.learn.host_programs import Pair, bytes_of, program_of, trains_together
from deadtime.learn.memory import most_at_once
from deadtime.learn.program import Program
from deadtime.learn.run_spec import DeepRun

RunT = TypeVar("RunT", bound=DeepRun)
_MOST_RUNS = 8
"""The runs of a group on frames; more would wait for emulators and take memory."""
_MOST_TOGETHER = 128
"""The runs of a group on numbers; more make an update no faster."""


def groups_of(pairs: Sequence[Pair], device: str) -> list[HostGroup]:
    """Return the groups in which pairs are trained.

    On a GPU, two groups of runs on frames are trained at a time: while the emulators of one group
    wait for their next actions, those of the other group play.
    """
    found = []
    for part in parts_of(pairs, device):
        program = program_of(part[0][0], device)
        halves = (part[::2], part[1::2]) if program.env is None else (part,)
        found += [HostGroup(program, half) for half in halves if half]
    return found


def parts_of(pairs: Sequence[tuple[RunT, int]], device: str) -> list[list[tuple[RunT, int]]]:
    """Return the pairs that are trained together; on frames, those of two groups.

    On a CPU each pair is alone.
    """
    found: dict[Any, list[tuple[RunT, int]]] = {}
    for i, (spec, seed) in enumerate(pairs):
        shares = trains_together(spec, device)
        place = (program_of(spec, device), spec.length, spec.family.name) if shares else i
        found.setdefault(place, []).append((spec, seed))
    parts = []
    for place, mine in found.items():
        most = 1 if isinstance(place, int) else _most_runs(place[0], mine)
        parts += [mine[i : i + most] for i in range(0, len(mine), most)]
    return parts


def _most_runs(program: Program, pairs: Sequence[Pair]) -> int:
    """Return the most runs of a part."""
    if program.env is None:
        return 2 * _MOST_RUNS
    return max(1, min(_MOST_TOGETHER, most_at_once(bytes_of(program, pairs[:1]))))
