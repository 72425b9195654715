import copy

import gymnasium as gym
import numpy as np
import pytest
from echo import EchoEnv
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime import (
    ActionDelay,
    AugmentObservation,
    ObservationDelay,
    VectorActionDelay,
    VectorAugmentObservation,
    VectorObservationDelay,
)
from deadtime.delays import GilbertElliott, PerEpisode, RandomWalk, Trace, Uniform

MODES = list(AutoresetMode)
KEYS = ("pending_actions", "pending_count", "action_age", "observation_age")
lengths_of_three = st.lists(
    st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=3, max_size=3
)


def vector(lengths, mode, **settings):
    return gym.vector.SyncVectorEnv(
        [lambda own=own: EchoEnv(own, **settings) for own in lengths], autoreset_mode=mode
    )


def leaf_rows(tree, row):
    if isinstance(tree, dict):
        return {key: leaf_rows(value, row) for key, value in tree.items()}
    return tree[row]


def same(got, wanted):
    if isinstance(wanted, int):
        wanted, got = np.int64(wanted), np.int64(got)
    assert data_equivalence(wanted, got), (wanted, got)


class Lockstep:
    """Drives a vector environment beside scalar ones that are reset by hand where the vector one
    should reset them.
    """

    def __init__(self, envs, singles, mode, seed):
        self.envs, self.singles, self.mode = envs, singles, mode
        self.obs, self.info = envs.reset(seed=seed)
        self.expected = [single.reset(seed=seed + i) for i, single in enumerate(singles)]
        self.ended = [False] * len(singles)
        self.check()

    def check(self):
        for i, (obs, info) in enumerate(self.expected):
            same(leaf_rows(self.obs, i), obs)
            for key in KEYS:
                assert (key in info) == (key in self.info)
                if key in info:
                    same(leaf_rows(self.info[key], i), info[key])
                    assert self.info["_" + key][i]

    def step(self, actions):
        if self.mode == AutoresetMode.DISABLED and any(self.ended):
            mask = np.array(self.ended)
            self.obs, self.info = self.envs.reset(options={"reset_mask": mask})
            self.expected = [
                s.reset() if end else old
                for s, end, old in zip(self.singles, mask, self.expected, strict=True)
            ]
            self.ended = [False] * len(self.singles)
            self.check()
        self.obs, reward, terminated, truncated, self.info = self.envs.step(actions)
        if self.mode == AutoresetMode.SAME_STEP and "final_info" in self.info:
            for key in {"_" + key for key in KEYS} & set(self.info["final_info"]):
                assert (self.info["final_info"][key] == (terminated | truncated)).all()
        for i, single in enumerate(self.singles):
            if self.mode == AutoresetMode.NEXT_STEP and self.ended[i]:
                self.expected[i], self.ended[i] = single.reset(), False
                assert not self.info.get("_executed_action", np.zeros(3))[i]
                assert (reward[i], terminated[i], truncated[i]) == (0, False, False)
                continue
            obs, wanted, end, cut, info = single.step(int(actions[i]))
            assert (reward[i], terminated[i], truncated[i]) == (wanted, end, cut)
            if "executed_action" in info:
                assert self.info["_executed_action"][i]
                same(int(self.info["executed_action"][i]), info["executed_action"])
                assert self.info["_executed_age"][i]
                same(self.info["executed_age"][i], info["executed_age"])
            self.ended[i], self.expected[i] = end or cut, (obs, info)
            if self.mode == AutoresetMode.SAME_STEP and self.ended[i]:
                same(self.info["final_obs"][i], obs)
                for key in KEYS:
                    if key in info:
                        same(leaf_rows(self.info["final_info"][key], i), info[key])
                        assert self.info["final_info"]["_" + key][i]
                self.expected[i], self.ended[i] = single.reset(), False
        self.check()


PAIRS = {
    "action": (lambda e, m: VectorActionDelay(e, m), lambda e, m: ActionDelay(e, m)),
    "observation": (lambda e, m: VectorObservationDelay(e, m), lambda e, m: ObservationDelay(e, m)),
    "augment": (
        lambda e, m: VectorAugmentObservation(VectorActionDelay(e, m)),
        lambda e, m: AugmentObservation(ActionDelay(e, m)),
    ),
    "augment-flat": (
        lambda e, m: VectorAugmentObservation(VectorActionDelay(e, m), flat=True),
        lambda e, m: AugmentObservation(ActionDelay(e, m), flat=True),
    ),
    "augment-all": (
        lambda e, m: VectorAugmentObservation(
            VectorObservationDelay(VectorActionDelay(e, m), 0), flat=True
        ),
        lambda e, m: AugmentObservation(ObservationDelay(ActionDelay(e, m), 0), flat=True),
    ),
    "both": (
        lambda e, m: VectorObservationDelay(VectorActionDelay(e, m), m + 1),
        lambda e, m: ObservationDelay(ActionDelay(e, m), m + 1),
    ),
}

