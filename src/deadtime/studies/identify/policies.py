"""Policies that write the logs: random ones, and feedback with a little noise.

Nothing here is trained. Feedback is a rule for each environment, from its observation alone. It
does not know of the delay, so under a long one it plays badly, as a log of a real system may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

Policy = Callable[[Any], Any]
_RANDOM_SHARE = 0.1
_NOISE = 0.1


def random_policy(env: gym.Env, rng: np.random.Generator) -> Policy:
    """Return the policy that samples the action space."""
    return lambda observation: env.action_space.sample()


def constant_policy(env: gym.Env, rng: np.random.Generator) -> Policy:
    """Return the policy that always chooses one action."""
    action = env.action_space.sample()
    return lambda observation: action


def feedback_policy(env: gym.Env, rng: np.random.Generator) -> Policy:
    """Return the feedback rule of an environment with a little noise.

    A tenth of numbered actions are random. Actions in a box have a normal error of a tenth of half
    the range.
    """
    assert env.spec is not None
    rule = _RULES.get(env.spec.id.partition("-")[0])
    space = env.action_space
    if isinstance(space, gym.spaces.Discrete):
        assert rule is not None
        return lambda o: space.sample() if rng.random() < _RANDOM_SHARE else int(rule(env, o))
    assert isinstance(space, gym.spaces.Box)
    half = (space.high - space.low) / 2
    middle = (space.high + space.low) / 2
    assert env.observation_space.shape is not None
    weights = rng.normal(size=(*space.shape, *env.observation_space.shape))
    weights /= np.sqrt(weights.shape[-1])

    def act(observation: Any) -> np.ndarray:
        wanted = np.tanh(weights @ observation) if rule is None else rule(env, observation)
        noisy = np.clip(wanted + _NOISE * rng.normal(size=space.shape), -1, 1)
        return (noisy * half + middle).astype(np.float32)

    return act


def _cartpole(env: gym.Env, o: Any) -> int:
    return int(0.1 * o[0] + 0.3 * o[1] + o[2] + 0.5 * o[3] > 0)


def _acrobot(env: gym.Env, o: Any) -> int:
    """Pump energy: torque in the direction in which the second link turns."""
    return 2 if o[5] > 0 else 0


def _pendulum(env: gym.Env, o: Any) -> np.ndarray:
    """Hold the pendulum near the top, and pump energy elsewhere."""
    upright, sideways, speed = o
    if upright > 0.8:
        return np.clip([-2.0 * sideways - 0.5 * speed], -1, 1)
    return np.array([np.sign(speed) or 1.0])


def _mountain_car(env: gym.Env, o: Any) -> np.ndarray:
    return np.array([0.8 * np.sign(o[1])])


def _lander(env: gym.Env, o: Any) -> int:
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

POLICIES = {"random": random_policy, "feedback": feedback_policy, "constant": constant_policy}
