"""The report: one page, made from records alone, that needs nothing else to be read."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from html import escape
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deadtime._support import files
from deadtime._support.terminal import console
from deadtime.learn.presets import PRESETS
from deadtime.runs import ceiling, folder_report, statistics, sweep_file
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.figures import name_of
from deadtime.runs.limits import return_limits
from deadtime.runs.result import Result, Results
from deadtime.runs.wanted import count, missing
from deadtime.runtime.views import VIEWS
from deadtime.studies.experiment import Experiment, csv_text, found
from deadtime.studies.paper import atari, published, summary
from deadtime.studies.paper.claims import CLAIMS, tally
from deadtime.studies.paper.experiments import EXPERIMENTS
from deadtime.studies.paper.physical_figures import ENVS, score_of
from deadtime.studies.paper.summary import MAZES

STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>deadtime: """
"""How a page of ours begins."""
_SWEEPS, _SWEPT = 10, 300


def check_replaced(out: Path) -> None:
    """Raise if there is a file of this name that is no page of ours."""
    try:
        with files.opened(out, inf) as file:
            ours = file.read(len(_HEAD)) == _HEAD.encode()
    except FileNotFoundError:
        return
    except ValueError:
        ours = False
    if not ours:
        raise ValueError(
            f"a report replaces only a report; {out} is none: name another file with --out, or delete that one"
        )


def page(root: Path, date: str, claims: str = "", place: str = "") -> str:
    """All of it; `claims` is where the page of the paper's claims lies, if it is there; `place` what people call the folder."""
    of_the_paper_first = sorted(EXPERIMENTS.values(), key=lambda e: not _words(e)[1])
    unread = folder_report.refused(
        root, {spec.name for e in of_the_paper_first for spec in e.runs.values()}
    )
    readable = [
        e for e in of_the_paper_first if not unread.keys() & {spec.name for spec in e.runs.values()}
    ]
    there = {e.name: results for e in readable if (results := found(e, root)) is not None}
    shown = [EXPERIMENTS[name] for name in there]
    paper = {spec.name for e in shown for spec in e.runs.values()}
    mine = [(_own(c), results) for c, results in folder_report.experiments(root, {*unread, *paper})]
    reproduces = any(there.values())
    if not reproduces:  # only a user's own runs, and what needs none
        shown = []
    there |= {e.name: results for e, results in mine}
    shown += [e for e, _ in mine]
    for why in dict.fromkeys(unread.values()):
        console(stderr=True).print(f"not shown: {why}", soft_wrap=True)
    if not shown:
        place = place or str(root)
        raise ValueError(
            f"there is no record in {place}: `deadtime reproduce` or `sweep` with `--out {place}` makes some"
        )
    with TemporaryDirectory() as folder:
        if reproduces:
            ceiling.keep(Path(folder), ceiling.kept(root))
        swept = _swept(root)
        commands = {e.name: _command(e) if e.name in EXPERIMENTS else swept(e) for e in shown}
        sections = [_section(e, there[e.name], Path(folder), commands[e.name]) for e in shown]
    links = "".join(f'<li><a href="#{e.name}">{escape(e.title)}</a></li>' for e in shown)
    title, about = _PAPER if reproduces else _OWN
    return f"""{_HEAD}{title}</title><style>{STYLE}</style></head><body>
<header><h1>{title}</h1>
<p>{about} Made from records alone by <code>deadtime report</code> on {date}.</p></header>
<main>{_overview(there) if reproduces else ""}
<nav aria-label="Experiments"><h2>Experiments</h2><ul>{links}</ul></nav>
{"".join(sections)}{_unread(unread)}{_rest(there, root, claims, unread) if reproduces else ""}
</main></body></html>
"""


_PAPER = (
    "Acting in Delayed Environments, reproduced",
    "Every experiment that was run, beside what <i>Acting in Delayed Environments with Non-Stationary Markov Policies</i> "
    "(Derman, Dalal, Mannor; ICLR 2021) reports.",
)
_OWN = (
    "Agents under delay, compared",
    "Every record of this folder; differences are over the seeds that both agents have.",
)


