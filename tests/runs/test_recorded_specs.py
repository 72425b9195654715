"""Specs of records: their form is checked, and no environment is made before a run."""

import json
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from deadtime.delays import Uniform
from deadtime.envs import FAMILIES, make
from deadtime.envs.gym_family import LONGEST_EPISODE
from deadtime.learn.settings import with_names_of_today
from deadtime.runs import records, units
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.record import Record
from deadtime.runs.specs import from_canonical, make_spec
from deadtime.runs.tabular_specs import TabularSpec, tabular_names
from deadtime.runs.unit_worker import DONE, FAILED, done
from deadtime.studies.report import page
from tests.learn import gym_probe

RESULTS = Path(__file__).parents[2] / "results" / "paper"
STILL = {"sticky": 0.0}
DIARY = f"gym:{gym_probe.__name__}:deadtime-test/Diary-v0"


@pytest.fixture
def nothing_is_made(monkeypatch):
    """Let every function that makes an environment or starts an emulator fail."""

    def refuse(*given, **settings):
        raise AssertionError(f"an environment was made: {given} {settings}")

    for family in FAMILIES.values():
        monkeypatch.setattr(type(family), "make", refuse)
    monkeypatch.setattr("deadtime.runs.deep_specs.make", refuse)
    monkeypatch.setattr("deadtime.runs.tabular_specs.make", refuse)
    monkeypatch.setattr("deadtime.envs.maze_layout._carve", refuse)
    monkeypatch.setattr("deadtime.envs.atari.emulator.Emulator", refuse)
    monkeypatch.setattr("deadtime.envs.atari.games.meanings", refuse)
    monkeypatch.setattr(gym, "make", refuse)
    monkeypatch.setattr(gym, "spec", refuse)
    monkeypatch.setattr("gymnasium.envs.registration.load_env_creator", refuse)
    try:
        import gymnax
    except ImportError:
        return
    monkeypatch.setattr(gymnax, "make", refuse)


def recorded(env, **more):
    return {"kind": "deep", "env": env, "agent": "delayed"} | more


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_made")
def test_ids_of_all_committed_records():
    names = records.names(RESULTS)
    assert len(names) > 100
    for name in names:
        record = records.read(RESULTS / name)
        spec = from_canonical(record.spec)
        assert (spec.id, spec.name) == (record.id, name)
        assert spec.canonical() == today(record.spec)


def today(spec):
    """Return a spec with the names that settings have today."""
    kind, part = {"tabular": ("q-table", "learner"), "deep": ("double-q", "changes")}[spec["kind"]]
    return spec | ({part: with_names_of_today(kind, spec[part])} if part in spec else {})


@pytest.mark.parametrize(
    ("former", "now", "id"),
    [
        (
            recorded("cartpole", changes={"discount": 0.9, "batch": 16}),
            recorded("cartpole", changes={"gamma": 0.9, "batch_size": 16}),
            "934261607e8b",
        ),
        (
            recorded("acrobot", changes={"replay_transitions": 300, "target_rate": 0.5}),
            recorded("acrobot", changes={"buffer_size": 300, "tau": 0.5}),
            "f740223ffcc9",
        ),
        (
            recorded(
                "atari:Breakout",
                preset="paper",
                settings=STILL,
                changes={"discount": 0.5, "batch": 16},
            ),
            recorded(
                "atari:Breakout",
                preset="paper",
                settings=STILL,
                changes={"gamma": 0.5, "batch_size": 16},
            ),
            "b930009239a8",
        ),
        (
            recorded("cartpole", agent="recurrent", changes={"discount": 0.9}),
            recorded("cartpole", agent="recurrent", changes={"gamma": 0.9}),
            "c8f205581e03",
        ),
        (
            recorded("maze", kind="tabular", learner={"step_size": 0.5, "discount": 0.9}),
            recorded("maze", kind="tabular", learner={"learning_rate": 0.5, "gamma": 0.9}),
            "245031a68cde",
        ),
    ],
)
def test_renamed_settings_keep_their_ids(former, now, id):
    """The ids are those of the versions in which the settings had their former names."""
    for spec in (former, now):
        assert from_canonical(spec).canonical() == now
        assert from_canonical(spec).id == id


