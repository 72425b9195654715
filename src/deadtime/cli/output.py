"""Text and tables of the results that commands print."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from deadtime._support.terminal import counted
from deadtime.delays import from_json
from deadtime.runs import statistics
from deadtime.runs.result import Result
from deadtime.runs.returns import mean_return
from deadtime.runs.specs import Spec
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.runtime.views import VIEWS

_ESTIMATE = ("mean", "low", "high")
_APART = ("kind", "settings", "learner", "changes")
"""Keys of a spec whose content a summary shows in another form."""


def summary(result: Result) -> dict[str, Any]:
    """Return the settings and scores of a training, by name."""
    spec = result.spec
    shown = {name: value for name, value in spec.canonical().items() if name not in _APART}
    if not isinstance(spec, TabularSpec):
        shown["preset"] = spec.preset
    shown |= _environment_settings(spec)
    process = shown.pop("process", None)
    shown["delay"] = spec.delay if process is None else process
    if isinstance(spec, TabularSpec):
        shown["episodes"] = spec.episodes
    else:
        shown["steps"] = spec.length
    shown["seeds"] = len(result.seeds)
    if not isinstance(spec, TabularSpec) and spec.outside:
        shown["envs"] = spec.envs
    shown |= _learner_settings(spec)
    shown |= {
        "greedy_return": mean_return(result).to_json(),
        "training_return": mean_return(result, result.training_scores).to_json(),
        "scores": [round(score, 6) for score in result.record.scores],
        "seconds_of_all_seeds": round(sum(result.record.seconds), 3),
    }
    if result.diverged:
        shown["diverged"] = result.diverged
    if result.untrained:
        seeds = f"seeds {result.untrained}"
        shown["never_updated"] = f"{seeds}: too few steps for a first update, train longer"
    return shown


def _learner_settings(spec: Spec) -> dict[str, Any]:
    """Return the learner's settings that matter for this agent and environment."""
    shaped = spec.family.shaped
    view = VIEWS[spec.agent]
    left_out = set() if view.predicts else {"model", "members"}
    left_out |= set() if view.projects else {"projection_weight"}
    return {
        name: value
        for name, value in vars(spec.learner).items()
        if (shaped or not name.startswith("shaped")) and name not in left_out
    }


def _environment_settings(spec: Spec) -> dict[str, Any]:
    """Return the environment's settings, with the defaults that matter."""
    environment = spec.environment(0)
    names = ("size", "noise", "perturb", "sticky")
    usual = {name: getattr(environment, name) for name in names if hasattr(environment, name)}
    if not usual.get("noise"):
        usual.pop("perturb", None)
    return usual | spec.settings


def settings_table(shown: dict[str, Any]) -> Table:
    """Return names and values as a table without a head."""
    table = Table("", "", show_header=False)
    for name, value in shown.items():
        table.add_row(name.replace("_", " "), _plain(value))
    return table


def nothing_trained(asked: int, noun: str) -> str:
    """Return the message of a command whose runs were all recorded before."""
    which = f"the {noun} is" if asked == 1 else f"all {counted(asked, noun)} are"
    return f"{which} recorded already: nothing was trained"


def estimate(found: dict[str, Any]) -> str:
    """Return a mean and its interval as text."""
    numbers = (np.nan if found[name] is None else found[name] for name in _ESTIMATE)
    return str(statistics.Estimate(*numbers))


def _plain(value: object) -> str:
    """Return a value as the text of a cell."""
    if isinstance(value, dict) and set(value) == {*_ESTIMATE}:
        return estimate(value)
    if isinstance(value, dict) and "kind" in value:
        return str(from_json(value))
    if isinstance(value, list) and all(isinstance(item, float) for item in value):
        return ", ".join(f"{item:.3f}" for item in value)
    return str(value)
