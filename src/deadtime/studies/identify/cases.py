"""The cases of the study: which logs are made, and what is kept of each answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deadtime.delays import as_process, from_json
from deadtime.identify import Identification, identify_delay, make_log
from deadtime.studies.identify.baselines import arx_delay, correlation_peak
from deadtime.studies.identify.logs import Recorded, mean_return, record, record_substeps
from deadtime.studies.identify.policies import POLICIES, Maker, trained_policy
from deadtime.studies.identify.trainings import (
    TRAINING_DELAY,
    TRAININGS,
    missing_package,
    trained_in,
)

MAX_DELAY = 16
LEVEL = 0.9
SHORT, LONG = 1000, 3000
EPISODES = 20
"""The number of episodes of a mean return."""
_DELAYS = range(13)
_LONG_DELAYS = (0, 4, 8, 12)
ENVIRONMENTS = (
    "CartPole-v1",
    "Acrobot-v1",
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    "LunarLander-v3",
    "Hopper-v5",
    "HalfCheetah-v5",
    "Reacher-v5",
)
_PARTS = (0.3, 1.5, 2.2, 3.7, 4.9, 6.4, 8.6, 11.1)
_LAWS = (
    "uniform:2-6",
    "rlrd-wifi",
    "uniform:0-4,in_order=false",
    "walk:0-5",
    "episode:uniform:1-4",
)
_LAW_ENVIRONMENTS = ("CartPole-v1", "Acrobot-v1", "Pendulum-v1", "Reacher-v5")


@dataclass(frozen=True)
class Case:
    """One log, or the return of a policy.

    `kind` is "whole", "constant actions", "part" or "random", the delay of the log, or "return".
    """

    kind: str
    environment: str
    policy: str
    delay: str
    steps: int
    seed: int

    @property
    def id(self) -> str:
        """The name of the case in the file of answers."""
        about = (self.kind, self.environment, self.policy, self.delay, self.steps, self.seed)
        return " ".join(map(str, about))

    @property
    def missing(self) -> str:
        """The package that the environment needs and that is not installed, or nothing."""
        return missing_package(self.environment)


def all_cases() -> list[Case]:
    """Return all cases, seeds below 1,000; the first ones cover all environments and delays."""
    others = [delay for delay in _DELAYS if delay not in _LONG_DELAYS]
    whole = [
        Case("whole", environment, policy, str(delay), steps, 100 * place + delay)
        for steps, delays in ((SHORT, _LONG_DELAYS), (SHORT, others), (LONG, _LONG_DELAYS))
        for delay in delays
        for place, environment in enumerate(ENVIRONMENTS)
        for policy in ("random", "feedback")
    ]
    whole += [
        Case("whole", environment, "trained", str(delay), steps, 800 + 20 * place + delay)
        for steps in (SHORT, LONG)
        for delay in _LONG_DELAYS
        for place, environment in enumerate(TRAININGS)
    ]
    returns = [
        Case("return", environment, policy, str(TRAINING_DELAY), 0, 700 + place)
        for policy in ("trained", "random")
        for place, environment in enumerate(TRAININGS)
    ]
    still = [
        Case("constant actions", environment, "constant", "3", SHORT, 20 + 100 * place)
        for place, environment in enumerate(ENVIRONMENTS)
    ]
    parts = [
        Case("part", "Pendulum-v1", policy, str(delay), SHORT, 900 + place)
        for policy in ("random", "feedback")
        for place, delay in enumerate(_PARTS)
    ]
    random = [
        Case("random", environment, "random", law, LONG, 950 + place)
        for environment in _LAW_ENVIRONMENTS
        for place, law in enumerate(_LAWS)
    ]
    return [*still, *parts, *random, *whole, *returns]


def few_cases() -> list[Case]:
    """Return a short case of each kind, for a smoke test."""
    first: dict[str, Case] = {}
    for case in all_cases():
        if case.policy != "trained":
            first.setdefault(case.kind, case)
    return [Case(**(asdict(case) | {"steps": 300})) for case in first.values()]


def answer(case: Case, root: Path) -> dict[str, Any]:
    """Return the answers of the three methods on the log of a case, or the return of its policy.

    Trained policies are those of the records in `root`.
    """
    if case.kind == "return":
        policy = _policy(case, root)
        mean = mean_return(case.environment, policy, int(case.delay), EPISODES, case.seed)
        return {"return": mean, "episodes": EPISODES}
    made = _recorded(case, root)
    found = identify_delay(made.observations, made.actions, max_delay=MAX_DELAY, level=LEVEL)
    log = make_log(made.observations, made.actions)
    return {
        "identifiable": found.identifiable,
        "reason": found.reason,
        "delay": found.delay,
        "interval": None if found.interval is None else list(found.interval),
        "steps": found.steps,
        "steps_interval": None if found.steps_interval is None else list(found.steps_interval),
        "varies": found.varies,
        "process": None if found.process is None else str(found.process),
        "actuators_differ": found.actuators is not None,
        "cross_correlation": correlation_peak(log, MAX_DELAY),
        "arx": arx_delay(log, MAX_DELAY),
        "episodes": len(made.actions),
        **_distance(case, made, found),
    }


def _recorded(case: Case, root: Path) -> Recorded:
    if case.kind == "part":
        return record_substeps(case.policy, float(case.delay), case.steps, case.seed)
    policy = _policy(case, root)
    return record(case.environment, policy, case.delay, case.steps, case.seed)


def _policy(case: Case, root: Path) -> Maker:
    if case.policy == "trained":
        return partial(trained_policy, trained_in(root, case.environment))
    return POLICIES[case.policy]


def _distance(case: Case, made: Recorded, found: Identification) -> dict[str, Any]:
    """Return the total-variation distances of the estimated law of ages, if the delay varies."""
    if case.kind != "random":
        return {}
    estimated = np.array(found.posterior)
    happened = np.bincount(made.ages, minlength=len(estimated)) / len(made.ages)
    truth = as_process(case.delay)
    law = np.zeros(len(estimated))
    law[: len(truth.age_law)] = truth.age_law
    distances = {
        "distance_to_ages": float(0.5 * np.abs(estimated - happened).sum()),
        "distance_to_law": float(0.5 * np.abs(estimated - law).sum()),
    }
    if found.process is not None:
        again = from_json(found.process.to_json())
        fitted = np.zeros(max(len(again.age_law), len(law)))
        fitted[: len(again.age_law)] = again.age_law
        fitted[: len(law)] -= law
        distances["distance_of_process"] = float(0.5 * np.abs(fitted).sum())
    return distances