def _own(one: folder_report.Comparison) -> Experiment:
    """Return a comparison of a user's own records as an experiment."""
    return Experiment(one.name, one.title, one.runs, one.seeds, one.draw, one.table)


def _unread(unread: Mapping[str, str]) -> str:
    """Return a list of the records that can't be read, and why."""
    items = "".join(
        f"<li>{escape(files.printable(why))}</li>" for why in dict.fromkeys(unread.values())
    )
    return f'<section id="unread"><h2>Not shown</h2><ul>{items}</ul></section>' if items else ""


def _rest(there: dict[str, Results], root: Path, claims: str, unread: Collection[str]) -> str:
    """Return the paper's theory, which needs no records; and what was not run, and how to."""
    named = (
        f'<a href="{escape(claims)}">the page of claims</a>'
        if claims
        else "the page of claims (docs/claims.md)"
    )
    theory = (
        '<section id="claims"><h2>Propositions and theorems</h2><p><code>deadtime verify</code> checks each of the paper\'s '
        f"statements on its own examples and on random MDPs: {tally(claim.expected for claim in CLAIMS)}; "
        f"{named} says which, and why.</p></section>"
    )
    absent = []
    for e in EXPERIMENTS.values():
        readable = [pair for pair in e.wanted if pair[0].name not in unread]
        left = count(e.wanted) - count(readable) + count(missing(readable, root))
        if e.name not in there or left:
            there_are = (
                f" ({count(e.wanted) - left} of {count(e.wanted)} runs are there)"
                if e.name in there
                else ""
            )
            absent.append(
                f"<li>{escape(e.title)}{there_are}: <code>{escape(_command(e))}</code></li>"
            )
    return (
        f'{theory}<section id="missing"><h2>Not run, or not all of it</h2><ul>{"".join(absent)}</ul></section>'
        if absent
        else theory
    )


def _overview(there: dict[str, Results]) -> str:
    """How many of the comparisons are won, and how ours lie to the paper's."""
    known = [e for e in summary.EXPERIMENTS if e.name in there]
    if not known:
        return "<p>The summary was not run: <code>deadtime reproduce summary</code>.</p>"
    groups = [("In mazes, with our own settings", known[0], MAZES)]
    groups += [(f"On CartPole and Acrobot, {_HOW[e.part]}", e, ENVS) for e in known]
    parts = []
    for title, experiment, envs in groups:
        so = summary.standing(experiment.part, there[experiment.name], envs)
        cells = [
            (
                f"{so.won} of {so.of}",
                f"won by Delayed-Q; in the paper it wins {so.won_in_the_paper} of them",
            ),
            (
                " / ".join(str(so.verdicts[word]) for word in ("above", "agrees", "below")),
                "of Delayed-Q's returns lie above, agree with, lie below the paper's",
            ),
        ]
        for agent, chance in so.beats.items():
            interval = "" if chance.low != chance.low else f"[{chance.low:.0%}, {chance.high:.0%}] "
            cells.append(
                (
                    f"{chance.value:.0%}",
                    f"{interval}of its runs beat {name_of(agent)}'s of the same seed, ties half",
                )
            )
        cards = "".join(f"<li><b>{number}</b>{escape(words)}</li>" for number, words in cells)
        parts.append(f'<h3>{escape(title)}</h3><ul class="numbers">{cards}</ul>')
    rule = (
        "A comparison is won if the mean over seeds is the largest of the three. Ours lies above or below the paper's if our "
        "95% interval is outside the paper's mean ± spread, and agrees if they overlap. The paper's whole table has 42 "
        f"comparisons, of which it wins 39. {_on_atari(there)}"
    )
    return f'<section id="overview"><h2>Summary</h2>{"".join(parts)}<p class="soft">{rule}</p></section>'


_HOW = {
    "paper": "with the authors' protocol (return of the last tenth of training)",
    "best": "with our own settings (greedy return beside the paper's training return; CartPole trained on a shaped reward)",
}


