"""Trainings of the policies that write logs: short ones, whose records keep the weights.

The policies predict: they are trained at a delay of 5, and act at any delay.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from deadtime.runs import records
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.result import load
from deadtime.runtime import Policy

TRAINING_DELAY = 5
_EPISODES = 20
_SMALL: dict[str, Any] = {"hidden": (64, 64), "random_steps": 1000}
_CAR = "deadtime.studies.identify.mountain_car:deadtime/EnergyMountainCarContinuous-v0"
_NEEDS = {
    "LunarLander-v3": "Box2D",
    "Hopper-v5": "mujoco",
    "HalfCheetah-v5": "mujoco",
    "Reacher-v5": "mujoco",
}


def missing_package(environment: str) -> str:
    """Return the package that an environment needs and that is not installed, or nothing."""
    package = _NEEDS.get(environment, "")
    return package if package and importlib.util.find_spec(package) is None else ""


def _sac(env: str, steps: int) -> DeepSpec:
    """Return a short training of SAC with small networks."""
    return DeepSpec(
        env,
        "delayed",
        TRAINING_DELAY,
        steps=steps,
        changes=dict(_SMALL),
        evaluation_episodes=_EPISODES,
        action_kind="box",
        recorded=True,  # nothing is imported before a run begins
    )


def _deep_q(env: str) -> DeepSpec:
    return DeepSpec(
        env,
        "delayed",
        TRAINING_DELAY,
        steps=60_000,
        evaluation_episodes=_EPISODES,
        action_kind="numbered",
        recorded=True,
    )


TRAININGS = {
    "CartPole-v1": _deep_q("cartpole"),
    "Acrobot-v1": _deep_q("acrobot"),
    "Pendulum-v1": _sac("pendulum", 15_000),
    "MountainCarContinuous-v0": _sac(f"gym:{_CAR}", 15_000),
    "LunarLander-v3": _deep_q("gym:LunarLander-v3"),
    "Hopper-v5": _sac("gym:Hopper-v5", 30_000),
    "HalfCheetah-v5": _sac("gym:HalfCheetah-v5", 40_000),
    "Reacher-v5": _sac("gym:Reacher-v5", 15_000),
}
"""The training for each environment. The mountain car has the car's energy in its reward: without
it, a short training never sees the top."""


@cache
def trained_in(root: Path, environment: str) -> Policy:
    """Return the policy of an environment from the records in `root`."""
    folder = root / TRAININGS[environment].name
    if not records.exists(folder):
        raise ValueError(
            f"{root} has no record of the policy for {environment}: run `deadtime reproduce "
            f"identification --out {root}`, which trains it"
        )
    return load(folder)
