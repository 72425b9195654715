"""The experiment `identification`: its answers in one file, their table and their figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deadtime._support.pictures import mark_picture, save_picture
from deadtime.runs.figures import new_figure
from deadtime.runs.result import Results
from deadtime.studies.answers import Answers
from deadtime.studies.experiment import SMOKE, Experiment
from deadtime.studies.identify.cases import Case, all_cases, answer, few_cases
from deadtime.studies.identify.trainings import TRAININGS, missing_package

_FILE = "identification.json"
KNOWN_WIDTH = 0.3
"""A fraction of a step counts as known if the interval of the delay is at most this wide."""
_METHODS = {
    "identify": ("deadtime identify", "#0072B2"),
    "arx": ("ARX order search", "#E69F00"),
    "cross_correlation": ("cross-correlation", "#999999"),
}


def _answered(case: Case, root: Path) -> dict[str, Any]:
    """Return a case with its answer."""
    return {"case": asdict(case), "answer": answer(case, root)}


def _answers(cases: Callable[[], list[Case]]) -> Answers:
    """Return the answers to cases; those whose environment is not installed are left out."""
    return Answers(_FILE, lambda: [case for case in cases() if not case.missing], _answered)


def rows_of(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the table: a row for each kind, environment, policy and length of logs."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in found:
        law = one["delay_true"] if one["kind"] == "random" else ""
        key = (one["kind"], one["environment"], one["policy"], one["steps_of_log"], law)
        groups.setdefault(key, []).append(one)
    return [_row(key, ones) for key, ones in groups.items()]


def _row(key: tuple[Any, ...], ones: list[dict[str, Any]]) -> dict[str, Any]:
    kind, environment, policy, steps, law = key
    row: dict[str, Any] = {
        "kind": kind,
        "environment": environment,
        "policy": policy,
        "steps": steps,
        "law": law,
        "logs": len(ones),
    }
    row |= dict.fromkeys(
        ("right", "covered", "mean_width", "arx_right", "cross_correlation_right"), ""
    )
    row |= dict.fromkeys(("known_parts", "mean_error", "largest_error"), "")
    row |= dict.fromkeys(("distance_to_ages", "process", "return"), "")
    if kind == "return":
        return row | {
            "logs": 0,
            "identifiable": "",
            "return": _mean([one["return"] for one in ones]),
        }
    sure = [one for one in ones if one["identifiable"]]
    row["identifiable"] = len(sure)
    if kind == "whole":
        row |= {
            "right": sum(is_right(one) for one in sure),
            "covered": sum(is_covered(one) for one in sure),
            "mean_width": _mean([width(one) for one in sure]),
            "arx_right": sum(one["arx"] == int(one["delay_true"]) for one in ones),
            "cross_correlation_right": sum(
                one["cross_correlation"] == int(one["delay_true"]) for one in ones
            ),
        }
    elif kind == "part":
        known = [one for one in sure if width(one) <= KNOWN_WIDTH]
        errors = [abs(one["steps"] - float(one["delay_true"])) for one in known]
        row |= {
            "covered": sum(is_covered(one) for one in sure),
            "mean_width": _mean([width(one) for one in sure]),
            "known_parts": len(known),
            "mean_error": _mean(errors),
            "largest_error": max(errors, default=float("nan")),
        }
    elif kind == "random":
        (one,) = ones
        row |= {"distance_to_ages": one["distance_to_ages"], "process": one["process"] or ""}
    return row


def is_right(one: dict[str, Any]) -> bool:
    """Return whether an answer is a constant delay that equals the true one."""
    whole_delay = not one["varies"] and one["delay"] == int(one["delay_true"])
    return whole_delay and one["steps"] == one["delay"]


def is_covered(one: dict[str, Any]) -> bool:
    """Return whether the interval of a constant delay contains the truth."""
    if one["varies"] or one["steps_interval"] is None:
        return False
    low, high = one["steps_interval"]
    return bool(low <= float(one["delay_true"]) <= high)


def width(one: dict[str, Any]) -> float:
    """Return the width of the interval in steps; 0 if it has one whole delay."""
    low, high = one["steps_interval"] or one["interval"]
    return float(high - low)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


@dataclass(frozen=True)
class _Study(Experiment):
    """An experiment whose cases are logs; its trainings are those of the policies."""

    def tiny(self) -> Experiment:
        """Return the experiment with a short log of each kind."""

        def draw(results: Results, root: Path) -> Path:
            return mark_picture(_draw(few_cases)(results, root), SMOKE)

        few = replace(self, runs={}, in_part=False, draw=draw, answers=_answers(few_cases))
        return replace(few, table=_table(few_cases))


def _known(cases: Callable[[], list[Case]], root: Path) -> list[dict[str, Any]]:
    """Return the answers with the case; the true delay is `delay_true`."""
    asked = cases()
    found = _answers(cases).kept(root)
    return [
        found[case.id]["answer"]
        | {"delay_true": case.delay, "steps_of_log": case.steps}
        | {name: getattr(case, name) for name in ("kind", "environment", "policy")}
        for case in asked
        if case.id in found
    ]


def _table(cases: Callable[[], list[Case]]) -> Callable[[Results, Path], list[dict[str, Any]]]:
    def table(results: Results, root: Path) -> list[dict[str, Any]]:
        return rows_of(_known(cases, root))

    return table


def _draw(cases: Callable[[], list[Case]]) -> Callable[[Results, Path], Path]:
    def draw(results: Results, root: Path) -> Path:
        """Draw how often each method is right, by environment and policy."""
        rows = [row for row in rows_of(_known(cases, root)) if row["kind"] == "whole"]
        places = list(dict.fromkeys((row["environment"], row["policy"]) for row in rows))
        figure, axes = new_figure(8.0, 0.42 * len(places) + 1.6)
        for shift, (method, (label, color)) in enumerate(_METHODS.items()):
            name = "right" if method == "identify" else f"{method}_right"
            shares = [
                sum(row[name] for row in those) / sum(row["logs"] for row in those)
                for place in places
                for those in [[r for r in rows if (r["environment"], r["policy"]) == place]]
            ]
            heights = np.arange(len(places)) + 0.27 * (shift - 1)
            axes.barh(heights, shares, 0.25, label=label, color=color)
        axes.set_yticks(range(len(places)), [f"{one}, {other}" for one, other in places])
        axes.invert_yaxis()
        axes.set(xlabel="share of logs whose whole delay is found", xlim=(0, 1))
        figure.legend(loc="outside upper center", ncols=3, frameon=False)
        return save_picture(figure, root / "figures" / "identification.png")

    return draw


IDENTIFICATION = _Study(
    "identification",
    "Delays from logs: deadtime identify beside cross-correlation and ARX order search",
    {name: spec for name, spec in TRAININGS.items() if not missing_package(name)},
    range(1),
    _draw(all_cases),
    _table(all_cases),
    in_part=True,
    answers=_answers(all_cases),
)
