"""Policies act without their simulator, describe themselves, and refuse other environments."""

from dataclasses import replace

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium import spaces

import deadtime
from deadtime.cli.main import main
from deadtime.envs import gym_outside, make
from deadtime.envs.atari.games import SIDE, STACK
from deadtime.learn.a2c import new_actor_critic, new_state
from deadtime.learn.actor_critic import ACTOR_CRITIC
from deadtime.learn.frame_a2c import new_frame_actor_critic
from deadtime.learn.frame_networks import named_arrays, new_q
from deadtime.learn.program import Program
from deadtime.learn.settings import A2C, PixelA2C, PixelQ
from deadtime.runs import records
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.record import Record
from deadtime.runs.result import Result
from deadtime.runtime import NetworkPolicy, Policy
from deadtime.runtime.views import VIEWS
from tests.runtime.kinds import deep_manifest, recurrent_manifest

NEEDY = "gym:deadtime-test/Needy-v0"
SHORT = {"steps": 60, "evaluation_episodes": 1, "preset": "paper"}
FRAMES = np.zeros((STACK, SIDE, SIDE), np.uint8)


class NeedyEnv(gym.Env):
    """An environment whose simulator may be missing."""

    missing = False

    def __init__(self, axes=3):
        if NeedyEnv.missing:
            raise gym.error.DependencyNotInstalled(
                'Box2D is not installed, run `pip install "gymnasium[box2d]"`'
            )
        self.action_space, self.observation_space = (
            spaces.Discrete(2),
            spaces.Box(0.0, 1.0, (axes,), np.float32),
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


gym.register("deadtime-test/Needy-v0", NeedyEnv, max_episode_steps=9)


@pytest.fixture
def without(monkeypatch):
    """From the call on, the simulator is missing, and no environment was read before."""

    def missing():
        monkeypatch.setattr(NeedyEnv, "missing", True)
        monkeypatch.setattr(gym_outside, "_READ", {})

    return missing


def record_with(spec, arrays, seeds=(0,), scores=(1.0,)):
    """A record of arrays that nothing trained."""
    n = len(seeds)
    return Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=[*seeds],
        scores=[*scores],
        training_scores=[0.0] * n,
        episodes=[1] * n,
        status=["complete"] * n,
        seconds=[0.0] * n,
        points=np.arange(3),
        curve=np.zeros((n, 3), np.float32),
        policies={f"{seed}/{name}": array for seed in seeds for name, array in arrays.items()},
        policy_seeds=[*seeds],
        provenance=[{"date": "2026-01-01", "seeds": [*seeds]}],
    )


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["delayed", "augmented", "oblivious", "shifted"])
def test_a_policy_acts_without_its_simulator(agent, tmp_path, without, capsys):
    trained = deadtime.train(NEEDY, agent, delay=2, hidden=(8, 8), batch_size=8, **SHORT)
    folder = trained.save(tmp_path / "run")
    expected = trained.policy(0).q_values(np.ones(3), [0, 1])
    without()
    policy = deadtime.load(folder)
    np.testing.assert_array_equal(policy.q_values(np.ones(3), [0, 1]), expected)
    assert policy.act(np.ones(3), [0, 1]) == expected.argmax()
    assert (policy.num_actions, policy.observation_shape, policy.env) == (2, (3,), NEEDY)
    again = Result(records.read(folder))
    assert again.spec.id == trained.record.id
    assert str(again).startswith(f"Result({NEEDY}, {agent}, delay 2, 1 seed: ")
    words = (
        r"needs a module that can't be imported .*\(Box2D is not installed, "
        r"run `pip install \"gymnasium\[box2d\]\"`\): install"
    )
    with pytest.raises(ValueError, match=words):
        deadtime.evaluate(policy, NEEDY, episodes=1)
    with pytest.raises(ValueError, match=words):
        again.spec.environment(0)
    for command in (
        ["watch", str(folder), "--out", str(tmp_path / "x.gif")],
        ["evaluate", str(folder)],
    ):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 2
        assert "Box2D is not installed, run `pip install" in capsys.readouterr().err


def recurrent_arrays(numbers=3, actions=2):
    net = new_actor_critic(jax.random.key(0), numbers, actions, A2C(hidden=(4,), lstm=5))
    program = Program(make("cartpole"), VIEWS["recurrent"], A2C(), 0)
    return ACTOR_CRITIC.policy_arrays(program, new_state(net, A2C()))


