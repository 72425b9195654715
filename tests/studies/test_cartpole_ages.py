"""Why ages that change at every step are worse on CartPole than a longer constant delay."""

import gymnasium as gym
import numpy as np
import pytest

from deadtime.delays import Constant, Uniform
from deadtime.wrappers.scalar import ActionDelay

PATHS = 24
GAINS = np.array([0.05, 0.1, 1.0, 0.3])


def moved(states, actions):
    """Return CartPole's next states, by its equations of motion."""
    x, x_dot, angle, spin = states.T
    push = np.where(actions == 1, 10.0, -10.0) + 0.05 * spin**2 * np.sin(angle)
    cosine = np.cos(angle)
    turning = 9.8 * np.sin(angle) - cosine * push / 1.1
    turning /= 0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1)
    speeding = push / 1.1 - 0.05 * turning * cosine / 1.1
    change = 0.02 * np.stack([x_dot, speeding, spin, turning], axis=1)
    return states + change


def foreseen(obs, queue, age, process, rng):
    """Return the mean state, over random ages, when the action being chosen is first executed."""
    states = np.repeat(obs[None], PATHS, axis=0)
    ages = np.full(PATHS, age)
    reached = np.zeros(PATHS, bool)
    step = 0
    while True:
        place = len(queue) + step - ages
        reached |= place >= len(queue)
        if reached.all():
            return states.mean(axis=0)
        after = moved(states, queue[np.minimum(place, len(queue) - 1)])
        states = np.where(reached[:, None], states, after)
        step += 1
        if isinstance(process, Uniform):
            ages = np.minimum(ages + 1, rng.integers(process.low, process.high + 1, PATHS))


def held(process, episodes=6):
    """Return the mean number of steps for which a controller holds the pole."""
    rng = np.random.default_rng(0)
    env = ActionDelay(gym.make("CartPole-v1"), process)
    lengths = []
    for seed in range(episodes):
        obs, info = env.reset(seed=seed)
        length, ended = 0, False
        while not ended:
            queue = np.asarray(info["pending_actions"])
            state = foreseen(obs.astype(float), queue, info["action_age"], process, rng)
            obs, _, terminated, truncated, info = env.step(int(GAINS @ state > 0))
            length += 1
            ended = terminated or truncated
        lengths.append(length)
    return np.mean(lengths)


@pytest.mark.slow
def test_a_controller_that_knows_the_physics_fails_under_ages_that_change_at_every_step():
    assert held(Constant(12)) > 200
    assert held(Uniform(8, 12)) < 60
