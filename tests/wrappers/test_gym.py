import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from echo import EchoEnv
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime import ActionDelay, AugmentObservation, ObservationDelay

DELAYS = [0, 1, 2, 7]


@pytest.mark.slow
@given(
    st.sampled_from(DELAYS),
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.lists(st.integers(0, 6), min_size=1, max_size=60),
    st.integers(0, 5),
)
@settings(deadline=None)
def test_executed_is_chosen_m_steps_before_across_resets(delay, lengths, chosen, seed):
    inner = EchoEnv(lengths)
    env = ActionDelay(inner, delay)
    _, info = env.reset(seed=seed)
    due = [info["pending_actions"].tolist()]
    for action in chosen:
        due[-1].append(action)
        _, _, terminated, truncated, info = env.step(action)
        t = len(inner.executed[-1]) - 1
        assert info["executed_action"] == due[-1][t] == inner.executed[-1][t]
        assert info["pending_actions"].tolist() == due[-1][t + 1 :]
        if terminated or truncated:
            _, info = env.reset()
            due.append(info["pending_actions"].tolist())
            assert len(due[-1]) == delay
    for planned, executed in zip(due, inner.executed, strict=True):
        assert planned[: len(executed)] == executed


@pytest.mark.parametrize("delay", DELAYS)
def test_warmups(delay):
    assert (
        ActionDelay(EchoEnv(), delay, warmup=3).reset()[1]["pending_actions"].tolist()
        == [3] * delay
    )

    def from_observation(obs, m, rng):
        assert isinstance(rng, np.random.Generator)
        return [(int(obs[1]) + i) % 7 for i in range(m)]

    env = ActionDelay(EchoEnv(), delay, warmup=from_observation)
    assert env.reset()[1]["pending_actions"].tolist() == [i % 7 for i in range(delay)]


def test_seed_decides_the_warmup_and_later_episodes():
    def queues(seed):
        env = ActionDelay(EchoEnv(), 8)
        return [
            env.reset(seed=seed)[1]["pending_actions"].tolist(),
            env.reset()[1]["pending_actions"].tolist(),
        ]

    assert queues(1) == queues(1)
    assert queues(1) != queues(2)
    assert queues(1)[0] != queues(1)[1]


@pytest.mark.slow
@given(
    st.sampled_from(DELAYS),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.integers(1, 40),
)
@settings(deadline=None)
def test_observation_is_that_of_k_steps_ago_and_the_reset_before(delay, lengths, steps):
    env = ObservationDelay(EchoEnv(lengths), delay)
    obs, info = env.reset()
    episode, t = 0, 0
    for _ in range(steps + 1):
        assert obs.tolist() == [episode, max(t - delay, 0)]
        assert info["observation_age"] == min(t, delay)
        obs, reward, terminated, _, info = env.step(0)
        t += 1
        assert reward == t, "rewards are not delayed"
        if terminated:
            obs, info = env.reset()
            episode, t = episode + 1, 0


class ReusingEnv(EchoEnv):
    """Returns the same array each time, written anew."""

    def _obs(self):
        self.buffer = getattr(self, "buffer", np.zeros(2))
        self.buffer[:] = super()._obs()
        return self.buffer


def test_observation_delay_with_an_environment_that_reuses_its_array():
    env = ObservationDelay(ReusingEnv(), 2)
    env.reset()
    assert [env.step(0)[0][1] for _ in range(5)] == [0, 0, 1, 2, 3]


