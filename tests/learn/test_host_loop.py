"""The host loop: its replay buffer, its learning, and its equality with the compiled loop."""

import json
import re
from dataclasses import replace
from threading import Event

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

import deadtime
from deadtime.envs import gym_family, gym_outside, make
from deadtime.envs.cartpole import CartPole
from deadtime.envs.gym_family import GymFamily
from deadtime.envs.local_pool import LocalPool
from deadtime.learn import compiled_loop, host_loop, host_programs, rollout_learner, trainer
from deadtime.learn.deep_q import q_values
from deadtime.learn.deep_training import run_deep
from deadtime.learn.host_loop import HostGroup
from deadtime.learn.lane_steps import blank
from deadtime.learn.program import Program, bounded_by, split_settings
from deadtime.runs.deep_specs import DeepSpec, deep_spec
from deadtime.runs.runner import train_recorded
from deadtime.runs.specs import from_canonical, make_spec
from deadtime.runs.watch import watch
from deadtime.runtime.views import VIEWS, View
from tests.commands import full, recorded, run

SMALL = {
    "hidden": (16, 16),
    "batch_size": 8,
    "buffer_size": 200,
    "gamma": 0.5,
    "learning_rate": 0.01,
    "epsilon_floor": 0.7,
}
PROBE, DIARY, SPACES = (
    f"gym:gym_probe:deadtime-test/{name}-v0" for name in ("Probe", "Diary", "Spaces")
)


def spec_of(env, agent="delayed", delay=0, steps=100, envs=1, preset="paper", **changes):
    return DeepSpec(
        env, agent, delay, preset, steps, envs=envs, evaluation_episodes=2, changes=changes
    )


def trained(spec, seed=0):
    """A run without evaluation and record: its program, setup, state and ended episodes."""
    program = host_programs.program_of(spec, "cpu")
    group = HostGroup(program, [(spec, seed)])
    group.begin()
    while group.done < group.length:
        group.advance()
    group.close()
    return program, group._setups, group._state, ended_of(group)


def ended_of(group):
    """(step, return) of the episodes that ended within the run's length."""
    rows = np.concatenate(group._ended)
    return rows[rows[:, 1] < group.length, 1:].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "delay", "envs"),
    [("delayed", 2, 3), full("augmented", 2, 3), ("oblivious", 0, 3), full("shifted", 1, 3)],
)
def test_known_values(agent, delay, envs):
    """γ = ½, so a pay of 1 at every later step is worth 1."""
    program, setup, run, ended = trained(spec_of(PROBE, agent, delay, 6000, envs, **SMALL))
    assert run.learner.diverged_at == -1
    assert len(ended) == 6000 // 20
    for s, queue in ((0, (0, 1)), (1, (1, 0)), (0, (1, 1))):
        values = q_values(
            program, run.learner.q, jnp.array([float(s)]), jnp.array(queue[:delay], int), setup
        )
        if agent == "augmented":
            now, later = float(queue[0] == s), 0.5 * float(queue[1] == 1 - s)
            expected = now + later + 0.25 * (np.arange(2) == s) + 0.25
        else:
            pays = 1 - s if agent == "shifted" else s
            expected = 1.0 * (np.arange(2) == pays) + 1.0
        np.testing.assert_allclose(values, expected, atol=0.12)