def test_settings_made_by_former_names_are_refused():
    with pytest.raises(ValueError, match="no setting 'batch'; did you mean 'batch_size'"):
        DeepSpec("cartpole", "delayed", changes={"batch": 16})
    with pytest.raises(ValueError, match="no setting 'step_size'; did you mean 'learning_rate'"):
        make_spec("maze", "delayed", 0, {"step_size": 0.5})


@pytest.mark.usefixtures("nothing_is_made")
@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("gymnax:Reacher-misc", {"num_joints": 10**9}),
        ("gymnax:MetaMaze-misc", {"maze_size": 100_000}),
        ("gymnax:MNISTBandit-bsuite", {}),
        ("gym:LunarLander-v3", {"continuous": False}),
        ("gym:CartPole-v1", {"id": "x"}),
        ("gym:a_module_that_is_not_here:namespace/Thing-v0", {}),
        ("atari:MsPacman", {"sticky": 0.5}),
        ("noisy-cartpole", {"noise": 0.2}),
    ],
)
def test_nothing_is_made_to_read(env, settings):
    content = recorded(env, delay=3) | ({"settings": settings} if settings else {})
    spec = from_canonical(content)
    assert spec.canonical() == content
    assert from_canonical(spec.canonical()).id == spec.id


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_made")
def test_a_page_of_records_makes_nothing(tmp_path):
    spec = from_canonical(recorded("gymnax:Reacher-misc", settings={"num_joints": 10**9}))
    record = Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=[0],
        scores=[1.0],
        training_scores=[1.0],
        episodes=[1],
        status=["complete"],
        seconds=[1.0],
        points=np.arange(1, 3),
        curve=np.zeros((1, 2), np.float32),
        provenance=[{"date": "2026-01-01", "seeds": [0]}],
    )
    records.write(tmp_path / spec.name, record)
    assert "gymnax:Reacher-misc, num joints 1000000000" in page(tmp_path, "today")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        (
            "gym:../../x",
            {},
            "an environment's name is a word such as gym:CartPole-v1; got 'gym:../../x': "
            "train it again",
        ),
        (
            "gymnax:a b",
            {},
            "an environment's name is a word such as gymnax:CartPole-v1; got 'gymnax:a b'",
        ),
        ("gym:\x1b[2J", {}, "an environment's name is a word"),
        (
            "gym:CartPole-v1",
            [],
            r"settings are a table of names and values; got \[\]: train it again",
        ),
        ("gymnax:CartPole-v1", "x", "settings are a table of names and values; got 'x'"),
        ("noisy-cartpole", {"noise": 5}, r"noise is a number in \[0, 0.5\]; got 5"),
        ("cartpole", {"size": 5}, "cartpole has no setting 'size'"),
        ("atari:MsPacman", {"sticky": 5}, "sticky is a probability"),
    ],
)
@pytest.mark.usefixtures("nothing_is_made")
def test_the_form_is_checked(env, settings, words):
    with pytest.raises(ValueError, match=words):
        from_canonical(recorded(env, settings=settings))


def test_a_users_spec_is_checked_against_its_environment():
    with pytest.raises(
        ValueError, match="Gymnasium can't make 'CartPole-v1' with|has no setting 'id'"
    ):
        DeepSpec("gym:CartPole-v1", "delayed", settings={"id": "x"})
    with pytest.raises(ValueError, match="Gymnasium has no environment 'CartPol-v1'"):
        DeepSpec("gym:CartPol-v1", "delayed")
    assert (
        DeepSpec("gym:CartPole-v1", "delayed", settings={"sutton_barto_reward": False}).settings
        == {}
    )


def test_what_gymnax_can_not_make():
    pytest.importorskip("gymnax")
    with pytest.raises(
        ValueError,
        match="gymnax:MetaMaze-misc can't be made with .'maze_size': 4. .Assertion.*: give it",
    ):
        DeepSpec("gymnax:MetaMaze-misc", "delayed", settings={"maze_size": 4})


