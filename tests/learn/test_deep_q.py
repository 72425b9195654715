"""The compiled deep learner: parts against arrays by hand, the whole against known values."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probe import Probe

from deadtime.delays import Constant, GilbertElliott, RandomWalk, Uniform
from deadtime.delays.convention import push
from deadtime.envs import family_of, make
from deadtime.learn import compiled_groups, double_q, forward_model, trainer
from deadtime.learn.compiled_groups import CompiledGroup
from deadtime.learn.compiled_loop import begin_all, fresh, run_chunk
from deadtime.learn.deep_q import DEEP_Q, Numbers, greedy, predicted, q_values, updated
from deadtime.learn.deep_training import run_deep
from deadtime.learn.learner_code import kept, learning_rate
from deadtime.learn.networks import new_mlp
from deadtime.learn.presets import preset
from deadtime.learn.program import Program, Setup, split_settings
from deadtime.learn.projection import deciding, valuing
from deadtime.learn.replay import Layout, Replay, Transition, new_replay, sample, store
from deadtime.learn.settings import DoubleQ
from deadtime.runs.deep_specs import DeepSpec, deep_spec
from deadtime.runs.specs import from_canonical
from deadtime.runtime.views import VIEWS
from tests.commands import ROUNDING, full, recorded

SMALL = DoubleQ(
    hidden=(16, 16),
    batch_size=8,
    buffer_size=200,
    gamma=0.5,
    learning_rate=0.01,
    epsilon_floor=0.7,
)


def setup_of(env, agent, delays, settings, steps=10**6, seeds=None):
    runs = len(delays)
    numbers = Numbers(*(jnp.full(runs, float(value)) for value in split_settings(settings)[1]))
    params = jax.tree.map(lambda value: jnp.full(runs, float(value)), env.default_params)
    keys = jax.vmap(jax.random.key)(jnp.array(seeds if seeds is not None else range(runs)))
    code = jax.tree.map(lambda number: jnp.full(runs, number), VIEWS[agent].code)
    return Setup(
        keys, jnp.array(delays, jnp.int32), params, jnp.full(runs, steps, jnp.int32), numbers, code
    )


def program_of(env, agent, settings, capacity):
    return Program(
        env, None if agent is None else VIEWS[agent], split_settings(settings)[0], capacity
    )


def trained(env, agent, delays, settings, capacity, steps, merged=False, chunk=None):
    program = program_of(env, None if merged else agent, settings, capacity)
    setups = setup_of(env, agent, delays, settings)
    runs, done, returns = begin_all(program, setups), 0, []
    for length in chunk or [steps]:
        runs, new = run_chunk(program, setups, runs, jnp.int32(done), length)
        done += length
        returns.append(new)
    return program, setups, runs, jnp.concatenate(returns)


def pick(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


@pytest.mark.slow
def test_double_q_target_by_hand():
    q_next, target_next = jnp.array([1.0, 3.0, 2.0]), jnp.array([10.0, 20.0, 40.0])
    assert double_q.double_q_target(jnp.float32(0.5), 0.9, q_next, target_next) == pytest.approx(
        0.5 + 0.9 * 20.0
    )
    assert double_q.double_q_target(jnp.float32(0.5), 0.0, q_next, target_next) == 0.5
    q = jnp.array([0.0, 18.0, 0.0])
    loss = double_q.double_q_loss(q, jnp.int32(1), jnp.float32(0.5), 0.9, q_next, target_next)
    assert loss == pytest.approx(0.5 * 0.5**2)
    far = double_q.double_q_loss(q, jnp.int32(0), jnp.float32(0.5), 0.9, q_next, target_next)
    assert far == pytest.approx(18.5 - 0.5)
    slope = jax.grad(double_q.double_q_loss)(
        q, jnp.int32(1), jnp.float32(0.5), 0.9, q_next, target_next
    )
    np.testing.assert_allclose(slope, [0.0, -0.5, 0.0], atol=1e-6)
    through = jax.grad(
        lambda v: double_q.double_q_loss(q, jnp.int32(1), jnp.float32(0.5), 0.9, q_next, v)
    )(target_next)
    assert not through.any()


@pytest.mark.parametrize(
    ("centre", "scaled"), [(0.0, False), (0.0, True), (1.0, False), (1.0, True)]
)
def test_a_centre_and_a_scale_move_and_stretch_q_only(centre, scaled):
    gamma, reward, after, ended = 0.9, 0.7, 3.0, 5.0
    unit = 1 - gamma if scaled else 1.0
    moved = lambda q: unit * (q - centre / (1 - gamma))  # noqa: E731
    r, discount = double_q.measured(reward, 0.0, gamma, centre, scaled)
    assert r + discount * moved(after) == pytest.approx(moved(reward + gamma * after), abs=1e-6)
    r, discount = double_q.measured(ended, 1.0, gamma, centre, scaled)
    assert discount == 0
    assert r == pytest.approx(moved(ended), abs=1e-6)


def test_without_a_discount_rewards_are_as_they_are():
    assert double_q.measured(jnp.float32(0.7), 1.0, 1.0, 0.0, False) == (jnp.float32(0.7), 0.0)


def test_push_with_room_to_spare():
    queue = jnp.arange(10, 15)
    for delay in range(6):
        executed, after = push(queue, 99, delay)
        pending = [*range(15 - delay, 15), 99]
        assert executed == pending[0]
        assert after[5 - delay :].tolist() == pending[1:]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["learned", "change"])
def test_the_roll_of_no_steps_in_one_kernel_is_where_it_starts_to_the_bit(kind, monkeypatch):
    """So that at m = 0 Delayed-Q decides as the undelayed agent does on a GPU too."""
    model = forward_model.new_model(jax.random.key(0), kind, 4, 2, (8, 8), 1)
    scale = forward_model.Scale(
        jnp.float32(9), jnp.array([0.1, -3.0, 7.0, 1e-3]), jnp.array([0.5, 2.0, 3.0, 1e-3])
    )
    model = eqx.tree_at(lambda m: (m.inputs, m.changes), model, (scale, scale))
    monkeypatch.setattr(forward_model.roll_kernel, "available", lambda: True)
    for obs in jax.random.normal(jax.random.key(1), (20, 4)):
        found = forward_model.rolled(
            model, pick(model.nets, 0), kind, 2, obs, jnp.array([1, 0, 1]), jnp.int32(0)
        )
        assert found.tolist() == obs.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "env", "skipped"),
    [("paper", "cartpole", 8), full("best", "cartpole", 4), full("best", "acrobot", 4)],
)
def test_what_a_preset_stores_of_an_episode(name, env, skipped):
    """Of CartPole's warm-up, which an expert chose, no preset learns."""
    environment, delay = make(env), 4
    small = {"hidden": (4,), "batch_size": 64, "buffer_size": 100}
    settings = replace(preset(name, family_of(env)), **small)
    steps = 9  # no episode of either environment is shorter
    _, _, runs, returns = trained(environment, "delayed", [delay], settings, delay, steps)
    assert jnp.isnan(returns).all()
    assert int(runs.replay.stored[0]) == steps - skipped


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "hidden"),
    [("learned", (8, 8)), full("change", (8, 6)), full("learned", (8,)), full("change", (9, 8, 7))],
)
def test_rolling_is_repeated_one_step_application(kind, hidden):
    model = forward_model.new_model(jax.random.key(0), kind, 4, 3, hidden, 1)
    model = jax.tree.map(
        lambda leaf: leaf + 0.1 * jax.random.uniform(jax.random.key(1), leaf.shape), model
    )
    model = eqx.tree_at(
        lambda m: (m.inputs.count, m.changes.count), model, (jnp.float32(9), jnp.float32(9))
    )
    net, queue, obs = (
        pick(model.nets, 0),
        jnp.array([1, 2, 2, 0, 1]),
        jnp.array([0.1, -0.2, 0.3, 0.4]),
    )
    step = lambda state, action, i: forward_model.predict(model, net, kind, 3, state, action)  # noqa: E731
    for delay in range(6):
        expected = obs
        for action in queue[5 - delay :]:
            expected = forward_model.predict(model, net, kind, 3, expected, action)
        np.testing.assert_allclose(
            forward_model.roll(step, obs, queue, delay), expected, rtol=1e-6, atol=1e-6
        )
        np.testing.assert_allclose(
            forward_model.roll(step, obs, queue[5 - delay :], delay), expected, rtol=1e-6, atol=1e-6
        )
        np.testing.assert_allclose(
            forward_model.rolled(model, net, kind, 3, obs, queue, delay),
            expected,
            rtol=2e-5,
            atol=1e-6,
        )