def expected_rows(spec, seed, chosen):
    """The replay buffer and the returns of a plain loop over the environments, from the actions."""
    m, rows, ended = spec.delay, [], []
    envs = [
        deadtime.ActionDelay(gym.make(spec.env.removeprefix("gym:")), m) for _ in range(spec.envs)
    ]
    starts = [
        env.reset(seed=one)
        for env, one in zip(envs, host_programs.seeds_of(spec, seed, 0, spec.envs), strict=True)
    ]
    path = [[obs] for obs, _ in starts]
    queues = [info["pending_actions"] for _, info in starts]
    earned = [0.0] * spec.envs
    for t in range(spec.steps):
        k, i = divmod(t, spec.envs)
        action, before = chosen[k][i], path[i][-1]
        after, reward, terminated, truncated, info = envs[i].step(int(action))
        path[i].append(after)
        age, executed = len(path[i]) - 2, envs[i].unwrapped.executed
        assert executed == (queues[i][0] if m else action)
        pair, learned = (
            (before, after),
            executed if spec.agent in ("delayed", "shifted") else action,
        )
        if spec.agent == "shifted" and age >= m:
            pair = path[i][age - m], path[i][age - m + 1]
        row = [*pair[0], *pair[1], learned, reward, terminated]
        row += [*queues[i], action] if spec.agent == "augmented" and m else []
        if age >= spec.learner.skipped_delays * m and (spec.agent != "shifted" or age >= m):
            rows.append(row)
        queues[i], earned[i] = info["pending_actions"], earned[i] + reward
        if terminated or truncated:
            ended.append([t, earned[i]])
            obs, info = envs[i].reset()
            path[i], queues[i], earned[i] = [obs], info["pending_actions"], 0.0
    return np.array(rows, np.float32), ended


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "delay", "envs", "skipped"),
    [(agent, 3, 3, 0) for agent in ("delayed", "augmented", "oblivious", "shifted")]
    + [("delayed", 0, 1, 2), ("augmented", 0, 3, 0), ("delayed", 3, 1, 1), ("shifted", 3, 1, 0)],
)
def test_what_is_stored(agent, delay, envs, skipped, monkeypatch):
    spec = spec_of(
        DIARY,
        agent,
        delay,
        61,
        envs,
        hidden=(4,),
        batch_size=4,
        skipped_delays=skipped,
        buffer_size=100,
    )
    chosen, send = [], LocalPool.send
    monkeypatch.setattr(
        LocalPool,
        "send",
        lambda self, actions: chosen.append(actions.copy()) or send(self, actions),
    )
    _, _, run, found = trained(spec, 5)
    rows, ended = expected_rows(spec, 5, chosen)
    assert run.replay.stored == len(rows) > 20
    np.testing.assert_array_equal(run.replay.rows[: len(rows)], rows)
    assert found == ended
    assert {0.0, 1.0} == set(rows[:, 10].tolist())


class Plain(CartPole):
    """CartPole whose warm-up is random."""

    @property
    def warm_up(self):
        raise AttributeError


class Short(Plain):
    """The same with a time limit that most episodes reach."""

    @property
    def default_params(self):
        return super().default_params._replace(max_steps_in_episode=11)


class KeyedEnv(gym.Env):
    """A functional environment with the random numbers that the compiled loop would give it."""

    def __init__(self, inner, key, lane=None, lanes=1, uses=5):
        """`lane` is an actor's number, for learners of rollouts; `uses` counts a step's keys."""
        params = inner.default_params
        self.time, self.stride = lane or 0, lanes
        self.key = jax.random.split(jax.random.fold_in(key, 0))[1]
        if lane is not None:
            self.key = jax.random.fold_in(self.key, lane)
        self.action_space, self.observation_space = (
            spaces.Discrete(inner.num_actions),
            inner.observation_space(params),
        )

        def begin(key):
            key_env, key_queue = jax.random.split(key)
            return *inner.reset_env(key_env, params), jax.random.bits(
                key_queue, (3,)
            ) % inner.num_actions

        def move(time, state, action):
            keys = jax.random.split(jax.random.fold_in(key, time + 1), uses)
            _, key_env, *_, key_reset = keys
            obs, state, reward, terminated, _ = inner.step_env(key_env, state, action, params)
            return obs, state, reward, terminated, inner.is_truncated(state, params), key_reset

        self._begin, self._move = jax.jit(begin), jax.jit(move)

    def reset(self, *, seed=None, options=None):
        obs, self.state, self.pending = self._begin(self.key)
        return np.asarray(obs), {}

    def step(self, action):
        obs, self.state, reward, terminated, truncated, self.key = self._move(
            self.time, self.state, action
        )
        self.time += self.stride
        return np.asarray(obs), float(reward), bool(terminated), bool(truncated), {}

    def queue(self, obs, delay, rng):
        return np.asarray(self.pending).astype(int)[:delay]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "delay"),
    [
        ("delayed", 3),
        full("augmented", 3),
        full("shifted", 3),
        full("oblivious", 0),
        full("projected", 3),
        full("projected", 0),
    ],
)
def test_the_compiled_loop_learns_the_same_from_the_same_random_numbers(agent, delay, monkeypatch):
    steps, env = 200, Plain(noise=0.1)
    spec = spec_of("gym:CartPole-v1", agent, delay, steps, hidden=(8, 8), batch_size=8)
    setup = setup_of(spec, 3)
    keyed = KeyedEnv(env, setup.key)
    delayed = deadtime.ActionDelay(keyed, delay, keyed.queue)
    monkeypatch.setattr(
        GymFamily, "pool", lambda self, lanes, name: LocalPool([delayed], [0], name)
    )
    _, _, run, found = trained(spec, 3)
    settings = bounded_by(steps, split_settings(spec.learner)[0])
    program = Program(env, VIEWS[agent], settings, delay)
    inside = jax.tree.map(
        lambda leaf: jnp.asarray(leaf)[None],
        setup._replace(params=env.default_params, numbers=plain(setup)),
    )
    runs, returns = compiled_loop.run_chunk(
        program, inside, compiled_loop.begin_all(program, inside), jnp.int32(0), steps
    )
    ended = np.flatnonzero(~np.isnan(returns[:, 0]))
    assert found == [[t, returns[t, 0]] for t in ended]
    assert len(ended) > 5
    np.testing.assert_allclose(run.replay.rows, runs.replay.rows[0], atol=1e-5)
    for one, other in zip(jax.tree.leaves(run.learner), jax.tree.leaves(runs.learner), strict=True):
        np.testing.assert_allclose(one, other[0], rtol=2e-3, atol=2e-3)


