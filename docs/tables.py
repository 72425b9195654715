"""Write the tables of numbers in README.md and docs/ from the records and CSV files of the paper.

    python docs/tables.py            # rewrite them
    python docs/tables.py --check    # exit 1 if one is not what the records say

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is a function of `TABLES`.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from deadtime.delays.waits import OBSERVED
from deadtime.runs.statistics import mean
from deadtime.studies.experiment import found
from deadtime.studies.identify.trainings import TRAININGS
from deadtime.studies.mujoco import published as others
from deadtime.studies.paper import published as paper
from deadtime.studies.paper import summary
from deadtime.studies.projected.beside_others import DELAYS, ENVS
from deadtime.studies.random_delay.laws import COLUMN_TITLES
from deadtime.studies.registry import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "notebooks").glob("*.md")),
)
AGENTS = paper.AGENTS
Row = dict[str, str]


def rows(name: str, **wanted: Any) -> list[Row]:
    """Return the rows of a CSV file whose columns have the wanted values."""
    folder = "identify" if name == "identification" else "paper"
    with (ROOT / "results" / folder / "figures" / f"{name}.csv").open() as file:
        return [
            row
            for row in csv.DictReader(file)
            if all(_same(row[key], value) for key, value in wanted.items())
        ]


def _same(text: str, value: Any) -> bool:
    return text == value if isinstance(value, str) else text == str(value) or float(text) == value


def row_of(name: str, **wanted: Any) -> Row:
    """Return the one row of a CSV file with the wanted values."""
    (row,) = rows(name, **wanted)
    return row


def number(text: str, digits: int) -> str:
    """Format a number with a true minus sign; a number that rounds to 0 has none."""
    shown = f"{float(text):.{digits}f}"
    return shown.replace("-", "−") if float(shown) else shown.replace("-", "")


def interval(row: Row, name: str, digits: int, ends: str = "") -> str:
    """Format a value and its interval, from the columns `name`, `name`_low and `name`_high."""
    low, high = (number(row[f"{ends or name}_{end}"], digits) for end in ("low", "high"))
    return f"{number(row[name], digits)} [{low},\u00a0{high}]"


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Format a table of Markdown."""
    whole = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in whole)


def standing() -> str:
    """How Delayed-Q stands in the 18 comparisons: mazes, and the rest under each preset."""
    results = {e.part: found(e, ROOT / "results" / "paper") for e in summary.EXPERIMENTS}
    groups = [("paper", summary.MAZES), ("paper", summary.ENVS), ("best", summary.ENVS)]
    so = [summary.standing(preset, results[preset] or {}, envs) for preset, envs in groups]
    heads = [
        "m = 5, 15, 25",
        "mazes, our settings",
        "CartPole and Acrobot, the authors' protocol",
        "the same, our settings",
    ]
    beats = [
        [
            f"of its runs beat {agent.title()}-Q's of the same seed, ties half",
            *(f"{one.beats[agent].value:.0%}" for one in so),
        ]
        for agent in AGENTS[1:]
    ]
    verdicts = [
        " / ".join(str(one.verdicts[word]) for word in ("above", "agrees", "below")) for one in so
    ]
    lines = [
        [
            "Delayed-Q has the best mean (in the paper: in all)",
            *(f"{one.won} of {one.of}" for one in so),
        ],
        ["its return lies above / agrees with / lies below the paper's", *verdicts],
        *beats,
    ]
    return table(heads, lines)


def beside_the_paper() -> str:
    """Delayed-Q's returns at the three delays, beside the paper's."""
    lines = []
    for env, title in (summary.MAZES | summary.ENVS).items():
        digits = 2 if env in summary.MAZES else 0
        theirs = [number(str(paper.TABLE[env]["delayed", m].mean), digits) for m in paper.DELAYS]
        ours = [
            [
                number(
                    row_of(f"summary-{preset}", environment=env, agent="delayed", delay=m)[score],
                    digits,
                )
                for m in paper.DELAYS
            ]
            for preset, score in (("paper", "training"), ("best", "greedy"))
        ]
        if env in summary.MAZES:
            ours[0] = ["–"]
        lines.append([title, *(", ".join(cell) for cell in (theirs, *ours))])
    heads = [
        "Delayed-Q at m = 5, 15, 25",
        "paper",
        "the authors' protocol (training return)",
        "our settings (greedy return)",
    ]
    return table(heads, lines)


