"""A user's own records as experiments: whatever a folder holds that no experiment of the paper asks for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from deadtime._support.files import printable
from deadtime._support.pictures import put_title, save_picture
from deadtime.runs import pack_archive, records, statistics
from deadtime.runs.figures import new_figure, order_of, return_against_delay
from deadtime.runs.limits import return_limits
from deadtime.runs.result import Result, Results
from deadtime.runs.specs import Spec, folder_of, from_canonical

_APART = ("agent", "delay")
_LEARNER = ("changes", "learner")
"""What a record says of how its agent learns; agents with other settings may stand in one figure."""
_LONGEST_TITLE, _SHOWN = 500, 20

Groups = dict[str, dict[tuple[str, int], Result]]


@dataclass(frozen=True)
class Comparison:
    """Agents under several delays in one environment, with the functions that show their results."""

    name: str
    title: str
    runs: Mapping[tuple[str, int], Spec]
    seeds: Sequence[int]
    draw: Callable[[Results, Path], Path]
    """Draws the figure into a folder."""
    table: Callable[[Results, Path], list[dict[str, Any]]]
    """Returns the numbers behind it, a row a line."""


def refused(root: Path, also: Iterable[str] = ()) -> dict[str, str]:
    """Return the records and packs in a folder that can't be shown, by name, each with the reason.

    They can't be read, or were made by another version. Under the names `also` there is a record,
    nothing, or what is refused.
    """
    found = pack_archive.unreadable(root)
    for folder in sorted(root / name for name in {*records.names(root), *also}):
        try:
            if records.exists(folder):  # which raises for a link
                record = records.read(folder)
                if from_canonical(record.spec).id != record.id:
                    found[folder.name] = (
                        f"{folder} was made by another version of what it uses: train it again"
                    )
        except (ValueError, OSError, ImportError, MemoryError) as error:
            found[folder.name] = str(error)
    return found


def experiments(root: Path, but: Collection[str] = ()) -> list[tuple[Comparison, Results]]:
    """Return one comparison for each environment and its settings, with its results, from the records in a folder.

    Records are left out if they or their folders have one of the names `but`.
    """
    together: dict[str, dict[tuple[str, int], list[Result]]] = {}
    for folder in (root / name for name in records.names(root)):
        if folder.name in but:
            continue
        record = records.read(folder)
        if (
            folder_of(record) in but or record.id != from_canonical(record.spec).id
        ):  # of a version that ran it differently
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
    """One group or, where an agent has several settings at one delay, one for each of those; of copies the first."""
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
    title = content["env"]
    for name, value in content.items():
        if isinstance(value, dict):
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
        figure, axes = new_figure(6.4, 4.2)
        limits = return_limits(next(iter(results.values())).spec)
        return_against_delay(
            axes, {key: result.scores for key, result in results.items()}, {}, limits
        )
        intervals = ", 95% intervals" * any(
            len(result.seeds) >= statistics.FEWEST for result in results.values()
        )
        put_title(axes, f"{fill(title, 70)}\n{seeds_of(results)}{intervals}")
        return save_picture(figure, root / "figures" / f"{slug}.png")

    return Comparison(
        slug, title, {key: result.spec for key, result in results.items()}, seeds, draw, _table
    ), results


def seeds_of(results: Results) -> str:
    """Say how many seeds there are."""
    counts = sorted({len(result.seeds) for result in results.values()})
    one = f"{counts[0]} seed{'s' * (counts[0] > 1)}"
    return one if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def paired(first: Result, second: Result, score: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of two results on the seeds that both have."""
    theirs = {*second.seeds}
    common = [seed for seed in first.seeds if seed in theirs]
    return score(Result(first.record.rows(common))), score(Result(second.record.rows(common)))


def _table(results: Results, root: Path) -> list[dict[str, Any]]:
    """Return the rows of a table: returns, and how the first agent compares to each on the same seeds."""
    rows, first = [], next(iter(results))[0]
    for (agent, m), result in results.items():
        row: dict[str, Any] = {"agent": agent, "delay": m}
        for label, values in (("greedy", result.scores), ("training", result.training_scores)):
            found = statistics.mean(values, return_limits(result.spec))
            row |= {label: found.value, f"{label}_low": found.low, f"{label}_high": found.high}
        less: Any = ("", "", "")
        if (first, m) in results:
            ours, its = paired(results[first, m], result, lambda one: one.scores)
            less = (
                statistics.difference(ours, its, return_limits(result.spec)) if len(its) else less
            )
        row |= dict(
            zip((f"{first}_minus_this", "difference_low", "difference_high"), less, strict=True)
        )
        rows.append(
            row
            | {
                "seeds": len(result.seeds),
                "diverged": len(result.diverged),
                "never_updated": len(result.untrained),
            }
        )
    return rows


def _first(seeds: list[int]) -> str:
    """List seeds, of very many the first."""
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
                found = statistics.mean(result.scores, return_limits(result.spec))
                table.add_row(str(m), agent, "; ".join([str(found), *notes]))
        table.add_section()
    return table
