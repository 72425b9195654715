"""Comparisons of a user's own records, those that no experiment of deadtime uses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text

from deadtime._support.files import printable, printable_lines
from deadtime._support.pictures import save_picture
from deadtime.delays import from_json
from deadtime.runs import pack_archive, records, statistics
from deadtime.runs.figures import (
    color_of,
    learning_curves,
    name_of,
    new_figure,
    order_of,
    return_against_delay,
    shared_legend,
)
from deadtime.runs.result import Result, Results
from deadtime.runs.returns import columns, difference, difference_columns, mean_return
from deadtime.runs.specs import Spec, folder_of, from_canonical
from deadtime.runs.tabular_specs import TabularSpec

_APART = ("agent", "delay")
_LEARNER = ("changes", "learner")
"""The fields of the learner's settings; agents in one figure may differ in them."""
_LONGEST_TITLE = 500
_SHOWN = 20
_CURVES = 5
"""The largest number of delays whose learning curves are drawn, the shortest first."""
_COLUMNS = 2

Groups = dict[str, dict[tuple[str, int], Result]]


@dataclass(frozen=True)
class Comparison:
    """Agents under several delays in one environment, and functions that show their results."""

    name: str
    title: str
    runs: Mapping[tuple[str, int], Spec]
    seeds: Sequence[int]
    draw: Callable[[Results, Path], Path]
    """The function that draws the figure into a folder and returns its path."""
    table: Callable[[Results, Path], list[dict[str, Any]]]
    """The function that returns the rows of the figure's numbers."""


def refused(root: Path, also: Iterable[str] = ()) -> dict[str, str]:
    """Return the records and packs of a folder that can't be shown: names and reasons.

    Such a record can't be read, or is outdated. The names `also` are checked too.
    """
    found = pack_archive.unreadable(root)
    for folder in sorted(root / name for name in {*records.names(root), *also}):
        try:
            if records.exists(folder):  # which raises for a link
                record = records.read(folder)
                if from_canonical(record.spec).id != record.id:
                    why = "is outdated, since a part that it uses has changed: train it again"
                    found[folder.name] = f"{folder} {why}"
        except (ValueError, OSError, ImportError, MemoryError) as error:
            found[folder.name] = str(error)
    return found


def experiments(root: Path, but: Collection[str] = ()) -> list[tuple[Comparison, Results]]:
    """Return a comparison and its results for each environment and settings in a folder.

    Records with a name in `but` are left out.
    """
    together: dict[str, dict[tuple[str, int], list[Result]]] = {}
    for folder in (root / name for name in records.names(root)):
        if folder.name in but:
            continue
        record = records.read(folder)
        outdated = record.id != from_canonical(record.spec).id
        if folder_of(record) in but or outdated:
            continue
        result = Result(record)
        about = json.dumps(
            {k: v for k, v in result.spec.canonical().items() if k not in _APART + _LEARNER},
            sort_keys=True,
        )
        together.setdefault(about, {}).setdefault(
            (result.spec.agent, result.spec.delay), []
        ).append(result)
    groups: Groups = {}
    for about, group in sorted(together.items()):
        groups |= _parted(about, group)
    return [_experiment(json.loads(about), group) for about, group in groups.items()]


def _parted(about: str, group: Mapping[tuple[str, int], list[Result]]) -> Groups:
    """Divide a group so that each agent has one setting at each delay; drop copies."""
    if all(len({result.record.id for result in those}) == 1 for those in group.values()):
        return {about: {key: those[0] for key, those in group.items()}}
    parts: Groups = {}
    for key, those in group.items():
        for result in those:
            learner = {
                name: value for name, value in result.spec.canonical().items() if name in _LEARNER
            }
            content = json.dumps(json.loads(about) | learner, sort_keys=True)
            parts.setdefault(content, {}).setdefault(key, result)
    return parts


def _experiment(
    content: dict[str, Any], group: Mapping[tuple[str, int], Result]
) -> tuple[Comparison, Results]:
    """Return the comparison of a group and its results, in the order of figures."""
    title = content["env"]
    for name, value in content.items():
        if name == "process":
            title += f", delay {from_json(value)}"
        elif isinstance(value, dict):
            title += "".join(
                f", {key.replace('_', ' ')} {number}" for key, number in sorted(value.items())
            )
        elif name not in ("env", "kind"):
            title += f", {name.replace('_', ' ')} {value}"
    title = printable(title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE]}…")
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:6]
    slug = f"{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')[:150]}-{digest}"
    results: Results = {
        key: group[key] for key in sorted(group, key=lambda key: (order_of(key[0]), key[1]))
    }
    seeds = sorted({seed for result in results.values() for seed in result.seeds})

    def draw(results: Results, root: Path) -> Path:
        return save_picture(_figure(title, results), root / "figures" / f"{slug}.png")

    runs = {key: result.spec for key, result in results.items()}
    return Comparison(slug, title, runs, seeds, draw, _table), results