def choose() -> str:
    """Greedy returns of three agents with our settings, and of the same agent without a delay."""
    lines = []
    for env, title in (summary.MAZES | summary.ENVS).items():
        digits = 2 if env in summary.MAZES else 0
        (undelayed,) = rows("summary-best", environment=env, agent="delayed", delay=0)
        for m in paper.DELAYS:
            of = {row["agent"]: row for row in rows("summary-best", environment=env, delay=m)}
            best = max(float(of[agent]["greedy"]) for agent in AGENTS)
            cells = [
                f"**{cell}**" if float(of[agent]["greedy"]) == best else cell
                for agent in AGENTS
                for cell in [interval(of[agent], "greedy", digits)]
            ]
            lines.append([title, str(m), *cells, number(undelayed["greedy"], digits)])
    heads = ["environment", "m", *(f"`{agent}`" for agent in AGENTS), "no delay"]
    return table(heads, lines)


def growth() -> str:
    """Episodes until a return of 0.5 in mazes."""
    lines = []
    for m in range(7):
        cells = []
        for agent in ("delayed", "augmented"):
            row = row_of("complexity", agent=agent, delay=m)
            missed = f" ({row['not_reached']} seed did not)" if row["not_reached"] != "0" else ""
            interval_text = f"[{number(row['low'], 0)},\u00a0{number(row['high'], 0)}]"
            cells.append(f"{number(row['episodes'], 0)} {interval_text}{missed}")
        lines.append([str(m), *cells])
    return table(["m", "Delayed-Q", "Augmented-Q"], lines)


def stationarity() -> str:
    """The paper's table of stationary and non-stationary policies, beside the exact values."""
    delays = [f"m={m}" for m in range(6)]
    found = rows("stationarity")
    lines = [[row["policies"], *(number(row[m], 2) for m in delays)] for row in found]
    return table(["policies", *(m.replace("=", " = ") for m in delays)], lines)


def random_delay() -> str:
    """What knowing the age and what waiting is worth, against the range of the latency."""
    named = {"seen_now": "seen now", "seen_later": "seen a step later"}
    named |= {"never_seen": "never seen", "waiting": "receiver waits"}
    lines = []
    for row in rows("random-delay-exact"):
        low, high = row["shortest_latency"], row["longest_latency"]
        latency = low if low == high else f"{low}–{high}"
        values = (number(row[key], 3) for key in named)
        lines.append([row["problem"], latency, number(row["mean_age"], 2), *values])
    return table(["problem", "latency", "mean age", *named.values()], lines)


def random_delay_trained(task: str, digits: int) -> str:
    """Returns of agents trained under delays that vary, beside the optimum where it is known."""
    found = rows(f"random-delay-{task}")
    solved = "optimum" in found[0]
    agents = [*dict.fromkeys(row["agent"] for row in found)]
    lines = []
    for law in dict.fromkeys(row["law"] for row in found):
        for column, title in COLUMN_TITLES.items():
            here = [row for row in found if (row["law"], row["column"]) == (law, column)]
            of = {row["agent"]: row for row in here}
            cells = [
                number(of[agent]["return"], digits) if agent in of else "not run"
                for agent in agents
            ]
            if solved:
                bound = "" if here[0]["optimum_is"] == "exact" else "≤ "
                cells.append(bound + number(here[0]["optimum"], digits))
            lines.append([law, title, *cells])
    names = [f"`{agent}`" for agent in agents]
    return table(["delay", "the agent faces", *names, *["optimum"][:solved]], lines)