@pytest.mark.slow
def test_a_learner_of_rollouts_learns_the_same_in_both_loops(monkeypatch):
    """Three environments, thirteen rollouts of four steps; episodes end by falls and by time."""
    lanes, delay, env = 3, 3, Short(noise=0.1)
    changes = {"hidden": (8,), "lstm": 8, "rollout": 4, "learning_rate": 0.01}
    spec = spec_of("gym:CartPole-v1", "recurrent", delay, 156, lanes, "best", **changes)
    setup = setup_of(spec, 3)
    keyed = [KeyedEnv(env, setup.key, lane, lanes, uses=3) for lane in range(lanes)]
    delayed = [deadtime.ActionDelay(one, delay, one.queue) for one in keyed]
    monkeypatch.setattr(
        GymFamily, "pool", lambda self, order, name: LocalPool(delayed, [0] * lanes, name)
    )
    _, _, run, found = trained(spec, 3)
    settings = split_settings(replace(spec.learner, actors=lanes))[0]
    program = Program(env, VIEWS["recurrent"], settings, delay)
    inside = jax.tree.map(
        lambda leaf: jnp.asarray(leaf)[None],
        setup._replace(params=env.default_params, numbers=plain(setup)),
    )
    runs, returns = compiled_loop.run_chunk(
        program, inside, compiled_loop.begin_all(program, inside), jnp.int32(0), spec.length
    )
    ended = np.flatnonzero(~np.isnan(returns[:, 0]))
    assert found == [[t, returns[t, 0]] for t in ended]
    assert 3 < (returns[ended, 0] == 11).sum() < len(ended)
    assert run.learner.updates == runs.learner.updates[0] == 13
    begun = host_programs.hosted(host_programs.program_of(spec, "cpu")).begin
    first = begun(host_programs.program_of(spec, "cpu"), setup).learner
    leaves = zip(*map(jax.tree.leaves, (run.learner, runs.learner, first)), strict=True)
    moved = 0.0
    for one, other, start in leaves:
        np.testing.assert_allclose(one, other[0], rtol=2e-3, atol=2e-4)
        moved = max(moved, float(np.abs(one - start).max()))
    assert moved > 0.01


@pytest.mark.slow
def test_a_rollout_with_a_lost_episode_is_left_out():
    changes = {"hidden": (4,), "lstm": 4, "rollout": 2}
    spec = spec_of(PROBE, "recurrent", 0, 1000, 2, "best", **changes)
    program, setup = host_programs.program_of(spec, "cpu"), setup_of(spec, 0)
    learner = rollout_learner.RolloutLearner(program)
    run = learner.begin(program, setup)
    zeros = blank(program)[1]
    found = []
    for t, lost in enumerate([False, True, False, False, True, False, False, False]):
        steps = zeros._replace(start=((), *zeros.done[5:7], (), zeros.done.next_age))
        steps = steps._replace(lost=np.array([lost, False]))
        _, run = learner._learn_and_choose(setup, run, steps, np.int32(2 * t))
        found.append(int(run.learner.updates))
    assert found == [0, 0, 0, 1, 1, 1, 1, 2]
    assert run.learner.diverged_at == -1


