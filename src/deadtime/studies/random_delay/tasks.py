"""The tasks of the study of random delays: environments, agents and laws, as data.

Chosen by us: the tasks, the laws, and the budgets. A task has one budget under all its delays. In
mazes ε is 0.05. Noisy CartPole has the preset `best` and noise 0.1 on masses and lengths. In
Pendulum, SAC has networks of 64 × 64 and batches of 64, which learn the task within this budget on
one core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from deadtime.delays import Delay, DelayProcess
from deadtime.delays.waits import Observed
from deadtime.learn.settings import QLearning
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.specs import Spec
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.studies.random_delay.laws import COLUMNS, LAWS, LONG_LAWS, Laws, faced

SIZE, NOISE, EPISODES, EPSILON = 6, 0.1, 10_000, 0.05
_CARTPOLE_STEPS = 200_000
"""The usual budget at the constant delay of the study, 10, so that its records serve here too."""
PENDULUM_STEPS = 20_000
PENDULUM_CHANGES = {"hidden": (64, 64), "batch_size": 64, "random_steps": 1000}
_DEEP_AGENTS = ("delayed", "projected", "augmented", "oblivious")
Key = tuple[str, str, str]
"""A law, a column and an agent."""


def maze(agent: str, delay: Delay, observed: Observed = "now", **options: Any) -> TabularSpec:
    """Return a run of the study in mazes."""
    process = delay if isinstance(delay, DelayProcess) else None
    return TabularSpec(
        "maze",
        agent,
        delay.longest if isinstance(delay, DelayProcess) else delay,
        EPISODES,
        {"noise": NOISE, "size": SIZE},
        QLearning(epsilon=EPSILON),
        process=process,
        observed=observed,
        **options,
    )


def cartpole(agent: str, delay: Delay, observed: Observed = "now") -> DeepSpec:
    """Return a run of the study in noisy CartPole."""
    settings = {"perturb": "masses+lengths"}
    return _deep("noisy-cartpole", agent, delay, observed, _CARTPOLE_STEPS, settings=settings)


def pendulum(agent: str, delay: Delay, observed: Observed = "now") -> DeepSpec:
    """Return a run of the study in Pendulum."""
    return _deep("pendulum", agent, delay, observed, PENDULUM_STEPS, changes=PENDULUM_CHANGES)


def _deep(
    env: str, agent: str, delay: Delay, observed: Observed, steps: int, **options: Any
) -> DeepSpec:
    """Return a deep run; the spec leaves the usual budget out, so that equal runs have one id."""
    process = delay if isinstance(delay, DelayProcess) else None
    constant = 0 if isinstance(delay, DelayProcess) else delay
    usual = DeepSpec(env, agent, constant, process=process, observed=observed, **options)
    budget = None if usual.length == steps else steps
    return DeepSpec(
        env, agent, constant, process=process, observed=observed, steps=budget, **options
    )


@dataclass(frozen=True)
class Task:
    """A task of the study: its agents, its laws, and the function that makes a run."""

    name: str
    title: str
    agents: tuple[str, ...]
    spec: Callable[[str, Delay, Observed], Spec]
    laws: Laws = field(default_factory=lambda: LAWS)
    in_part: bool = False
    """Whether it is filled in parts, the first laws first; else it is run as a whole."""
    magnified: float | None = None
    """The range of returns below the smallest optimum that the upper panels show."""

    def runs(self) -> dict[Key, Spec]:
        """Return the runs by law, column and agent."""
        return {
            (law, column, agent): self.spec(agent, *faced(process, column))
            for (law, process), column, agent in product(self.laws.items(), COLUMNS, self.agents)
        }


TASKS = (
    Task(
        "mazes",
        f"{SIZE}×{SIZE} mazes, noise {NOISE:g}",
        ("projected", "delayed", "distribution", "augmented", "oblivious"),
        maze,
        magnified=0.1,
    ),
    Task(
        "cartpole",
        f"Noisy CartPole, {_CARTPOLE_STEPS:,} steps",
        _DEEP_AGENTS,
        cartpole,
        LONG_LAWS,
        in_part=True,
    ),
    Task(
        "pendulum",
        f"Pendulum, SAC, {PENDULUM_STEPS:,} steps",
        _DEEP_AGENTS,
        pendulum,
        {law: LAWS[law] for law in LONG_LAWS},
        in_part=True,
    ),
)
