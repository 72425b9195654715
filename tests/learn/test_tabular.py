"""The compiled learner against a plain one, and both against exact answers."""

import gymnasium as gym
import numpy as np
import pytest

import deadtime
from benchmarks.plain import Plain
from deadtime.envs import family_of, make
from deadtime.envs.maze_layout import carve, finite
from deadtime.learn.counts import estimate
from deadtime.learn.learners import agents_of
from deadtime.learn.settings import QLearning
from deadtime.learn.tabular_q import new_agent, run_episodes, to_arrays
from deadtime.planning import MDP, solve
from deadtime.runtime import Manifest, TablePolicy
from deadtime.runtime.views import VIEWS

AGENTS = [*agents_of(family_of("maze"))]
ONLINE = [name for name in AGENTS if not VIEWS[name].solves_offline]


def streams(seed=0):
    return np.random.SeedSequence([seed, 0]).generate_state(2, np.uint64)


USUAL = QLearning()


def trained(name, delay, env, episodes, settings=USUAL, seed=0):
    agent, returns = run_episodes(
        env, new_agent(env, VIEWS[name], delay), settings, streams(seed), episodes, learn=True
    )
    return agent, returns


def policy_of(name, agent, env):
    arrays = to_arrays(agent)
    sizes = {"states": len(env.terminal), "actions": arrays["q"].shape[1]}
    return TablePolicy(Manifest(name, VIEWS[name].sees, agent.delay, **sizes), arrays)


def environment(noise, name="maze"):
    return make("walk", length=12).finite() if name == "walk" else finite(carve(5, 3), noise)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 1, 4, 40])
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("name", ONLINE)
def test_bit_by_bit_as_the_plain_loop(name, noise, delay):
    env, episodes = environment(noise), 8
    settings = QLearning(learning_rate=0.3, gamma=0.95, epsilon=0.2)
    agent, returns = trained(name, delay, env, episodes, settings)
    plain = Plain(env, VIEWS[name], delay, streams(), 0.3, 0.95, 0.2)
    expected = [plain.episode()[0] for _ in range(episodes)]
    np.testing.assert_array_equal(returns, np.float32(expected))
    policy = policy_of(name, agent, env)
    exact = name != "distribution"  # its law is summed in another order
    for seen, values in plain.q.items():
        state, queue = (seen[0], seen[1:]) if VIEWS[name].sees_queue else (seen, None)
        ours = policy.q_values(state, queue) if queue is not None else agent.table.q[state]
        np.testing.assert_allclose(
            ours, values, rtol=0 if exact else 1e-12, atol=0 if exact else 1e-12
        )
    if VIEWS[name].sees_queue:
        assert len(plain.q) == agent.table.used[0] - 1
    if VIEWS[name].predicts:
        for (s, a), visits in plain.counts.items():
            assert agent.model.likely[s, a] == plain.likely[s, a]
            ours = dict(
                zip(
                    agent.model.successors[s, a].tolist(),
                    agent.model.visits[s, a].tolist(),
                    strict=True,
                )
            )
            assert {k: v for k, v in ours.items() if k >= 0} == visits


def test_plain_loop_on_the_walk_too():
    env = environment(0, "walk")
    agent, returns = trained("delayed", 3, env, 20)
    plain = Plain(env, VIEWS["delayed"], 3, streams(), *vars(QLearning()).values())
    np.testing.assert_array_equal(returns, np.float32([plain.episode()[0] for _ in range(20)]))


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_without_delay_all_views_are_one_algorithm(noise):
    env = environment(noise)
    tables = []
    for name in ONLINE:
        agent, _ = trained(name, 0, env, 300)
        policy = policy_of(name, agent, env)
        tables.append(np.array([policy.q_values(s) for s in range(25)]))
    for other in tables[1:]:
        np.testing.assert_array_equal(other, tables[0])
    assert np.ptp(tables[0]) > 0


