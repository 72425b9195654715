"""The report's comparisons: Delayed-Q with other agents, and our returns with the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from math import isnan

from deadtime.runs import folder_report
from deadtime.runs.figures import name_of
from deadtime.runs.result import Result, Results
from deadtime.runs.returns import difference
from deadtime.runs.statistics import Estimate
from deadtime.runtime.views import VIEWS
from deadtime.studies.experiment import Experiment
from deadtime.studies.paper import atari, published, summary
from deadtime.studies.paper.physical_figures import ENVS, mean_score
from deadtime.studies.paper.summary import MAZES

_HOW = {
    "paper": "with the authors' protocol (return of the last tenth of training)",
    "best": "with our own settings (greedy return beside the paper's training return; CartPole "
    "trained on a shaped reward)",
}
_RULE = (
    "A comparison is won if the mean over seeds is the largest of the three. Our return lies above "
    "or below the paper's if our 95% interval is outside the paper's mean ± spread; it agrees if "
    "they overlap. The paper's whole table has 42 comparisons, of which it wins 39."
)


def overview(there: Mapping[str, Results]) -> str:
    """Return the section with the comparisons won and our returns beside the paper's."""
    known = [e for e in summary.EXPERIMENTS if e.name in there]
    if not known:
        return "<p>The summary was not run: <code>deadtime reproduce summary</code>.</p>"
    groups = [("In mazes, with our own settings", known[0], MAZES)]
    groups += [(f"On CartPole and Acrobot, {_HOW[e.part]}", e, ENVS) for e in known]
    parts = []
    for title, experiment, envs in groups:
        standing = summary.standing(experiment.part, there[experiment.name], envs)
        cards = "".join(f"<li><b>{n}</b>{escape(words)}</li>" for n, words in _cards(standing))
        parts.append(f'<h3>{escape(title)}</h3><ul class="numbers">{cards}</ul>')
    rule = f'<p class="soft">{_RULE} {_on_atari(there)}</p>'
    return f'<section id="overview"><h2>Summary</h2>{"".join(parts)}{rule}</section>'


def _cards(standing: summary.Standing) -> list[tuple[str, str]]:
    """Return the numbers of a standing, each with its text."""
    won = f"won by Delayed-Q; in the paper it wins {standing.won_in_the_paper} of them"
    verdicts = " / ".join(str(standing.verdicts[word]) for word in ("above", "agrees", "below"))
    lie = "of Delayed-Q's returns lie above, agree with, lie below the paper's"
    cards = [(f"{standing.won} of {standing.of}", won), (verdicts, lie)]
    for agent, chance in standing.beats.items():
        interval = _interval(chance, ".0%")
        words = f"of its runs beat {name_of(agent)}'s of the same seed, ties half"
        cards.append((f"{chance.value:.0%}", f"{interval} {words}".strip()))
    return cards


def _interval(found: Estimate, digits: str) -> str:
    """Return an interval as text, empty where there is none."""
    return "" if isnan(found.low) else f"[{found.low:{digits}}, {found.high:{digits}}]"


def _on_atari(there: Mapping[str, Results]) -> str:
    """Return a sentence on the comparisons on Atari that were run."""
    cells = atari.won(there.get("summary-atari", {}))
    if not cells:
        return "Of the 24 on Atari none was run."
    seeds = folder_report.seeds_of(there["summary-atari"])
    won = sum(cells.values())
    return f"Of the 24 on Atari {len(cells)} were run, with {seeds}; Delayed-Q wins {won} of them."


def compared(experiment: Experiment, results: Results) -> str:
    """Return a table of our returns beside the paper's."""
    names = MAZES | ENVS
    lines = []
    for env, m in summary.won(results):
        line = f"<td>{escape(names[env])}</td><td>{m}</td>"
        for agent in published.AGENTS:
            result = results[experiment.part, env, agent, m]
            ours = mean_score(experiment.part, result)
            line += _beside(ours, published.TABLE[env].get((agent, m)), 2 if env in MAZES else 0)
        lines.append(f"<tr>{line}</tr>")
    heads = "".join(f"<th>{name_of(agent)}</th>" for agent in published.AGENTS)
    head = f"<thead><tr><th>environment</th><th>m</th>{heads}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{"".join(lines)}</tbody></table></div>'


def _beside(ours: Estimate, theirs: published.Value | None, decimals: int) -> str:
    """Return a cell with our return above the paper's."""
    digits = f".{decimals}f"
    cell = f"{ours.value:{digits}} {_interval(ours, digits)}".strip()
    if theirs is None:
        return f"<td>{cell}<br><small>paper none</small></td>"
    word = published.verdict(ours, theirs)
    paper = f"paper {theirs.mean:g} ± {theirs.spread:g} · "
    return f'<td>{cell}<br><small>{paper}<span class="{word}">{word}</span></small></td>'


def outcomes(experiment: Experiment, results: Results) -> str:
    """Return sentences on Delayed-Q against each other agent, by paired differences.

    Settings without a delay are left out. So are runs that stop at a given return, since
    all their scores are near it.
    """
    counts: dict[tuple[str, str], list[int]] = {}
    too_few = ""
    for key, result in results.items():
        at = [i for i, part in enumerate(key) if part in VIEWS] if isinstance(key, tuple) else []
        first = (*key[: at[0]], "delayed", *key[at[0] + 1 :]) if at else None
        if first is None or first == key or first not in results or result.spec.delay == 0:
            continue
        if getattr(result.spec, "until_return", None) is not None:
            continue
        less = difference(results[first], result, experiment.score)
        if less is None or isnan(less.low):
            too_few = "Fewer than three seeds of each decide nothing." if less else too_few
            continue
        place = 0 if less.low > 0 else 2 if less.high < 0 else 1
        group = _group(experiment, result)
        counts.setdefault((group, key[at[0]]), [0, 0, 0])[place] += 1
    sentences = [
        against(name_of(agent), n[0], n[1], n[2], group) for (group, agent), n in counts.items()
    ]
    return " ".join(sentences) or too_few


def _group(experiment: Experiment, result: Result) -> str:
    """Return the group of environments of a result; mazes have one setting for both presets."""
    if experiment.id != "summary":
        return ""
    return "in mazes" if result.spec.family.name == "maze" else "on CartPole and Acrobot"


def against(other: str, better: int, unclear: int, worse: int, group: str = "") -> str:
    """Return a sentence on Delayed-Q against another agent, from the settings of each outcome."""
    settings = better + unclear + worse
    counts = {"it earns more": better, "it earns less": worse, "no clear difference": unclear}
    every = " in all" if settings > 1 else ""
    parts = [f"{words}{every if n == settings else f' in {n}'}" for words, n in counts.items() if n]
    where = f" {group}" if group else ""
    many = f"{settings} setting{'s' * (settings > 1)} with a delay"
    return f"Delayed-Q against {other}{where}, {many}: {', '.join(parts)}."
