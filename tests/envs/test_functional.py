import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from deadtime import ActionDelay
from deadtime.envs import make
from deadtime.envs.acrobot import Acrobot, AcrobotState
from deadtime.envs.cartpole import CartPole, CartPoleState
from deadtime.envs.functional import delayed
from deadtime.envs.maze import Maze
from deadtime.envs.noise import perturbed

PHYSICS = [(CartPole(), CartPoleState, "CartPole-v1"), (Acrobot(), AcrobotState, "Acrobot-v1")]
OURS = {"CartPole-v1": "deadtime/NoisyCartPole-v1", "Acrobot-v1": "deadtime/NoisyAcrobot-v1"}


def gym_steps(name, steps, **settings):
    """Random steps of a Gymnasium environment with resets: (state, time, action, next state, obs,
    reward, ends) a row.
    """
    env = gym.make(name, **settings)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    time = 0
    for _ in range(steps):
        before, action = (
            np.array(env.unwrapped.state, np.float64),
            int(rng.integers(env.action_space.n)),
        )
        obs, reward, terminated, truncated, _ = env.step(action)
        time += 1
        yield (
            before,
            time - 1,
            action,
            np.array(env.unwrapped.state, np.float64),
            obs,
            reward,
            terminated,
            truncated,
        )
        if terminated or truncated:
            env.reset()
            time = 0


@pytest.mark.slow
@pytest.mark.parametrize(("env", "state_type", "name"), PHYSICS, ids=["cartpole", "acrobot"])
def test_single_precision_physics_are_gymnasiums_step_by_step(env, state_type, name):
    step = jax.jit(env.step_env)
    truncated_fn = jax.jit(env.is_truncated)
    ends = 0
    for before, time, action, _, obs, reward, terminated, truncated in gym_steps(name, 1000):
        state = state_type(jnp.asarray(before, jnp.float32), jnp.int32(time))
        ours, state, our_reward, our_end, _ = step(
            jax.random.key(0), state, action, env.default_params
        )
        np.testing.assert_allclose(ours, obs, rtol=2e-5, atol=2e-5)
        assert float(our_reward) == reward
        assert bool(our_end) == terminated
        assert bool(truncated_fn(state, env.default_params)) == truncated
        ends += terminated or truncated
    assert ends >= 2


