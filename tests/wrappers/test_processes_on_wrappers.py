"""Delay processes on actions, on observations and on both, for one environment."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from echo import EchoEnv
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env, data_equivalence
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime import ActionDelay, AugmentObservation, ObservationDelay
from deadtime.delays import (
    AgeStream,
    Buffered,
    Categorical,
    Constant,
    GilbertElliott,
    Held,
    PerEpisode,
    RandomWalk,
    Trace,
    Uniform,
)

PROCESSES = [
    Uniform(2, 6),
    Uniform(0, 3, in_order=False),
    Categorical([0, 0.5, 0, 0.5]),
    RandomWalk(0, 4),
    GilbertElliott(1, 4, to_bad=0.2, to_good=0.3),
    PerEpisode(Uniform(0, 3)),
    Trace([2, 0, 1, 3], repeat=True),
    Held(1, 3, hold=0.25, period=2),
    Buffered(Uniform(0, 2), 3),
    Constant(2),
]
lengths_of_episodes = st.lists(st.integers(1, 12), min_size=1, max_size=5)


@given(
    st.sampled_from(PROCESSES),
    st.sampled_from(["now", "hindsight", "never"]),
    lengths_of_episodes,
    st.lists(st.integers(0, 6), min_size=1, max_size=60),
    st.integers(0, 5),
)
@settings(deadline=None)
def test_a_step_executes_the_action_of_its_age_across_resets(
    process, observed, lengths, chosen, seed
):
    inner, longest = EchoEnv(lengths), process.longest
    env = ActionDelay(inner, process, observed=observed)
    assert env.delay == longest
    _, info = env.reset(seed=seed)
    actions, ages = info["pending_actions"].tolist(), [info.get("action_age")]
    assert len(actions) == longest
    for action in chosen:
        actions.append(action)
        _, _, terminated, _, info = env.step(action)
        t, age = len(inner.executed[-1]) - 1, info["executed_age"]
        assert 0 <= age <= longest
        assert info["executed_action"] == inner.executed[-1][t] == actions[longest + t - age]
        assert info["pending_actions"].tolist() == actions[t + 1 :]
        if observed == "now":
            assert age == ages[-1], "the age was known before the action was chosen"
        if observed == "hindsight":
            assert info["action_age"] == age
        assert ("action_age" in info) == (observed != "never")
        ages.append(info.get("action_age"))
        if terminated:
            _, info = env.reset()
            actions, ages = info["pending_actions"].tolist(), [info.get("action_age")]


@given(st.sampled_from(PROCESSES), st.integers(0, 99), st.sampled_from(["now", "hindsight"]))
@settings(deadline=None)
def test_an_action_that_is_not_counted_as_pending_is_never_executed(process, seed, observed):
    inner = EchoEnv((60,), spaces.Discrete(100))
    env = ActionDelay(inner, process, warmup=0, observed=observed)
    _, info = env.reset(seed=seed)
    for t in range(1, 40):
        count = info["pending_count"]
        assert 0 <= count <= process.longest
        if observed == "now":
            assert info["action_age"] <= count
        oldest = t - count  # the action chosen at step `oldest - 1` is the oldest that may come
        _, _, _, _, info = env.step(t)
        assert inner.executed[-1][-1] >= min(oldest, t)


@given(st.sampled_from(PROCESSES), lengths_of_episodes, st.integers(1, 50), st.integers(0, 9))
@settings(deadline=None)
def test_an_observation_is_of_its_age_and_the_first_of_age_0(process, lengths, steps, seed):
    env = ObservationDelay(EchoEnv(lengths), process)
    obs, info = env.reset(seed=seed)
    ages = AgeStream(process, 2)
    ages.seed(seed)
    ages.start()
    episode, t = 0, 0
    assert info["observation_age"] == 0
    for _ in range(steps):
        assert obs.tolist() == [episode, t - info["observation_age"]]
        obs, reward, terminated, _, info = env.step(0)
        t += 1
        assert reward == t, "rewards are not delayed"
        assert info["observation_age"] == min(ages.advance(terminated), t)
        if terminated:
            assert obs.tolist() == [episode, t - info["observation_age"]]
            obs, info = env.reset()
            ages.start()
            episode, t = episode + 1, 0
            assert info["observation_age"] == 0


@given(st.sampled_from(PROCESSES), st.integers(1, 20), st.integers(0, 9))
@settings(deadline=None)
def test_rewards_come_with_the_observation_they_led_to(process, length, seed):
    """Reward t is the number t; it is paid once observation t or a newer one is shown."""
    env = ObservationDelay(EchoEnv((length,)), process, rewards="observation")
    env.reset(seed=seed)
    paid = newest = 0
    for t in range(1, length + 1):
        obs, reward, terminated, _, _ = env.step(0)
        newest = t if terminated else max(newest, int(obs[1]))
        paid += reward
        assert paid == newest * (newest + 1) / 2
    assert terminated
    assert paid == length * (length + 1) / 2, "the last step pays the rest"


def test_rewards_of_a_constant_delay():
    env = ObservationDelay(EchoEnv((6,)), 2, rewards="observation")
    env.reset()
    assert [env.step(0)[1] for _ in range(6)] == [0, 0, 1, 2, 3, 4 + 5 + 6]
    env.reset()
    assert env.step(0)[1] == 0, "a new episode owes nothing of the one before"


def test_the_end_of_an_episode_is_never_delayed():
    for truncate in (False, True):
        env = ObservationDelay(ActionDelay(EchoEnv((3,), truncate=truncate), 2), Uniform(4, 6))
        env.reset()
        ends = [env.step(0)[2:4] for _ in range(3)]
        assert ends == [(False, False)] * 2 + [(not truncate, truncate)]


GENERAL = [Uniform(5, 5), RandomWalk(5, 5), PerEpisode(5), Trace([5], repeat=True), Held(5, 5)]


@pytest.mark.parametrize("general", GENERAL, ids=repr)
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_a_constant_through_the_general_path_is_the_constant_bit_for_bit(general, name):
    def run(delay):
        env = AugmentObservation(
            ObservationDelay(ActionDelay(gym.make(name), delay), delay, rewards="observation"),
            flat=isinstance(delay, int),
        )
        base = env.env
        calls = [base.reset(seed=3)]
        base.action_space.seed(0)
        for _ in range(40):
            calls.append(base.step(base.action_space.sample()))
            if calls[-1][2] or calls[-1][3]:
                calls.append(base.reset())
        return calls

    assert general.constant is None
    for ours, constant in zip(run(general), run(5), strict=True):
        assert data_equivalence(ours, constant, exact=True)


@pytest.mark.parametrize("make", [Constant, Uniform], ids=["constant", "general"])
@pytest.mark.parametrize("delay", [0, 1, 3])
def test_constant_action_and_observation_delays_are_equivalent(make, delay):
    """With matched warm-up and rewards an agent of either sees the same.

    Execution delayed: a_t is executed at t + m. Observation delayed: the first m actions are given,
    then the agent chooses on late observations, with the rewards that led to them.
    """
    process = make(delay) if make is Constant else make(delay, delay)
    rng = np.random.default_rng(0)
    given, chosen = rng.integers(0, 2, delay).tolist(), rng.integers(0, 2, 9).tolist()
    acting = ActionDelay(gym.make("CartPole-v1"), process, warmup=lambda obs, m, rng: given)
    obs, _ = acting.reset(seed=1)
    first = [(obs, 0.0)]
    first += [acting.step(action)[:2] for action in chosen]
    seeing = ObservationDelay(gym.make("CartPole-v1"), process, rewards="observation")
    obs, _ = seeing.reset(seed=1)
    second = [(obs, 0.0)]
    for t, action in enumerate([*given, *chosen]):
        obs, reward, terminated, _, _ = seeing.step(action)
        assert not terminated
        if t >= delay:
            second.append((obs, reward))
    for (one, paid), (other, also) in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
        assert paid == also


def test_random_action_and_observation_delays_are_not_equivalent():
    """Actions repeat or are overtaken; every observation that is shown follows all actions."""
    ages = Trace([1, 0, 1, 2, 0, 1, 1, 0], repeat=True)
    acting, seeing = EchoEnv(), EchoEnv()
    delayed = ActionDelay(acting, ages, warmup=0)
    delayed.reset()
    late = ObservationDelay(seeing, ages)
    late.reset()
    chosen = [1, 2, 3, 4, 5, 6]
    for action in chosen:
        delayed.step(action)
        late.step(action)
    assert acting.executed[-1] == [0, 2, 2, 2, 5, 5], "some are repeated, 1, 3 and 4 overtaken"
    assert seeing.executed[-1] == chosen


WRAPS = {
    "action": lambda e, p: ActionDelay(e, p),
    "hindsight": lambda e, p: ActionDelay(e, p, observed="hindsight"),
    "observation": lambda e, p: ObservationDelay(e, p, rewards="observation"),
    "both": lambda e, p: ObservationDelay(ActionDelay(e, p), p),
    "augment": lambda e, p: AugmentObservation(ActionDelay(e, p)),
    "augment-observation": lambda e, p: AugmentObservation(ObservationDelay(e, p)),
    "augment-both": lambda e, p: AugmentObservation(ObservationDelay(ActionDelay(e, p), p)),
    "augment-both-flat": lambda e, p: AugmentObservation(
        ActionDelay(ObservationDelay(e, p), p, observed="hindsight"), flat=True
    ),
}


@pytest.mark.parametrize(
    "process", [Uniform(0, 3), PerEpisode(Uniform(0, 2)), Constant(2)], ids=repr
)
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS.keys())
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "deadtime/Maze-v0"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasiums_check(name, wrap, process):
    env = wrap(gym.make(name), process)
    check_env(env, skip_render_check=True)
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    for _ in range(8):
        assert env.step(env.action_space.sample())[0] in env.observation_space


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS.keys())
def test_copies_go_on_alike_and_seeds_decide_everything(wrap, process):
    env = wrap(EchoEnv((9,)), process)
    env.reset(seed=5)
    for action in [0, 1, 1, 0]:
        env.step(action)
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    calls = [[e.step(2), e.step(1), e.reset(), e.step(3), e.step(0)] for e in (env, *twins)]
    for twin in calls[1:]:
        assert data_equivalence(calls[0], twin, exact=True)
    seeded = []
    for fresh in (wrap(Fresh((9,)), process), wrap(Fresh((9,)), process)):
        seeded.append([fresh.reset(seed=8), *(fresh.step(1) for _ in range(6)), fresh.reset()])
    assert data_equivalence(*seeded, exact=True)


class Fresh(EchoEnv):
    """The same observations in each episode."""

    def _obs(self):
        return np.array([0, self.time], np.float64)


@pytest.mark.parametrize("process", [Uniform(1, 3), GilbertElliott(0, 3, 0.2, 0.2)], ids=repr)
def test_the_spec_makes_the_same_environment(process):
    env = ObservationDelay(
        ActionDelay(gym.make("CartPole-v1"), process, 1, "hindsight"), process, "observation"
    )
    assert isinstance(env.spec.to_json(), str)
    again = gym.make(env.spec)
    assert again.env.process == again.process == process
    assert data_equivalence(env.reset(seed=1), again.reset(seed=1), exact=True)
    for _ in range(6):
        assert data_equivalence(env.step(1), again.step(1), exact=True)


def test_ages_have_a_random_stream_of_their_own():
    """The environment, the warm-up and the ages of both channels: none changes the others."""

    def ages(wrap, key):
        env = wrap(EchoEnv())
        env.reset(seed=0)
        return [env.step(t % 2)[4][key] for t in range(15)]

    alone = ages(lambda e: ActionDelay(e, Uniform(0, 9)), "action_age")
    both = ages(lambda e: ObservationDelay(ActionDelay(e, Uniform(0, 9)), 3), "action_age")
    other = ages(lambda e: ActionDelay(e, Uniform(0, 9), warmup=1), "action_age")
    assert alone == both == other
    seen = ages(lambda e: ObservationDelay(e, Uniform(0, 9)), "observation_age")
    assert seen[9:] != alone[9:], "equal processes on both channels are independent"


class TestAugmented:
    def test_the_actions_of_both_delays_are_shown(self):
        env = AugmentObservation(ObservationDelay(ActionDelay(EchoEnv(), 3, warmup=6), 2))
        assert env.delay == 5
        obs, _ = env.reset()
        assert obs["pending_actions"].tolist() == [0, 0, 6, 6, 6]
        assert obs["observation_age"].tolist() == [0]
        for action in [1, 2, 3, 4]:
            obs, *_ = env.step(action)
        assert obs["pending_actions"].tolist() == [6, 1, 2, 3, 4]
        assert obs["observation"].tolist() == [0, 2]
        assert obs["observation_age"].tolist() == [2]
        assert "action_age" not in obs

    @pytest.mark.parametrize("observed", ["now", "hindsight"])
    def test_the_state_says_what_was_executed_since_the_observation(self, observed):
        """From (actions, ages) the executed actions of all steps since the one shown follow."""
        inner = EchoEnv((40,), spaces.Discrete(1000))
        base = ActionDelay(inner, Uniform(1, 3), observed=observed)
        env = AugmentObservation(ObservationDelay(base, RandomWalk(0, 3)))
        obs, _ = env.reset(seed=2)
        for t in range(1, 30):
            obs, _, _, _, info = env.step(t)
            queue, ages = obs["pending_actions"], obs["action_age"]
            age = int(obs["observation_age"][0])
            assert obs["observation"].tolist() == [0, t - age]
            known = ages[:-1] if observed == "now" else ages
            for back in range(1, age + 1):  # step t - back, whose effect is not seen
                executed = queue[len(queue) - back - known[len(known) - back]]
                assert executed == inner.executed[-1][t - back]
            if observed == "now":
                assert ages[-1] == info["action_age"]

    def test_ages_that_are_not_there_yet(self):
        env = AugmentObservation(ActionDelay(EchoEnv(), Uniform(1, 3), observed="hindsight"))
        assert env.reset()[0]["action_age"].tolist() == [-1]
        assert env.step(0)[0]["action_age"][0] >= 1
        assert env.reset()[0]["action_age"].tolist() == [-1]

    def test_flat(self):
        env = AugmentObservation(
            ObservationDelay(
                ActionDelay(EchoEnv(action_space=spaces.Discrete(3, start=1)), Uniform(1, 1), 2), 1
            ),
            flat=True,
        )
        np.testing.assert_array_equal(env.reset()[0], [0, 0, 1, 0, 0, 0, 1, 0, -1, 1, 0])
        obs, *_ = env.step(3)
        np.testing.assert_array_equal(obs, [0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1])
        assert env.observation_space.contains(obs)

    def test_ages_that_are_never_known_are_not_shown(self):
        env = AugmentObservation(ActionDelay(EchoEnv(), Uniform(1, 3), observed="never"))
        assert set(env.reset()[0]) == {"observation", "pending_actions"}

    def test_observations_alone(self):
        env = AugmentObservation(ObservationDelay(EchoEnv(), 2))
        env.reset()
        obs, *_ = env.step(5)
        assert obs["pending_actions"].tolist() == [0, 5]
        assert obs["observation"].tolist() == [0, 0]

    @pytest.mark.parametrize("wrapper", [ActionDelay, ObservationDelay])
    def test_it_is_outermost(self, wrapper):
        inner = (
            ObservationDelay(EchoEnv(), 1) if wrapper is ActionDelay else ActionDelay(EchoEnv(), 1)
        )
        with pytest.raises(
            ValueError,
            match=f"got {wrapper.__name__} around it: put AugmentObservation around",
        ):
            wrapper(AugmentObservation(inner), 2)

    def test_a_wrapper_that_changes_actions_in_between(self):
        changed = gym.wrappers.TransformAction(
            ActionDelay(EchoEnv(), 1), lambda action: 6 - action, spaces.Discrete(3)
        )
        with pytest.raises(ValueError, match="put that wrapper beneath ActionDelay"):
            AugmentObservation(ObservationDelay(changed, 2))


def test_a_trace_that_is_too_short():
    for wrapper in (ActionDelay, ObservationDelay):
        env = wrapper(EchoEnv((3, 4)), Trace([1, 2, 0]))
        env.reset()
        assert [env.step(0)[2] for _ in range(3)] == [False, False, True]
        env.reset()
        env.step(0)
        env.step(0)
        with pytest.raises(ValueError, match="got a trace of 3 steps and an episode that goes on"):
            env.step(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ActionDelay(EchoEnv(), (2, 6)), r"got \(2, 6\): for a random delay pass"),
        (lambda: ActionDelay(EchoEnv(), 2, observed="later"), "got 'later': pass \"now\""),
        (
            lambda: ObservationDelay(EchoEnv(), 2, rewards="late"),
            "got 'late': pass \"observation\"",
        ),
        (
            lambda: ObservationDelay(ObservationDelay(EchoEnv(), 2), Uniform(0, 1)),
            r"got Uniform\(low=0, high=1, in_order=True\) on top of Constant\(delay=2\): use",
        ),
        (
            lambda: ActionDelay(ActionDelay(EchoEnv(), Uniform(0, 2)), Uniform(0, 1)),
            "got a delay of Uniform.* on top of one of 2",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_text_forms_are_taken():
    assert ActionDelay(EchoEnv(), "uniform:2-6").process == Uniform(2, 6)
    assert ObservationDelay(EchoEnv(), "3").delay == 3


def laws_of_next_age(process, steps):
    """For each step t and observation age w_t, the law of w_{t+1}, exactly."""
    chain = process.chain
    states = chain.start.copy()
    found = []
    for t in range(steps):
        now, after = np.minimum(chain.ages, t), np.minimum(chain.ages, t + 1)
        joint = np.zeros((chain.longest + 1, chain.longest + 1))
        moves = states[:, None] * chain.matrix()
        np.add.at(joint, (now[:, None], after[None, :]), moves)
        found.append({w: row / row.sum() for w, row in enumerate(joint) if row.sum() > 1e-12})
        states = moves.sum(0)
    return found


@pytest.mark.parametrize(
    ("process", "from_the_start"),
    [
        (Uniform(1, 3), True),
        (Categorical([0.2, 0.0, 0.5, 0.3]), True),
        (Uniform(1, 3, in_order=False), False),
        (RandomWalk(0, 3), False),
        (PerEpisode(Uniform(1, 3)), False),
    ],
)
def test_the_age_of_an_observation_is_the_channels_state_from_the_start_or_from_step_k(
    process, from_the_start
):
    laws = laws_of_next_age(process, 12)
    last = laws[-1]

    def same(some):
        return all(np.allclose(law, last[w]) for at in some for w, law in at.items() if w in last)

    assert same(laws[process.longest :])
    assert same(laws) == from_the_start


@pytest.mark.parametrize("delay", [10**9, Uniform(0, 3)])
def test_an_augmented_state_must_fit_in_memory(delay, monkeypatch):
    monkeypatch.setattr("deadtime.delays.convention.free_memory", lambda: 10**10)
    env = ObservationDelay(gym.make("CartPole-v1"), delay)
    if delay == 10**9:
        with pytest.raises(ValueError, match="an augmented state must fit in memory; got a delay"):
            AugmentObservation(env)
    else:
        assert AugmentObservation(env).delay == 3