def unit_of(spec):
    """Return a unit as another process reads it."""
    return units.from_json(json.dumps({"runs": [[spec, 0]], "seeds": [], "most_bytes": None}))


def test_a_unit_from_json_fails_with_a_reason():
    """Another process reads its specs as data, and checks them before it begins."""
    answer = done(unit_of(recorded("gym:CartPole-v1", settings={"id": "x"})), None, lambda n: None)
    assert answer.startswith(FAILED + b"ValueError: ")
    assert b"'id'" in answer
    answer = done(unit_of(recorded("gym:CartPole-v1", delay=500)), None, lambda n: None)
    assert (
        b"an episode has at most 500 steps, so with a delay of 500 no decision is ever executed"
        in answer
    )


@pytest.mark.slow
def test_a_unit_may_have_the_module_imported_that_a_user_named(tmp_path, monkeypatch):
    """The user gave the name to the driver, and its workers have not imported the module yet."""
    (tmp_path / "late_module.py").write_text(
        "import gymnasium as gym\nfrom tests.learn.gym_probe import ProbeEnv\n"
        "gym.register('deadtime-test/Late-v0', ProbeEnv, max_episode_steps=20)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = {
        "preset": "paper",
        "steps": 60,
        "evaluation_episodes": 1,
        "changes": {"hidden": [4], "batch_size": 4},
    }
    content = recorded("gym:late_module:deadtime-test/Late-v0", **options)
    with pytest.raises(
        ValueError, match="a file can't import modules by itself; this one needs 'late_module'"
    ):
        from_canonical(content).environment(0)
    answer = done(unit_of(content), None, lambda n: None)
    assert answer.startswith(DONE)


TABLE = {"kind": "tabular", "env": "table:a_module_that_is_not_here:Ice-v0", "agent": "delayed"}


@pytest.mark.usefixtures("nothing_is_made")
def test_a_recorded_table_is_read_without_its_environment():
    spec = from_canonical(TABLE | {"delay": 2, "num_states": 16, "settings": {"desc": ["SG"]}})
    assert (spec.states, spec.settings) == (16, {"desc": ["SG"]})
    assert spec.canonical()["num_states"] == 16
    assert re.fullmatch("table-a_module_that_is_not_here-Ice-v0-delayed-m2-[0-9a-f]{12}", spec.name)
    with pytest.raises(ValueError, match="this one needs 'a_module_that_is_not_here'"):
        spec.environment(0)


@pytest.mark.usefixtures("nothing_is_made")
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"num_states": 0},
        {"num_states": "9"},
        {"num_states": 9, "settings": []},
        {"num_states": 9, "env": "table:../x"},
    ],
)
def test_a_recorded_table_of_another_form_is_refused(wrong):
    with pytest.raises(ValueError, match=": "):
        from_canonical(TABLE | wrong)


@pytest.mark.parametrize("env", [name for name in tabular_names() if ":" not in name])
def test_sizes_of_finite_environments_are_known_without_them(env):
    settings = {"length": 6} if env == "walk" else {"size": 3}
    finite = make(env, **settings).finite()
    spec = TabularSpec(env, "delayed", finite.max_steps - 1, settings=settings)
    assert spec.states == len(finite.terminal)
    with pytest.raises(ValueError, match=f"pass a delay below {finite.max_steps}"):
        TabularSpec(env, "delayed", finite.max_steps, settings=settings)