class TestAugmentObservation:
    def test_dict(self):
        env = AugmentObservation(ActionDelay(EchoEnv(), 3, warmup=2))
        obs, _ = env.reset()
        assert obs["pending_actions"].tolist() == [2, 2, 2]
        obs, *_ = env.step(5)
        assert obs["observation"].tolist() == [0, 1]
        assert obs["pending_actions"].tolist() == [2, 2, 5]
        assert env.observation_space.contains(obs)

    def test_flat_is_observation_then_one_hot_queue(self):
        env = AugmentObservation(
            ActionDelay(EchoEnv(action_space=spaces.Discrete(3, start=1)), 2, warmup=1), flat=True
        )
        env.reset()
        obs, *_ = env.step(3)
        np.testing.assert_array_equal(obs, [0, 1, 1, 0, 0, 0, 0, 1])
        assert env.observation_space.contains(obs)

    def test_flat_with_structured_actions(self):
        space = spaces.Dict(
            speed=spaces.Box(-1, 1, (2,), np.float32), turn=spaces.MultiDiscrete([2, 3])
        )
        env = AugmentObservation(
            ActionDelay(
                EchoEnv(action_space=space), 2, warmup={"speed": np.zeros(2), "turn": [0, 0]}
            ),
            flat=True,
        )
        env.reset()
        obs, *_ = env.step({"speed": np.array([0.5, -0.5], np.float32), "turn": np.array([1, 2])})
        np.testing.assert_array_equal(obs, [0, 1, 0, 0, 1, 0, 1, 0, 0, 0.5, -0.5, 0, 1, 0, 0, 1])
        assert env.observation_space.contains(obs)

    def test_at_delay_0_it_is_the_observation(self):
        env = AugmentObservation(ActionDelay(EchoEnv(), 0), flat=True)
        np.testing.assert_array_equal(env.reset()[0], [0, 0])

    def test_needs_a_queue(self):
        with pytest.raises(
            ValueError,
            match=r"none inside it: write AugmentObservation\(ActionDelay\(env, delay\)\)",
        ):
            AugmentObservation(EchoEnv())

    def test_single_precision_unless_the_observation_is_double(self):
        assert (
            AugmentObservation(ActionDelay(EchoEnv(), 1), flat=True).observation_space.dtype
            == np.float64
        )
        assert (
            AugmentObservation(
                ActionDelay(gym.make("CartPole-v1"), 1), flat=True
            ).observation_space.dtype
            == np.float32
        )


WRAPPED = {
    "action": lambda env: ActionDelay(env, 4),
    "observation": lambda env: ObservationDelay(env, 4),
    "augment": lambda env: AugmentObservation(ActionDelay(env, 4)),
    "augment-flat": lambda env: AugmentObservation(ActionDelay(env, 4), flat=True),
}
ENVIRONMENTS = [
    "CartPole-v1",
    "Pendulum-v1",
    "deadtime/Maze-v0",
    "deadtime/NoisyCartPole-v1",
    "deadtime/NoisyAcrobot-v1",
]


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED.keys())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_check_env(name, wrap):
    env = wrap(gym.make(name))
    check_env(env, skip_render_check=True)
    assert env.reset(seed=0)[0] in env.observation_space


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED.keys())
def test_the_spec_makes_the_same_environment(wrap):
    env = wrap(gym.make("CartPole-v1"))
    again = gym.make(env.spec)
    assert type(again) is type(env)
    _same_episode(env, again)


def test_registered_with_a_delay():
    gym.register("test/Delayed-v0", "gymnasium.envs.classic_control:CartPoleEnv",
                 additional_wrappers=(ActionDelay.wrapper_spec(delay=3, warmup=1),))  # fmt: skip
    assert gym.make("test/Delayed-v0").reset()[1]["pending_actions"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED.keys())