@pytest.mark.slow
@pytest.mark.parametrize(("env", "state_type", "name"), PHYSICS, ids=["cartpole", "acrobot"])
def test_double_precision_physics_stay_with_gymnasiums_through_whole_episodes(
    env, state_type, name
):
    with jax.enable_x64(True):
        step, state = jax.jit(env.step_env), None
        for before, time, action, after, _, _, _, _ in gym_steps(name, 1000):
            if time == 0:
                state = state_type(jnp.asarray(before), jnp.int32(0))
            _, state, *_ = step(jax.random.key(0), state, action, env.default_params)
            np.testing.assert_allclose(state.physics, after, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", OURS)
def test_our_gymnasium_versions_without_noise_are_gymnasiums(name):
    for theirs, ours in zip(
        gym_steps(name, 1000), gym_steps(OURS[name], 1000, noise=0.0), strict=True
    ):
        for a, b in zip(theirs[3:], ours[3:], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("perturb", ["masses", "masses+lengths"])
@pytest.mark.parametrize(
    ("functional", "state_type", "name", "start"),
    [
        (CartPole, CartPoleState, "CartPole-v1", [0.1, -0.5, 0.15, 0.7]),
        (Acrobot, AcrobotState, "Acrobot-v1", [0.5, -0.8, 1.5, -2.0]),
    ],
    ids=["cartpole", "acrobot"],
)
def test_noise_has_the_same_law_in_both_implementations(
    functional, state_type, name, start, perturb
):
    """The spread of the next state from one start, and its correlations: 20,000 draws of each."""
    env = functional(noise=0.1, perturb=perturb)
    state = state_type(jnp.asarray(start, jnp.float32), jnp.int32(0))
    keys = jax.random.split(jax.random.key(1), 20_000)
    after = jax.vmap(lambda key: env.step_env(key, state, 0, env.default_params)[1].physics)(keys)
    other = gym.make(OURS[name], noise=0.1, perturb=perturb).unwrapped
    other.reset(seed=2)
    draws = []
    for _ in range(20_000):
        other.state = np.array(start)
        other.step(0)
        draws.append(np.array(other.state))
    ours, theirs = np.asarray(after, np.float64), np.array(draws)
    assert theirs.std(0).max() > 1e-4
    np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=4 * theirs.std(0).max() / 100)
    scale = np.maximum(theirs.std(0), 1e-3 * theirs.std(0).max())
    np.testing.assert_allclose(np.cov((ours / scale).T), np.cov((theirs / scale).T), atol=0.06)


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_a_perturbed_mass_is_normal_around_the_nominal_one_down_to_the_floor(noise):
    normal = np.random.default_rng(0).standard_normal(400_000)
    draws = perturbed(2.0, noise, normal, np)
    expected = 2.0 * (1 + noise * normal)
    above = expected > 2.0 * 0.05
    np.testing.assert_allclose(draws[above], expected[above])
    np.testing.assert_allclose(draws[~above], 0.1)
    assert (~above).mean() == pytest.approx(norm.cdf(-0.95 / noise), abs=1e-3)


def test_automatic_resets_start_differently_and_queues_apart_from_states():
    env = delayed(CartPole(), 4)
    step = jax.jit(env.step)
    _, state = env.reset(jax.random.key(0))
    starts, queues = [], []
    for t in range(400):
        obs, state, _, terminated, truncated, info = step(jax.random.key(t), state, 1)
        assert bool((obs == info["final_observation"]).all()) != bool(terminated | truncated)
        if terminated | truncated:
            starts.append(tuple(obs.tolist()))
            queues.append(tuple(state.queue.tolist()))
    assert len(starts) > 20
    assert len(set(starts)) == len(starts)
    assert len(set(queues)) > 8
    first, second = jax.random.split(jax.random.key(5))
    obs, state = env.reset(jax.random.key(5))
    assert obs.tolist() == CartPole().reset(first)[0].tolist()
    assert state.queue.tolist() == (jax.random.bits(second, (4,)) % 2).tolist()


def test_functional_maze_ends_after_ten_times_the_cells():
    env = Maze(size=2, maze_seed=0)
    blocked = next(a for a in range(4) if env.default_params.leads_to[0, a] == 0)
    _, state = env.reset(jax.random.key(0))
    cuts = []
    for _ in range(41):
        _, state, _, _, truncated, _ = env.step(jax.random.key(0), state, blocked)
        cuts.append(bool(truncated))
    assert cuts == [False] * 39 + [True, False]


def test_derived_quantities_follow_the_masses():
    """One noisy CartPole step must equal Gymnasium's with some masses; recover them from two
    accelerations and re-derive.
    """
    env = gym.make("deadtime/NoisyCartPole-v1", noise=0.2, perturb="masses").unwrapped
    env.reset(seed=0)
    seen = []
    original = type(env)._set
    try:
        type(env)._set = lambda self, *values: (
            original(self, *values),
            seen.append((values, self.total_mass, self.polemass_length)),
        )
        env.step(0)
    finally:
        type(env)._set = original
    (cart, pole, length), total, product = seen[0]
    assert (total, product) == (cart + pole, pole * length)
    assert length == 0.5
    assert cart != 1.0
    assert seen[1][0] == (1.0, 0.1, 0.5), "nominal values are back after the step"


def test_lengths_are_left_alone_unless_asked():
    with_lengths = CartPole(0.1, "masses+lengths").default_params
    assert (with_lengths.mass_noise, with_lengths.length_noise) == (0.1, 0.1)
    masses = Acrobot(0.1).default_params
    assert (masses.mass_noise, masses.length_noise) == (0.1, 0.0)


def run(env, actions, seed, delay_free_steps=None):
    """Executed actions, queues and ends of one automatic-reset run."""

    def one(carry, action):
        state, key = carry
        key, now = jax.random.split(key)
        obs, after, reward, terminated, truncated, info = env.step(now, state, action)
        return (after, key), (
            info["executed_action"],
            state.queue,
            after.queue,
            terminated | truncated,
            info,
        )

    _, state = env.reset(jax.random.key(seed))
    first = state.queue
    _, out = jax.lax.scan(one, (state, jax.random.key(seed + 1)), actions)
    return first, out


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 1, 2, 7])
@given(actions=st.lists(st.integers(0, 1), min_size=60, max_size=60), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=20)
def test_executed_is_chosen_m_steps_before_across_automatic_resets(delay, actions, seed):
    if delay not in RUNNERS:
        env = delayed(CartPole(noise=0.1), delay)
        RUNNERS[delay] = jax.jit(lambda a, s: run(env, a, s))
    first, (executed, before, after, ended, info) = RUNNERS[delay](jnp.array(actions), seed)
    due = first.tolist()
    for t, action in enumerate(actions):
        assert before[t].tolist() == due
        due.append(action)
        assert int(executed[t]) == due.pop(0)
        assert info["final_pending_actions"][t].tolist() == due
        if ended[t]:
            due = after[t].tolist()
        assert after[t].tolist() == due == info["pending_actions"][t].tolist()


