"""Gymnasium's tables of transitions: what we read, against the environments themselves."""

from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv
from scipy.stats import ks_2samp

import deadtime
from deadtime.envs import make
from deadtime.envs.gym_outside import LONGEST_EPISODE
from deadtime.learn.settings import QLearning
from deadtime.learn.tabular_q import new_agent, run_episodes
from deadtime.runtime.views import VIEWS

TAXI = max(name for name in gym.registry if name.startswith("Taxi-v"))
CASES = [
    ("FrozenLake-v1", {"is_slippery": False}, 100),
    ("FrozenLake-v1", {"success_rate": 0.8, "reward_schedule": [5, -2, -1]}, 100),
    ("FrozenLake8x8-v1", {}, 200),
    (TAXI, {}, 200),
    (TAXI, {"is_rainy": True}, 200),
    ("CliffWalking-v1", {}, LONGEST_EPISODE),
    ("CliffWalkingSlippery-v1", {"max_episode_steps": 70}, 70),
]


def reached(env):
    """Return the states in which an episode may be, by Gymnasium's table."""
    inside = set(np.flatnonzero(env.initial_state_distrib).tolist())
    while True:
        outcomes = [one for s in inside for row in env.P[s].values() for one in row]
        after = {int(s) for p, s, _, over in outcomes if p > 0 and not over}
        if after <= inside:
            return inside
        inside |= after


def law_of(outcomes):
    law = {}
    for p, *outcome in outcomes:
        law[*map(float, outcome)] = law.get((*map(float, outcome),), 0.0) + p
    return {outcome: p for outcome, p in law.items() if p > 0}


@pytest.mark.parametrize(("name", "settings", "limit"), CASES)
def test_transitions_are_those_of_gymnasium(name, settings, limit):
    ours = make(f"table:{name}", settings)
    finite = ours.finite()
    env = gym.make(name, **settings).unwrapped
    states, actions = env.observation_space.n, env.action_space.n
    assert (ours.observation_space(), ours.action_space()) == (
        env.observation_space,
        env.action_space,
    )
    assert finite.max_steps == ours.max_steps == limit
    np.testing.assert_allclose(finite.start_law(), env.initial_state_distrib, atol=1e-12)
    inside = reached(env)
    shares = np.diff(finite.cumulative, axis=2, prepend=0.0)
    for s, a in product(range(states), range(actions)):
        read = zip(shares[s, a], finite.successors[s, a], finite.rewards[s, a], strict=True)
        found = law_of((p, after, r, finite.terminal[after]) for p, after, r in read)
        if s in inside:
            expected = law_of(env.P[s][a])
            assert found.keys() == expected.keys()
            assert found == pytest.approx(expected, abs=1e-12)
        else:
            assert found == {(s, 0.0, float(finite.terminal[s])): 1.0}
    P, r = ours.model()
    np.testing.assert_allclose(P.sum(axis=2), 1, atol=1e-12)
    for s, a in product(inside, range(actions)):
        mean = sum(p * reward for p, _, reward, _ in env.P[s][a])
        assert r[s, a] == pytest.approx(mean, abs=1e-12)


def at_random(name, settings, episodes):
    """Return the returns of uniformly random actions in Gymnasium's own environment."""
    env = gym.make(name, **settings)
    env.action_space.seed(1)
    env.reset(seed=1)
    found = []
    for _ in range(episodes):
        env.reset()
        earned, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            earned += float(reward)
            over = terminated or truncated
        found.append(earned)
    return np.array(found)