@pytest.mark.slow
def test_networks_know_their_sizes():
    policy = NetworkPolicy(recurrent_manifest(2, 3, 2), recurrent_arrays())
    assert (policy.num_actions, policy.observation_shape) == (2, (3,))
    assert repr(policy) == "NetworkPolicy(recurrent, delay=2, 3 numbers -> 2 actions)"
    assert policy.act(np.ones(3), [0, 1]) in (0, 1)


@pytest.mark.parametrize(
    "agent", ["delayed", "augmented", "distribution", "mbs", "oblivious", "shifted"]
)
def test_tables_need_no_maze(agent, tmp_path, monkeypatch):
    trained = deadtime.train("noisy-maze", agent, delay=2, seeds=[3], size=3, episodes=50)
    folder = trained.save(tmp_path / "run")
    expected = [trained.policy(3).q_values(cell, [0, 1]) for cell in range(9)]

    def refuse(*given):
        raise AssertionError("a maze was carved")

    monkeypatch.setattr("deadtime.envs.maze_layout._carve", refuse)
    policy = deadtime.load(folder)
    np.testing.assert_array_equal([policy.q_values(cell, [0, 1]) for cell in range(9)], expected)
    assert repr(policy) == f"TablePolicy({agent} on noisy-maze, delay=2, 9 states -> 4 actions)"
    with pytest.raises(ValueError, match="an observation is the number of a state, 0 to 8; got 9"):
        policy.act(9, [0, 1])


def test_a_table_over_long_queues_takes_little_room():
    """A forged record may say a delay of which one row of keys is megabytes."""
    record = deadtime.train("maze", "augmented", delay=1, size=4, episodes=3).record
    spec = replace(Result(record).spec, settings={"size": 1000}, delay=9_999_999)
    words = 1 + -(-spec.delay // 32)
    arrays = {name.partition("/")[2]: part for name, part in record.policies.items()}
    arrays |= {"q": np.zeros((2, 4)), "keys": np.zeros((2, words), np.uint64)}
    policy = Result(record_with(spec, arrays)).policy()
    assert policy._pairs.nbytes == 8 * words + 8
    assert (policy.num_states, policy.delay) == (10**6, 9_999_999)


PIXELS = {"channels": (2, 2, 2), "hidden": 4}


def pixel_record(agent="oblivious", actions=9, game="MsPacman", delay=0):
    recurrent = agent == "recurrent"
    changes = PIXELS | ({"lstm": 3} if recurrent else {})
    spec = DeepSpec(f"atari:{game}", agent, delay, changes=changes)
    make = new_frame_actor_critic if recurrent else new_q
    settings = PixelA2C(**changes) if recurrent else PixelQ(**changes)
    arrays = named_arrays(make(jax.random.key(0), settings, *([] if recurrent else [18 * delay])))
    return record_with(spec, arrays | ({"actions": np.array(actions)} if actions else {}))


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["oblivious", "augmented", "delayed", "recurrent"])
def test_a_policy_of_frames_needs_no_emulator(agent, monkeypatch):
    delay = 2 if agent == "augmented" else 0
    record = pixel_record(agent, delay=delay)

    def refuse(*given):
        raise AssertionError("an emulator was started")

    monkeypatch.setattr("deadtime.envs.atari.emulator.Emulator", refuse)
    monkeypatch.setattr("deadtime.envs.atari.games.meanings", refuse)
    monkeypatch.setattr("deadtime.envs.atari.games.installed", lambda: False)
    policy = Result(record).policy()
    assert policy.act(FRAMES, [0] * delay) in range(9)
    shape = "frames of shape (4, 84, 84) -> 9 actions"
    expected = f"NetworkPolicy({agent} on atari:MsPacman, delay={delay}, {shape})"
    assert repr(policy) == str(policy) == expected
    for wrong in (0, 19, -1):
        with pytest.raises(
            ValueError,
            match=f"a game has 1 to 18 actions; got {wrong}: train it again",
        ):
            Result(
                replace(record, policies=record.policies | {"0/actions": np.array(wrong)})
            ).policy()


def test_the_number_of_actions_is_recorded_and_asked_of_the_emulator_before(monkeypatch):
    monkeypatch.setattr("deadtime.envs.atari.games.meanings", lambda game: ("NOOP",) * 7)
    assert Result(pixel_record(actions=None)).policy().num_actions == 7