@pytest.mark.slow
def test_the_recurrent_agent_outside(tmp_path):
    """From a checkpoint within a rollout to a policy with a memory, which is loaded and acts."""
    changes = {"hidden": (4,), "lstm": 4}
    spec = spec_of("gym:CartPole-v1", "recurrent", 2, 201, 3, "best", **changes)
    program = host_programs.program_of(spec, "cpu")
    group = HostGroup(program, [(spec, 0)])
    group.begin()
    for _ in range(22):
        group._step()
    group.save(tmp_path / "half", 1.0)
    group.close()
    again = HostGroup(program, [(spec, 0)])
    again.resume(tmp_path / "half")
    assert (again.done, again._state.filled, again._state.learner.updates) == (66, 0, 4)
    while again.done < again.length:
        again.advance()
    again.close()
    assert again._state.learner.updates == 4 + (67 - 22) // 5

    options = {"steps": 60, "evaluation_episodes": 2, "envs": 3, **changes}
    result = deadtime.train("CartPole-v1", "recurrent", 2, **options)
    policy = deadtime.load(result.save(tmp_path / "run"))
    assert deadtime.evaluate(policy, "CartPole-v1", episodes=2).min() >= 8
    assert DeepSpec("gym:CartPole-v1", "recurrent").envs == 16
    with pytest.raises(ValueError, match="got actors=3 for gym:CartPole-v1: pass envs"):
        make_spec("CartPole-v1", "recurrent", 2, {"actors": 3})


def setup_of(spec, seed):
    return host_programs.setups_of(host_programs.program_of(spec, "cpu"), [(spec, seed)])


def plain(setup):
    """The numbers of a run that learns from the plain reward, which is the only one outside."""
    return setup.numbers._replace(shaped=jnp.float32(0))


@pytest.mark.full
def test_the_compiled_loop_learns_as_well_by_its_own_random_numbers(compiled_well):
    """Welch's t of log returns in the second half, 8 runs against 16; it detects chosen actions."""
    spec = spec_of("gym:CartPole-v1", "delayed", 4, 2000, epsilon_decay=0.995, skipped_delays=0)
    runs, half = [np.array(trained(spec, seed)[3]) for seed in range(8)], spec.length // 2
    outside = np.log([ended[ended[:, 0] >= half, 1].mean() for ended in runs])

    def gap(view):
        program = Program(Plain(), view, split_settings(spec.learner)[0], spec.delay)
        each = [setup_of(spec, 100 + seed) for seed in range(16)]
        each = [one._replace(params=Plain().default_params, numbers=plain(one)) for one in each]
        setups = jax.tree.map(
            lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *each
        )
        _, returns = compiled_loop.run_chunk(
            program, setups, compiled_loop.begin_all(program, setups), jnp.int32(0), spec.length
        )
        inside = np.log(np.nanmean(np.asarray(returns)[half:], axis=0))
        return (outside.mean() - inside.mean()) / np.sqrt(
            outside.var(ddof=1) / 8 + inside.var(ddof=1) / 16
        )

    right, wrong = gap(VIEWS["delayed"]), gap(View("prediction", "chosen"))
    assert abs(right) < 2.5, (right, wrong)
    assert abs(wrong) > 4, (right, wrong)


@pytest.mark.slow
def test_one_spec_and_seed_give_the_same_bits():
    options = {
        "delay": 2,
        "steps": 150,
        "envs": 2,
        "preset": "paper",
        "hidden": (8, 8),
        "evaluation_episodes": 2,
    }
    one, other = (deadtime.train("gym:CartPole-v1", seeds=2, **options) for _ in range(2))
    assert one.record.policies.keys() == other.record.policies.keys()
    for name, array in one.record.policies.items():
        np.testing.assert_array_equal(array, other.record.policies[name])
    np.testing.assert_array_equal(one.curve.returns, other.curve.returns)
    np.testing.assert_array_equal(one.scores, other.scores)
    assert not np.array_equal(
        one.record.policies["0/q/0/weight"], one.record.policies["1/q/0/weight"]
    )
    assert not np.array_equal(one.curve.returns[0], one.curve.returns[1], equal_nan=True)
    spec = spec_of("gym:CartPole-v1")
    seeds = [
        seed
        for run in range(3)
        for step in (0, 50)
        for seed in host_programs.seeds_of(spec, run, step, 3)
    ]
    assert len({*seeds}) == len(seeds)