def _figure(title: str, results: Results) -> Figure:
    """Return the figure of a comparison: return against delay, and learning curves."""
    delays = sorted({m for _, m in results})
    shown = delays[:_CURVES]
    compared = len(results) > 1
    panels = len(shown) + compared
    columns = min(panels, _COLUMNS)
    rows = -(-panels // columns)
    figure, grid = new_figure(1 + 4.4 * columns, 0.9 + 3.3 * rows, rows, columns, squeeze=False)
    axes = [*grid.flat]
    for unused in axes[panels:]:
        unused.set_axis_off()
    if compared:
        if len(delays) > 1:
            return_against_delay(axes[0], results)
        else:
            _returns_of_agents(axes[0], {agent: one for (agent, _), one in results.items()})
        axes[0].set_title("greedy return after training", fontsize=10)
    for axis, m in zip(axes[compared:], shown, strict=False):
        curves = {agent: result for (agent, delay), result in results.items() if delay == m}
        tabular = isinstance(next(iter(curves.values())).spec, TabularSpec)
        learning_curves(axis, curves)
        axis.set(xlabel="episode" if tabular else "step", ylabel="training return")
        process = delay_of(next(iter(curves.values())))
        about = f"m = {m}" if process == m else str(process)
        axis.set_title(printable(f"learning curves, {about}"), fontsize=10, parse_math=False)
    shared_legend(figure, grid)
    intervals = any(len(result.seeds) >= statistics.FEWEST for result in results.values())
    about = seeds_of(results) + ", 95% intervals" * intervals
    words = printable_lines(f"{fill(title, 35 * (1 + columns))}\n{about}")
    figure.suptitle(words, fontsize=10, parse_math=False)
    return figure


def _returns_of_agents(axes: Axes, results: Mapping[str, Result]) -> None:
    """Draw the mean return and interval of each agent at one delay, side by side."""
    for place, (agent, result) in enumerate(results.items()):
        found = mean_return(result)
        axes.plot([place], [found.value], "o", color=color_of(agent), ms=4)
        axes.vlines(place, found.low, found.high, color=color_of(agent), lw=1.5)
    axes.set_xticks(range(len(results)), [name_of(agent) for agent in results])
    axes.set(xlim=(-0.5, len(results) - 0.5), ylabel="return")
    axes.grid(alpha=0.25, axis="y")


def delay_of(result: Result) -> int | str:
    """Return a run's constant delay in steps, or the text of the process of its delay."""
    process = getattr(result.spec, "process", None)
    return result.spec.delay if process is None else str(process)


def seeds_of(results: Results) -> str:
    """Return the number of seeds in words."""
    counts = sorted({len(result.seeds) for result in results.values()})
    one = f"{counts[0]} seed{'s' * (counts[0] > 1)}"
    return one if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def _table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return a table's rows: returns, and paired differences from the first agent."""
    rows = []
    first = next(iter(results))[0]
    for (agent, m), result in results.items():
        row: dict[str, Any] = {"agent": agent, "delay": delay_of(result)} | columns(result)
        less = difference(results[first, m], result) if (first, m) in results else None
        row |= difference_columns(f"{first}_minus_this", less)
        row |= {"seeds": len(result.seeds), "diverged": len(result.diverged)}
        rows.append(row | {"never_updated": len(result.untrained)})
    return rows


def _first(seeds: list[int]) -> str:
    """Return a list of seeds as text, cut after the first ones."""
    return f"[{', '.join(map(str, seeds[:_SHOWN]))}{', …' * (len(seeds) > _SHOWN)}]"


def printed(experiment: Comparison, results: Results) -> Table:
    """Return a table of the greedy returns, for a terminal."""
    table = Table(
        "delay", "agent", "return", title=Text(f"{experiment.title}: {seeds_of(results)}")
    )
    delays = sorted({m for _, m in results})
    for m in delays:
        for (agent, delay), result in results.items():
            if delay == m:
                notes = [f"diverged: seeds {_first([*result.diverged])}"] if result.diverged else []
                notes += (
                    [f"never updated: seeds {_first(result.untrained)}"] if result.untrained else []
                )
                about = Text(printable(str(delay_of(result))))
                table.add_row(about, agent, "; ".join([str(mean_return(result)), *notes]))
        table.add_section()
    return table
