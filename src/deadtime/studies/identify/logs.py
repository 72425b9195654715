"""Logs of Gymnasium environments whose actions are executed late, with the ages that occurred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from deadtime.delays import as_process
from deadtime.studies.identify.policies import POLICIES, Maker
from deadtime.wrappers import ActionDelay

SUBSTEPS = 10
_STEP = 0.05


@dataclass(frozen=True)
class Recorded:
    """Episodes of observations and actions; `ages` are for the score, not for identification."""

    observations: list[np.ndarray]
    actions: list[np.ndarray]
    ages: np.ndarray


def record(environment: str, policy: Maker, delay: str, steps: int, seed: int) -> Recorded:
    """Return a log of `steps` steps; `delay` is the text form of a process."""
    bare = gym.make(environment)
    env = ActionDelay(bare, delay=as_process(delay))
    rng = np.random.default_rng([seed, 1])
    env.action_space.seed(seed)
    act = policy(bare, rng)
    seen: list[list[Any]] = []
    chosen: list[list[Any]] = []
    ages: list[int] = []
    ended = True
    for t in range(steps):
        if ended:
            observation, info = env.reset(seed=seed if t == 0 else None)
            seen.append([observation])
            chosen.append([])
        action = act(observation, info["pending_actions"])
        observation, _, terminated, truncated, info = env.step(action)
        seen[-1].append(observation)
        chosen[-1].append(action)
        ages.append(info["executed_age"])
        ended = terminated or truncated
    env.close()
    return Recorded(
        [np.array(one) for one in seen], [np.array(one) for one in chosen], np.array(ages)
    )


def mean_return(environment: str, policy: Maker, delay: int, episodes: int, seed: int) -> float:
    """Return the mean return of a policy over episodes under a delay."""
    bare = gym.make(environment)
    env = ActionDelay(bare, delay=delay)
    env.action_space.seed(seed)
    act = policy(bare, np.random.default_rng([seed, 1]))
    earned = 0.0
    for episode in range(episodes):
        observation, info = env.reset(seed=seed + episode)
        ended = False
        while not ended:
            action = act(observation, info["pending_actions"])
            observation, reward, terminated, truncated, info = env.step(action)
            earned += float(reward)
            ended = terminated or truncated
    env.close()
    return earned / episodes


def record_substeps(policy: str, delay: float, steps: int, seed: int) -> Recorded:
    """Return a log of Gymnasium's pendulum, integrated in 10 substeps per step.

    The delay is a whole number of substeps. Actions before the first one are 0.
    """
    bare = gym.make("Pendulum-v1")
    rng = np.random.default_rng([seed, 1])
    bare.action_space.seed(seed)
    act = POLICIES[policy](bare, rng)
    angle, speed = rng.uniform(-np.pi, np.pi), rng.uniform(-1, 1)
    late = round(delay * SUBSTEPS)
    h = _STEP / SUBSTEPS
    seen = [np.array([np.cos(angle), np.sin(angle), speed])]
    chosen: list[np.ndarray] = []
    for t in range(steps):
        chosen.append(act(seen[-1], ()))
        for i in range(SUBSTEPS):
            place = (t * SUBSTEPS + i - late) // SUBSTEPS
            torque = float(np.clip(chosen[place][0], -2, 2)) if place >= 0 else 0.0
            speed = np.clip(speed + h * (15 * np.sin(angle) + 3 * torque), -8, 8)
            angle += h * speed
        seen.append(np.array([np.cos(angle), np.sin(angle), speed]))
    bare.close()
    return Recorded([np.array(seen)], [np.array(chosen)], np.zeros(0, np.int64))