@pytest.mark.slow
def test_resuming(tmp_path, monkeypatch):
    """The learner goes on as it was, with new episodes, and the record says so."""
    spec = spec_of(DIARY, delay=2, steps=90, envs=3, hidden=(4,), batch_size=4, skipped_delays=0)
    monkeypatch.setattr(host_loop, "_BURST_SECONDS", -1.0)
    monkeypatch.setattr(host_loop, "WRITE_EVERY_SECONDS", -1.0)
    told, begun = [], []
    reset = LocalPool.reset
    monkeypatch.setattr(LocalPool, "reset", lambda self: begun.append(self._seeds) or reset(self))

    def interrupt(n):
        told.append(n)
        if sum(told) == 45:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_deep([(spec, 3)], interrupt, checkpoints=tmp_path / "kept"))
    (path,) = (tmp_path / "kept").iterdir()
    group = HostGroup(host_programs.program_of(spec, "cpu"), [(spec, 3)])
    group.resume(path)
    group.close()
    assert begun.pop() == host_programs.seeds_of(spec, 3, 42, 3)
    assert (group.done, group._resumed_at) == (42, [42])
    assert group._state.replay.stored == 42
    assert group._state.learner.updates == 42 - 3
    steps = []
    (record,) = recorded(run_deep([(spec, 3)], steps.append, checkpoints=tmp_path / "kept"))
    assert steps[0] == 42
    assert sum(steps) == 90
    assert record.provenance[0]["resumed_at"] == [42]
    assert begun == [host_programs.seeds_of(spec, 3, step, 3) for step in (0, 42)]
    assert record.episodes == [3 * 2 + 3 * 3]
    assert record.status == ["complete"]
    (straight,) = recorded(run_deep([(spec, 3)], steps.append))
    assert "resumed_at" not in straight.provenance[0]