@pytest.mark.full
def test_a_number_that_never_changes_does_not_spoil_the_others():
    """A constant number has no scale; divided by a tiny one, its rounding would hide the others."""
    model = forward_model.new_model(jax.random.key(0), "change", 3, 2, (16, 16), 1)
    model = jax.tree.map(
        lambda leaf: leaf + 0.1 * jax.random.uniform(jax.random.key(1), leaf.shape), model
    )
    rng = np.random.default_rng(0)
    inputs = changes = forward_model.Scale(jnp.zeros(()), jnp.zeros(3), jnp.zeros(3))
    for _ in range(200):
        inputs = inputs.seen(jnp.array([*rng.normal(size=2), 9.8], jnp.float32), jnp.float32(1))
        changes = changes.seen(
            jnp.array([*0.2 * rng.normal(size=2), 0.0], jnp.float32), jnp.float32(1)
        )
    model = eqx.tree_at(lambda m: (m.inputs, m.changes), model, (inputs, changes))
    assert model.inputs.deviation[2] == model.changes.deviation[2] == 1
    net, queue, obs = (
        pick(model.nets, 0),
        jnp.array([0, 1, 1, 0, 1] * 5),
        jnp.array([0.1, -0.2, 9.8]),
    )
    expected = obs
    for action in queue:
        expected = forward_model.predict(model, net, "change", 2, expected, action)
    np.testing.assert_allclose(
        forward_model.rolled(model, net, "change", 2, obs, queue, 25),
        expected,
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "hidden"), [("learned", (24, 24)), full("change", (40, 33)), ("change", (8,))]
)
def test_the_roll_in_one_kernel_is_the_roll_step_by_step(kind, hidden, monkeypatch):
    model = forward_model.new_model(jax.random.key(0), kind, 4, 3, hidden, 2)
    model = jax.tree.map(
        lambda leaf: leaf + 0.1 * jax.random.uniform(jax.random.key(1), leaf.shape), model
    )
    model = eqx.tree_at(
        lambda m: (m.inputs.count, m.changes.count), model, (jnp.float32(9), jnp.float32(9))
    )
    obs = 0.3 * jax.random.normal(jax.random.key(2), (5, 4))
    queue, delays = jax.random.randint(jax.random.key(3), (5, 6), 0, 3), jnp.array([0, 1, 3, 5, 6])

    def all_of_them():
        one = lambda net, o, q, m: forward_model.rolled(model, net, kind, 3, o, q, m)  # noqa: E731
        return jax.jit(
            jax.vmap(jax.vmap(one, in_axes=(None, 0, 0, 0)), in_axes=(0, None, None, None))
        )(model.nets, obs, queue, delays)

    monkeypatch.setattr(forward_model.roll_kernel, "available", lambda: False)
    expected = all_of_them()
    monkeypatch.setattr(forward_model.roll_kernel, "available", lambda: True)
    np.testing.assert_allclose(all_of_them(), expected, rtol=2e-4, atol=1e-5)
    assert np.ptp(expected[:, :, 0]) > 0.1