def knowing_and_waiting() -> str:
    """How much more an agent earns without waiting than with a receiver that waits."""
    lines = []
    for row in rows("random-delay-mazes"):
        if row["column"] in OBSERVED and row["agent"] in ("projected", "distribution", "delayed"):
            gain = interval(row, "minus_waiting", 3, "difference")
            lines.append((row["law"], f"`{row['agent']}`", row["column"], gain))
    laws = dict.fromkeys(law for law, *_ in lines)
    agents = dict.fromkeys(agent for _, agent, *_ in lines)
    shown = [
        [law, agent, *(gain for one, other, _, gain in lines if (one, other) == (law, agent))]
        for law in laws
        for agent in agents
    ]
    return table(["delay", "agent", *(COLUMN_TITLES[column] for column in OBSERVED)], shown)


def identification() -> str:
    """How often each method finds the whole delay in a log, by environment and policy."""
    found = rows("identification", kind="whole")
    places = dict.fromkeys((row["environment"], row["policy"]) for row in found)
    groups = [
        [*place, [row for row in found if (row["environment"], row["policy"]) == place]]
        for place in places
    ]
    groups.append(["all", "", found])
    return table(
        [
            *("environment", "policy", "logs", "identifiable", "right", "90% interval covers"),
            *("mean width", "ARX right", "cross-correlation right"),
        ],
        [
            [environment, policy, *map(str, _identified(several))]
            for environment, policy, several in groups
        ],
    )


def _identified(found: Sequence[Row]) -> list[str]:
    total = {
        name: sum(int(row[name]) for row in found)
        for name in (
            *("logs", "identifiable", "right", "covered"),
            *("arx_right", "cross_correlation_right"),
        )
    }
    sure = max(total["identifiable"], 1)
    widths = [(float(row["mean_width"]), int(row["identifiable"])) for row in found]
    width = sum(mean_width * count for mean_width, count in widths if count) / sure
    shares = {
        name: f"{total[name]} ({_percent(total[name] / sure)})" for name in ("right", "covered")
    }
    return [
        *(str(total["logs"]), str(total["identifiable"]), shares["right"], shares["covered"]),
        number(str(width), 2),
        *(str(total["arx_right"]), str(total["cross_correlation_right"])),
    ]


def _percent(share: float) -> str:
    """Format a share; one that is less than the whole is not rounded to 100%."""
    shown = f"{share:.0%}"
    return f"{share:.1%}" if shown == "100%" and share < 1 else shown


def identification_parts() -> str:
    """Errors of delays with a fraction of a step, in steps, where the fraction is known."""
    heads = ["policy", "logs", "identifiable", "fraction known", "mean error", "largest error"]
    lines = [
        [
            *(row[name] for name in ("policy", "logs", "identifiable", "known_parts")),
            *(number(row[name], 3) for name in ("mean_error", "largest_error")),
            *(row["covered"], number(row["mean_width"], 2)),
        ]
        for row in rows("identification", kind="part")
    ]
    return table([*heads, "covered", "mean width"], lines)


def identification_policies() -> str:
    """The returns of the policies that wrote logs, with their noise, beside random actions."""
    found = rows("identification", kind="return")
    earned = {(row["environment"], row["policy"]): number(row["return"], 1) for row in found}
    lines = [
        [
            environment,
            "deep Q" if TRAININGS[environment].action_kind == "numbered" else "SAC",
            f"{TRAININGS[environment].length:,}",
            *(earned.get((environment, policy), "not run") for policy in ("trained", "random")),
        ]
        for environment in dict.fromkeys(row["environment"] for row in found)
    ]
    return table(["environment", "learner", "steps", "trained, with noise", "random"], lines)


def identification_laws() -> str:
    """Distances of the estimated law of ages to the ages that occurred, in total variation."""
    found = rows("identification", kind="random")
    laws = [*dict.fromkeys(row["law"] for row in found)]
    far = {(row["environment"], row["law"]): number(row["distance_to_ages"], 2) for row in found}
    lines = [
        [environment, *(far.get((environment, law), "not run") for law in laws)]
        for environment in dict.fromkeys(row["environment"] for row in found)
    ]
    return table(["environment", *(f"`{law}`" for law in laws)], lines)


