"""Tabular agents on Gymnasium's tables, against exact answers and the plain loop."""

import gymnasium as gym
import numpy as np
import pytest

import deadtime
from benchmarks.plain import Plain
from deadtime.delays import as_process
from deadtime.envs import make
from deadtime.learn.settings import QLearning
from deadtime.learn.tabular_q import new_agent, run_episodes, to_arrays
from deadtime.planning import MDP, exact_values, queue_aware, solve
from deadtime.runs.ceiling import ceiling
from deadtime.runtime import Manifest, TablePolicy
from deadtime.runtime.views import VIEWS
from tests.envs.test_gym_table import TAXI


def test_delayed_crosses_ice_that_is_not_slippery():
    result = deadtime.train("table:FrozenLake-v1", "delayed", seeds=3, is_slippery=False)
    assert result.scores.tolist() == [1, 1, 1]
    assert ceiling(result.spec.environment(0), 0).value == 1
    played = deadtime.evaluate(
        result.policy(0), "table:FrozenLake-v1", episodes=5, is_slippery=False
    )
    assert played.tolist() == [1] * 5
    own = gym.make("FrozenLake-v1", is_slippery=False)
    assert deadtime.evaluate(result.policy(0), own, delay=0, episodes=5).tolist() == [1] * 5


@pytest.mark.slow
def test_augmented_converges_to_the_exact_optimum_on_slippery_ice():
    """The exact value of the learned policy is at least 95% of the optimum, and so is what the
    table says of it. Steps of 1e-3 leave some noise: in 12 trials both lay within 4%.
    """
    environment = make("table:FrozenLake-v1")
    env = environment.finite()
    mdp = MDP(*environment.model(), gamma=0.99)
    optimum = solve(mdp, 1)
    streams = np.random.SeedSequence(0).generate_state(3, np.uint64)
    agent = new_agent(env, VIEWS["augmented"], 1)
    for learning_rate in (0.1, 0.03, 0.01, 0.003, 0.001):
        settings = QLearning(learning_rate=learning_rate, epsilon=0.3)
        agent, _ = run_episodes(env, agent, settings, streams, 50_000, learn=True)
    manifest = Manifest("augmented", "queue", 1, states=16, actions=4)
    policy = TablePolicy(manifest, to_arrays(agent))
    q = np.array([[policy.q_values(s, [a]) for a in range(4)] for s in range(16)])
    found = exact_values(mdp, queue_aware(mdp, 1, q.argmax(axis=2)), 1)[0].mean()
    assert found == pytest.approx(optimum.delayed_values[0].mean(), rel=0.05)
    assert found < optimum.delayed_values[0].mean() + 1e-9
    assert q.max(axis=2)[0].mean() == pytest.approx(optimum.values[0].mean(), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["delayed", "augmented", "projected"])
def test_bit_by_bit_as_the_plain_loop_from_many_starts(name):
    env = make(f"table:{TAXI}", is_rainy=True, max_episode_steps=60).finite()
    settings = QLearning(learning_rate=0.3, gamma=0.95, epsilon=0.2)
    words = np.random.SeedSequence(5).generate_state(2, np.uint64)
    agent = new_agent(env, VIEWS[name], 2)
    _, returns = run_episodes(env, agent, settings, words.copy(), 10, learn=True)
    plain = Plain(env, VIEWS[name], 2, words, 0.3, 0.95, 0.2)
    expected = [plain.episode()[0] for _ in range(10)]
    np.testing.assert_array_equal(returns, np.float32(expected))


@pytest.mark.parametrize("rainy", [False, True])
def test_the_ceiling_is_a_mean_over_the_starts(rainy):
    """Three solvers against backward induction over (s, a, b), with actions a and b pending."""
    environment = make(f"table:{TAXI}", is_rainy=rainy, max_episode_steps=12)
    P, r = environment.model()
    values = np.zeros((500, 6, 6))
    for _ in range(12):
        later = (P.reshape(3000, 500) @ values.reshape(500, 36)).reshape(500, 6, 6, 6)
        values = r[:, :, None] + later.max(axis=3)  # the new action is chosen in s
    expected = environment.finite().start_law() @ values.mean(axis=(1, 2))
    for delay in (2, as_process(2)):
        found = ceiling(environment, delay)
        assert found.exact
        assert found.value == pytest.approx(expected, abs=1e-9)


def test_records_come_back_without_making_the_environment(tmp_path, monkeypatch):
    result = deadtime.train(
        "table:FrozenLake-v1", "augmented", "uniform:0-2", episodes=50, map_name="8x8"
    )
    assert result.spec.states == 64
    assert result.record.provenance[0]["environment"]["id"] == "FrozenLake-v1"
    folder = result.save(tmp_path / "kept")
    monkeypatch.setattr("gymnasium.make", None)
    policy = deadtime.load(folder)
    assert policy.num_states == 64
    assert policy.act(0, [0, 1], ages=1) in range(4)