@pytest.mark.slow
def test_scales_are_means_and_deviations():
    data = np.random.default_rng(0).normal([1, -2], [3, 0.1], (500, 2)).astype(np.float32)
    scale = forward_model.Scale(jnp.zeros(()), jnp.zeros(2), jnp.zeros(2))
    assert scale.deviation.tolist() == [1, 1]
    for row in data:
        scale = scale.seen(jnp.array(row), jnp.float32(1))
        scale = scale.seen(jnp.array([1e6, 1e6]), jnp.float32(0))
    np.testing.assert_allclose(scale.mean, data.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(scale.deviation, data.std(axis=0), rtol=1e-2)


@pytest.mark.slow
def test_scales_are_right_far_from_zero():
    data = np.random.default_rng(0).normal([1e4, -1e3], [1, 0.1], (3000, 2)).astype(np.float32)
    start = forward_model.Scale(jnp.zeros(()), jnp.zeros(2), jnp.zeros(2))
    scale, _ = jax.lax.scan(lambda scale, row: (scale.seen(row, jnp.float32(1)), None), start, data)
    np.testing.assert_allclose(scale.deviation, data.std(axis=0), rtol=0.05)


@pytest.mark.slow
def test_replay_gives_back_what_was_stored():
    layout = Layout(2, (), jnp.int32, 3, -1, False)
    replay = new_replay(6, layout)
    for i in range(9):
        n = jnp.float32(i)
        item = Transition(
            obs=jnp.array([n, -n]),
            queue=jnp.array([i, i + 1, i + 2]),
            action=jnp.int32(i % 3),
            reward=n / 2,
            next_obs=jnp.array([n + 1, -n - 1]),
            next_queue=jnp.array([i + 1, i + 2, i + 3]),
            terminated=i % 2 == 0,
        )
        replay = store(replay, item, i != 4, layout)
    assert replay.stored == 8
    batch = sample(replay, jax.random.key(0), 300, layout)
    first = batch.obs[:, 0]
    assert set(first.tolist()) == {2.0, 3.0, 5.0, 6.0, 7.0, 8.0}
    np.testing.assert_array_equal(batch.obs[:, 1], -first)
    np.testing.assert_array_equal(batch.next_obs[:, 0], first + 1)
    np.testing.assert_array_equal(batch.queue[:, 0], first)
    np.testing.assert_array_equal(batch.next_queue, batch.queue + 1)
    np.testing.assert_array_equal(batch.reward, first / 2)
    np.testing.assert_array_equal(batch.action, first % 3)
    np.testing.assert_array_equal(batch.terminated, first % 2 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("merged", [full(False), True])
@pytest.mark.parametrize(
    ("agent", "delays"), [("delayed", (0, 2)), full("augmented", (0, 2)), full("oblivious", (0, 2))]
)
def test_known_values(agent, delays, merged):
    """With γ = ½, a reward of 1 at every later step has the value 1."""
    program, setups, runs, _ = trained(Probe(), agent, delays, SMALL, 2, 6000, merged)
    assert (np.asarray(runs.learner.diverged_at) < 0).all()
    for i, delay in enumerate(delays):
        setup, learner = pick(setups, i), pick(runs.learner, i)
        for s, queue in ((0, (0, 1)), (1, (1, 0)), (0, (1, 1))):
            obs, pending = jnp.array([float(s)]), jnp.array(queue)
            values = np.asarray(q_values(program, learner.q, obs, pending, setup))
            if agent == "augmented" and delay:
                now, later = float(queue[0] == s), 0.5 * float(queue[1] == 1 - s)
                expected = now + later + 0.25 * (np.arange(2) == s) + 0.25
            else:
                expected = 1.0 * (np.arange(2) == s) + 1.0
            if agent == "oblivious" and delay:
                continue
            np.testing.assert_allclose(values, expected, atol=0.12)
        actor = fresh(program, setup, setup.key)._replace(
            obs=jnp.array([1.0]), queue=jnp.array([0, 1])
        )
        if agent == "delayed":
            ahead = predicted(program, setup, learner, actor, jax.random.key(0))
            np.testing.assert_allclose(ahead, [[1.0]], atol=0.1)
            assert greedy(program, setup, learner, actor, jax.random.key(0)) == 1


@pytest.mark.slow
def test_known_values_of_projected():
    """Q is of states, as without a delay, and F is Q of the state that the queue leads to."""
    program, setups, runs, _ = trained(Probe(), "projected", (1, 2), SMALL, 2, 6000)
    assert (np.asarray(runs.learner.diverged_at) < 0).all()
    for i, delay in enumerate((1, 2)):
        setup, learner = pick(setups, i), pick(runs.learner, i)
        for s in (0, 1):
            obs = jnp.array([float(s)])
            np.testing.assert_allclose(
                valuing(learner.q)(obs), 1.0 * (np.arange(2) == s) + 1.0, atol=0.12
            )
            then = s if delay == 2 else 1 - s
            for queue in product((0, 1), repeat=2):
                found = q_values(program, deciding(learner.q), obs, jnp.array(queue), setup)
                np.testing.assert_allclose(found, 1.0 * (np.arange(2) == then) + 1.0, atol=0.12)


@pytest.mark.slow
def test_without_a_delay_all_views_have_the_same_bits():
    settings = replace(SMALL, double=False)
    _, _, one, returns = trained(Probe(), "oblivious", (0,), settings, 0, 200)
    for agent in ("projected", "augmented"):
        _, _, other, others = trained(Probe(), agent, (0,), settings, 0, 200)
        np.testing.assert_array_equal(returns, others)
        leaves = [jax.tree.leaves(run.learner) for run in (one, other)]
        for ours, theirs in zip(*leaves, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING)


@pytest.mark.slow
def test_shifted_learns_at_the_state_of_the_decision():
    program, setups, runs, _ = trained(Probe(), "shifted", (1, 2), SMALL, 2, 6000)
    for i, delay in enumerate((1, 2)):
        values = [
            np.asarray(
                q_values(
                    program,
                    pick(runs.learner, i).q,
                    jnp.array([float(s)]),
                    jnp.zeros(2, int),
                    pick(setups, i),
                )
            )
            for s in (0, 1)
        ]
        for s in (0, 1):
            pays = s if delay % 2 == 0 else 1 - s
            np.testing.assert_allclose(values[s], 1.0 * (np.arange(2) == pays) + 1.0, atol=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [[100] * 5, full([1, 99, 400])])
def test_chunks_and_batch_mates_do_not_change_a_run(chunk, compiled_well):
    env = make("cartpole")
    settings = replace(preset("paper", family_of("cartpole")), hidden=(8, 8))
    _, _, whole, returns = trained(env, "delayed", (0, 3), settings, 3, 500)
    _, _, parts, again = trained(env, "delayed", (0, 3), settings, 3, 500, chunk=chunk)
    np.testing.assert_array_equal(returns, again)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(one, other)
    _, _, beside, _ = trained(env, "delayed", (2, 3), settings, 3, 500, chunk=chunk)
    for one, other in zip(
        jax.tree.leaves(pick(whole, 1)), jax.tree.leaves(pick(beside, 1)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_diverging_run_is_reported_and_leaves_the_others_alone():
    env, settings = make("cartpole"), replace(preset("paper", family_of("cartpole")), hidden=(8, 8))
    program, setups = (
        program_of(env, "delayed", settings, 2),
        setup_of(env, "delayed", (2, 2), settings),
    )
    runs, _ = run_chunk(program, setups, begin_all(program, setups), jnp.int32(0), 400)
    wild = setups._replace(numbers=setups.numbers._replace(learning_rate=jnp.array([1e30, 0.005])))
    wrecked, _ = run_chunk(program, wild, begin_all(program, wild), jnp.int32(0), 400)
    assert wrecked.learner.diverged_at[0] > 0
    assert wrecked.learner.diverged_at[1] == -1
    for one, other in zip(
        jax.tree.leaves(pick(runs, 1)), jax.tree.leaves(pick(wrecked, 1)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("usable", "diverged_at", "finite"), [*product([False, True], [-1, 5], [False, True])]
)
def test_a_learner_that_diverged_stays_as_it_was(usable, diverged_at, finite):
    learner = DEEP_Q.init(*learner_setup(), jax.random.key(0))
    old = learner._replace(diverged_at=jnp.int32(diverged_at))
    new = jax.tree.map(lambda leaf: leaf + 1, old)
    found = kept(new, old, jnp.bool_(finite), jnp.int32(9), usable)
    going = usable and diverged_at < 0
    expected = new if going and finite else old
    both = [jax.tree.leaves(state._replace(diverged_at=0)) for state in (found, expected)]
    for one, other in zip(*both, strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.diverged_at == (9 if going and not finite else diverged_at)


def learner_setup():
    return program_of(Probe(), "delayed", SMALL, 2), pick(
        setup_of(Probe(), "delayed", (2,), SMALL), 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("keep", [full(False), True])
def test_scales_of_the_forward_model_are_of_stored_transitions(keep):
    settings = replace(SMALL, model="change", batch_size=1)
    program, setup = (
        program_of(Probe(), "delayed", settings, 2),
        pick(setup_of(Probe(), "delayed", (2,), settings), 0),
    )
    learner, replay = DEEP_Q.init(program, setup, jax.random.key(0)), DEEP_Q.new_replay(program)
    item = Transition(*(jnp.ones(1),) * 7)
    update = jax.jit(updated, static_argnums=0)
    after, _ = update(program, setup, learner, replay, item, keep, jnp.int32(0), jax.random.key(0))
    assert float(after.model.inputs.count) == float(after.model.changes.count) == float(keep)


def test_a_program_has_room_for_the_longest_delay_that_it_meets():
    spec = DeepSpec("cartpole", "delayed", 2, evaluation_delays=(0, 12))
    assert compiled_groups.program_of(spec, "cpu").capacity >= 12
    assert compiled_groups.program_of(DeepSpec("cartpole", "delayed", 30), "gpu").capacity >= 30


@pytest.mark.slow
@pytest.mark.parametrize("delay", [full(1), 4])
def test_with_a_perfect_model_delayed_q_decides_as_undelayed_q_does_later(delay):
    """With deterministic dynamics, Delayed-Q executes undelayed Q's actions from step m on."""
    env, settings = make("cartpole"), replace(SMALL, model="simulator", hidden=(16, 16))
    program, bare = (
        program_of(env, "delayed", settings, delay),
        program_of(env, "delayed", settings, 0),
    )
    setup = pick(setup_of(env, "delayed", (delay,), settings, seeds=[6]), 0)
    undelayed = setup._replace(delay=jnp.int32(0))
    run = begin_all(program, jax.tree.map(lambda leaf: leaf[None], setup))
    run = pick(run, 0)
    actor, executed = run.actors, []
    state, queue = actor.env, actor.queue
    key = jax.random.key(3)
    choose, move = jax.jit(greedy, static_argnums=0), jax.jit(env.step_env)
    for _ in range(delay + 30):
        now = actor._replace(env=state, obs=state.physics, queue=queue)
        chosen = choose(program, setup, run.learner, now, key)
        action, queue = push(queue, chosen)
        executed.append(int(action))
        _, state, *_ = move(key, state, action, setup.params)
    later = actor.env
    for action in actor.queue:
        _, later, *_ = move(key, later, action, setup.params)
    expected = []
    for _ in range(30):
        twin = actor._replace(env=later, obs=later.physics, queue=jnp.zeros(0, jnp.int32))
        expected.append(int(choose(bare, undelayed, run.learner, twin, key)))
        _, later, *_ = move(key, later, jnp.int32(expected[-1]), setup.params)
    assert executed[delay:] == expected
    assert len(set(expected)) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "process"),
    [
        ("delayed", GilbertElliott(Constant(1), Uniform(2, 4), 0.2, 0.4)),
        full("projected", RandomWalk(0, 3)),
        full("shifted", Uniform(1, 3)),
        full("delayed", None),
    ],
)
def test_resuming_from_a_checkpoint_is_bit_exact(agent, process, tmp_path, monkeypatch):
    """The state of the channel is in the checkpoint too."""
    spec = DeepSpec(
        "noisy-cartpole",
        agent,
        2,
        "best",
        process=process,
        steps=900,
        evaluation_episodes=3,
        changes={"hidden": (8, 8)},
    )
    monkeypatch.setattr(compiled_groups, "CHUNK_STEPS", 100)
    monkeypatch.setattr(compiled_groups, "WRITE_EVERY_SECONDS", -1.0)
    straight = next(iter(recorded(run_deep([(spec, 3)], lambda n: None))))
    seen = []

    def interrupt(n):
        seen.append(n)
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_deep([(spec, 3)], interrupt, checkpoints=tmp_path / "kept"))
    assert len(list((tmp_path / "kept").iterdir())) == 1
    steps = []
    (resumed,) = recorded(run_deep([(spec, 3)], steps.append, checkpoints=tmp_path / "kept"))
    assert steps[0] == 400
    assert sum(steps) == 900
    assert resumed.scores == straight.scores
    assert resumed.status == ["complete"]
    np.testing.assert_array_equal(resumed.curve, straight.curve)
    for name, array in straight.policies.items():
        np.testing.assert_array_equal(resumed.policies[name], array)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"env": "cartpol"}, "no environment is called 'cartpol'; did you mean 'cartpole'?"),
        ({"agent": "mbs"}, "cartpole has no agent 'mbs'"),
        ({"preset": "papr"}, "no preset is called 'papr'; did you mean 'paper'?"),
        ({"delay": -1}, "delay is a whole number"),
        ({"steps": 0}, "steps is a whole number, 1 or more; got 0"),
        ({"learning_rat": 1}, "did you mean 'learning_rate'"),
        ({"learning_rate": "x"}, "learning_rate is a number; got 'x'"),
        ({"model": "perfect"}, "no model is called 'perfect'"),
        (
            {"agent": "oblivious", "model": "change"},
            "oblivious predicts nothing, so model would do nothing",
        ),
        ({"size": 3}, "cartpole has no setting 'size'"),
    ],
)
def test_specs_refuse_what_cannot_run(wrong, words):
    given = {"env": "cartpole", "agent": "delayed", "delay": 1} | wrong
    make_it = (
        (lambda: DeepSpec("cartpole", "delayed", changes=wrong))
        if "learning_rat" in wrong
        else (lambda: deep_spec(given.pop("env"), given.pop("agent"), given.pop("delay"), given))
    )
    with pytest.raises(ValueError, match=words.replace("?", "\\?")):
        make_it()