RUNNERS: dict = {}


@pytest.mark.parametrize("delay", [0, 2, 7])
def test_functional_delay_is_the_wrappers(delay):
    """The same maze, queue and choices give the same cells, rewards and ends in both worlds."""
    choices = np.random.default_rng(3).integers(0, 4, 200)
    warmup = choices[:delay]
    functional = delayed(Maze(size=4, maze_seed=5), delay, lambda obs, m, key: jnp.asarray(warmup))
    wrapped = ActionDelay(
        gym.make("deadtime/Maze-v0", size=4, maze_seed=5), delay, lambda obs, m, rng: warmup
    )
    wrapped.reset()
    step = jax.jit(functional.step)
    _, state = functional.reset(jax.random.key(0))
    for action in choices:
        cell, reward, terminated, truncated, _ = wrapped.step(int(action))
        _, state, ours, end, cut, info = step(jax.random.key(0), state, int(action))
        assert int(info["final_observation"]) == cell
        assert float(ours) == pytest.approx(reward)
        assert (bool(end), bool(cut)) == (terminated, truncated)
        if terminated or truncated:
            wrapped.reset()


def test_warmups():
    env = delayed(Maze(size=3), 4, warmup=2)
    assert env.reset(jax.random.key(0))[1].queue.tolist() == [2, 2, 2, 2]
    env = delayed(Maze(size=3), 400)
    queue = env.reset(jax.random.key(0))[1].queue
    assert set(queue.tolist()) == {0, 1, 2, 3}
    assert queue.tolist() != env.reset(jax.random.key(1))[1].queue.tolist()


@pytest.mark.parametrize(
    ("delay", "warmup", "message"),
    [
        (-1, "random", "delay is a whole number of steps, 0 or more; got -1"),
        (1.5, "random", "delay is a whole number of steps, 0 or more; got 1.5"),
        (2, 4, "each warm-up action must lie in the action space .*; got 4: choose one inside it"),
        (2, "rand", "got 'rand': did you mean \"random\""),
    ],
)
def test_bad_delay_or_warmup(delay, warmup, message):
    with pytest.raises(ValueError, match=message):
        delayed(Maze(size=3), delay, warmup)


def test_bad_warmup_callable():
    with pytest.raises(ValueError, match=r"as many actions as the delay, shape \(2,\); got \(3,\)"):
        delayed(Maze(size=3), 2, lambda obs, m, key: jnp.zeros(3)).reset(jax.random.key(0))


def test_impossible_actions_from_a_warmup_callable_are_seen_outside_a_compiled_program():
    with pytest.raises(ValueError, match="each warm-up action must lie in the action space"):
        delayed(Maze(size=3), 2, lambda obs, m, key: [0, 7]).reset(jax.random.key(0))


def test_a_warmup_action_may_be_an_array_or_a_list():
    assert delayed(CartPole(), 2, jnp.array(1)).reset(jax.random.key(0))[1].queue.tolist() == [1, 1]
    assert delayed(make("gymnax:Pendulum-v1"), 2, [0.5]).reset(jax.random.key(0))[
        1
    ].queue.tolist() == [[0.5], [0.5]]


@pytest.mark.parametrize("env", ["cartpole", (CartPole(), None)])
def test_delay_on_what_is_no_functional_environment(env):
    with pytest.raises(
        ValueError, match=r"delayed wraps a functional environment; got .*pass deadtime.envs.make"
    ):
        delayed(env, 2)


def test_two_delays_on_one_environment_are_refused():
    with pytest.raises(
        ValueError, match="got a delay of 3 on top of one of 2: use a single delay of their sum"
    ):
        delayed(delayed(CartPole(), 2), 3)


def test_spaces_without_parameters():
    env = delayed(make("gymnax:CartPole-v1"), 2)
    assert env.observation_space().shape == (4,)
    assert env.action_space().n == 2


def test_numpy_numbers_are_numbers():
    assert make("noisy-cartpole", noise=np.float32(0.25)) == make("noisy-cartpole", noise=0.25)
    assert make("maze", size=np.int64(4), maze_seed=np.int64(2)) == make(
        "maze", size=4, maze_seed=2
    )


