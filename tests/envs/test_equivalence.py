"""An action delay of m is equivalent to an observation delay of m.

The agent gets rewards and the end of the episode equally late. Its first m actions are given. The
tests run the wrappers over every outcome of the dynamics, weighted by its probability.
"""

import hashlib
from collections import defaultdict
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from deadtime import ActionDelay, ObservationDelay

STATES, ACTIONS = 3, 2


class Scripted(gym.Env):
    """A finite MDP that follows a script of outcomes; state 2 ends the episode.

    `probability` is the probability of the outcomes so far.
    """

    action_space, observation_space = spaces.Discrete(ACTIONS), spaces.Discrete(STATES)

    def __init__(self, P, r, script):
        self.P = P
        self.r = r
        self.script = script

    def reset(self, *, seed=None, options=None):
        self.time = 0
        self.state = 0
        self.probability = 1.0
        return 0, {}

    def step(self, action):
        after = self.script[self.time]
        reward = self.r[self.state, action]
        self.probability *= self.P[self.state, action, after]
        self.time, self.state = self.time + 1, after
        return after, reward, after == 2, False, {}


def decide(history):
    """Return an arbitrary deterministic decision from the whole history."""
    return hashlib.sha256(repr(history).encode()).digest()[0] % ACTIONS


def execution_delayed(env, delay, given, horizon):
    """Return the agent's history (s_0, a_0, r_0, s_1, …), with a_t executed at t + m."""
    env = ActionDelay(env, delay, warmup=lambda obs, m, rng: given)
    obs, _ = env.reset()
    history = [obs]
    ended = False
    while not ended and env.unwrapped.time < horizon:
        action = decide(history)
        obs, reward, ended, _, _ = env.step(action)
        history += [action, reward, obs]
    return history, ended


def observation_delayed(env, delay, given, horizon):
    """Return the history if states, rewards and the end arrive m steps late."""
    base = env
    env = ObservationDelay(env, delay)
    obs, _ = env.reset()
    late = []
    chosen = []
    ended = False
    history = [obs]
    for time in range(horizon + delay):
        if not ended:
            action = given[time] if time < delay else decide(history)
            if time >= delay:
                chosen.append(action)
            obs, reward, ended, _, info = env.step(action)
            late.append((reward, base.state))
            assert info["observation_age"] == min(time + 1, delay)
        elif time >= delay:  # the agent does not see the end yet, and still decides
            chosen.append(decide(history))
        if time + 1 > delay:
            shown = time - delay
            if shown >= len(late) or shown >= horizon:
                break
            reward, state = late[shown]
            if time < base.time:
                assert obs == state, "the wrapper shows the state that the late reward belongs to"
            history += [chosen[shown], reward, state]
    return history, ended


@pytest.mark.parametrize("delay", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_both_delays_give_the_same_law_of_histories(delay, seed):
    rng = np.random.default_rng(seed)
    P, r = rng.dirichlet(np.ones(STATES), (STATES, ACTIONS)), rng.normal(size=(STATES, ACTIONS))
    given = rng.integers(0, ACTIONS, delay).tolist()
    horizon = 4 if delay < 3 else 3
    laws = []
    for visible in (execution_delayed, observation_delayed):
        law = defaultdict(float)
        for script in product(range(STATES), repeat=horizon + delay):
            env = Scripted(P, r, script)
            history, _ = visible(env, delay, given, horizon)
            unused = horizon + delay - env.time
            law[tuple(history)] += env.probability / STATES**unused
        assert sum(law.values()) == pytest.approx(1)
        laws.append(law)
    assert laws[0].keys() == laws[1].keys()
    for history, probability in laws[0].items():
        assert laws[1][history] == pytest.approx(probability)
