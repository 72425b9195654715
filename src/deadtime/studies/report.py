"""The report: one HTML page, made from records alone, that loads nothing else."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from html import escape
from math import inf, isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deadtime._support import files
from deadtime._support.terminal import console, counted
from deadtime.learn.presets import PRESETS
from deadtime.runs import ceiling, folder_report, sweep_file
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.result import Results
from deadtime.runs.wanted import count, missing
from deadtime.studies.experiment import Experiment, csv_text, found
from deadtime.studies.paper import published
from deadtime.studies.paper.claims import CLAIMS, tally
from deadtime.studies.paper.report_comparisons import compared, outcomes, overview
from deadtime.studies.registry import EXPERIMENTS

STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
_HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>deadtime: '
)
"""The beginning of every report: only a file that has it is replaced."""
_PAPER = (
    "Acting in Delayed Environments, reproduced",
    "Every experiment that was run, beside the numbers of <i>Acting in Delayed Environments with "
    "Non-Stationary Markov Policies</i> (Derman, Dalal, Mannor; ICLR 2021).",
)
_OWN = (
    "Agents under delay, compared",
    "Every record in this folder. Differences are over the seeds that both agents have.",
)
_MOST_SWEEPS = 10
_MOST_SWEPT = 300
"""The largest number of sweep files that are read, and of runs in one."""


def check_replaced(out: Path) -> None:
    """Raise if a file has this name and is not a report."""
    try:
        with files.opened(out, inf) as file:
            ours = file.read(len(_HEAD)) == _HEAD.encode()
    except FileNotFoundError:
        return
    except ValueError:
        ours = False
    if not ours:
        rule = f"a report replaces only a report; {out} is not one"
        raise ValueError(f"{rule}: name another file with --out, or delete that one")


def page(root: Path, date: str, claims: str = "", place: str = "") -> str:
    """Return the HTML page of the records in `root`.

    `claims` is a link to the paper's claims, empty if their page is not near. `place` is the name
    of the folder in messages.
    """
    paper_first = sorted(EXPERIMENTS.values(), key=lambda e: not _words(e)[1])
    names = {e.name: {spec.name for spec in e.runs.values()} for e in paper_first}
    unread = folder_report.refused(root, set().union(*names.values()))
    readable = [e for e in paper_first if not unread.keys() & names[e.name]]
    there = {e.name: results for e in readable if (results := found(e, root)) is not None}
    paper = set().union(*(names[name] for name in there))
    own = [(_own(one), those) for one, those in folder_report.experiments(root, {*unread, *paper})]
    for why in dict.fromkeys(unread.values()):
        console(stderr=True).print(f"not shown: {why}", soft_wrap=True)
    reproduces = any(there.values())
    # without a record of the paper, its exact experiments, which need none, are left out
    shown = [EXPERIMENTS[name] for name in there] if reproduces else []
    shown += [e for e, _ in own]
    there |= {e.name: results for e, results in own}
    if not shown:
        place = place or str(root)
        command = f"`deadtime reproduce` or `deadtime sweep` with `--out {place}`"
        raise ValueError(f"there is no record in {place}: make some with {command}")
    with TemporaryDirectory() as folder:
        if reproduces:
            ceiling.keep(Path(folder), ceiling.kept(root))
            for file in {one.answers.file for one in shown if one.answers is not None}:
                (Path(folder) / file).write_bytes(files.plain(root / file))
        sweep_command = _sweep_commands(root)
        sections = [
            _section(
                one,
                there[one.name],
                Path(folder),
                _command(one) if one.name in EXPERIMENTS else sweep_command(one),
            )
            for one in shown
        ]
    links = "".join(f'<li><a href="#{e.name}">{escape(e.title)}</a></li>' for e in shown)
    title, about = _PAPER if reproduces else _OWN
    return f"""{_HEAD}{title}</title><style>{STYLE}</style></head><body>
<header><h1>{title}</h1>
<p>{about} <code>deadtime report</code> made this page from records on {date}.</p></header>
<main>{overview(there) if reproduces else ""}
<nav aria-label="Experiments"><h2>Experiments</h2><ul>{links}</ul></nav>
{"".join(sections)}{_unread(unread)}{_rest(there, root, claims, unread) if reproduces else ""}
</main></body></html>
"""


def _own(one: folder_report.Comparison) -> Experiment:
    """Return a comparison of a user's own records as an experiment."""
    return Experiment(one.name, one.title, one.runs, one.seeds, one.draw, one.table)


def _unread(unread: Mapping[str, str]) -> str:
    """Return the section on records that can't be read, each with the reason."""
    reasons = dict.fromkeys(unread.values())
    items = "".join(f"<li>{escape(files.printable(why))}</li>" for why in reasons)
    return f'<section id="unread"><h2>Not shown</h2><ul>{items}</ul></section>' if items else ""