def test_chunks_do_not_change_a_run():
    env = environment(0.1)
    whole, returns = trained("augmented", 3, env, 60)
    agent, used = new_agent(env, VIEWS["augmented"], 3), streams()
    parts = []
    for n in (1, 20, 39):
        agent, some = run_episodes(env, agent, QLearning(), used, n, learn=True)
        parts.append(some)
    np.testing.assert_array_equal(np.concatenate(parts), returns)
    rows = int(whole.table.used[0])
    np.testing.assert_array_equal(agent.table.q[:rows], whole.table.q[:rows])


def test_evaluation_learns_nothing():
    env = environment(0.1)
    for name in ONLINE:
        agent, _ = trained(name, 2, env, 50)
        before = [part.copy() for part in (*agent.table, *agent.model)]
        run_episodes(env, agent, QLearning(), streams(9), 20, learn=False)
        for old, new in zip(before, (*agent.table, *agent.model), strict=True):
            np.testing.assert_array_equal(old, new)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "step_size", "within"), [(0.0, 0.5, 1e-6), (0.3, 0.02, 0.06)])
def test_augmented_q_converges_to_the_exact_values(noise, step_size, within):
    leads_to, delay, gamma = carve(4, 1), 2, 0.9
    env = finite(leads_to, noise)
    settings = QLearning(step_size, gamma, epsilon=1.0)
    agent, _ = trained("augmented", delay, env, 40_000, settings)
    P, r = env.model()
    exact = solve(MDP(P, r, gamma), delay, tol=1e-10).values
    policy = policy_of("augmented", agent, env)
    off = [
        abs(policy.q_values(s, q).max() - exact[(s, *q)])
        for s in range(15)
        for q in np.ndindex(4, 4)
        if policy.q_values(s, q).any()
    ]
    assert len(off) > 200
    assert max(off) < within
    assert np.mean(off) < within / 4


@pytest.mark.parametrize("delay", [1, 4, 15])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_delayed_q_is_optimal_in_a_deterministic_maze(delay, seed):
    size = 6
    env = make("maze", size=size, maze_seed=seed)
    result = deadtime.train("maze", "delayed", delay, seeds=[seed], size=size, episodes=3000)
    P, r = env.model()
    plan = solve(MDP(P, r, 1.0), delay, "beliefs", horizon=10 * size**2)
    policy = result.policy(seed)
    delayed = deadtime.ActionDelay(gym.make("deadtime/Maze-v0", size=size, maze_seed=seed), delay)
    for episode in range(20):
        cell, info = delayed.reset(seed=episode)
        best, earned, ended = plan.value(0, info["pending_actions"]), 0.0, False
        while not ended:
            cell, reward, terminated, truncated, info = delayed.step(
                policy.act(cell, info["pending_actions"])
            )
            earned, ended = earned + reward, terminated or truncated
        assert earned == pytest.approx(best, abs=1e-12)


def test_memory_follows_the_visited_pairs():
    env = environment(0.0)
    small, _ = trained("augmented", 40, env, 10)
    large, _ = trained("augmented", 40, env, 40)
    visited = [int(agent.table.used[0]) for agent in (small, large)]
    assert visited[0] <= 10 * 250 + 1
    assert visited[1] > 2 * visited[0]
    for agent, rows in zip((small, large), visited, strict=True):
        assert sum(part.nbytes for part in agent.table) < 200 * (rows + 1024)


def test_seeds():
    first, again, other = (
        deadtime.train("noisy-maze", delay=3, seeds=s, size=5, episodes=100)
        for s in ([4], [4], [5])
    )
    np.testing.assert_array_equal(first.curve.returns, again.curve.returns)
    assert first.scores == again.scores
    assert (first.curve.returns != other.curve.returns).any()
    together = deadtime.train("noisy-maze", delay=3, seeds=[5, 4], size=5, episodes=100)
    assert together.seeds == [4, 5]
    np.testing.assert_array_equal(together.curve.returns[0], first.curve.returns[0])
    assert (
        first.spec.environment(4).finite().successors
        != first.spec.environment(5).finite().successors
    ).any()


