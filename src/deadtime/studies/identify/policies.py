"""Policies that write the logs: random, trained and feedback, the last two with a little noise.

Trained policies predict, and act at any delay (see `trainings`). Feedback is a rule for each
environment, from its observation alone. It does not know of the delay, so under a long one it plays
badly, as a log of a real system may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from deadtime.runtime import Policy as Trained

Policy = Callable[[Any, Any], Any]
"""A function of the observation and the pending actions."""
Maker = Callable[[gym.Env, np.random.Generator], Policy]
"""A function that returns a policy for an environment."""
_RANDOM_SHARE = 0.1
_NOISE = 0.1


def random_policy(env: gym.Env, rng: np.random.Generator) -> Policy:
    """Return the policy that samples the action space."""
    return lambda observation, pending: env.action_space.sample()


def constant_policy(env: gym.Env, rng: np.random.Generator) -> Policy:
    """Return the policy that always chooses one action."""
    action = env.action_space.sample()
    return lambda observation, pending: action


def feedback_policy(env: gym.Env, rng: np.random.Generator) -> Policy:
    """Return the feedback rule of an environment with a little noise."""
    assert env.spec is not None
    rule = _RULES.get(env.spec.id.partition("-")[0])
    space = env.action_space
    if isinstance(space, gym.spaces.Discrete):
        assert rule is not None
        return _dithered(env, rng, lambda o, pending: rule(env, o))
    assert isinstance(space, gym.spaces.Box)
    half = (space.high - space.low) / 2
    middle = (space.high + space.low) / 2
    assert env.observation_space.shape is not None
    weights = rng.normal(size=(*space.shape, *env.observation_space.shape))
    weights /= np.sqrt(weights.shape[-1])

    def wanted(observation: np.ndarray, pending: np.ndarray) -> np.ndarray:
        share = np.tanh(weights @ observation) if rule is None else rule(env, observation)
        return share * half + middle

    return _dithered(env, rng, wanted)


def trained_policy(policy: Trained, env: gym.Env, rng: np.random.Generator) -> Policy:
    """Return a trained policy of an environment with a little noise."""
    at: dict[int, Trained] = {}

    def wanted(observation: np.ndarray, pending: np.ndarray) -> Any:
        if len(pending) not in at:
            at[len(pending)] = policy.at_delay(len(pending))
        return at[len(pending)].act(observation, pending)

    return _dithered(env, rng, wanted)


def _dithered(env: gym.Env, rng: np.random.Generator, wanted: Policy) -> Policy:
    """Return a policy with noise: a tenth of numbered actions are random.

    Actions in a box have a normal error, whose deviation is a tenth of half the range.
    """
    space = env.action_space
    if isinstance(space, gym.spaces.Discrete):
        return lambda o, pending: (
            space.sample() if rng.random() < _RANDOM_SHARE else int(wanted(o, pending))
        )
    assert isinstance(space, gym.spaces.Box)
    noise = _NOISE * (space.high - space.low) / 2

    def act(observation: np.ndarray, pending: np.ndarray) -> np.ndarray:
        noisy = wanted(observation, pending) + noise * rng.normal(size=space.shape)
        return np.clip(noisy, space.low, space.high).astype(np.float32)

    return act


def _cartpole(env: gym.Env, o: np.ndarray) -> int:
    return int(0.1 * o[0] + 0.3 * o[1] + o[2] + 0.5 * o[3] > 0)


def _acrobot(env: gym.Env, o: np.ndarray) -> int:
    """Pump energy: torque in the direction in which the second link turns."""
    return 2 if o[5] > 0 else 0


def _pendulum(env: gym.Env, o: np.ndarray) -> np.ndarray:
    """Hold the pendulum near the top, and pump energy elsewhere."""
    upright, sideways, speed = o
    if upright > 0.8:
        return np.clip([-2.0 * sideways - 0.5 * speed], -1, 1)
    return np.array([np.sign(speed) or 1.0])


def _mountain_car(env: gym.Env, o: np.ndarray) -> np.ndarray:
    return np.array([0.8 * np.sign(o[1])])


def _lander(env: gym.Env, o: np.ndarray) -> int:
    from gymnasium.envs.box2d.lunar_lander import heuristic  # noqa: PLC0415  (needs Box2D)

    return heuristic(env.unwrapped, o)


_RULES: dict[str, Callable[[gym.Env, Any], Any]] = {
    "CartPole": _cartpole,
    "Acrobot": _acrobot,
    "Pendulum": _pendulum,
    "MountainCarContinuous": _mountain_car,
    "LunarLander": _lander,
}
"""Rules by the name of the environment; the others have a random linear map and tanh."""

POLICIES: dict[str, Maker] = {
    "random": random_policy,
    "feedback": feedback_policy,
    "constant": constant_policy,
}
