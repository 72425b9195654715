"""Environments given as functions, instances and ids: their identity, and runs that are equal."""

import copy
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import deadtime
from deadtime.envs import families, gym_given
from deadtime.envs.fingerprint import fingerprint
from deadtime.envs.gym_family import local_pool
from deadtime.envs.pools import Lane
from deadtime.envs.process_pool import ProcessPool
from deadtime.runs.specs import from_canonical, make_spec
from deadtime.runs.units import Unit
from tests.commands import full

SMALL = {"steps": 60, "hidden": (4,), "batch_size": 4, "evaluation_episodes": 2}


class Count(gym.Env):
    """An environment that counts to a limit."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 100, (2,))

    def __init__(self, limit=5, render_mode=None):
        self.limit = limit
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([self.np_random.random(), 0], np.float32), {}

    def step(self, action):
        self.time += 1
        return np.array([action, self.time], np.float32), 1.0, self.time >= self.limit, False, {}


def short():
    return Count(3)


def code(text, name="make", **space):
    """A function from its source."""
    exec(text, space)
    return space[name]


@pytest.fixture(autouse=True)
def _registered():
    before = {*gym.registry}
    gym.register("deadtime-tests/Count-v0", Count)
    yield
    for one in {*gym.registry} - before:
        del gym.registry[one]


def with_(value):
    return lambda: value


LINE = "def make(n=1, *, k=2):\n    return g(n) + {0}\n"
SAME = [
    (with_(5), with_(5)),
    (with_("ab"), with_("".join(["a", "b"]))),
    (with_({"a", "b", "c"}), with_({"c", "b", "a"})),
    (code(LINE.format("1"), g=abs), code("# more\n\n" + LINE.format("1"), g=abs)),
    (code(LINE.format("1"), g=abs, other=3), code(LINE.format("1"), g=abs, other=4)),
    (partial(short, 1), partial(short, 1)),
    (np.zeros(3), np.zeros(3)),
]
OTHERS = [
    with_(5),
    with_(6),
    with_(5.0),
    with_("5"),
    with_(np.zeros(3)),
    with_(np.zeros(4)),
    partial(short, 1),
    partial(short, 2),
    Count,
    short,
    code(LINE.format("1"), g=abs),
    code(LINE.format("2"), g=abs),
    code(LINE.format("1"), g=round),
    code(LINE.format("1").replace("n=1", "n=3"), g=abs),
    code(LINE.format("1").replace("k=2", "k=3"), g=abs),
    code("def g(n):\n    return n\n" + LINE.format("1")),
    code("def g(n):\n    return n + 1\n" + LINE.format("1")),
    code("K = 1\ndef g(n):\n    return [n + K for _ in 'a']\n" + LINE.format("1")),
    code("K = 2\ndef g(n):\n    return [n + K for _ in 'a']\n" + LINE.format("1")),
    code("class A:\n    x = 1\n    def f(self):\n        return 1\ndef make():\n    return A()"),
    code("class A:\n    x = 2\n    def f(self):\n        return 1\ndef make():\n    return A()"),
    code("class A:\n    x = 1\n    def f(self):\n        return 2\ndef make():\n    return A()"),
    code("class B:\n    y = 1\nclass A(B): pass\ndef make():\n    return A()"),
    code("class B:\n    y = 2\nclass A(B): pass\ndef make():\n    return A()"),
    code(
        "class A:\n    @property\n    def f(self):\n        return 1\ndef make():\n    return A()"
    ),
    code(
        "class A:\n    @property\n    def f(self):\n        return 2\ndef make():\n    return A()"
    ),
    code(
        "class A:\n    @staticmethod\n    def f():\n        return 1\ndef make():\n    return A()"
    ),
    code(
        "class A:\n    @staticmethod\n    def f():\n        return 2\ndef make():\n    return A()"
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_code_and_values_have_one_fingerprint(one, other):
    assert fingerprint(one) == fingerprint(other)


def test_other_code_or_values_have_another():
    found = [fingerprint(one) for one in OTHERS]
    assert len({*found}) == len(OTHERS)
    assert found == [fingerprint(one) for one in OTHERS]


def test_functions_that_call_each_other_have_a_fingerprint():
    text = "def f(n):\n    return make(n)\ndef make(n=1):\n    return f(n) + {}\n"
    one, other = (code(text.format(n)) for n in (1, 2))
    assert fingerprint(one) != fingerprint(other)


def test_a_fingerprint_needs_values_that_can_be_pickled():
    with pytest.raises(ValueError, match="can't be pickled .*: pass such values by name in env_kw"):
        fingerprint(with_(threading.Lock()))


@pytest.mark.slow
def test_a_fingerprint_is_the_same_in_every_process(tmp_path):
    text = (
        "from deadtime.envs.fingerprint import fingerprint\n"
        "import numpy as np\n"
        "K = {'one': 1}\n"
        "class A:\n"
        "    names = {'a', 'b', 'c', 'd'}\n"
        "    def __init__(self): super().__init__()\n"
        "def make(x=np.arange(3.0)):\n"
        "    return A(), K, 'text' in ('more', 'text')\n"
        "print(fingerprint(make))\n"
    )
    (tmp_path / "script.py").write_text(text)
    command = [sys.executable, str(tmp_path / "script.py")]
    found = {subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2)}
    assert len(found) == 1


def test_names():
    assert families.environment_name("maze") == "maze"
    assert families.environment_name("gym:Pendulum-v1") == "gym:Pendulum-v1"
    assert families.environment_name("Pendulum-v1") == "gym:Pendulum-v1"
    assert families.environment_name("tests.robot:a/Arm-v2") == "gym:tests.robot:a/Arm-v2"
    assert families.environment_name("nonsense") == "nonsense"
    given = families.environment_name(short)
    assert given.startswith(f"gym:function/{__name__}.short-")
    assert families.environment_name(Count(4)).startswith("gym:instance/Count-")
    for wrong in (3, None, gym.make_vec("deadtime-tests/Count-v0", 2)):
        with pytest.raises(ValueError, match="an environment is a name .*: pass one of these"):
            families.environment_name(wrong)


def test_the_past_of_an_instance_does_not_count_but_its_parameters_do():
    env = gym.make("deadtime-tests/Count-v0")
    first = gym_given.given_id(env)
    env.action_space.sample()
    env.reset(seed=4)
    env.step(0)
    assert (gym_given.given_id(env), env.unwrapped.time) == (first, 1)
    assert gym_given.given_id(Count(5)) != first
    assert gym_given.given_id(Count(5)) != gym_given.given_id(Count(6))


def test_an_instance_that_can_not_be_copied_is_refused():
    env = Count()
    env.lock = threading.Lock()
    with pytest.raises(ValueError, match="can't be copied .*: pass a function that makes the env"):
        make_spec(env, "oblivious", 0, {})


def test_settings_of_a_function_are_those_of_the_run():
    spec = make_spec(Count, "oblivious", 1, {"limit": 7, "steps": 9})
    assert (spec.settings, spec.steps) == ({"limit": 7}, 9)
    assert from_canonical(spec.canonical()).id == spec.id
    with pytest.raises(ValueError, match="has no setting 'lmit'; did you mean 'limit'"):
        make_spec(Count, "oblivious", 1, {"lmit": 7})
    assert make_spec(gym.make("CartPole-v1"), "oblivious", 1, {}).environment(0).limit == 500


def test_a_function_that_makes_no_environment_is_refused():
    with pytest.raises(ValueError, match=r"must inherit from the gymnasium.Env class"):
        make_spec(lambda: None, "oblivious", 0, {})


def test_what_can_be_drawn():
    described = [deadtime.envs.make(one) for one in (Count, short, Count(render_mode="rgb_array"))]
    assert [one.draws for one in described] == [True, False, True]
    described[2].make("rgb_array")
    with pytest.raises(ValueError, match="the instance has render_mode='rgb_array'; got 'human'"):
        described[2].make("human")


def test_other_processes_get_no_functions():
    unit = Unit(((make_spec(short, "oblivious", 0, {}), 0),))
    with pytest.raises(ValueError, match=r'in this process, Where\(engine="inline"\), or register'):
        unit.to_json()


def test_a_record_whose_function_is_absent_says_what_to_pass():
    content = make_spec(short, "oblivious", 0, {}).canonical()
    del gym.registry[content["env"].removeprefix("gym:")]
    recorded = from_canonical(content)
    with pytest.raises(ValueError, match=r"is the function .*short, which a record can't hold.*: "):
        recorded.environment(0)


@pytest.mark.slow
def test_runs_are_equal_however_the_environment_was_given(tmp_path):
    function, instance, by_id = short, Count(3), "deadtime-tests/Count-v0"
    before = copy.deepcopy(instance.__dict__)
    results = [
        deadtime.train(function, "delayed", 2, **SMALL),
        deadtime.train(instance, "delayed", 2, **SMALL),
        deadtime.train(by_id, "delayed", 2, **SMALL, limit=3),
    ]
    assert instance.__dict__ == before
    for result in results[1:]:
        np.testing.assert_array_equal(result.curve.returns, results[0].curve.returns)
        for name, array in result.record.policies.items():
            np.testing.assert_array_equal(array, results[0].record.policies[name])
    about = [result.record.provenance[0]["environment"] for result in results]
    assert about[0]["function"] == f"{__name__}.short"
    assert about[1]["instance"] == str(instance)
    assert about[2]["id"] == by_id
    assert {one["action_space"] for one in about} == {"Discrete(2)"}

    folder = results[0].save(tmp_path / "run")
    for one in [*gym.registry]:
        if gym_given.is_given(one):
            del gym.registry[one]
    policy = deadtime.load(folder)
    assert policy.act(np.zeros(2), [0, 1]) in (0, 1)
    assert deadtime.evaluate(policy, short, episodes=2).tolist() == [3, 3]
    assert deadtime.evaluate(policy, Count, episodes=2, limit=4).tolist() == [4, 4]


@pytest.mark.slow
def test_a_comparison_knows_its_runs_again(tmp_path):
    limit = 3
    wanted = (lambda: Count(limit)), ("oblivious",), (0,), 1
    first = deadtime.compare(*wanted, out=tmp_path, **SMALL)
    again = deadtime.compare(*wanted, out=tmp_path, **SMALL)
    limit = 4
    other = deadtime.compare(*wanted, out=tmp_path, **SMALL)
    assert [one.trained for one in (first, again, other)] == [1, 0, 1]
    assert [float(one.mean("oblivious", 0).value) for one in (first, other)] == [3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("env", [lambda: Count(3), full(Count(3))])
def test_worker_processes_play_the_same(env):
    name = families.environment_name(env)
    environment = deadtime.envs.make(name)
    lanes = [Lane(environment, delay, 10 + i) for i, delay in enumerate((2, 0, 1))]
    make = partial(local_pool, name, [gym.spec(environment.id)])
    found = []
    for pool in (make(lanes), ProcessPool(lanes, make, name, 2)):
        with closing(pool):
            steps = [pool.reset()]
            for _ in range(7):
                pool.send(np.ones(3, int))
                steps.append(pool.receive())
        found.append([np.concatenate([step.shown.ravel(), step.reward]) for step in steps])
    np.testing.assert_array_equal(*found)