def _on_atari(there: dict[str, Results]) -> str:
    """How far the table of Atari games is filled."""
    cells = atari.won(there.get("summary-atari", {}))
    if not cells:
        return "Of the 24 on Atari none was run."
    seeds = folder_report.seeds_of(there["summary-atari"])
    return f"Of the 24 on Atari {len(cells)} were run, with {seeds}; Delayed-Q wins {sum(cells.values())} of them."


def _section(experiment: Experiment, results: Results, folder: Path, command: str) -> str:
    """Figure, table, command, and where the numbers are from."""
    shows, says = _words(experiment)
    picture = base64.b64encode(experiment.draw(results, folder).read_bytes()).decode()
    rows = experiment.table(results, folder)
    data = base64.b64encode(csv_text(rows).encode()).decode()
    name = experiment.name
    stated = f"<p><b>The paper:</b> {escape(says)}</p>" if says else ""
    here = " ".join(
        filter(None, (_standing(experiment, results), published.NOTES.get(experiment.name, "")))
    )
    stated += f"<p><b>Here:</b> {escape(here)}</p>" if here else ""
    compared = _compared(experiment, results) if experiment.id == "summary" else ""
    return f"""<section id="{name}"><h2>{escape(experiment.title)}</h2>{stated}
<figure id="figure-{name}"><a class="close" href="#{name}">Close</a>
<img alt="{escape(shows)}" src="data:image/png;base64,{picture}">
<figcaption>{escape(shows)} <a class="open" href="#figure-{name}">Full size</a></figcaption></figure>
{compared}<details><summary>All numbers</summary><div class="scroll">{_table(rows)}</div></details>
<p class="soft"><span class="csv"><a download="{name}.csv" href="data:text/csv;base64,{data}">CSV</a> ·</span>
{f"<code>{escape(command)}</code> · " if command else ""}{escape(_made(experiment, results))}</p></section>
"""


def _compared(experiment: Experiment, results: Results) -> str:
    """The paper's table beside ours."""
    preset, names = experiment.part, MAZES | ENVS
    lines = []
    for env, m in summary.won(results):
        line, digits = f"<td>{escape(names[env])}</td><td>{m}</td>", 2 if env in MAZES else 0
        for agent in published.AGENTS:
            theirs, result = published.TABLE[env].get((agent, m)), results[preset, env, agent, m]
            ours = statistics.mean(score_of(preset, result), return_limits(result.spec))
            word = published.verdict(ours, theirs) if theirs else ""
            interval = (
                "" if ours.low != ours.low else f" [{ours.low:.{digits}f}, {ours.high:.{digits}f}]"
            )
            beside = f"{theirs.mean:g} ± {theirs.spread:g}" if theirs else "none"
            line += f"<td>{ours.value:.{digits}f}{interval}<br><small>paper {beside}"
            line += (
                f' · <span class="{word}">{word}</span></small></td>' if word else "</small></td>"
            )
        lines.append(f"<tr>{line}</tr>")
    heads = "".join(f"<th>{name_of(agent)}</th>" for agent in published.AGENTS)
    head = f"<thead><tr><th>environment</th><th>m</th>{heads}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{"".join(lines)}</tbody></table></div>'


def _table(rows: Sequence[dict[str, Any]]) -> str:
    heads = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def _swept(root: Path) -> Callable[[Experiment], str]:
    """Return a function that gives the command of an experiment: the sweep in this folder that asks for all its runs.

    Of a folder with very many or very large sweeps the first and small ones are read.
    """
    asked: dict[str, set[str]] = {}
    for path in sorted(path for path in root.glob("*.toml") if not path.is_symlink())[:_SWEEPS]:
        with suppress(ValueError, OSError, ImportError, MemoryError):
            asked[path.name] = {spec.name for spec, _ in sweep_file.read(path, most=_SWEPT)}
    return lambda experiment: next(
        (
            f"deadtime sweep {name}"
            for name, specs in asked.items()
            if {s.name for s in experiment.runs.values()} <= specs
        ),
        "",
    )