def test_deep_ids():
    base = DeepSpec("cartpole", "delayed", 5)
    assert base.id == DeepSpec("cartpole", "delayed", 5, changes={"batch_size": 128.0}).id
    others = [
        DeepSpec("cartpole", "delayed", 5, "paper"),
        DeepSpec("cartpole", "delayed", 6),
        DeepSpec("cartpole", "oblivious", 5),
        DeepSpec("noisy-cartpole", "delayed", 5),
        DeepSpec("cartpole", "delayed", 5, steps=7),
        DeepSpec("cartpole", "delayed", 5, changes={"gamma": 0.9}),
        DeepSpec("cartpole", "delayed", 5, settings={"noise": 0.2}),
    ]
    assert len({spec.id for spec in [base, *others]}) == 8


@pytest.mark.slow
def test_weights_begin_as_for_the_true_delay():
    wide = new_mlp(jax.random.key(0), (29, 24, 2), 4 + 5)
    assert np.abs(wide.weights[0]).max() <= np.sqrt(6 / (9 + 24))
    assert np.abs(wide.weights[0]).max() > 0.95 * np.sqrt(6 / (9 + 24))


@pytest.mark.slow
def test_a_falling_learning_rate_ends_at_what_is_left():
    def weights(fall, steps=100):
        settings = replace(SMALL, learning_rate_fall=fall)
        program, setups = (
            program_of(Probe(), "delayed", settings, 2),
            setup_of(Probe(), "delayed", (2,), settings, steps),
        )
        rates = [learning_rate(pick(setups, 0), jnp.int32(t)) for t in (0, 50, 100)]
        np.testing.assert_allclose(rates, 0.01 * (1 - fall * np.array([0, 0.5, 1])), rtol=1e-6)
        runs, _ = run_chunk(program, setups, begin_all(program, setups), jnp.int32(0), steps)
        return np.asarray(runs.learner.q.weights[0]), np.asarray(runs.learner.model.nets.weights[0])

    for constant, fallen in zip(weights(0.0), weights(0.9), strict=True):
        assert not np.array_equal(constant, fallen)