def check_one_law(ours, theirs):
    """Check that two samples of returns have one mean and one law."""
    error = np.sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs))
    assert abs(ours.mean() - theirs.mean()) <= 4 * error
    assert ks_2samp(ours, theirs).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "episodes"),
    [
        ("FrozenLake-v1", {}, 3000),
        (TAXI, {"max_episode_steps": 60}, 1000),
        ("CliffWalkingSlippery-v1", {"max_episode_steps": 60}, 1000),
    ],
)
def test_returns_of_random_actions_are_those_of_gymnasium(name, settings, episodes):
    env = make(f"table:{name}", settings).finite()
    streams = np.random.SeedSequence(2).generate_state(3, np.uint64)
    agent = new_agent(env, VIEWS["oblivious"], 0)
    _, ours = run_episodes(env, agent, QLearning(), streams, 20_000, learn=False)
    check_one_law(np.asarray(ours, float), at_random(name, settings, episodes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "delay", "episodes"),
    [("FrozenLake-v1", 1, 2000), (TAXI, "uniform:0-2", 500), ("CliffWalking-v1", 3, 1000)],
)
def test_a_trained_policy_earns_in_gymnasium_what_it_earns_in_our_arrays(name, delay, episodes):
    result = deadtime.train(f"table:{name}", "delayed", delay, episodes=3000)
    env = result.spec.environment(0).finite()
    policy = result.policy(0)
    channel = result.spec.channel
    agent = new_agent(env, VIEWS["delayed"], channel)
    agent.table.q[:] = policy._q
    for name_of, part in zip(("successors", "visits", "likely"), agent.model[:3], strict=True):
        part[:] = getattr(policy, f"_{name_of}")
    streams = np.random.SeedSequence(3).generate_state(3, np.uint64)
    _, ours = run_episodes(env, agent, QLearning(), streams, 20_000, learn=False)
    theirs = deadtime.evaluate(policy, f"table:{name}", episodes=episodes)
    check_one_law(np.asarray(ours, float), theirs)


class Broken(FrozenLakeEnv):
    """A FrozenLake that may lack its table, or moves against it."""

    def __init__(self, fault):
        super().__init__(is_slippery=False)
        self.fault = fault
        if fault == "no table":
            del self.P
        elif fault == "no starts":
            del self.initial_state_distrib
        elif fault == "sum":
            self.P[0][0] = [(0.5, 4, 0.0, False)]
        elif fault == "state":
            self.P[0][0] = [(1.0, 99, 0.0, False)]
        elif fault == "ends by chance":
            self.P[0][0] = [(0.5, 1, 0.0, True), (0.5, 1, 0.0, False)]
        elif fault == "starts at 1":
            self.observation_space = gym.spaces.Discrete(16, start=1)

    def step(self, action):
        after, reward, terminated, truncated, info = super().step(action)
        if self.fault == "reward":
            reward += 1
        return after, reward, terminated, truncated or self.fault == "truncates", info


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no table", r"need a table of transitions, env.unwrapped.P; .* has none"),
        ("no starts", r"the probability of each first state; .* has numbers of shape \(0,\)"),
        ("sum", r"have the sum 1; .* has 0.5 in P\[0\]\[0\]"),
        ("state", r"lists outcomes .*the outcome \(1.0, 99, 0.0, False\)"),
        ("ends by chance", "has state 1, which ends some episodes and not others"),
        ("starts at 1", r"need observations that are numbers from 0; .* has Discrete\(16, start=1"),
        ("reward", r"moves as its table P says; .* which is not in P"),
        ("truncates", "is truncated after 9 steps, its limit; .* has an episode truncated after 1"),
    ],
)
def test_what_no_table_describes_is_refused(fault, words, monkeypatch):
    monkeypatch.setattr(gym.envs.registration, "registry", {**gym.registry})
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    gym.register("Broken-v0", Broken, max_episode_steps=9)
    with pytest.raises(ValueError, match=f"{words}.*: train a deep agent on gym:Broken-v0"):
        make("table:Broken-v0", fault=fault)


def test_a_passenger_that_changes_its_mind_is_not_in_the_table_of_taxi():
    with pytest.raises(
        ValueError, match=r"an environment moves as its table P says; .* is not in P"
    ):
        make(f"table:{TAXI}", fickle_passenger=True)


def test_wrappers_that_may_change_the_environment_are_refused(monkeypatch):
    monkeypatch.setattr(gym.envs.registration, "registry", {**gym.registry})
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    gym.register("Noisy-v0", lambda: gym.wrappers.StickyAction(FrozenLakeEnv(), 0.5))
    with pytest.raises(ValueError, match=r"without wrappers .* has the wrapper StickyAction"):
        make("table:Noisy-v0")
