"""Random mazes: their layout, their exact model, and both implementations."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime.envs.maze import Maze
from deadtime.envs.maze_layout import MOVES, carve, draw_text, model


def distances(leads_to):
    """Return the distance of each cell from the start, breadth first."""
    found = {0: 0}
    frontier = [0]
    steps = 0
    while frontier:
        steps += 1
        frontier = [
            int(n)
            for cell in frontier
            for n in leads_to[cell]
            if int(n) not in found and not found.update({int(n): steps})
        ]
    return found


@given(st.integers(2, 12), st.integers(0, 10_000))
@settings(deadline=None, max_examples=50)
def test_mazes_are_perfect_and_every_cell_is_reachable(size, seed):
    leads_to = carve(size, seed)
    assert leads_to.shape == (size**2, 4)
    assert len(distances(leads_to)) == size**2
    passages = {
        frozenset((cell, int(n))) for cell in range(size**2) for n in leads_to[cell] if n != cell
    }
    assert len(passages) == size**2 - 1, (
        "connected with one passage fewer than cells: a tree, so exactly one path"
    )
    for cell in range(size**2):
        for action, (down, right) in enumerate(MOVES):
            if (to := leads_to[cell, action]) != cell:
                assert to == cell + down * size + right
                assert leads_to[to, (action + 2) % 4] == cell


def test_seeds_give_different_mazes_and_one_seed_the_same():
    assert (carve(6, 3) == carve(6, 3)).all()
    assert len({carve(6, seed).tobytes() for seed in range(20)}) == 20


@given(st.integers(2, 6), st.integers(0, 100), st.floats(0, 0.5))
@settings(deadline=None, max_examples=30)
def test_model_is_a_probability_and_its_reward_the_mean(size, seed, noise):
    P, r = model(carve(size, seed), noise)
    goal = size**2 - 1
    np.testing.assert_allclose(P.sum(-1), 1)
    assert (P >= 0).all()
    np.testing.assert_allclose(
        r[:goal], P[:goal, :, goal] - (1 - P[:goal, :, goal]) / (10 * size**2)
    )
    assert (P[goal, :, goal] == 1).all()
    assert (r[goal] == 0).all()


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_model_matches_simulated_frequencies(noise):
    env = Maze(size=3, noise=noise, maze_seed=7)
    P, r = env.model()
    draws = 20_000
    keys = jax.random.split(jax.random.key(0), draws)
    start = env.reset(jax.random.key(0))[1]

    @jax.jit
    def step(cell, action):
        state = start._replace(cell=cell)
        return jax.vmap(lambda key: env.step_env(key, state, action, env.default_params)[1:3])(keys)

    for cell in range(8):
        for action in range(4):
            after, reward = step(jnp.int32(cell), jnp.int32(action))
            seen = np.bincount(np.asarray(after.cell), minlength=9) / draws
            np.testing.assert_allclose(seen, P[cell, action], atol=5 * 0.5 / draws**0.5)
            np.testing.assert_allclose(reward.mean(), r[cell, action], atol=5 * 0.5 / draws**0.5)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_gymnasium_version_matches_the_same_model(noise):
    env = gym.make("deadtime/Maze-v0", size=3, noise=noise, maze_seed=7).unwrapped
    P, _ = env.model()
    env.reset(seed=0)
    counts = np.zeros_like(P)
    for cell in range(8):
        for action in range(4):
            for _ in range(3000):
                env.cell = cell
                after, *_ = env.step(action)
                counts[cell, action, after] += 1
    np.testing.assert_allclose(counts[:8] / 3000, P[:8], atol=5 * 0.5 / 3000**0.5)


def test_the_shortest_path_has_the_defined_return():
    env = gym.make("deadtime/Maze-v0", size=5, maze_seed=1)
    leads_to = carve(5, 1)
    steps = distances(leads_to)
    cell = 24
    path = []
    while cell:
        back = next(
            a
            for a in range(4)
            if leads_to[cell, a] != cell and steps[int(leads_to[cell, a])] == steps[cell] - 1
        )
        cell = int(leads_to[cell, back])
        path.insert(0, (back + 2) % 4)
    env.reset()
    rewards = [env.step(action)[1:3] for action in path]
    assert [end for _, end in rewards] == [False] * (len(path) - 1) + [True]
    assert sum(reward for reward, _ in rewards) == pytest.approx(1 - (len(path) - 1) / 250)


def test_episode_ends_after_ten_times_the_cells():
    env = gym.make("deadtime/Maze-v0", size=2, maze_seed=0)
    env.reset(seed=0)
    blocked = next(a for a in range(4) if carve(2, 0)[0, a] == 0)
    outcome = [env.step(blocked)[1:4] for _ in range(40)]
    assert [cut for _, _, cut in outcome] == [False] * 39 + [True]
    assert sum(reward for reward, _, _ in outcome) == pytest.approx(-1)


def test_text():
    drawn = draw_text(np.array([[0, 1, 0, 0], [1, 1, 3, 0], [2, 3, 2, 2], [1, 3, 3, 2]]), 0)
    assert drawn.split("\n") == ["+---+---+", "| A     |", "+---+   +", "|     G |", "+---+---+"]


def test_image_shows_agent_goal_and_walls():
    env = gym.make("deadtime/Maze-v0", size=4, render_mode="rgb_array")
    env.reset()
    image = env.render()
    assert image.dtype == np.uint8
    assert (image == (0, 90, 181)).all(-1).any()
    assert (image == (120, 190, 120)).all(-1).any()
    assert (image[0] == 40).all()


@pytest.mark.parametrize("size", [1, 0, -3, 2.5, True])
def test_bad_size(size):
    with pytest.raises(ValueError, match="size is the number of cells on a side, 2 or more; got"):
        gym.make("deadtime/Maze-v0", size=size)


def test_bad_noise_and_action():
    with pytest.raises(
        ValueError, match=r"noise is a number in \[0, 0.5\]; got 0.7: pass 0 for none"
    ):
        gym.make("deadtime/Maze-v0", noise=0.7)
    env = gym.make("deadtime/Maze-v0")
    env.reset()
    with pytest.raises(
        ValueError, match=r"a maze action is 0 \(up\).*; got 4: choose one of these"
    ):
        env.unwrapped.step(4)