def _standing(experiment: Experiment, results: Results) -> str:
    """Say in how many settings Delayed-Q is better than each other agent, by the interval of the paired difference."""
    counts: dict[tuple[str, str], list[int]] = {}
    too_few = ""
    for key, result in results.items():
        at = [i for i, part in enumerate(key) if part in VIEWS] if isinstance(key, tuple) else []
        first = (*key[: at[0]], "delayed", *key[at[0] + 1 :]) if at else None
        if first is None or first == key or first not in results or result.spec.delay == 0:
            continue
        if (
            getattr(result.spec, "until_return", None) is not None
        ):  # its score is when it stopped, not what it earns
            continue
        both = folder_report.paired(results[first], result, experiment.score)
        if len(both[0]) < statistics.FEWEST:
            too_few = "Fewer than three seeds of each decide nothing." if len(both[0]) else too_few
            continue
        less = statistics.difference(*both)
        place = 0 if less.low > 0 else 2 if less.high < 0 else 1
        group = _group(experiment, result)
        counts.setdefault((group, key[at[0]]), [0, 0, 0])[place] += 1
    said = [
        against(name_of(agent), n[0], n[1], n[2], group) for (group, agent), n in counts.items()
    ]
    return " ".join(said) or too_few


def _group(experiment: Experiment, result: Result) -> str:
    """Return the group that a result counts to: mazes have our own settings, whatever the preset."""
    if experiment.id != "summary":
        return ""
    return "in mazes" if result.spec.family.name == "maze" else "on CartPole and Acrobot"


def against(other: str, better: int, unclear: int, worse: int, group: str = "") -> str:
    """Return a sentence on Delayed-Q against another agent, from the number of settings of each outcome."""
    settings = better + unclear + worse
    outcomes = {"it earns more": better, "it earns less": worse, "no clear difference": unclear}
    every = " in all" if settings > 1 else ""
    said = [
        f"{words}{every}" if n == settings else f"{words} in {n}"
        for words, n in outcomes.items()
        if n
    ]
    where = f" {group}" if group else ""
    return f"Delayed-Q against {other}{where}, {settings} setting{'s' * (settings > 1)} with a delay: {', '.join(said)}."


def _words(experiment: Experiment) -> tuple[str, str]:
    usual = f"Mean greedy return against the delay: {experiment.title}.", ""
    return published.SAYS.get(experiment.name) or published.SAYS.get(experiment.id, usual)


def _command(experiment: Experiment) -> str:
    if experiment.part in PRESETS:
        return f"deadtime reproduce {experiment.id} --preset {experiment.part}"
    return f"deadtime reproduce {experiment.name}"


def _made(experiment: Experiment, results: Results) -> str:
    """Seeds, machines and dates."""
    if not results:
        return "exact, nothing is trained"
    provenance = [one for result in results.values() for one in result.record.provenance]
    seeds = min(len(result.seeds) for result in results.values())
    wanted = "" if seeds == len(experiment.seeds) else f" of {len(experiment.seeds)}"
    machines = {str(one.get("device") or one.get("machine") or "") for one in provenance} - {""}
    where = files.printable(", ".join(sorted(machines)))
    when = sorted({one["date"] for one in provenance})
    dates = when[0] if len(when) == 1 else f"{when[0]} to {when[-1]}"
    runs = {result.record.id: result for result in results.values()}.values()
    steps = sum(len(r.seeds) * r.spec.length for r in runs if isinstance(r.spec, DeepSpec))
    episodes = sum(sum(r.record.episodes) for r in runs if not isinstance(r.spec, DeepSpec))
    work = " · ".join(
        f"{n:,} {unit}" for n, unit in ((steps, "steps"), (episodes, "episodes")) if n
    )
    minutes = sum(sum(r.record.seconds) for r in runs) / 60
    many = f"{seeds}{wanted} seed{'s' * (seeds != 1 or bool(wanted))}"
    settings = f"{len(results)} setting{'s' * (len(results) != 1)}"
    return f"{many} · {settings} · {work} in {minutes:,.1f} min of computing · {where} · {dates}"