@pytest.mark.slow
def test_results_and_policies_say_what_they_are():
    spec = DeepSpec("noisy-cartpole", "recurrent", 5, changes={"hidden": (4,), "lstm": 5})
    arrays = recurrent_arrays(4)
    result = Result(record_with(spec, arrays, (3, 4), (498.12, 500.0)))
    assert (
        repr(result)
        == str(result)
        == "Result(noisy-cartpole, recurrent, delay 5, 2 seeds: 498.1, 500.0)"
    )
    assert (
        repr(result.policy())
        == "NetworkPolicy(recurrent on noisy-cartpole, delay=5, 4 numbers -> 2 actions)"
    )
    evil = Result(replace(result.record, spec=spec.canonical() | {"env": "gym:\x1b[2J"}))
    assert repr(evil) == "Result(gym:?[2J, recurrent, delay 5, 2 seeds: 498.1, 500.0)"
    many = Result(
        record_with(replace(spec, delay=0), arrays, range(7), [0.98765, -12.34, np.nan, 1, 2, 3, 4])
    )
    scores = "0.988, -12.3, nan, 1.000, 2.000, ..."
    assert repr(many) == f"Result(noisy-cartpole, recurrent, delay 0, 7 seeds: {scores})"
    deep = NetworkPolicy(deep_manifest(delay=5, actions=2, model="change"), DEEP)
    assert repr(deep) == str(deep) == "NetworkPolicy(delayed, delay=5, 4 numbers -> 2 actions)"


SCALES = {
    f"{part}/{name}": np.ones(4, np.float32)
    for part in ("inputs", "changes")
    for name in ("mean", "deviation")
}
SHAPES = {
    "q/0/weight": (2, 4),
    "q/0/bias": (2,),
    "model/0/weight": (1, 4, 6),
    "model/0/bias": (1, 4),
}
DEEP = SCALES | {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}


def test_the_first_seed_is_the_default(tmp_path):
    result = deadtime.train("maze", "delayed", delay=1, seeds=[7, 2], size=3, episodes=100)
    default, first = result.policy(), result.policy(result.seeds[0])
    assert result.seeds[0] == 2
    assert default.q_values(0, [1]).tolist() == first.q_values(0, [1]).tolist()
    assert default.q_values(0, [1]).tolist() != result.policy(7).q_values(0, [1]).tolist()
    loaded = deadtime.load(result.save(tmp_path / "run"))
    assert default.q_values(0, [1]).tolist() == loaded.q_values(0, [1]).tolist()


def test_a_policy_plays_its_own_game_only():
    policy = Result(pixel_record()).policy()
    words = (
        "an Atari game is played by a policy that was trained on it; got atari:Frostbite and a "
        "policy of atari:MsPacman: train a policy on atari:Frostbite, or pass atari:MsPacman"
    )
    with pytest.raises(ValueError) as refused:
        deadtime.evaluate(policy, "atari:Frostbite", episodes=1)
    assert str(refused.value) == words
    with pytest.raises(ValueError, match="frames of shape .4, 84, 84. -> 9 actions; cartpole has"):
        deadtime.evaluate(policy, "cartpole", episodes=1)

    class Frames(gym.Env):
        """As `AtariEnv` is, without an emulator."""

        observation_space, action_space = (
            spaces.Box(0, 255, FRAMES.shape, np.uint8),
            spaces.Discrete(9),
        )

        def __init__(self, name):
            self.deadtime_name = f"atari:{name}"

        def reset(self, *, seed=None, options=None):
            return FRAMES, {"pending_actions": ()}

        def step(self, action):
            return FRAMES, 1.0, True, False, {"pending_actions": ()}

    with pytest.raises(ValueError) as refused:
        deadtime.evaluate(policy, Frames("Frostbite"), episodes=1)
    assert str(refused.value) == words
    assert deadtime.evaluate(policy, Frames("MsPacman"), episodes=2).tolist() == [1.0, 1.0]
    policy.env = ""
    assert deadtime.evaluate(policy, Frames("Frostbite"), episodes=1).tolist() == [1.0]
    Frames.action_space = spaces.Discrete(8)
    with pytest.raises(
        ValueError,
        match="of its training, frames of shape .4, 84, 84. -> 9 actions; atari:Frostbite has ",
    ):
        deadtime.evaluate(policy, Frames("Frostbite"), episodes=1)


@pytest.mark.parametrize("agent", ["delayed", "augmented"])
def test_mazes_of_another_size(agent):
    policy = deadtime.train("maze", agent, delay=1, size=3, episodes=20).policy()
    assert deadtime.evaluate(policy, "noisy-maze", size=3, episodes=1).shape == (1,)
    for size in (2, 4):
        words = (
            "a policy needs the observations and actions of its training, "
            "9 states -> 4 actions; maze has "
            f"observations Discrete({size**2}) and actions Discrete(4): train a policy there"
        )
        with pytest.raises(ValueError) as refused:
            deadtime.evaluate(policy, "maze", size=size, episodes=1)
        assert str(refused.value) == words


