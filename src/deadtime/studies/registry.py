"""The registry of experiments, the paper's and our own, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence

from deadtime._support.names import nearest
from deadtime.learn.presets import PRESETS
from deadtime.studies import identify, mujoco, random_delay
from deadtime.studies.experiment import Experiment
from deadtime.studies.paper import atari, physical, summary, tabular
from deadtime.studies.paper.stationarity import STATIONARITY
from deadtime.studies.projected import PROJECTED

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for group in (
        summary.EXPERIMENTS,
        (STATIONARITY,),
        tabular.EXPERIMENTS,
        physical.EXPERIMENTS,
        atari.EXPERIMENTS,
        random_delay.EXPERIMENTS,
        (PROJECTED,),
        mujoco.EXPERIMENTS,
        identify.EXPERIMENTS,
    )
    for one in group
}
ALL = "all"


def chosen(ids: Sequence[str], preset: str | None, smoke: bool = False) -> list[Experiment]:
    """Return the experiments of the names given, or of `all`.

    If an experiment exists under several presets, return the requested one, or all of them. `all`
    means the experiments that one command can finish; for a smoke test, every experiment.
    """
    every = EXPERIMENTS.values()
    known = dict.fromkeys(name for one in every for name in (one.id, one.name))
    for name in ids:
        if name not in (*known, ALL):
            wrong = f"no experiment is called {name!r}{nearest(name, known)}"
            raise ValueError(f"{wrong}: `deadtime reproduce --list` shows them")
    if preset is not None and preset not in PRESETS:
        wrong = f"no preset is called {preset!r}{nearest(preset, PRESETS)}"
        raise ValueError(f"{wrong}: choose one of {', '.join(PRESETS)}")
    other = {*PRESETS} - {preset} if preset is not None else set()
    found = [
        one
        for one in every
        if {one.id, one.name} & {*ids} or (ALL in ids and (smoke or not one.in_part))
        if one.part not in other
    ]
    if not found:
        raise ValueError(f"{', '.join(ids)} is not of preset {preset}: leave one of them out")
    return found