@pytest.mark.full
def test_gymnax_environments_train_though_their_parameters_hold_arrays():
    spec = deep_spec(
        "gymnax:Acrobot-v1",
        "delayed",
        2,
        {"steps": 300, "evaluation_episodes": 2, "preset": "paper"},
    )
    (record,) = recorded(run_deep([(spec, 0)], lambda n: None))
    assert record.status == ["complete"]
    assert -500 <= record.scores[0] < 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "expected"),
    [full({}, 10.0), ({"double": False}, 20.0), full({"terminals": False}, 10.0)],
)
def test_the_mistakes_of_the_authors_code_can_be_switched_on(change, expected):
    """One update: Q picks action 0, of value 10 in the target network, which prefers action 1."""
    settings = replace(SMALL, batch_size=1, gamma=1.0, **change)
    program, setup = (
        program_of(Probe(), "oblivious", settings, 0),
        pick(setup_of(Probe(), "oblivious", (0,), settings), 0),
    )
    learner = DEEP_Q.init(program, setup, jax.random.key(0))
    still = jax.tree.map(jnp.zeros_like, learner.q)
    update = jax.jit(updated, static_argnums=0)
    q, target = (
        eqx.tree_at(lambda n: n.biases[-1], still, jnp.array(values))
        for values in ([1.0, 0.0], [10.0, 20.0])
    )
    for ended in (False, True):
        row = jnp.array([[1.0, 1.0, 0.0, 0.0, float(ended)]])
        replay = Replay(row, jnp.int32(1))
        item = Transition(*(jnp.zeros(1),) * 7)
        aim = 0.0 if ended and settings.terminals else expected
        for guess, sign in ((aim - 0.25, -1), (aim + 0.25, 1)):
            given = learner._replace(
                q=eqx.tree_at(lambda n: n.biases[-1], q, jnp.array([guess, guess - 1])),
                target=target,
            )
            after = update(
                program, setup, given, replay, item, True, jnp.int32(0), jax.random.key(0)
            )[0]
            assert np.sign(given.q.biases[-1][0] - after.q.biases[-1][0]) == sign