class Acts(Policy):
    """A policy of ours that counts how often it is asked."""

    agent, delay, num_actions, observation_shape, asked = "oblivious", 0, 2, (3,), 0

    def act(self, observation, pending_actions=()):
        self.asked += 1
        return 0


def test_gymnasium_environments_with_other_spaces():
    policy = Acts()
    assert deadtime.evaluate(policy, NEEDY, episodes=1).tolist() == [9.0]
    asked = policy.asked
    for env, settings in (
        (NEEDY, {"axes": 4}),
        ("gym:CartPole-v1", {}),
        ("gym:MountainCar-v0", {}),
        ("maze", {}),
    ):
        with pytest.raises(
            ValueError,
            match=f"of its training, 3 numbers -> 2 actions; {env} has observations .*: "
            "train a policy",
        ):
            deadtime.evaluate(policy, env, episodes=1, **settings)
    for env in (gym.make("CartPole-v1"), deadtime.ActionDelay(gym.make("Pendulum-v1"), 2)):
        with pytest.raises(
            ValueError, match="of its training, 3 numbers -> 2 actions; <.* has observations Box"
        ):
            deadtime.evaluate(policy, env, episodes=1)
    with pytest.raises(
        ValueError, match=r"and actions Discrete\(2, start=1\): train a policy there"
    ):
        deadtime.evaluate(
            policy,
            gym.wrappers.TransformAction(NeedyEnv(), int, spaces.Discrete(2, start=1)),
            episodes=1,
        )
    assert policy.asked == asked


@pytest.mark.slow
def test_a_recorded_policy_of_other_sizes_than_its_environment():
    spec = DeepSpec("cartpole", "recurrent", 1, changes={"hidden": (4,), "lstm": 5})
    for numbers, actions in ((4, 3), (5, 2)):
        with pytest.raises(
            ValueError,
            match="a policy has the sizes of its environment; got .*"
            f"{numbers} numbers -> {actions}",
        ):
            Result(record_with(spec, recurrent_arrays(numbers, actions))).policy()


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 1, 3, 4])
def test_what_sees_the_queue_knows_no_other_delay(delay):
    rule = "augmented has learned only from queues of exactly 2 actions"
    words = f"{rule}; got a delay of {delay}: train it with that delay, "
    words += "or pass one whose longest age is 2"
    table = deadtime.train("maze", "augmented", delay=2, size=3, episodes=20).policy()
    frames = Result(pixel_record("augmented", delay=2)).policy()
    queue = {"q/0/weight": np.zeros((2, 8), np.float32)}
    manifest = deep_manifest("augmented", "queue", 2, 2, actions=2, one_hot_queue=True)
    deep = NetworkPolicy(manifest, DEEP | queue)
    for policy in (table, frames, deep):
        with pytest.raises(ValueError) as refused:
            policy.at_delay(delay)
        assert str(refused.value) == words
        with pytest.raises(ValueError, match=words):
            deadtime.evaluate(policy, "cartpole", delay=delay, episodes=1)
        assert policy.at_delay(2).delay == 2


@pytest.mark.slow
def test_other_agents_know_every_delay():
    mazes = [
        deadtime.train("maze", agent, delay=2, size=3, episodes=20).policy()
        for agent in ("oblivious", "delayed")
    ]
    frames = [
        Result(pixel_record(agent)).policy() for agent in ("oblivious", "delayed", "recurrent")
    ]
    recurrent = NetworkPolicy(recurrent_manifest(2, 3, 2), recurrent_arrays())
    for policy in (*mazes, *frames, recurrent):
        own = policy.delay
        assert [policy.at_delay(delay).delay for delay in (0, 1, 5)] == [0, 1, 5]
        assert policy.delay == own
        assert policy.at_delay(5).env == policy.env
        with pytest.raises(ValueError, match="delay is a whole number of steps"):
            policy.at_delay(-1)


def test_ties_are_drawn_from_the_beginning_under_another_delay():
    policy = deadtime.train("maze", "oblivious", delay=2, seeds=[5], size=3, episodes=1).policy()
    policy._q[:] = 0
    first = [policy.act(0, [0, 0]) for _ in range(20)]
    assert len({*first}) > 1
    assert [policy.at_delay(2).act(0, [0, 0]) for _ in range(3)] == first[:1] * 3
    twin = policy.at_delay(2)
    assert [twin.act(0, [0, 0]) for _ in range(20)] == first
