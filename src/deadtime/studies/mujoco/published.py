"""Returns that others report for delayed MuJoCo, as anchors beside ours.

None of the sources has our protocol, so each row has its version, its delay and what differs.
`delay` is the total number of steps by which an action lands late.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """The return of one method in one task."""

    task: str
    """The task's name without its version."""
    version: str
    method: str
    agent: str
    """Our agent of the same kind; "" if there is none."""
    delay: int
    steps: int | None
    """The number of training steps; None if the source does not say."""
    value: float
    source: str
    note: str


_MILLION = 1_000_000
_BPQL = "BPQL, NeurIPS 2023, read off a figure"
_RERUN = "independent rerun of VDPO with 3 seeds (github.com/Waybaba/VDPO)"
_LEAK = "trains in the undelayed environment; the delay is in evaluation only"
_SHIFT = "github.com/Archerkattri/actionshift, 3 seeds"


def _bpql(method: str, agent: str, *values: float) -> list[Published]:
    tasks = ("HalfCheetah", "Walker2d", "Hopper")
    note = "rewards of the first steps of an evaluation episode are dropped"
    return [
        Published(task, "v3", method, agent, 9, _MILLION, value, _BPQL, note)
        for task, value in zip(tasks, values, strict=True)
    ]


def _vdpo(task: str, undelayed: float, *values: float) -> list[Published]:
    rows = [
        Published(task, "v4", "VDPO", "", delay, _MILLION, value, _RERUN, _LEAK)
        for delay, value in zip((5, 25, 50), values, strict=True)
    ]
    none = "no delay"
    return [Published(task, "v4", "SAC", "augmented", 0, _MILLION, undelayed, _RERUN, none), *rows]


ROWS: list[Published] = [
    *_bpql("BPQL", "projected", 5900, 4100, 3000),
    *_bpql("augmented SAC", "augmented", 1300, 1600, 1500),
    *_bpql("plain SAC", "oblivious", -300, 20, 70),
    *_vdpo("HalfCheetah", 7047, 5591, 2044, 2382),
    *_vdpo("Hopper", 2236, 2407, 992, 268),
    *_vdpo("Walker2d", 3709, 4830, 654, 294),
    *_vdpo("Ant", 4628, 4559, 1921, 2210),
    *(
        Published(task, "v4", method, agent, 5, None, value, _SHIFT, "steps are not stated")
        for method, agent, values in (
            ("augmented SAC", "augmented", (1951, 1104, 716)),
            ("plain SAC", "oblivious", (-208, 41, -67)),
        )
        for task, value in zip(("HalfCheetah", "Walker2d", "Ant"), values, strict=True)
    ),
]
"""All rows, from public figures and repositories read in November 2026."""


def beside(task: str, agent: str, delay: int) -> list[Published]:
    """Return the published rows of an agent's kind in a task, at the nearest published delay."""
    rows = [row for row in ROWS if (row.task, row.agent) == (task, agent)]
    if not rows:
        return []
    nearest = min(abs(row.delay - delay) for row in rows)
    return [row for row in rows if abs(row.delay - delay) == nearest and nearest <= 1]
