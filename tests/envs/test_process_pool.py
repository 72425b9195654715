"""The pool of worker processes: its equality with one process, its crashes, errors and output."""

import os
import signal
from contextlib import closing
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from deadtime._support.timeouts import limited_steps
from deadtime.delays import Uniform
from deadtime.envs import gym_family, make
from deadtime.envs.gym_family import local_pool
from deadtime.envs.pools import Lane
from deadtime.envs.process_pool import ProcessPool

DIARY = "gym:tests.learn.gym_probe:deadtime-test/Diary-v0"


def lanes_of(name, delays, **settings):
    environment = make(name, **settings)
    return [Lane(environment, delay, 10 + i) for i, delay in enumerate(delays)]


def pool_of(name, lanes, workers, specs=()):
    return ProcessPool(lanes, partial(local_pool, name, specs), name, workers)


def played(pool, actions, resting=None):
    """All that a pool shows in a reset and a step for each row of actions."""
    with closing(pool):
        found = [pool.reset()]
        for chosen in actions:
            pool.send(chosen, resting)
            found.append(pool.receive())
    return found


def check_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        for name, array, wanted in zip(one._fields, one, other, strict=True):
            assert (array is None) == (wanted is None), name
            if array is not None:
                np.testing.assert_array_equal(array, wanted, err_msg=name)
                assert array.dtype == wanted.dtype, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "delays", "workers"),
    [(DIARY, (2, 0, 3, 3, 1), (1, 2)), ("gym:Pendulum-v1", (2, Uniform(0, 3), 0), (3,))],
)
def test_any_number_of_workers_plays_the_same(name, delays, workers):
    lanes = lanes_of(name, delays)
    space = lanes[0].environment.action_space()
    space.seed(0)
    actions = np.array([[space.sample() for _ in lanes] for _ in range(210)])
    expected = played(local_pool(name, (), lanes), actions)
    assert sum(step.over.sum() for step in expected) >= len(lanes)
    for count in workers:
        check_same(played(pool_of(name, lanes, count), actions), expected)


@pytest.mark.slow
def test_resting_lanes_stay_where_they_are():
    lanes = lanes_of(DIARY, (1, 1, 1), endless=True)
    resting = np.array([False, True, False])
    actions = np.ones((3, 3), int)
    found = played(pool_of(DIARY, lanes, 2), actions, resting)
    check_same(found, played(local_pool(DIARY, (), lanes), actions, resting))
    assert found[-1].shown[:, 2].tolist() == [3, 0, 3]


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_episodes_only():
    lanes = lanes_of(DIARY, (1, 1, 1), endless=True)
    with closing(pool_of(DIARY, lanes, 2)) as pool:
        before = pool.reset()
        pool.step(np.ones(3, int))
        os.kill(pool._workers[0].pid, signal.SIGKILL)
        lost = pool.step(np.ones(3, int))
        assert lost.lost.tolist() == [True, True, False]
        assert lost.age.tolist() == [0, 0, 2]
        assert not lost.over.any()
        after = pool.step(np.ones(3, int))
        assert not after.lost.any()
        assert after.age.tolist() == [1, 1, 3]
        assert (after.shown[:2, 0] != before.shown[:2, 0]).all()  # other seeds
        assert after.shown[2, 0] == before.shown[2, 0]


@pytest.mark.slow
def test_errors_of_environments_are_raised_here():
    pool = pool_of(DIARY, lanes_of(DIARY, (0, 0), bad="reward"), 2)
    with pytest.raises(ValueError, match="rewards are finite numbers; .*Diary-v0 gave inf: fix"):
        played(pool, np.zeros((3, 2), int))
    pool = pool_of(DIARY, lanes_of(DIARY, (0, 0), ends=None), 2)
    with pytest.raises(RuntimeError, match=r"Diary-v0 raised an error in a worker(.|\n)*step\("):
        played(pool, np.zeros((1, 2), int))


@pytest.mark.slow
def test_a_step_that_takes_too_long_ends_its_worker(monkeypatch, tmp_path):
    """The worker gets stuck once; the time is that of one step, not of all lanes together."""
    monkeypatch.setenv("STUCK", "once")
    monkeypatch.setenv("ONCE", str(tmp_path / "once"))
    name = "gym:tests.runs.stuck_env:deadtime-test/Stuck-v0"
    with limited_steps(1.0), closing(pool_of(name, lanes_of(name, (0, 0)), 1)) as pool:
        pool.reset()
        assert pool.step(np.zeros(2, int)).lost.all()
        assert not pool.step(np.zeros(2, int)).lost.any()


@pytest.mark.slow
def test_environments_of_this_process_alone(capfd):
    """A class that can't be imported, which prints as it is made and as it steps."""

    class Local(gym.Env):
        action_space = spaces.Discrete(2)
        observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)

        def __init__(self):
            os.write(2, b"made\n")

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.low, {}

        def step(self, action):
            print("stepped", flush=True)
            return self.observation_space.low, float(action), False, False, {}

    gym.register("deadtime-test/Local-v0", Local)
    name = "gym:deadtime-test/Local-v0"
    try:
        lanes = lanes_of(name, (0, 0))
        spec = gym.registry["deadtime-test/Local-v0"]
        found = played(pool_of(name, lanes, 2, [spec]), np.ones((1, 2), int))
    finally:
        del gym.registry["deadtime-test/Local-v0"]
    assert found[-1].reward.tolist() == [1.0, 1.0]
    printed = capfd.readouterr().err
    assert printed.count("made") == 1  # by the description; workers do not repeat it
    assert printed.count("stepped") == 2


def test_pools_run_in_processes_if_there_are_many_environments(monkeypatch):
    kinds = []
    monkeypatch.setattr(gym_family, "ProcessPool", lambda *given: kinds.append(len(given[0])))
    monkeypatch.setattr(gym_family, "cores", lambda: 2)
    family = gym_family.GymFamily()
    family.pool(lanes_of("gym:CartPole-v1", [0] * 8), "gym:CartPole-v1")
    family.pool(lanes_of("gym:CartPole-v1", [0] * 7), "gym:CartPole-v1").close()
    monkeypatch.setattr(gym_family, "cores", lambda: 1)
    family.pool(lanes_of("gym:CartPole-v1", [0] * 8), "gym:CartPole-v1").close()
    assert kinds == [8]


def test_a_box_pushes_the_same_as_any_space():
    """The fast way of a Box of floats, against the way of all spaces."""
    from deadtime.delays.pending import PendingActions

    rng = np.random.default_rng(0)
    for shape in ((), (2,), (2, 3)):
        fast, slow = (PendingActions(spaces.Box(-1, 1, shape), 3) for _ in range(2))
        for queue in (fast, slow):
            queue.fill(np.zeros((3, *shape), np.float32))
        for age in (None, 0, 3, 1):
            action = rng.normal(size=shape).astype(np.float32)
            one, other = fast.push(action, age), slow._push_any(action, age)
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert not np.shares_memory(one[0], one[1])
        for wrong in (np.full(shape, np.nan, np.float32), np.zeros((7,), np.float32), "no"):
            with pytest.raises(ValueError, match="an action must lie in the action space"):
                fast.push(wrong)
        assert fast.push(np.full(shape, np.inf), 0)[0].dtype == np.float32