def unknown_delay() -> str:
    """What agents found that are not told the delay."""
    lines = []
    for row in rows("unknown-delay-search"):
        least, most = row["least_steps"], row["most_steps"]
        steps = "–" if not least else least if least == most else f"{least}–{most}"
        means = [number(row[key], 2) if row[key] else "–" for key in ("mean_age", "mean_age_found")]
        distance = number(row["distance"], 2) if row["distance"] else "–"
        found = f"{row['found']} of {row['seeds']}"
        others = f"{float(row['others']):.1%}" if row["others"] else "–"
        lines.append([row["environment"], row["law"], found, steps, *means, distance, others])
    heads = ["environment", "delay", "settled", "random steps", "mean age", "found", "distance"]
    heads.append("other ages at most")
    return table(heads, lines)


def unknown_loss() -> str:
    """Returns of agents that were told their law, and of agents that had to find it."""
    lines = [
        [
            f"`{row['agent']}`",
            row["law"],
            *(number(row[key], 0) for key in ("told", "untold")),
            interval(row, "loss", 0),
            row["seeds"],
        ]
        for row in rows("unknown-delay-loss")
    ]
    return table(["Pendulum", "delay", "told the law", "not told", "loss", "seeds"], lines)


def wrong_delay() -> str:
    """Returns of agents that are trained under one delay and played under another."""
    found = rows("wrong-delay")
    played = [*dict.fromkeys(row["played_under"] for row in found)]
    lines = []
    for agent in ("projected", "delayed"):
        for trained in dict.fromkeys(row["trained_under"] for row in found):
            mine = [
                row for row in found if (row["agent"], row["trained_under"]) == (agent, trained)
            ]
            of = {row["played_under"]: number(row["return"], 2) for row in mine}
            lines.append([f"`{agent}`", trained, *(of[name] for name in played)])
    return table(["agent", "trained under", *played], lines)


def mazes() -> str:
    """Final returns in mazes beside the optimum and the paper."""
    lines = []
    for p in (0, 0.05, 0.1, 0.2):
        for m in paper.DELAYS:
            of = {row["agent"]: row for row in rows("convergence", noise=p, delay=m)}
            theirs = paper.TABLE["noisy-maze" if p else "maze"]
            first = of["delayed"]
            printed = theirs["delayed", m]
            cells = [
                f"{p:g}",
                str(m),
                f"{_plain(printed.mean)}\u00a0±\u00a0{printed.spread:.2f}",
            ]
            bound = "" if first["optimum_is"] == "exact" else "≤ "
            cells += [interval(first, "return", 3), bound + number(first["optimum"], 3)]
            for agent in AGENTS[1:]:
                beside = _plain(theirs[agent, m].mean) if (agent, m) in theirs else "N/A"
                cells.append(f"{number(of[agent]['return'], 2)} ({beside})")
            cells += [number(of[agent]["return"], 2) for agent in ("shifted", "mbs")]
            cells += [
                interval(of[agent], "delayed_minus_this", 2, "difference") for agent in AGENTS[1:]
            ]
            lines.append(cells)
    heads = [
        "p",
        "m",
        "paper: Delayed",
        "Delayed-Q",
        "exact optimum",
        "Augmented-Q (paper)",
        "Oblivious-Q (paper)",
    ]
    return table([*heads, "Shifted-Q", "MBS", "Delayed − Augmented", "Delayed − Oblivious"], lines)


def _plain(value: float) -> str:
    return number(str(value), 0 if value == int(value) else 2)


def maze_sizes() -> str:
    """Returns over maze sizes."""
    lines = []
    for p in (0, 0.1):
        for size in (5, 10, 15, 20):
            of = {row["agent"]: row for row in rows("maze-size", noise=p, size=size)}
            rest = [number(of[agent]["return"], 2) for agent in ("augmented", "oblivious", "mbs")]
            lines.append([f"{p:g}", str(size), interval(of["delayed"], "return", 3), *rest])
    return table(["p", "size", "Delayed-Q", "Augmented-Q", "Oblivious-Q", "MBS"], lines)


