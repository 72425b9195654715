"""The interface of a run's spec, as training needs it; `runs` defines the specs."""

from __future__ import annotations

from typing import Any, Protocol

from deadtime.delays import Delay, DelayProcess
from deadtime.delays.waits import Observed
from deadtime.envs.family import Family
from deadtime.identify.age_model import AgeModel


class Run(Protocol):
    """One agent under one delay on one environment."""

    @property
    def id(self) -> str:
        """The hash that identifies the run."""

    @property
    def env(self) -> str:
        """The environment's name."""

    @property
    def family(self) -> Family:
        """The family of the environment."""

    @property
    def settings(self) -> dict[str, Any]:
        """The environment's settings that differ from its defaults."""

    @property
    def agent(self) -> str:
        """The agent's name."""

    @property
    def delay(self) -> int:
        """The delay in steps; of a delay that varies, the longest age."""

    @property
    def process(self) -> DelayProcess | None:
        """The process of the ages; None for a constant delay."""

    @property
    def channel(self) -> Delay:
        """The process of the ages or, if it is constant, the delay."""

    @property
    def learner(self) -> Any:
        """The settings of the learner."""

    @property
    def evaluation_episodes(self) -> int:
        """The number of held-out episodes."""

    def environment(self, seed: int) -> Any:
        """Make the environment of a seed."""


class TabularRun(Run, Protocol):
    """A run of tabular Q-learning."""

    @property
    def states(self) -> int:
        """The number of states of the environment."""

    @property
    def episodes(self) -> int:
        """The number of training episodes."""

    @property
    def observed(self) -> Observed:
        """When the agent learns the age of a step."""

    @property
    def wrong_delays(self) -> tuple[Delay, ...]:
        """Other delays under which the trained agent is played, without being told."""

    @property
    def until_return(self) -> float | None:
        """The mean return at which a seed stops early."""


class DeepRun(Run, Protocol):
    """A run of a deep agent."""

    @property
    def length(self) -> int:
        """The environment steps of the training."""

    @property
    def frames(self) -> bool:
        """Whether observations are stacks of frames instead of numbers."""

    @property
    def longest_delay(self) -> int:
        """The longest delay in training or evaluation."""

    @property
    def observed(self) -> Observed:
        """When an agent that uses ages learns the age of a step."""

    @property
    def hidden(self) -> DelayProcess | None:
        """The process by which the environment executes actions, if the agent is not told it."""

    @property
    def ages(self) -> AgeModel | None:
        """The model by which an agent that is not told the delay infers ages."""

    @property
    def evaluation_delays(self) -> tuple[int, ...]:
        """Other delays under which the policy is evaluated."""

    @property
    def evaluate_every(self) -> int | None:
        """The number of steps between two evaluations in training; None for no evaluations."""

    @property
    def envs(self) -> int:
        """The number of environments, if they are outside the compiled program."""

    @property
    def outside(self) -> bool:
        """Whether the environment runs outside the compiled program."""