@pytest.mark.slow
def test_stopping_writes_a_checkpoint(tmp_path):
    spec, stop = spec_of(DIARY, steps=10**6, hidden=(4,), batch_size=4), Event()
    group = HostGroup(host_programs.program_of(spec, "cpu"), [(spec, 0)])
    assert trainer.train_group(group, lambda n: n and stop.set(), stop, True, tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 1


REFUSALS = [
    (
        {"env": SPACES, "actions": "counts"},
        "at most 1,000 combinations; .* has MultiDiscrete([11 10 10]), which makes 1,100: wrap",
    ),
    (
        {"env": SPACES, "actions": "unbounded"},
        "real actions have finite bounds; .* has Box(-inf, inf, (1,), float32): "
        "wrap the environment in gymnasium.wrappers.RescaleAction or ClipAction",
    ),
    ({"env": SPACES, "actions": "whole"}, "(Box of floats); .* has Box(0, 3"),
    ({"env": SPACES, "actions": "scalar"}, "one number or more on at least one axis; .* has Box"),
    (
        {"env": SPACES, "actions": "fixed"},
        "an action's lower bound is below its upper bound; .* has Box",
    ),
    ({"env": SPACES, "axes": -1}, "that flatten to one vector; .* has Sequence(Discrete(2)"),
    (
        {"env": SPACES, "axes": 3, "side": 40},
        "1 or 3 channels; .* has Box(0.0, 1.0, (40, 40, 40), float32): wrap the environment in",
    ),
    ({"env": "gym:CartPol-v1"}, "has no environment 'CartPol-v1'; did you mean 'CartPole-v1'?"),
    (
        {"env": "gym:LunarLander-v2"},
        "has no environment 'LunarLander-v2'; did you mean 'LunarLander-v3'?",
    ),
    ({"env": "gym:"}, "can't make '' with no settings (Malformed environment ID"),
    (
        {"env": "gym:nowhere:Thing-v0"},
        "needs a module that can't be imported (No module named 'nowhere'): "
        "install the module, or run",
    ),
    ({"env": "gim:CartPole-v1"}, "choose one of .*, gymnax:NAME, gym:ID"),
    (
        {"env": "LunarLander-v9"},
        "no environment is called 'LunarLander-v9'; did you mean 'gym:LunarLander-v3'?: choose",
    ),
    (
        {"model": "simulator"},
        "model='simulator' predicts with a copy of the environment, "
        "and gym:CartPole-v1 can't be copied",
    ),
    ({"shaped": True}, "gym:CartPole-v1 has no shaped reward"),
    ({"agent": "mbs"}, "gym:CartPole-v1 has no agent 'mbs'"),
    ({"agent": "distribution"}, "gym:CartPole-v1 has no agent 'distribution'"),
    (
        {"learning_rat": 0.1},
        "has no setting 'learning_rat'; did you mean 'learning_rate'?: "
        "it takes sutton_barto_reward",
    ),
    ({"render_mode": "human"}, "gym:CartPole-v1 has no setting 'render_mode'"),
    ({"env": DIARY, "bad": object()}, "settings of a run are numbers, strings, lists and dicts"),
    ({"envs": 0}, "envs is a whole number, 1 or more; got 0: pass one such as 1"),
    (
        {"env": "cartpole", "envs": 2},
        "envs is for gym:ID and atari:NAME, .* got 2 for cartpole: leave it out",
    ),
    ({"env": "maze", "envs": 2}, "maze has no setting 'envs'"),
    ({"max_episode_steps": 0}, "can't make 'CartPole-v1' with {'max_episode_steps': 0}"),
]


@pytest.mark.parametrize(("wrong", "words"), REFUSALS)
def test_refusals(wrong, words):
    given = {"env": "gym:CartPole-v1", "agent": "delayed", "delay": 1} | wrong
    with pytest.raises(ValueError, match=re.escape(words).replace("\\.\\*", ".*")):
        make_spec(given.pop("env"), given.pop("agent"), given.pop("delay"), given)


def test_a_missing_dependency_says_how_to_get_it(monkeypatch):
    def absent(*given, **settings):
        raise gym.error.DependencyNotInstalled(
            'Box2D is not installed, run `pip install "gymnasium[box2d]"`'
        )

    monkeypatch.setattr(gym, "make", absent)
    monkeypatch.setattr(gym_outside, "_READ", {})
    with pytest.raises(
        ValueError,
        match="gym:CartPole-v1 needs a module that can't be imported .Box2D .*pip install",
    ):
        make_spec("gym:CartPole-v1", "delayed", 0, {})


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["observation", "reward"])
def test_numbers_that_are_none_are_reported(bad):
    spec = DeepSpec(DIARY, "oblivious", settings={"bad": bad}, changes={"hidden": (4,)})
    with pytest.raises(
        ValueError, match=f"{bad}s are finite numbers; {DIARY} gave .*: fix the environment"
    ):
        trained(spec)


@pytest.mark.slow
@pytest.mark.parametrize("value", [1e39, -1e39, float("nan"), float("-inf")])
def test_rewards_are_finite_for_the_learner_too(value, monkeypatch):
    """1e39 is finite as a double and infinite in single precision."""
    from gym_probe import ProbeEnv

    monkeypatch.setattr(
        ProbeEnv, "step", lambda env, action: (np.zeros(1, np.float32), value, False, False, {})
    )
    with pytest.raises(
        ValueError, match="rewards are finite numbers; .* gave .*: fix the environment"
    ):
        trained(spec_of(PROBE, "oblivious", hidden=(4,)))


@pytest.mark.slow
@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -1e39, 3e38])
def test_scores_that_are_none_are_no_normal_end(value, tmp_path, monkeypatch):
    """An environment that fails in evaluation only: no record is written, the checkpoint stays."""
    usual = GymFamily.gymnasium_form
    spec = spec_of(PROBE, "oblivious", steps=60, hidden=(4,), batch_size=4)

    def wrong(*given, **how):
        env = usual(*given, **how)
        env.unwrapped.step = lambda action: (np.zeros(1, np.float32), value, False, False, {})
        return env

    monkeypatch.setattr(GymFamily, "gymnasium_form", wrong)
    with pytest.raises(
        ValueError,
        match="rewards are finite numbers; .* gave .* in evaluation, and with it a return of .*: "
        "fix the environment",
    ):
        train_recorded(spec, 1, tmp_path)
    assert not (tmp_path / spec.name).exists()
    assert len([*(tmp_path / ".checkpoints").rglob("*.safetensors")]) == 1
    monkeypatch.setattr(GymFamily, "gymnasium_form", usual)
    again, _ = train_recorded(spec, 1, tmp_path)
    assert "resumed_at" not in again.record.provenance[0]  # it was trained to the end