def whole_law() -> str:
    """Acting on the whole law against acting on the most likely state."""
    lines = []
    for p in (0.1, 0.2):
        for m in paper.DELAYS:
            of = {row["agent"]: row for row in rows("whole-law", noise=p, delay=m)}
            gain = interval(of["distribution"], "law_minus_mode", 3, "difference")
            lines.append(
                [
                    f"{p:g}",
                    str(m),
                    *(number(of[a]["return"], 3) for a in ("distribution", "delayed")),
                    gain,
                ]
            )
    return table(["p", "m", "Distribution-Q", "Delayed-Q", "difference"], lines)


def point_estimates() -> str:
    """What each prediction of the walk earns."""
    lines = []
    for m in (2, 4, 10, 20):
        row = row_of("point-estimates", delay=m)
        exact = [number(row[name], 1) for name in ("mean", "mode", "rolled mode", "whole law")]
        lines.append(
            [str(m), *exact, *(interval(row, agent, 1) for agent in ("delayed", "distribution"))]
        )
    heads = ["m", "mean", "mode", "mode rolled step by step", "whole law = optimum"]
    return table([*heads, "Delayed-Q, trained", "Distribution-Q, trained"], lines)


def physical(preset: str, score: str) -> str:
    """CartPole and Acrobot beside the paper, under one preset."""
    lines = []
    for env, title in summary.ENVS.items():
        for m in summary.DELAYS:
            of = {row["agent"]: row for row in rows(f"summary-{preset}", environment=env, delay=m)}
            cells = [title, str(m)]
            for agent in AGENTS:
                theirs = paper.TABLE[env].get((agent, m))
                beside = f" ({_plain(theirs.mean)}\u00a0±\u00a0{theirs.spread:g})" if theirs else ""
                cells.append(interval(of[agent], score, 0) + beside)
            lines.append([*cells, *(_lead(of[agent], m) for agent in AGENTS[1:])])
    names = [f"{agent.title()}-Q (paper)" for agent in AGENTS]
    return table(["environment", "m", *names, "Delayed − Augmented", "Delayed − Oblivious"], lines)


def _lead(row: Row, m: int) -> str:
    same = m == 0 and float(row["delayed_minus_this"]) == float(row["difference_low"]) == 0
    return "the same runs" if same else interval(row, "delayed_minus_this", 0, "difference")


def causes() -> str:
    """Delayed-Q with the two mistakes of the authors' code."""
    lines = []
    for env, title in summary.ENVS.items():
        for m in paper.DELAYS:
            theirs = paper.TABLE[env]["delayed", m]
            cells = [
                interval(
                    row_of("causes", environment=env, delay=m, double=double, terminals=terminals),
                    "training",
                    0,
                )
                for double, terminals in (
                    ("True", "True"),
                    ("False", "True"),
                    ("True", "False"),
                    ("False", "False"),
                )
            ]
            lines.append(
                [title, str(m), f"{_plain(theirs.mean)}\u00a0±\u00a0{theirs.spread:g}", *cells]
            )
    ways = ["as it should be", "maximum instead of double Q", "no terminal transitions", "both"]
    return table(["environment", "m", "paper", *ways], lines)


def _atari(row: Row) -> str:
    return f"{number(row['training'], 0)} ({number(row['greedy'], 0)})"


def atari() -> str:
    """The settings of the paper's Atari table that were run, three agents a row."""
    lines = []
    whole = rows("summary-atari", sticky=0)
    for env, m in dict.fromkeys((row["environment"], row["delay"]) for row in whole):
        of = {row["agent"]: row for row in whole if (row["environment"], row["delay"]) == (env, m)}
        theirs = paper.TABLE[env]
        cells = [
            f"{_atari(of[a])}; {theirs[a, int(m)].mean:g}\u00a0±\u00a0{theirs[a, int(m)].spread:g}"
            for a in AGENTS
        ]
        lines.append([env.removeprefix("atari:"), m, *cells, of["delayed"]["seeds"]])
    return table(["game", "m", *(f"{agent.title()}-Q; paper" for agent in AGENTS), "seeds"], lines)