def test_equal_delays_are_equal_so_that_compiled_programs_are_shared():
    assert delayed(CartPole(), 3) == delayed(CartPole(), 3)
    assert hash(delayed(CartPole(), 3)) == hash(delayed(CartPole(), 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_gymnax_plugs_in(name):
    env = delayed(make(f"gymnax:{name}"), 3)
    obs, state = env.reset(jax.random.key(0))
    first = state.queue
    action = jnp.zeros(env.action_space(env.default_params).shape, first.dtype)
    for t in range(3):
        obs, state, reward, terminated, truncated, info = jax.jit(env.step)(
            jax.random.key(t), state, action
        )
        np.testing.assert_array_equal(info["executed_action"], first[t])
    assert jnp.all(state.queue == 0)
    assert {"final_observation", "executed_action", "pending_actions"} <= set(info)


@pytest.mark.slow
def test_gymnax_cartpole_has_our_physics():
    theirs, ours = make("gymnax:CartPole-v1"), make("cartpole")
    _, state = theirs.reset(jax.random.key(0))
    mine = CartPoleState(
        jnp.stack([state.x, state.x_dot, state.theta, state.theta_dot]), jnp.int32(0)
    )
    for action in [0, 1, 1, 0, 1]:
        obs, state, _, _, _ = theirs.step_env(
            jax.random.key(0), state, action, theirs.default_params
        )
        got, mine, *_ = ours.step_env(jax.random.key(0), mine, action, ours.default_params)
        np.testing.assert_allclose(got, obs, rtol=1e-6, atol=1e-6)


class TestMake:
    @pytest.mark.parametrize(
        ("name", "noise"),
        [("maze", 0.0), ("noisy-maze", 0.1), ("noisy-cartpole", 0.1), ("acrobot", 0.0)],
    )
    def test_names(self, name, noise):
        assert make(name).noise == noise

    def test_settings(self):
        assert make("noisy-maze", size=5, noise=0.3).size == 5

    @pytest.mark.parametrize(
        ("name", "settings", "message"),
        [
            (
                "cartpol",
                {},
                "no environment is called 'cartpol'; did you mean 'cartpole'\\?: choose one of "
                "maze, ",
            ),
            (
                "cartpole",
                {"nois": 0.1},
                "cartpole has no setting 'nois'; did you mean 'noise'\\?: it takes noise, perturb",
            ),
            ("cartpole", {"size": 3}, "cartpole has no setting 'size': it takes noise, perturb"),
            (
                "noisy-cartpole",
                {"noise": 0.6},
                r"noise is a number in \[0, 0.5\]; got 0.6: pass 0 for none",
            ),
            (
                "noisy-acrobot",
                {"noise": -0.1},
                r"noise is a number in \[0, 0.5\]; got -0.1: pass 0 for none",
            ),
            (
                "acrobot",
                {"perturb": "lengths"},
                'perturb is "masses" or "masses\\+lengths"; got \'lengths\'',
            ),
            ("maze", {"size": 1}, "size is the number of cells on a side, 2 or more; got 1"),
            (
                "maze",
                {"maze_seed": None},
                "maze_seed is a whole number, 0 or more; got None: each number gives one maze",
            ),
            ("maze", {"maze_seed": -1}, "maze_seed is a whole number, 0 or more; got -1"),
            ("maze", {"noise": "a lot"}, r"noise is a number in \[0, 0.5\]; got 'a lot'"),
            ("maze", {"noise": float("nan")}, r"noise is a number in \[0, 0.5\]; got nan"),
            (
                "gymnax:Pendulum-v1",
                {"noise": 0.1},
                "got noise=0.1 for gymnax:Pendulum-v1: leave it out, or use noisy-cartpole",
            ),
            (
                "gymnax:Pendulm-v1",
                {},
                "gymnax has no environment 'Pendulm-v1'; did you mean 'Pendulum-v1'",
            ),
        ],
    )
    def test_bad_names_and_settings(self, name, settings, message):
        with pytest.raises(ValueError, match=message):
            make(name, **settings)


@pytest.mark.parametrize("name", ["NoisyCartPole-v1", "NoisyAcrobot-v1"])
def test_bad_settings_of_registered_environments(name):
    with pytest.raises(
        ValueError, match=r"noise is a number in \[0, 0.5\]; got 2: pass 0 for none"
    ):
        gym.make(f"deadtime/{name}", noise=2)
    with pytest.raises(ValueError, match="perturb is"):
        gym.make(f"deadtime/{name}", perturb="all")


@pytest.mark.slow
def test_masses_stay_positive_at_the_largest_noise():
    env = CartPole(noise=0.5)
    state = CartPoleState(jnp.array([0.0, 0.0, 0.1, 0.0]), jnp.int32(0))
    keys = jax.random.split(jax.random.key(0), 50_000)
    after = jax.vmap(lambda key: env.step_env(key, state, 1, env.default_params)[0])(keys)
    assert bool(jnp.isfinite(after).all())
    assert float(after[:, 1].min()) > 0, "a push to the right never moves the cart to the left"