def test_ids():
    base = deep_spec("gym:CartPole-v1", "delayed", 5, {})
    same = [{"envs": 1}, {"sutton_barto_reward": False}, {"max_episode_steps": 500}]
    assert {deep_spec("gym:CartPole-v1", "delayed", 5, one).id for one in same} == {base.id}
    others = [{"envs": 2}, {"sutton_barto_reward": True}, {"max_episode_steps": 50}, {"steps": 5}]
    specs = [deep_spec("gym:CartPole-v1", "delayed", 5, one) for one in others] + [
        spec_of(DIARY),
        base,
    ]
    assert len({spec.id for spec in specs}) == 6
    for spec in specs:
        assert from_canonical(json.loads(json.dumps(spec.canonical()))) == spec
        assert "/" not in spec.name
    assert "envs" not in base.canonical()


def test_settings_reach_the_environment():
    spec = deep_spec("gym:CartPole-v1", "delayed", 2, {"sutton_barto_reward": True, "envs": 2})
    pool = spec.family.pool(host_programs.lanes_of([(spec, 0)], 2, 0), spec.env)
    assert [one.unwrapped._sutton_barto_reward for one in pool.envs] == [True, True]
    assert len({*map(id, (one.unwrapped for one in pool.envs))}) == 2
    assert make("gym:deadtime/NoisyCartPole-v1", noise=0.2).make().unwrapped.noise == 0.2


def test_evaluation_ends_where_episodes_do_not(monkeypatch):
    monkeypatch.setattr(gym_family, "LONGEST_EPISODE", 50)

    class Any:
        delay = 3

        def act(self, observation, pending_actions):
            return 1

    assert (
        deadtime.evaluate(Any(), DIARY, episodes=2, endless=True).tolist()
        == [0.5 * sum(range(1, 51))] * 2
    )
    assert (
        deadtime.evaluate(Any(), DIARY, episodes=2, endless=True, max_episode_steps=4).tolist()
        == [5.0] * 2
    )


@pytest.mark.slow
def test_commands(tmp_path):
    small = [
        "--env",
        "gym:MountainCar-v0",
        "--preset",
        "paper",
        "--steps",
        100,
        "--envs",
        2,
        "--seeds",
        2,
    ]
    done = run("train", *small, "--agent", "delayed", "--delay", 3, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["env"], said["envs"], said["scores"]) == ("gym:MountainCar-v0", 2, [-200, -200])
    done = run("evaluate", said["record"], "--episodes", 2, "--delay", 1, cwd=tmp_path)
    assert "delayed in gym:MountainCar-v0, trained at delay 3" in done.stdout, done.stderr
    assert "evaluated at delay 1\nmean return -200" in done.stdout
    policy = deadtime.load(tmp_path / said["record"], seed=1)
    assert deadtime.evaluate(policy, "gym:MountainCar-v0", episodes=1).tolist() == [-200]
    done = run("compare", *small, "--delays", 0, "--agents", "oblivious", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["delays"][0]["oblivious"]["mean"] == -200, done.stderr


@pytest.mark.full
def test_watching_what_an_environment_draws(tmp_path):
    spec = spec_of(DIARY, delay=2, steps=20, hidden=(4,), batch_size=4)
    result, _ = train_recorded(spec, 1, tmp_path)
    assert watch(spec.env, spec.environment(0), result.policy(0), 0, tmp_path / "x.gif") == (5, 7.5)
    with Image.open(tmp_path / "x.gif") as image:
        assert image.n_frames == 6
        assert image.width == 400
    with pytest.raises(
        ValueError,
        match="watch draws mazes, .* gym:ID that render rgb_array; got a policy of gym:gym_probe",
    ):
        watch(PROBE, make(PROBE), result.policy(0), 0, tmp_path / "y.gif")