def atari_sticky() -> str:
    """MsPacman at m = 15 with sticky actions."""
    kinds = [(500_000, "500,000 steps"), (1_000_000, "1,000,000 steps")]
    lines = []
    for agent in AGENTS:
        those = [rows("summary-atari", sticky=0.25, steps=steps, agent=agent) for steps, _ in kinds]
        lines.append(
            [f"{agent.title()}-Q", *(_atari(one[0]) if one else "not run" for one in those)]
        )
    return table(["MsPacman, m = 15, sticky actions 0.25", *(name for _, name in kinds)], lines)


def rnn() -> str:
    """Frostbite with four agents under a delay, and the recurrent one without."""
    names = {
        ("delayed", 15): "Delayed-Q, m = 15",
        ("augmented", 15): "Augmented-Q, m = 15",
        ("recurrent", 15): "A2C-LSTM, m = 15",
        ("oblivious", 15): "Oblivious-Q, m = 15",
        ("recurrent", 0): "A2C-LSTM, no delay",
    }
    lines = [
        [name, _atari(row_of("rnn", agent=agent, delay=m))] for (agent, m), name in names.items()
    ]
    return table(
        ["Frostbite (`deadtime reproduce rnn`)", "1,000,000 steps, no sticky actions"], lines
    )


LAYERS = (
    "_support",
    "delays",
    "wrappers",
    "identify",
    "runtime",
    "planning",
    "envs",
    "learn",
    "runs",
    "studies",
    "cli",
)
"""The packages, lowest first, as the contracts in pyproject.toml have them."""


def imports() -> str:
    """Which packages each package imports from, imports within functions included."""
    sources = ROOT / "src" / "deadtime"
    lines = ["| package | imports from |", "| --- | --- |"]
    for layer in LAYERS:
        found: set[str] = set()
        for path in sorted((sources / layer).rglob("*.py")):
            found |= {name for name in _imported(path) if name in LAYERS and name != layer}
        names = ", ".join(f"`{name}`" for name in LAYERS if name in found) or "none"
        lines.append(f"| `{layer}` | {names} |")
    return "\n".join(lines)


def _imported(path: Path) -> Iterable[str]:
    """Yield the packages of deadtime that a file imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deadtime"):
            inside = (node.module or "").split(".")[1:]
            yield from inside[:1] or [name.name for name in node.names]


_LISTED = 15
"""The most scores that are listed one by one."""


def sb3() -> str:
    """DQN on CartPole under delay, in four ways: Stable-Baselines3's, and our own learner."""
    found = [_by_agent(f"{library}-cartpole.jsonl") for library in ("sb3", "deadtime")]
    heads = ("agent", "Stable-Baselines3", "each seed", "deadtime's learner", "each seed")
    lines = [
        (agent, *(cell for runs in found for cell in _scores(runs[agent])))
        for agent in ("plain", "queue", "predicted", "projected")
    ]
    return table(heads, lines)


def _by_agent(name: str) -> dict[str, list[float]]:
    """Return the returns of each agent in a record of integrations, in the order of seeds."""
    text = (ROOT / "results" / "integrations" / name).read_text("utf-8")
    records = sorted(map(json.loads, text.splitlines()), key=lambda record: record["seed"])
    found: dict[str, list[float]] = {}
    for record in records:
        found.setdefault(record["agent"], []).append(record["return"])
    return found


def _scores(scores: list[float]) -> tuple[str, str]:
    """Format a mean with its 95% interval, and the scores, or how far they reach if many."""
    estimate = mean(scores, (0, 500))
    value, low, high = (
        number(str(end), 0) for end in (estimate.value, estimate.low, estimate.high)
    )
    each = [number(str(score), 0) for score in scores]
    if len(each) > _LISTED:
        least, most = (number(str(end(scores)), 0) for end in (min, max))
        each = [f"{least} to {most} ({len(each)} seeds)"]
    return f"{value} [{low}, {high}]", ", ".join(each)


SAC_AGENTS = ("projected", "augmented", "delayed", "oblivious")
NOT_RUN = "not run"