@pytest.mark.parametrize(
    ("env", "settings", "limit"),
    [
        ("cartpole", {}, 500),
        ("noisy-acrobot", {}, 500),
        ("gymnax:MountainCar-v0", {}, 200),
        ("gym:CartPole-v1", {}, 500),
        ("gym:CartPole-v1", {"max_episode_steps": 7}, 7),
        ("gym:CartPole-v1", {"max_episode_steps": -1}, LONGEST_EPISODE),
        (DIARY, {}, LONGEST_EPISODE),
        ("atari:MsPacman", {}, 27_000),
        ("atari:MsPacman", {"max_episode_steps": 40}, 40),
    ],
)
def test_no_delay_outlasts_an_episode(env, settings, limit):
    if env.startswith("gymnax:"):
        pytest.importorskip("gymnax")
    words = f"at most {limit} steps, so with a delay of {{}} no decision is ever executed: "
    words += f"pass a delay below {limit}"
    assert DeepSpec(env, "oblivious", limit - 1, settings=settings).delay == limit - 1
    for delay in (limit, 2**31 - 1):
        with pytest.raises(ValueError, match=words.format(delay)):
            DeepSpec(env, "oblivious", delay, settings=settings)
    with pytest.raises(ValueError, match=words.format(limit)):
        DeepSpec(env, "oblivious", 0, settings=settings, evaluation_delays=(limit,))
    with pytest.raises(ValueError, match=f"got {10**20}|delay of {10**20}"):
        DeepSpec(env, "oblivious", 10**20, settings=settings)


@pytest.mark.parametrize("delays", [(1,), (3,), (2, 0)])
def test_what_sees_the_queue_is_evaluated_at_its_own_delay(delays):
    words = "augmented learns only from queues of exactly its own delay, 2; got "
    words += f"evaluation_delays {delays}: leave the others out"
    for make_it in (
        lambda: DeepSpec("cartpole", "augmented", 2, evaluation_delays=delays),
        lambda: from_canonical(
            recorded("cartpole", agent="augmented", delay=2, evaluation_delays=[*delays])
        ),
    ):
        with pytest.raises(ValueError) as refused:
            make_it()
        assert str(refused.value) == words
    assert DeepSpec("cartpole", "augmented", 2, evaluation_delays=(2,)).evaluation_delays == (2,)
    assert (
        DeepSpec("cartpole", "recurrent", 2, evaluation_delays=delays).evaluation_delays == delays
    )


@pytest.mark.parametrize(
    "env",
    [
        *(name for family in FAMILIES.values() for name in family.members),
        "gymnax:CartPole-v1",
        "gym:CartPole-v1",
        "atari:MsPacman",
    ],
)
def test_the_agents_that_are_offered_work_there(env):
    if env.startswith("gymnax:"):
        pytest.importorskip("gymnax")
    with pytest.raises(ValueError, match="; did you mean 'delayed'.: choose one of ") as refused:
        make_spec(env, "delyed", 1, {})
    offered = str(refused.value).partition(": choose one of ")[2].split(", ")
    assert {"delayed", "augmented", "oblivious"} <= {*offered}
    for agent in offered:
        assert make_spec(env, agent, 1, {}).agent == agent
    for agent in {
        "delayed",
        "augmented",
        "oblivious",
        "shifted",
        "distribution",
        "mbs",
        "recurrent",
    } - {*offered}:
        with pytest.raises(ValueError, match=f"{agent}.*: choose "):
            make_spec(env, agent, 1, {})


@pytest.mark.parametrize("env", ["pendulum", "gym:Pendulum-v1"])
def test_real_actions_have_a_recurrent_agent(env):
    spec = DeepSpec(env, "recurrent", 2)
    assert (spec.learner.kind, spec.action_kind) == ("a2c", "box")
    assert DeepSpec("cartpole", "recurrent", 2).learner == spec.learner


@pytest.mark.parametrize(
    ("process", "words"),
    [
        ([1], "process is a delay process; got"),
        ("uniform:0-3", "process is a delay process; got"),
        (3, "process is a delay process; got"),
        ({"kind": "uniform", "low": 0, "high": 2}, "the longest age of its process, 2; got 3"),
        ({"kind": "uniform", "low": 0, "high": 10**9}, "the longest age of its process, 10"),
        ({"kind": "trace", "file": "/dev/zero"}, "a trace in JSON has ages and repeat"),
    ],
)
def test_a_recorded_process_is_one_and_fits_its_delay(process, words):
    good = make_spec("cartpole", "augmented", "uniform:0-3", {}).canonical()
    assert from_canonical(good).process == Uniform(0, 3)
    with pytest.raises(ValueError, match=words):
        from_canonical(good | {"process": process})
