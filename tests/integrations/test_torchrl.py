"""TorchRL's transforms against the Gymnasium wrappers, and TorchRL's own checks."""

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torchrl", reason="needs pip install '.[torchrl]'")
pytestmark = pytest.mark.full

import torch
from torchrl.envs import (
    Compose,
    GymEnv,
    ParallelEnv,
    RenameTransform,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.envs.utils import check_env_specs

from deadtime import ActionDelay as GymActionDelay
from deadtime import ObservationDelay as GymObservationDelay
from deadtime.delays import Constant, Held, PerEpisode, RandomWalk, Trace, Uniform
from deadtime.integrations.torchrl import ActionDelay, ObservationDelay, executed_actions

PROCESSES = [Constant(0), Constant(3), Uniform(1, 3), Held(0, 2), PerEpisode(Uniform(1, 3))]
NAMES = ["CartPole-v1", "Pendulum-v1"]


def made(name, *transforms, count=None):
    base = GymEnv(name) if count is None else SerialEnv(count, lambda: GymEnv(name))
    return TransformedEnv(base, Compose(*transforms))


@pytest.mark.parametrize("count", [None, 3])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_specs_are_those_of_the_data(process, name, count):
    check_env_specs(made(name, ActionDelay(process), count=count))
    check_env_specs(made(name, ObservationDelay(process), count=count))
    check_env_specs(made(name, ActionDelay(process), ObservationDelay(process), count=count))


@pytest.mark.parametrize("observed", ["now", "hindsight", "never"])
def test_specs_say_what_is_observed(observed):
    env = made("CartPole-v1", ActionDelay(Uniform(1, 3), observed=observed))
    check_env_specs(env)
    data = env.rollout(20)
    assert ("action_age" in data) == (observed != "never")
    read = data["next", "executed_age"]
    if observed == "now":
        assert (data["action_age"] == read).all()
    if observed == "hindsight":
        assert (data["next", "action_age"] == read).all()
        assert data["action_age"][0] == -1


def test_parallel_environments_take_delays_inside_and_outside():
    def inside():
        return made("CartPole-v1", ActionDelay(Uniform(0, 3)))

    env = ParallelEnv(2, inside)
    check_env_specs(env)
    env.close()
    outside = TransformedEnv(ParallelEnv(2, lambda: GymEnv("CartPole-v1")), ActionDelay(2))
    check_env_specs(outside)
    outside.close()


@pytest.mark.parametrize("ages", [[3], [1, 2, 3, 2, 0, 1]])
def test_a_rollout_is_the_wrappers_(ages):
    """The same ages, actions and first state: the same states, rewards and queues."""
    trace = Trace(ages, repeat=True)
    half = np.array([0.5], np.float32)
    wrapped = GymActionDelay(gym.make("Pendulum-v1"), trace, warmup=half)
    wrapped = GymObservationDelay(wrapped, trace)
    obs, info = wrapped.reset(seed=4)
    env = made("Pendulum-v1", ActionDelay(trace, warmup=0.5), ObservationDelay(trace))
    env.base_env._env.reset(seed=4)
    kept = env.base_env._env.unwrapped.state.copy()
    data = env.reset()
    env.base_env._env.unwrapped.state = kept
    rng = np.random.default_rng(0)
    for t in range(25):
        action = rng.uniform(-2, 2, 1).astype(np.float32)
        obs, reward, _, _, info = wrapped.step(action)
        data = env.step(data.set("action", torch.from_numpy(action)))
        np.testing.assert_array_equal(executed_actions(data), info["executed_action"])
        data = data["next"]
        np.testing.assert_array_equal(data["pending_actions"], info["pending_actions"])
        assert data["observation_age"].item() == info["observation_age"]
        assert data["reward"].item() == pytest.approx(reward, abs=1e-5)
        if t >= max(ages):
            np.testing.assert_allclose(data["observation"], obs, atol=1e-5)


@pytest.mark.parametrize("process", PROCESSES[1:], ids=str)
def test_batches_restart_by_their_masks(process):
    """Every executed action and observation, against a search of the log."""
    env = made("CartPole-v1", StepCounter(7), ActionDelay(process), count=3)
    env.append_transform(RenameTransform(["observation"], ["present"], create_copy=True))
    env.append_transform(ObservationDelay(process))
    torch.manual_seed(0)
    data = env.rollout(60, break_when_any_done=False)
    executed = executed_actions(data)
    depth = process.longest
    for lane in range(3):
        start = 0
        for t in range(60):
            if t and data["next", "done"][lane, t - 1]:
                start = t
            age = depth if process.constant is not None else data["next", "executed_age"][lane, t]
            if t - age >= start:
                assert (executed[lane, t] == data["action"][lane, t - int(age)]).all()
            late = data["observation_age"][lane, t].item()
            assert late <= t - start
            assert (data["observation"][lane, t] == data["present"][lane, t - late]).all()
            queue = data["pending_actions"][lane, t]
            for i in range(depth):
                if t - depth + i >= start:
                    assert (queue[i] == data["action"][lane, t - depth + i]).all()
    assert data["next", "done"].sum() > 6


def test_ages_of_the_batch_are_independent():
    env = made("CartPole-v1", ActionDelay(RandomWalk(0, 4)), count=4)
    ages = env.rollout(30, break_when_any_done=False)["action_age"].squeeze(-1)
    assert len({tuple(row.tolist()) for row in ages}) == 4


def test_what_can_not_be_done_is_refused():
    with pytest.raises(ValueError, match='pass "now"'):
        ActionDelay(2, observed="later")
    env = made("CartPole-v1", ActionDelay(2))
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(env.fake_tensordict().exclude("next"))
    with pytest.raises(ValueError, match="repeat=True"):
        made("CartPole-v1", ActionDelay(Trace([1, 2]))).reset()