def recorded(name: str) -> list[Row]:
    """Return the rows of a CSV file; none if the experiment has no records yet."""
    there = (ROOT / "results" / "paper" / "figures" / f"{name}.csv").exists()
    return rows(name) if there else []


def shown(row: Row | None, name: str, digits: int) -> str:
    """Format a value with its interval, if there is one; say so if it was not run."""
    if row is None or row[name] in ("", NOT_RUN):
        return NOT_RUN
    if row[f"{name}_low"] in ("", "nan"):
        return number(row[name], digits)
    return interval(row, name, digits)


def by_agent(lead: str, keys: Sequence[tuple[str, int]], cells: dict[Any, Row], name: str) -> str:
    """Format a line for each environment and delay, with a column for each agent."""
    digits = 2 if name == "normalized" else 0
    lines = []
    for place, m in keys:
        mine = [cells.get((place, agent, m)) for agent in SAC_AGENTS]
        seeds = {row["seeds"] for row in mine if row is not None} - {"0"}
        counts = sorted(seeds, key=int)
        values = [shown(row, name, digits) for row in mine]
        lines.append(
            [place, str(m), *values, " to ".join(dict.fromkeys((*counts[:1], *counts[-1:])))]
        )
    return table([lead, "m", *(f"`{agent}`" for agent in SAC_AGENTS), "seeds"], lines)


def cells_of(name: str, lead: str) -> dict[Any, Row]:
    """Return the rows of a table by environment, agent and delay."""
    return {(row[lead], row["agent"], int(row["delay"])): row for row in recorded(name)}


def mujoco_returns(name: str) -> str:
    """SAC's greedy returns under each view, at every delay of an experiment."""
    keys = dict.fromkeys((task, m) for task, _, m in EXPERIMENTS[name].runs)
    return by_agent("task", sorted(keys), cells_of(name, "task"), "return")


def mujoco_shares() -> str:
    """The share of undelayed SAC's return, by task and over all tasks."""
    cells = cells_of("mujoco", "task")
    keys = sorted({(task, m) for task, _, m in EXPERIMENTS["mujoco"].runs if m})
    delays = sorted({m for _, m in keys})
    every = f"all {len({task for task, _ in keys})} tasks"
    mean_of, middle = f"{every}, mean", f"{every}, IQM"
    over = {key: row for key, row in cells.items() if key[0] == every}
    for (_, agent, m), row in over.items():
        ends = {f"normalized{end}": row[f"iqm{end}"] for end in ("", "_low", "_high")}
        cells |= {(mean_of, agent, m): row, (middle, agent, m): row | ends}
    keys += [(title, m) for title in (mean_of, middle) for m in delays]
    return by_agent("task", keys, cells, "normalized")


def mujoco_short() -> str:
    """A sentence: the share of undelayed SAC's return on the first two tasks at m = 5."""
    cells = cells_of("mujoco", "task")
    tasks = list(dict.fromkeys(task for task, _, _ in EXPERIMENTS["mujoco"].runs))[:2]

    def of(agent: str) -> list[str]:
        return [number(cells[task, agent, 5]["normalized"], 2) for task in tasks]

    (first, second), (seen, later) = of("projected"), of("augmented")
    row = cells[tasks[0], "projected", 5]
    text = (
        f"- **MuJoCo**: after {int(row['steps']):,} steps at m = 5, SAC as `projected` has {first} "
        f"of undelayed SAC's return on HalfCheetah and {second} on Hopper; SAC that sees the queue "
        f"has {seen} and {later}. Settings near Stable-Baselines3's, our budget, {row['seeds']} "
        "seeds, `deadtime reproduce mujoco`: [continuous actions](docs/continuous.md)."
    )
    return "\n".join(textwrap.wrap(text, 112, subsequent_indent="  ", break_on_hyphens=False))