def _rest(there: Mapping[str, Results], root: Path, claims: str, unread: Collection[str]) -> str:
    """Return the sections on the paper's theory and on the runs that are missing."""
    link = "the page of claims (docs/claims.md)"
    if claims:
        link = f'<a href="{escape(claims)}">the page of claims</a>'
    verdicts = tally(claim.expected for claim in CLAIMS)
    theory = (
        '<section id="claims"><h2>Propositions and theorems</h2><p><code>deadtime verify</code> '
        "checks each statement of the paper on the paper's examples and on random MDPs: "
        f"{verdicts}; {link} explains each verdict.</p></section>"
    )
    absent = []
    for e in EXPERIMENTS.values():
        readable = [pair for pair in e.wanted if pair[0].name not in unread]
        done = count(readable) - count(missing(readable, root))
        if e.name not in there or done < count(e.wanted):
            runs = f" ({done} of {count(e.wanted)} runs are there)" if e.name in there else ""
            command = f"<code>{escape(_command(e))}</code>"
            absent.append(f"<li>{escape(e.title)}{runs}: {command}</li>")
    if not absent:
        return theory
    head = '<section id="missing"><h2>Not run, or only in part</h2>'
    return f"{theory}{head}<ul>{''.join(absent)}</ul></section>"


def _section(experiment: Experiment, results: Results, folder: Path, command: str) -> str:
    """Return the section of an experiment: figure, tables, command, machines and dates."""
    shows, says = _words(experiment)
    picture = base64.b64encode(experiment.draw(results, folder).read_bytes()).decode()
    rows = experiment.table(results, folder)
    data = base64.b64encode(csv_text(rows).encode()).decode()
    name = experiment.name
    here = [outcomes(experiment, results), published.NOTES.get(name, "")]
    text = f"<p><b>The paper:</b> {escape(says)}</p>" if says else ""
    if any(here):
        text += f"<p><b>Here:</b> {escape(' '.join(filter(None, here)))}</p>"
    beside = compared(experiment, results) if experiment.id == "summary" else ""
    shown_command = f"<code>{escape(command)}</code> · " if command else ""
    return f"""<section id="{name}"><h2>{escape(experiment.title)}</h2>{text}
<figure id="figure-{name}"><a class="close" href="#{name}">Close</a>
<img alt="{escape(shows)}" src="data:image/png;base64,{picture}">
<figcaption>{escape(shows)} <a class="open" href="#figure-{name}">Full size</a>
</figcaption></figure>
{beside}<details><summary>All numbers</summary>{_table(rows)}</details>
<p class="soft"><span class="csv">
<a download="{name}.csv" href="data:text/csv;base64,{data}">CSV</a> ·</span>
{shown_command}{escape(_provenance(experiment, results))}</p></section>
"""


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as an HTML table that scrolls where it is too wide."""
    heads = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in rows[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row.values())}</tr>" for row in rows
    )
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _cell(value: object) -> str:
    """Return a value as the text of a cell; a missing number is a dash."""
    if isinstance(value, float):
        return "–" if isnan(value) else f"{value:.4g}"
    return escape(str(value))


def _sweep_commands(root: Path) -> Callable[[Experiment], str]:
    """Return a function from an experiment to the command of the sweep that has all its runs.

    Sweep files in the folder of records are read: the first few, and only small ones.
    """
    names: dict[str, set[str]] = {}
    paths = sorted(path for path in root.glob("*.toml") if not path.is_symlink())
    for path in paths[:_MOST_SWEEPS]:
        with suppress(ValueError, OSError, ImportError, MemoryError):
            names[path.name] = {spec.name for spec, _ in sweep_file.read(path, most=_MOST_SWEPT)}

    def command(experiment: Experiment) -> str:
        runs = {spec.name for spec in experiment.runs.values()}
        return next((f"deadtime sweep {name}" for name in names if runs <= names[name]), "")

    return command


def _words(experiment: Experiment) -> tuple[str, str]:
    """Return what an experiment's figure shows, and what the paper says about it."""
    usual = f"Return of each agent: {experiment.title}.", ""
    return published.SAYS.get(experiment.name) or published.SAYS.get(experiment.id, usual)


def _command(experiment: Experiment) -> str:
    """Return the command that runs an experiment of the paper."""
    if experiment.part in PRESETS:
        return f"deadtime reproduce {experiment.id} --preset {experiment.part}"
    return f"deadtime reproduce {experiment.name}"


def _provenance(experiment: Experiment, results: Results) -> str:
    """Return seeds, settings, work, machines and dates of an experiment's runs."""
    if not results:
        return "exact; nothing is trained"
    made = [one for result in results.values() for one in result.record.provenance]
    seeds = min(len(result.seeds) for result in results.values())
    many = counted(seeds, "seed")
    if seeds < len(experiment.seeds):
        many = f"{seeds} of {counted(len(experiment.seeds), 'seed')}"
    machines = {str(one.get("device") or one.get("machine") or "") for one in made} - {""}
    dates = sorted({one["date"] for one in made})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    runs = {result.record.id: result for result in results.values()}.values()
    steps = sum(len(r.seeds) * r.spec.length for r in runs if isinstance(r.spec, DeepSpec))
    episodes = sum(sum(r.record.episodes) for r in runs if not isinstance(r.spec, DeepSpec))
    work = [f"{n:,} {unit}" for n, unit in ((steps, "steps"), (episodes, "episodes")) if n]
    seconds = sum(sum(r.record.seconds) for r in runs)
    time = f"{seconds / 60:,.1f} min" if seconds >= 60 else f"{seconds:.1f} s"
    parts = [many, counted(len(results), "setting"), f"{' · '.join(work)} in {time} of computing"]
    return " · ".join([*parts, files.printable(", ".join(sorted(machines))), when])