@pytest.mark.full
def test_an_agent_that_predicts_nothing_is_not_stopped_by_a_model():
    wild = replace(SMALL, learning_rate=1e6, hidden=(24, 24))
    env = make("cartpole")
    for merged in (False, True):
        runs = trained(env, "oblivious", (0,), wild, 2, 400, merged)[2]
        assert int(runs.learner.diverged_at[0]) == -1
        assert int(runs.learner.updates[0]) > 300


def test_specs_are_what_their_records_say():
    for settings in ({}, {"perturb": "masses"}, {"perturb": "masses+lengths"}, {"noise": 0.2}):
        for env, preset_name in (
            ("noisy-cartpole", "paper"),
            ("noisy-cartpole", "best"),
            ("noisy-acrobot", "paper"),
        ):
            spec = DeepSpec(env, "delayed", 2, preset_name, settings=settings)
            assert from_canonical(spec.canonical()) == spec
    masses = DeepSpec("noisy-cartpole", "delayed", 2, "paper", settings={"perturb": "masses"})
    assert masses.environment(0).default_params.length_noise == 0
    assert (
        DeepSpec("cartpole", "delayed", 2, "paper", settings={"noise": 0.1})
        .environment(0)
        .default_params.length_noise
        > 0
    )


@pytest.mark.slow
def test_gymnax_seeds_share_a_program():
    spec = deep_spec("gymnax:CartPole-v1", "delayed", 2, {"steps": 100})
    assert len(compiled_groups.parts_of([(spec, seed) for seed in range(3)], "gpu")) == 1
    assert compiled_groups.program_of(spec, "cpu") == compiled_groups.program_of(spec, "cpu")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"learning_rate_fall": 3}, "learning_rate_fall lies from 0 to 1; got 3"),
        ({"gamma": 1.5}, "gamma lies from 0 to 1"),
        ({"evaluation_delays": 5}, "evaluation_delays are a list; got 5"),
    ],
)
def test_numbers_out_of_range(wrong, words):
    with pytest.raises(ValueError, match=words):
        deep_spec("cartpole", "delayed", 2, wrong)