RANDOM = {
    "uniform": lambda m: Uniform(m // 2, m),
    "drawn-anew": lambda m: Uniform(0, m, in_order=False),
    "walk": lambda m: RandomWalk(0, m),
    "bursts": lambda m: GilbertElliott(0, m, to_bad=0.3, to_good=0.3),
    "episode": lambda m: PerEpisode(Uniform(0, m)),
    "trace": lambda m: Trace([m, 0, m // 2], repeat=True),
    "general-constant": lambda m: Uniform(m, m),
}
RANDOM_PAIRS = {
    "now": (VectorActionDelay, ActionDelay),
    "hindsight": (
        lambda e, p: VectorActionDelay(e, p, observed="hindsight"),
        lambda e, p: ActionDelay(e, p, observed="hindsight"),
    ),
    "never": (
        lambda e, p: VectorActionDelay(e, p, observed="never"),
        lambda e, p: ActionDelay(e, p, observed="never"),
    ),
    "late-rewards": (
        lambda e, p: VectorObservationDelay(e, p, rewards="observation"),
        lambda e, p: ObservationDelay(e, p, rewards="observation"),
    ),
    "augment": (
        lambda e, p: VectorAugmentObservation(VectorActionDelay(e, p)),
        lambda e, p: AugmentObservation(ActionDelay(e, p)),
    ),
    "augment-observation": (
        lambda e, p: VectorAugmentObservation(VectorObservationDelay(e, p)),
        lambda e, p: AugmentObservation(ObservationDelay(e, p)),
    ),
    "augment-both": (
        lambda e, p: VectorAugmentObservation(VectorObservationDelay(VectorActionDelay(e, p), p)),
        lambda e, p: AugmentObservation(ObservationDelay(ActionDelay(e, p), p)),
    ),
    "augment-both-flat": (
        lambda e, p: VectorAugmentObservation(
            VectorActionDelay(VectorObservationDelay(e, p, "observation"), p, 1, "hindsight"),
            flat=True,
        ),
        lambda e, p: AugmentObservation(
            ActionDelay(ObservationDelay(e, p, "observation"), p, 1, "hindsight"), flat=True
        ),
    ),
}


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("pair", RANDOM_PAIRS.values(), ids=RANDOM_PAIRS.keys())
@given(
    lengths=lengths_of_three,
    process=st.sampled_from(list(RANDOM.values())),
    longest=st.sampled_from([0, 1, 2, 5]),
    seed=st.integers(0, 9),
    data=st.data(),
)
@settings(deadline=None, max_examples=12)
def test_each_environment_behaves_as_a_scalar_one_with_its_seed(
    pair, mode, lengths, process, longest, seed, data
):
    """Random ages on either channel or on both, with episodes of different lengths."""
    wrap_many, wrap_one = pair
    truncate = data.draw(st.booleans())
    delay = process(longest)
    envs = wrap_many(vector(lengths, mode, truncate=truncate), delay)
    singles = [wrap_one(EchoEnv(own, truncate=truncate), delay) for own in lengths]
    lockstep = Lockstep(envs, singles, mode, seed)
    steps = data.draw(
        st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=25)
    )
    for actions in steps:
        lockstep.step(np.array(actions))


def test_more_ages_than_are_drawn_at_once():
    """Environment i goes on as a scalar one with its seed after hundreds of steps."""
    lengths = [[400], [150], [7]]
    envs = VectorActionDelay(vector(lengths, AutoresetMode.NEXT_STEP), Uniform(0, 4))
    singles = [ActionDelay(EchoEnv(own), Uniform(0, 4)) for own in lengths]
    lockstep = Lockstep(envs, singles, AutoresetMode.NEXT_STEP, 3)
    for t in range(600):
        lockstep.step(np.full(3, t % 7))


@pytest.mark.parametrize("wrapper", [VectorActionDelay, VectorObservationDelay])
def test_a_trace_that_is_too_short(wrapper):
    envs = wrapper(vector([[2], [3]], AutoresetMode.NEXT_STEP), Trace([1, 0, 2]))
    envs.reset()
    for _ in range(12):
        envs.step(np.zeros(2, int))
    envs = wrapper(vector([[2], [4]], AutoresetMode.NEXT_STEP), Trace([1, 0, 2]))
    envs.reset()
    envs.step(np.zeros(2, int))
    envs.step(np.zeros(2, int))
    with pytest.raises(ValueError, match="got a trace of 3 steps and an episode that goes on"):
        envs.step(np.zeros(2, int))


def test_it_is_outermost_and_there_is_one_delay_of_observations():
    envs = vector([[3]], AutoresetMode.NEXT_STEP)
    seen = VectorAugmentObservation(VectorObservationDelay(envs, 1))
    with pytest.raises(ValueError, match="got VectorActionDelay around it: put VectorAugment"):
        VectorActionDelay(seen, 2)
    with pytest.raises(ValueError, match="put VectorAugmentObservation around VectorObservation"):
        VectorObservationDelay(VectorAugmentObservation(VectorActionDelay(envs, 1)), 2)
    with pytest.raises(ValueError, match="on top of Constant.* use a single delay of their sum"):
        VectorObservationDelay(VectorObservationDelay(envs, 1), Uniform(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
@given(
    lengths=lengths_of_three,
    delay=st.sampled_from([0, 1, 2, 7]),
    seed=st.integers(0, 9),
    data=st.data(),
)
@settings(deadline=None, max_examples=25)
def test_vector_equals_scalar_with_episodes_of_different_lengths(
    pair, mode, lengths, delay, seed, data
):
    """Observations, rewards, ends, executed and pending actions, final observations: as many scalar
    environments would give.
    """
    wrap_many, wrap_one = pair
    truncate = data.draw(st.booleans())
    envs = wrap_many(vector(lengths, mode, truncate=truncate), delay)
    singles = [wrap_one(EchoEnv(own, truncate=truncate), delay) for own in lengths]
    lockstep = Lockstep(envs, singles, mode, seed)
    steps = data.draw(
        st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=25)
    )
    for actions in steps:
        lockstep.step(np.array(actions))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_no_action_leaks_into_the_next_episode(mode):
    """Action 6 is chosen only in the first episode, of three steps: the second one must never
    execute it.
    """
    envs = VectorActionDelay(vector([[3, 100]], mode), 5, warmup=0)
    envs.reset()
    for _ in range(3):
        envs.step(np.array([6]))
    if mode == AutoresetMode.DISABLED:
        envs.reset(options={"reset_mask": np.array([True])})
    for _ in range(20):
        envs.step(np.array([1]))
    first, second = envs.env.envs[0].executed
    assert first == [0, 0, 0]
    assert set(second[:5]) == {0}
    assert set(second[5:]) == {1}


def test_structured_actions_and_warmup_from_each_observation():
    space = spaces.Dict(speed=spaces.Box(-1, 1, (2,), np.float32), turn=spaces.Discrete(3))

    def warmup(obs, delay, rng):
        assert obs.shape == (2,)
        return [{"speed": np.full(2, 0.25), "turn": 2}] * delay

    envs = VectorActionDelay(
        vector([[4], [6]], AutoresetMode.NEXT_STEP, action_space=space), 2, warmup
    )
    _, info = envs.reset(seed=0)
    assert info["pending_actions"]["speed"].shape == (2, 2, 2)
    assert info["pending_actions"]["turn"].tolist() == [[2, 2], [2, 2]]
    for t in range(4):
        action = {"speed": np.full((2, 2), t / 10, np.float32), "turn": np.array([t % 3, 0])}
        _, _, _, _, info = envs.step(action)
    assert info["executed_action"]["turn"].tolist() == [1, 0]
    np.testing.assert_allclose(info["executed_action"]["speed"], 0.1)


@pytest.mark.parametrize("wrap", [pair[0] for pair in PAIRS.values()], ids=PAIRS.keys())
@pytest.mark.parametrize("name", ["CartPole-v1", "deadtime/Maze-v0"])
def test_observations_lie_in_the_space_and_copies_go_on_alike(wrap, name):
    envs = wrap(gym.vector.SyncVectorEnv([lambda: gym.make(name)] * 3), 3)
    obs, _ = envs.reset(seed=0)
    assert obs in envs.observation_space
    for action in np.random.default_rng(0).integers(0, 2, (30, 3)):
        obs, *_ = envs.step(action)
        assert obs in envs.observation_space
    twin = copy.deepcopy(envs)
    same(twin.step(np.array([0, 1, 0])), envs.step(np.array([0, 1, 0])))


def test_gymnasiums_own_batched_cartpole():
    """An environment without sub-environments: episodes end, queues are redrawn, nothing else
    changes.
    """
    envs = VectorActionDelay(
        gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="vector_entry_point"),
        2,
        warmup=1,
    )
    envs.reset(seed=0)
    ended = np.zeros(4, bool)
    episodes = 0
    for _ in range(60):
        _, _, terminated, truncated, info = envs.step(np.zeros(4, int))
        assert (info["pending_actions"][ended] == 1).all()
        assert (info["_executed_action"] == ~ended).all()
        ended = terminated | truncated
        episodes += ended.sum()
    assert episodes > 8


def test_a_single_environment_needs_the_scalar_version():
    for wrapper in (
        lambda e: VectorActionDelay(e, 1),
        lambda e: VectorObservationDelay(e, 1),
        VectorAugmentObservation,
    ):
        with pytest.raises(ValueError, match=r"wraps a gymnasium.vector.VectorEnv; got .*: use "):
            wrapper(EchoEnv())


def test_unknown_autoreset_mode():
    envs = vector([[3]], AutoresetMode.NEXT_STEP)
    envs.metadata = {}
    del envs.autoreset_mode
    with pytest.raises(
        ValueError, match=r"must know when episodes restart; .* is None: set it to one of"
    ):
        VectorActionDelay(envs, 1)


def test_needs_a_queue():
    with pytest.raises(ValueError, match="none inside it"):
        VectorAugmentObservation(vector([[3]], AutoresetMode.NEXT_STEP))


def test_bad_delay_and_actions():
    with pytest.raises(ValueError, match="delay is a whole number"):
        VectorObservationDelay(vector([[3]], AutoresetMode.NEXT_STEP), -1)
    envs = VectorActionDelay(vector([[3], [3]], AutoresetMode.NEXT_STEP), 1)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match="must lie in the action space"):
        envs.step(np.array([0, 7]))


def test_two_delays_on_one_environment_are_refused():
    once = VectorObservationDelay(VectorActionDelay(vector([[3]], AutoresetMode.NEXT_STEP), 2), 1)
    with pytest.raises(
        ValueError, match="got a delay of 3 on top of one of 2: use a single delay of their sum"
    ):
        VectorActionDelay(once, 3)


@pytest.mark.parametrize("wrapper", [VectorActionDelay, VectorObservationDelay])
def test_delay_is_read_only(wrapper):
    envs = wrapper(vector([[3]], AutoresetMode.NEXT_STEP), 4)
    with pytest.raises(AttributeError) as error:
        envs.delay = 5
    assert str(error.value) == (
        f"the delay of {wrapper.__name__} is fixed when it is made; got 5 after that: wrap the "
        "environment anew with that delay"
    )
    assert envs.delay == 4
    augmented = VectorAugmentObservation(
        VectorActionDelay(vector([[3]], AutoresetMode.NEXT_STEP), 4)
    )
    with pytest.raises(
        AttributeError, match="the delay of VectorAugmentObservation is fixed when it is made"
    ):
        augmented.delay = 5
    assert augmented.delay == 4


def test_queues_and_histories_that_do_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr("deadtime.delays.convention.free_memory", lambda: 1e9)
    envs = vector([[3]] * 4, AutoresetMode.NEXT_STEP)
    with pytest.raises(
        ValueError,
        match="queue of pending actions must fit in memory; got a delay of 5000000, .* 2.0 GB",
    ):
        VectorActionDelay(envs, 5_000_000)
    with pytest.raises(
        ValueError,
        match="history of observations must fit in memory; got a delay of 30000000, .* 1.9 GB",
    ):
        VectorObservationDelay(envs, 30_000_000)


def test_observations_that_are_no_arrays():
    class Talking(EchoEnv):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Text(5)

    with pytest.raises(
        ValueError, match="got Text.*: put ObservationDelay on each environment instead"
    ):
        VectorObservationDelay(gym.vector.SyncVectorEnv([Talking]), 1)


def test_unseeded_queues_differ_between_environments_and_from_what_the_agent_samples():
    envs = VectorActionDelay(
        vector([[9]] * 4, AutoresetMode.NEXT_STEP, action_space=spaces.Box(-1, 1, (1,))), 8
    )
    queues = envs.reset()[1]["pending_actions"]
    assert len({queue.tobytes() for queue in queues}) == 4
    one = ActionDelay(EchoEnv(action_space=spaces.Box(-1, 1, (1,))), 3)
    assert one.reset()[1]["pending_actions"].ravel().tolist() != [
        float(one.action_space.sample()[0]) for _ in range(3)
    ]


def test_another_vector_environment_of_the_same_class_changes_nothing():
    """Gymnasium keeps the autoreset mode in a dict that all environments of a class share."""
    first = vector([[3, 100]], AutoresetMode.SAME_STEP)
    vector([[3, 100]], AutoresetMode.DISABLED)
    envs = VectorActionDelay(first, 5, warmup=0)
    envs.reset()
    for t in range(12):
        envs.step(np.array([6 if t < 3 else 1]))
    assert 6 not in first.envs[0].executed[1]


class Labelled(EchoEnv):
    """Observations in a Dict whose keys are not in alphabetical order."""

    def __init__(self, lengths=(3,)):
        super().__init__(lengths)
        self.observation_space = spaces.Dict(
            step=spaces.Discrete(1000), episode=spaces.Box(-1, 1e6, (1,), np.float64)
        )

    def _obs(self):
        return {"step": np.int64(self.time), "episode": np.array([self.episode], np.float64)}


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_dict_observations_in_any_order_of_keys(mode):
    envs = gym.vector.SyncVectorEnv(
        [lambda n=n: Labelled((n,)) for n in (2, 3, 5)], autoreset_mode=mode
    )
    lockstep = Lockstep(
        VectorObservationDelay(envs, 1),
        [ObservationDelay(Labelled((n,)), 1) for n in (2, 3, 5)],
        mode,
        0,
    )
    for _ in range(12):
        lockstep.step(np.zeros(3, int))


def test_a_reset_mask_that_the_environment_ignores_is_refused():
    envs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    for wrapped in (VectorActionDelay(envs, 2), VectorObservationDelay(envs, 2)):
        wrapped.reset(seed=0)
        with pytest.raises(ValueError, match="ignores it; got .*: reset all, or use SyncVectorEnv"):
            wrapped.reset(options={"reset_mask": np.array([True, False])})


def test_a_reset_by_hand_after_the_end_counts_once():
    """NEXT_STEP: the environment that was reset by hand goes on; the one that was not is reset by
    the next step.
    """
    envs = VectorActionDelay(vector([[2, 9], [2, 9]], AutoresetMode.NEXT_STEP), 3, warmup=0)
    envs.reset()
    for _ in range(2):
        envs.step(np.array([1, 1]))
    envs.reset(options={"reset_mask": np.array([True, False])})
    info = envs.step(np.array([5, 5]))[-1]
    assert info["pending_actions"].tolist() == [[0, 0, 5], [0, 0, 0]]
    assert info["_executed_action"].tolist() == [True, False]


def test_lists_of_seeds():
    envs = VectorActionDelay(vector([[9]] * 3, AutoresetMode.DISABLED), 6)
    singles = [ActionDelay(EchoEnv((9,)), 6) for _ in range(3)]
    envs.reset(seed=0)
    for i, single in enumerate(singles):
        single.reset(seed=i)
    queues = envs.reset(seed=[5, None, 7])[1]["pending_actions"]
    for queue, single, seed in zip(queues, singles, [5, None, 7], strict=True):
        assert queue.tolist() == single.reset(seed=seed)[1]["pending_actions"].tolist()
    queues = envs.reset(seed=[1, 2, 3], options={"reset_mask": np.array([True, False, False])})[1][
        "pending_actions"
    ]
    assert queues[0].tolist() == singles[0].reset(seed=1)[1]["pending_actions"].tolist()
    queues = envs.reset()[1]["pending_actions"]
    for queue, single in zip(queues, singles, strict=True):
        assert queue.tolist() == single.reset()[1]["pending_actions"].tolist(), (
            "a masked reset seeds only what it resets"
        )


def test_each_warmup_sees_its_own_observation():
    envs = VectorActionDelay(
        vector([[1, 9], [9]], AutoresetMode.NEXT_STEP), 2, lambda obs, m, rng: [int(obs[0])] * m
    )
    envs.reset()
    envs.step(np.array([5, 5]))
    info = envs.step(np.array([5, 5]))[-1]
    assert info["pending_actions"].tolist() == [[1, 1], [5, 5]], (
        "the second episode of the first, the first of the second"
    )