def test_noise_and_training_differ_between_seeds_and_from_evaluation():
    first, other = (
        deadtime.train("noisy-maze", delay=3, seeds=[s], size=4, maze_seed=0, episodes=100)
        for s in (1, 2)
    )
    assert (first.curve.returns != other.curve.returns).any()
    words = [
        np.random.SeedSequence(seed, spawn_key=(use,)).generate_state(2).tobytes()
        for seed in range(50)
        for use in range(3)
    ]
    words += [np.random.SeedSequence(seed).generate_state(2).tobytes() for seed in range(50)]
    assert len(set(words)) == len(words)
    env = first.spec.environment(1).finite()
    agent = new_agent(env, VIEWS["delayed"], 3)
    used, held_out = (
        np.random.SeedSequence(1, spawn_key=(use,)).generate_state(2, np.uint64) for use in range(2)
    )
    agent, returns = run_episodes(env, agent, first.spec.learner, used, 100, learn=True)
    np.testing.assert_array_equal(returns, first.curve.returns[0])
    assert first.training_scores[0] == pytest.approx(returns[-10:].mean(), abs=1e-7)
    _, evaluated = run_episodes(env, agent, first.spec.learner, held_out, 100, learn=False)
    assert first.scores[0] == pytest.approx(evaluated.mean(), abs=1e-7)


@pytest.mark.slow
def test_mbs_explores_at_random():
    random = deadtime.train("maze", "mbs", delay=0, seeds=4, size=5, episodes=50).training_scores
    greedy = deadtime.train(
        "maze", "delayed", delay=0, seeds=4, size=5, episodes=50
    ).training_scores
    assert (random < greedy - 0.1).all()


@pytest.mark.parametrize("name", AGENTS)
def test_policies_refuse_what_compiled_code_could_not_take(name):
    policy = deadtime.train("maze", name, delay=3, seeds=1, size=4, episodes=20).policy(0)
    for state in (-1, 16, 10**7, 0.5, "a", [0]):
        with pytest.raises(ValueError, match="an observation is the number of a state, 0 to 15"):
            policy.act(state, [0, 0, 0])
    for queue in ((), [0, 0], [0] * 4, [0, 0, 4], [0, 0, -1], [0.5, 1, 1], "abc"):
        with pytest.raises(ValueError, match="pending_actions are the last 3 actions"):
            policy.act(0, queue)
    policy.q_values(0, [0, 0, 0])[:] = 99
    assert policy.q_values(0, [0, 0, 0]).max() < 99


def test_a_view_that_no_table_can_have_is_refused():
    with pytest.raises(
        ValueError,
        match="views that see state, queue, prediction, law; got one that sees history",
    ):
        new_agent(environment(0.0), VIEWS["recurrent"], 1)


def test_the_solved_model_is_the_true_one_where_it_was_tried():
    env = environment(0.0)
    agent, _ = trained("mbs", 2, env, 300, QLearning(epsilon=1.0))
    mdp, (P, r) = estimate(agent.model, 0.9), env.model()
    tried = agent.model.visits.sum(axis=2) > 0
    assert tried.sum() > 40
    np.testing.assert_allclose(mdp.dense[tried], P[tried])
    np.testing.assert_allclose(mdp.r[tried], r[tried])


def test_untried_pairs_are_no_lure():
    env = environment(0.0)
    agent = new_agent(env, VIEWS["mbs"], 0)
    agent, _ = run_episodes(env, agent, QLearning(epsilon=1.0), streams(), 1, learn=True)
    mdp = estimate(agent.model, 0.9)
    untried = agent.model.visits.sum(axis=2) == 0
    untried[agent.model.terminal] = False
    assert mdp.r[untried].max(initial=-1) <= mdp.r[~untried].min() + 1e-12