@pytest.mark.parametrize(
    "twin", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize("name", ["CartPole-v1", "deadtime/Maze-v0"])
def test_a_copy_in_mid_episode_goes_on_alike(name, wrap, twin):
    env = wrap(gym.make(name))
    env.reset(seed=5)
    for action in [0, 1, 1, 0]:
        env.step(action)
    _same_steps(env, twin(env))


def _same_episode(first, second):
    a, b = first.reset(seed=9), second.reset(seed=9)
    _equal(a, b)
    _same_steps(first, second)


def _same_steps(first, second):
    for action in [1, 0, 0, 1, 0, 1]:
        _equal(first.step(action), second.step(action))


def _equal(a, b):
    assert gym.utils.env_checker.data_equivalence(a, b), (a, b)


@pytest.mark.slow
def test_in_async_vector_environments():
    def make():
        return ActionDelay(gym.make("CartPole-v1"), 3)

    apart, together = (
        gym.vector.AsyncVectorEnv([make] * 2, context="spawn"),
        gym.vector.SyncVectorEnv([make] * 2),
    )
    try:
        _equal(apart.reset(seed=1), together.reset(seed=1))
        for action in np.random.default_rng(0).integers(0, 2, (40, 2)):
            _equal(apart.step(action), together.step(action))
    finally:
        apart.close()


@pytest.mark.slow
def test_recording_wrappers(tmp_path):
    env = gym.wrappers.RecordEpisodeStatistics(
        ActionDelay(gym.make("CartPole-v1", render_mode="rgb_array"), 3)
    )
    env = gym.wrappers.RecordVideo(env, str(tmp_path), disable_logger=True)
    env.reset(seed=0)
    ended, steps = False, 0
    while not ended:
        *_, ended, _, info = env.step(steps % 2)
        steps += 1
    env.close()
    assert info["episode"]["l"] == steps
    assert list(tmp_path.glob("*.mp4"))


def test_rendering_passes_through():
    env = ObservationDelay(ActionDelay(EchoEnv(render_mode="rgb_array"), 2), 2)
    env.reset()
    env.step(0)
    assert env.render_mode == "rgb_array"
    assert (env.render() == 1).all()


@pytest.mark.parametrize("wrapper", [ActionDelay, ObservationDelay])
@pytest.mark.parametrize("delay", [-1, 2.5])
def test_bad_delay(wrapper, delay):
    with pytest.raises(ValueError, match="delay is a whole number of steps"):
        wrapper(EchoEnv(), delay)


@pytest.mark.parametrize(
    "wrapper", [lambda e: ActionDelay(e, 1), lambda e: ObservationDelay(e, 1), AugmentObservation]
)
def test_a_vector_environment_needs_the_vector_version(wrapper):
    with pytest.raises(
        ValueError, match="wraps one environment; got the vector environment .*: use Vector"
    ):
        wrapper(gym.vector.SyncVectorEnv([EchoEnv]))


def test_two_delays_on_one_environment_are_refused():
    with pytest.raises(
        ValueError, match="got a delay of 3 on top of one of 2: use a single delay of their sum"
    ):
        ActionDelay(ObservationDelay(ActionDelay(EchoEnv(), 2), 1), 3)


def test_the_environments_own_info_is_left_alone():
    class Informed(EchoEnv):
        def __init__(self):
            super().__init__()
            self.info = {}

        def step(self, action):
            return *super().step(action)[:4], self.info

    env = ActionDelay(Informed(), 2)
    env.reset()
    env.step(0)
    assert env.unwrapped.info == {}


def test_a_spec_with_numpy_numbers_can_be_saved():
    assert "ActionDelay" in ActionDelay(gym.make("CartPole-v1"), np.int64(3)).spec.to_json()


@pytest.mark.parametrize("wrapper", [ActionDelay, ObservationDelay])
def test_delay_is_read_only(wrapper):
    env = wrapper(EchoEnv(), 4)
    with pytest.raises(AttributeError) as error:
        env.delay = 5
    assert str(error.value) == (
        f"the delay of {wrapper.__name__} is fixed when it is made; got 5 after that: wrap the "
        "environment anew with that delay"
    )
    assert env.delay == 4


def test_the_delay_of_an_augmented_environment_is_read_only():
    env = AugmentObservation(ActionDelay(EchoEnv(), 4))
    assert env.delay == 4
    with pytest.raises(
        AttributeError,
        match="the delay of AugmentObservation is fixed when it is made; got 5 after that",
    ):
        env.delay = 5
    assert env.delay == 4


def test_a_queue_that_does_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr("deadtime.delays.convention.free_memory", lambda: 1e9)
    with pytest.raises(
        ValueError,
        match="queue of pending actions must fit in memory; got a delay of 30000000, which needs 3",
    ):
        ActionDelay(EchoEnv(), 30_000_000)


@pytest.mark.parametrize("wrapper", [lambda e: ActionDelay(e, 1), lambda e: ObservationDelay(e, 1)])
def test_hidden_resets_are_refused(wrapper):
    with pytest.raises(
        ValueError, match="must see every reset, and .* hides them: put Autoreset around"
    ):
        wrapper(gym.wrappers.Autoreset(EchoEnv()))


def test_a_shown_observation_can_be_written_to():
    env = ObservationDelay(EchoEnv(), 2)
    obs, _ = env.reset()
    obs[:] = 99
    assert env.step(0)[0].tolist() == [0, 0]