@pytest.mark.full
def test_stopping_during_evaluation_keeps_the_run(tmp_path, monkeypatch):
    spec, stop = (
        deep_spec(
            "cartpole", "delayed", 2, {"steps": 200, "preset": "paper", "evaluation_episodes": 2}
        ),
        trainer.Event(),
    )
    real, folder = CompiledGroup.outcomes, tmp_path / "checkpoints"
    monkeypatch.setattr(CompiledGroup, "outcomes", lambda *given: stop.set() or real(*given))
    group = CompiledGroup(compiled_groups.program_of(spec, jax.default_backend()), [(spec, 0)])
    assert trainer.train_group(group, lambda n: None, stop, False, folder) == []
    assert len([*folder.iterdir()]) == 1
    monkeypatch.setattr(CompiledGroup, "outcomes", real)
    (resumed,) = recorded(run_deep([(spec, 0)], lambda n: None, False, folder))
    (straight,) = recorded(run_deep([(spec, 0)], lambda n: None, False))
    assert resumed.scores == straight.scores
    assert resumed.status == ["complete"]
    np.testing.assert_array_equal(resumed.curve, straight.curve)


@pytest.mark.full
def test_two_processes_give_the_same_bits():
    """On a GPU too, where kernels chosen by timing would differ between processes."""
    script = """
import deadtime
result = deadtime.train("noisy-cartpole", "delayed", delay=7, seeds=2, steps=1200)
values = result.policy(1).q_values([0.01, 0.02, 0.03, 0.04], [0, 1, 1, 0, 1, 0, 0])
print(result.curve.returns.tolist(), values.tolist())
"""
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    both = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
        for _ in range(2)
    ]
    first, second = (process.communicate(timeout=300)[0] for process in both)
    assert len(first) > 100
    assert first == second
