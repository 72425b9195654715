"""Agents that are not told the delay: how many steps they take to find it, and what they lose.

Chosen by us: the environments, the laws, 3 seeds, random actions to explore, the log's lengths at
which it is read, and 20 episodes to play. Agents are trained in Pendulum, with the settings of the
study there. An agent that finds a constant delay equals the agent that was told it, so constants
are not trained twice. Under a law that varies, `augmented` learns from its chosen actions, and
`delayed` infers which actions were executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from deadtime._support.pictures import mark_picture, save_picture
from deadtime.delays import Delay, as_process
from deadtime.identify import Identification
from deadtime.runs import statistics
from deadtime.runs.figures import new_figure
from deadtime.runs.result import Results
from deadtime.runs.training import train
from deadtime.runs.unknown_delay import find_delay, played, train_untold
from deadtime.studies.answers import Answers
from deadtime.studies.experiment import SMOKE, Experiment
from deadtime.studies.random_delay.laws import LAWS
from deadtime.studies.random_delay.tasks import PENDULUM_CHANGES, PENDULUM_STEPS

_ID = "unknown-delay"
_FILE = f"{_ID}.json"
_SEEDS = range(3)
_ENVS = ("pendulum", "acrobot", "noisy-cartpole")
_DELAYS: dict[str, Delay] = {"constant": 4, **LAWS}
_TRAINED = ("wide", "bursty")
_EPISODES = 20
_AGENT = "delayed"
_AGENTS = (_AGENT, "augmented")
_MAX_DELAY = 12


@dataclass(frozen=True)
class Case:
    """A seed of an environment under a delay; `steps` is the training, 0 for none."""

    env: str
    law: str
    seed: int
    steps: int = 0
    agent: str = _AGENT

    @property
    def id(self) -> str:
        """The name of the case in the file of answers."""
        other = "" if self.agent == _AGENT else f" {self.agent}"
        return f"{self.env} {self.law} {self.seed} {self.steps}{other}"


def searches() -> list[Case]:
    """Return the cases without a training."""
    return [Case(env, law, seed) for env in _ENVS for law in _DELAYS for seed in _SEEDS]


def trainings() -> list[Case]:
    """Return the cases whose agents are trained."""
    return [
        Case(_ENVS[0], law, seed, PENDULUM_STEPS, agent)
        for agent, law, seed in product(_AGENTS, _TRAINED, _SEEDS)
    ]


def answer(case: Case) -> dict[str, Any]:
    """Return what a case gave: the steps, the law, and returns with and without knowing it."""
    delay = _DELAYS[case.law]
    try:
        if not case.steps:
            found = find_delay(case.env, delay, case.seed, max_delay=_MAX_DELAY)
            return _words(found.steps, found.answer)
        options: dict[str, Any] = PENDULUM_CHANGES | {"steps": case.steps}
        options |= {"evaluation_episodes": _EPISODES}
        seeds = [case.seed]
        untold = train_untold(case.env, case.agent, delay, seeds, max_delay=_MAX_DELAY, **options)
    except ValueError as error:
        return {"refused": str(error)}
    told = train(case.env, case.agent, delay, seeds, observed="never", **options)
    (found,) = untold.found
    scores = {"untold": float(untold.scores[0]), "told": played(told, told.spec, case.seed)}
    return _words(found.steps, found.answer) | scores


def _words(steps: int, found: Identification) -> dict[str, Any]:
    law = list(found.posterior)
    if not found.varies:
        law = [float(age == found.delay) for age in range(len(law))]
    return {"steps": steps, "process": str(found.process), "law": law, "others": found.others}


def answers(wanted: Sequence[Case]) -> Answers:
    """Return the answers to some cases."""
    return Answers(_FILE, lambda: wanted, lambda case, _: answer(case))


def rows_of(wanted: Sequence[Case], root: Path) -> list[dict[str, Any]]:
    """Return a row for each environment and delay, over its seeds."""
    found = answers(wanted).kept(root)
    rows = []
    for place in dict.fromkeys((case.env, case.law, case.agent) for case in wanted):
        mine = [case for case in wanted if (case.env, case.law, case.agent) == place]
        if there := [found[case.id] for case in mine if case.id in found]:
            rows.append(_row(*place, there))
    return rows


def _row(env: str, law: str, agent: str, mine: Sequence[dict[str, Any]]) -> dict[str, Any]:
    true = as_process(_DELAYS[law])
    sure = [one for one in mine if "law" in one]
    empty = ("least_steps", "most_steps", "distance", "mean_age_found", "others")
    row: dict[str, Any] = {"environment": env, "law": law, "delay": str(true), "seeds": len(mine)}
    row |= {"agent": agent if any("told" in one for one in sure) else ""}
    row |= {"found": len(sure), "mean_age": true.mean_age} | dict.fromkeys(empty, "")
    row |= dict.fromkeys(("told", "untold", "loss", "loss_low", "loss_high"), "")
    if sure:
        steps = [one["steps"] for one in sure]
        laws = np.array([one["law"] for one in sure])
        ages = np.zeros(laws.shape[1])
        ages[: len(true.age_law)] = true.age_law
        row |= {"least_steps": min(steps), "most_steps": max(steps)}
        row |= {"distance": float(np.abs(laws - ages).sum(1).mean() / 2)}
        row |= {"mean_age_found": float((laws @ np.arange(laws.shape[1])).mean())}
        if bounds := [one["others"] for one in sure if one.get("others") is not None]:
            row |= {"others": max(bounds)}
    pairs = [(one["told"], one["untold"]) for one in sure if "told" in one]
    if pairs:
        told, untold = np.array(pairs).T
        row |= {"told": float(told.mean()), "untold": float(untold.mean())}
        loss = statistics.mean(told - untold)
        row |= {"loss": loss.value, "loss_low": loss.low, "loss_high": loss.high}
    return row


def _draw_laws(wanted: Sequence[Case], root: Path) -> Path:
    """Draw the law of ages that each seed found beside the true one."""
    found = answers(wanted).kept(root)
    places = list(dict.fromkeys((case.env, case.law) for case in wanted))
    envs = list(dict.fromkeys(env for env, _ in places))
    laws = list(dict.fromkeys(law for _, law in places))
    figure, panels = new_figure(
        2.4 * len(laws) + 0.6, 2.0 * len(envs) + 0.8, len(envs), len(laws), squeeze=False
    )
    for env, law in places:
        axes = panels[envs.index(env), laws.index(law)]
        ages = as_process(_DELAYS[law]).age_law
        axes.bar(range(len(ages)), ages, color="0.8")
        for case in wanted:
            if (case.env, case.law) == (env, law) and "law" in found.get(case.id, {}):
                shares = found[case.id]["law"]
                axes.plot(range(len(shares)), shares, ".-", lw=0.8)
        axes.set_xlim(-0.7, 8.5)
        axes.set_title(f"{env}, {law}", fontsize=9)
        axes.tick_params(labelsize=7)
    for axes in panels[-1]:
        axes.set_xlabel("age (steps)", fontsize=8)
    about = "True laws of ages (bars), and those that each seed found by random actions (lines)"
    figure.suptitle(f"{about}\ndeadtime reproduce {_ID}", fontsize=10)
    return save_picture(figure, root / "figures" / f"{_ID}-search.png")


def _draw_returns(wanted: Sequence[Case], root: Path) -> Path:
    """Draw the return of each seed that was told its law, beside that of the one that was not."""
    found = answers(wanted).kept(root)
    figure, axes = new_figure(5.5, 3.8)
    kinds = list(dict.fromkeys((case.agent, case.law) for case in wanted))
    for case in wanted:
        one = found.get(case.id, {})
        if "told" in one:
            color = f"C{kinds.index((case.agent, case.law))}"
            axes.plot([one["told"]], [one["untold"]], "o", color=color)
    for place, (agent, law) in enumerate(kinds):
        axes.plot([], [], "o", color=f"C{place}", label=f"{agent}, {law}, each seed")
    axes.axline((-200, -200), slope=1, color="0.6", lw=1)
    axes.set(xlabel="return, told the law", ylabel="return, not told")
    axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"Pendulum, SAC: deadtime reproduce {_ID}", fontsize=10)
    return save_picture(figure, root / "figures" / f"{_ID}-loss.png")


@dataclass(frozen=True)
class _Study(Experiment):
    """An experiment whose cases are in one file of answers."""

    few: Sequence[Case] = ()
    """The cases of a smoke test."""
    draw_cases: Callable[[Sequence[Case], Path], Path] = _draw_laws

    def tiny(self) -> Experiment:
        """Return the experiment with few cases, which hardly train."""

        def draw(results: Results, root: Path) -> Path:
            return mark_picture(self.draw_cases(self.few, root), SMOKE)

        few = replace(self, draw=draw, answers=answers(self.few))
        return replace(few, table=lambda results, root: rows_of(self.few, root))


def _study(
    part: str,
    title: str,
    wanted: Callable[[], list[Case]],
    draw: Callable[[Sequence[Case], Path], Path],
    few: Sequence[Case],
) -> Experiment:
    """Return a part of the study."""
    return _Study(
        _ID,
        f"Agents that are not told the delay: {title}",
        {},
        range(1),
        lambda results, root: draw(wanted(), root),
        lambda results, root: rows_of(wanted(), root),
        part=part,
        answers=Answers(_FILE, wanted, lambda case, _: answer(case)),
        few=few,
        draw_cases=draw,
    )


UNKNOWN = [
    _study("search", "how they find it", searches, _draw_laws, [Case("pendulum", "constant", 0)]),
    _study(
        "loss", "what they lose", trainings, _draw_returns, [Case("pendulum", "bursty", 0, 1200)]
    ),
]