def mujoco_published() -> str:
    """Others' returns, beside those of our agent of the same kind."""
    ours = {**cells_of("mujoco", "task"), **cells_of("mujoco-ant", "task")}
    longer = cells_of("mujoco-million", "task")
    lines = []
    for one in others.ROWS:
        wanted = {
            abs(m - one.delay): row
            for cells in (ours, longer)
            for (task, agent, m), row in cells.items()
            if (task, agent) == (f"{one.task}-v5", one.agent) and abs(m - one.delay) <= 1
        }
        row = wanted[min(wanted)] if wanted else None
        mine = "–" if not one.agent else shown(row, "return", 0)
        if row is not None:
            mine += f" (m = {row['delay']}, {int(row['steps']):,} steps)"
        steps = "–" if one.steps is None else f"{one.steps:,}"
        about = [f"{one.method}, {one.task}-{one.version}", str(one.delay), steps]
        lines.append([*about, number(str(one.value), 0), mine, f"{one.source}; {one.note}"])
    heads = ["method and task", "delay", "steps", "theirs", "ours, v5", "source; what differs"]
    return table(heads, lines)


def projected() -> str:
    """Greedy returns of Projected-Q beside the agents that predict and that see the queue."""
    agents = ("projected", "delayed", "augmented")
    lines = []
    for env, title in ENVS.items():
        for m in DELAYS[1:]:
            of = {row["agent"]: row for row in rows("projected", environment=env, delay=m)}
            if not of:
                continue
            best = max(float(of[agent]["greedy"]) for agent in agents)
            cells = []
            for agent in agents:
                few = "" if of[agent]["seeds"] == "10" else f" ({of[agent]['seeds']} seeds)"
                cell = interval(of[agent], "greedy", 0) + few
                cells.append(f"**{cell}**" if float(of[agent]["greedy"]) == best else cell)
            lines.append([title, str(m), *cells])
    return table(["environment", "m", *(f"`{agent}`" for agent in agents)], lines)


TABLES: dict[str, Callable[[], str]] = {
    "mujoco": lambda: mujoco_returns("mujoco"),
    "mujoco-million": lambda: mujoco_returns("mujoco-million"),
    "mujoco-shares": mujoco_shares,
    "mujoco-short": mujoco_short,
    "mujoco-published": mujoco_published,
    "projected": projected,
    "imports": imports,
    "standing": standing,
    "beside-the-paper": beside_the_paper,
    "choose": choose,
    "growth": growth,
    "stationarity": stationarity,
    "mazes": mazes,
    "maze-sizes": maze_sizes,
    "random-delay": random_delay,
    "random-delay-trained": lambda: random_delay_trained("mazes", 3),
    "random-delay-cartpole": lambda: random_delay_trained("cartpole", 0),
    "random-delay-pendulum": lambda: random_delay_trained("pendulum", 0),
    "knowing-and-waiting": knowing_and_waiting,
    "identification": identification,
    "identification-parts": identification_parts,
    "identification-policies": identification_policies,
    "identification-laws": identification_laws,
    "unknown-delay": unknown_delay,
    "unknown-loss": unknown_loss,
    "wrong-delay": wrong_delay,
    "whole-law": whole_law,
    "point-estimates": point_estimates,
    "physical-paper": lambda: physical("paper", "training"),
    "physical-best": lambda: physical("best", "greedy"),
    "causes": causes,
    "atari": atari,
    "atari-sticky": atari_sticky,
    "rnn": rnn,
    "stable-baselines": sb3,
}
_PLACE = re.compile(r"(<!-- table: ([a-z-]+) -->\n)(?:(?!<!--).*?\n)??(<!-- end -->)", re.DOTALL)


def written(text: str) -> str:
    """Return a page with its tables as the records have them."""
    return _PLACE.sub(lambda place: place[1] + TABLES[place[2]]() + "\n" + place[3], text)


def main() -> int:
    """Rewrite the pages, or say which are outdated."""
    outdated = [page for page in PAGES if written(page.read_text()) != page.read_text()]
    for page in outdated:
        print(f"{page.relative_to(ROOT)}: {'outdated' if '--check' in sys.argv else 'rewritten'}")
        if "--check" not in sys.argv:
            page.write_text(written(page.read_text()))
    return 1 if outdated and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
