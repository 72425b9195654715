"""Manifests are plain data; a manifest with arrays is the whole policy; wrong ones are refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from deadtime.runtime import Manifest, NetworkPolicy, TablePolicy
from tests.runtime.kinds import KINDS, acted, deep_manifest, frames_manifest, table_manifest

BOX = Manifest(
    "sac", "queue", 2, "gym:X", (3,), low=(-1.0, 0.1), high=(1.0, 2.0), head="bounded", capacity=2
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_and_arrays_are_the_whole_policy(kind):
    draw, build = KINDS[kind]
    arrays = draw(np.random.default_rng(0))
    policy = build(arrays)
    policy.env = "gym:Somewhere-v0"
    text = policy.manifest.to_json()
    again = Manifest.from_json(text)
    assert again == policy.manifest
    assert again.to_json() == text == Manifest.from_json(text.encode()).to_json()
    twin = (TablePolicy if again.states else NetworkPolicy)(again, arrays)
    assert acted(twin) == acted(policy)
    assert repr(twin) == repr(policy)


def test_json_has_every_field():
    assert json.loads(BOX.to_json()) == {
        "agent": "sac",
        "sees": "queue",
        "delay": 2,
        "env": "gym:X",
        "observation_shape": [3],
        "states": 0,
        "actions": 0,
        "low": [-1.0, 0.1],
        "high": [1.0, 2.0],
        "encoder": "numbers",
        "head": "bounded",
        "memory": False,
        "capacity": 2,
        "age_inputs": 0,
        "one_hot_queue": False,
        "model": "",
        "members": 1,
        "seed": 0,
        "process": None,
        "observed": "now",
    }
    assert Manifest.from_json(BOX.to_json()) == BOX
    assert hash(BOX) == hash(replace(BOX, low=[-1, np.float64(0.1)]))
    assert [type(n) for n in replace(BOX, low=[-1, np.float64(0.1)], delay=np.int64(1)).low] == [
        float,
        float,
    ]


def test_a_manifest_follows_its_policy():
    draw, build = KINDS["deep delayed"]
    policy = build(draw(np.random.default_rng(0)))
    assert policy.at_delay(7).manifest == replace(policy.manifest, delay=7)


DEEP = deep_manifest()
FRAMES = frames_manifest()
TABLE = table_manifest("delayed", "prediction")
WRONG = {
    "a policy sees one of state, queue, prediction, law, history; got 'all': train it again": (
        DEEP,
        {"sees": "all"},
    ),
    "the encoder of a policy is one of numbers, frames; got 'words'": (DEEP, {"encoder": "words"}),
    "the head of a policy is one of values, dueling, logits, bounded; got None": (
        DEEP,
        {"head": None},
    ),
    "delay is a whole number of steps": (DEEP, {"delay": -1}),
    "agent of a policy is text; got 3: pass one, or train it again": (DEEP, {"agent": 3}),
    "env of a policy is text; got None": (DEEP, {"env": None}),
    "model of a policy is text; got 1": (DEEP, {"model": 1}),
    "memory of a policy is true or false; got 1": (DEEP, {"memory": 1}),
    "one_hot_queue of a policy is true or false; got 'yes'": (DEEP, {"one_hot_queue": "yes"}),
    "members of a policy is a whole number, 0 to .*; got True": (DEEP, {"members": True}),
    "members of a policy is a whole number, 0 to .*; got 2147483648": (DEEP, {"members": 2**31}),
    "capacity of a policy is a whole number, 0 to .*; got -1": (DEEP, {"capacity": -1}),
    "actions of a policy is a whole number, 0 to .*; got 2.0": (DEEP, {"actions": 2.0}),
    "seed of a policy is a whole number": (TABLE, {"seed": "1"}),
    "states of a policy is a whole number": (TABLE, {"states": None}),
    "observation_shape of a policy is a list of numbers; got 4": (DEEP, {"observation_shape": 4}),
    "observation_shape of a policy is a whole number, 1 to .*; got 0": (
        DEEP,
        {"observation_shape": (0,)},
    ),
    "low of a policy is numbers that single precision holds; got nan": (
        BOX,
        {"low": (float("nan"), 0)},
    ),
    "high of a policy is numbers that single precision holds; got inf": (
        BOX,
        {"high": (1, float("inf"))},
    ),
    "high of a policy is numbers that single precision holds; got 1000": (
        BOX,
        {"high": (1, 10**400)},
    ),
    "low of a policy is numbers that single precision holds; got '0'": (BOX, {"low": ("0", 0)}),
    r"either numbered states or arrays; got states=6, observation_shape=\(4,\)": (
        DEEP,
        {"states": 6},
    ),
    r"either numbered states or arrays; got states=0, observation_shape=\(\)": (
        DEEP,
        {"observation_shape": ()},
    ),
    r"observed numbers have one axis, .*; got .*\(2, 2\): flatten the": (
        DEEP,
        {"observation_shape": (2, 2)},
    ),
    r"frames have the shape \(4, 84, 84\); got .*shape=\(1, 84, 84\)": (
        FRAMES,
        {"observation_shape": (1, 84, 84)},
    ),
    "a game has 1 to 18 actions; got 19: train it again": (FRAMES, {"actions": 19}),
    "a game has 1 to 18 actions; got None: train it again": (
        FRAMES,
        {"actions": None},
    ),
    "numbered actions, or a box of actions .*; got actions=0, low=.., high=": (
        DEEP,
        {"actions": 0},
    ),
    "numbered actions, or a box of actions .*; got actions=2, low=.-1.0": (BOX, {"actions": 2}),
    'the head "bounded"; got .* head=.bounded.: pass one': (DEEP, {"head": "bounded"}),
    'the head "bounded"; got .* head=.logits.: pass one': (BOX, {"head": "logits"}),
    "a low and a high for each number of an action, low below high; got low=.-1": (
        BOX,
        {"low": (-1.0,)},
    ),
    "low below high; got low=.-1.0, 2.0., high=.1.0, 2.0.: pass the bounds": (
        BOX,
        {"low": (-1.0, 2.0)},
    ),
    "low below high; got low=.-1.0, 1.99999999999": (BOX, {"low": (-1.0, 2 - 1e-12)}),
    "a box of actions needs a network .*; got .*one_hot_queue=True": (
        BOX,
        {"one_hot_queue": True},
    ),
    "a box of actions needs a network .*; got states=3": (
        BOX,
        {"states": 3, "observation_shape": ()},
    ),
    "sees the queue has inputs for all pending actions; got capacity=2, delay=3": (
        BOX,
        {"delay": 3},
    ),
    "predicts with the look-ahead fresh or kept; got model='learned'": (
        FRAMES,
        {"sees": "law", "model": "learned"},
    ),
    "a memory has one forward model, .*; got members=2: pass 1": (
        DEEP,
        {"memory": True, "members": 2},
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_manifests_are_refused(words):
    manifest, changes = WRONG[words]
    with pytest.raises(ValueError, match=words):
        replace(manifest, **changes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "a manifest is JSON; it is not JSON that can be read .*: export the policy again"),
        ('{"agent": "a", "agent": "b"}', "a name occurs twice"),
        ("[" * 99 + "]" * 99, "nested 99 levels deep"),
        ("[]", r"a JSON object with an agent; got \[\]: export the policy again"),
        ('{"delay": 1}', "a JSON object with an agent; got {'delay': 1}"),
        (
            '{"agent": "a", "memroy": true}',
            "no field 'memroy'; did you mean 'memory'.: it has agent, sees, delay",
        ),
        ('{"agent": "a", "states": 2, "actions": 2, "low": [NaN]}', "low of a policy is numbers"),
    ],
)
def test_json_of_the_wrong_form(text, words):
    with pytest.raises(ValueError, match=words):
        Manifest.from_json(text)


def test_each_class_refuses_the_other_observations():
    with pytest.raises(
        ValueError, match="a NetworkPolicy observes arrays; got 6 numbered states: use TablePolicy"
    ):
        NetworkPolicy(TABLE, {})
    with pytest.raises(
        ValueError, match=r"observes numbered states; got .* shape \(4,\): use NetworkPolicy"
    ):
        TablePolicy(DEEP, {})


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_that_are_missing_or_strange(kind):
    """A wrong array is refused unless the policy does not use it; then it acts as before."""
    draw, build = KINDS[kind]
    arrays = draw(np.random.default_rng(0))
    expected = acted(build(arrays))
    needed = 0
    for name, array in arrays.items():
        for other in (None, array[..., None], array.ravel()[0], array[:0], array.astype(str)):
            changed = {k: v for k, v in arrays.items() if k != name} | (
                {} if other is None else {name: other}
            )
            try:
                assert acted(build(changed)) == expected
            except ValueError:
                needed += 1
    assert needed >= len(arrays)


def test_a_policy_prints_as_one_line():
    manifest = replace(DEEP, agent="a\nb", env="\x1b[2Jx")
    policy = NetworkPolicy(manifest, KINDS["deep delayed"][0](np.random.default_rng(0)))
    assert repr(policy) == "NetworkPolicy(a?b on ?[2Jx, delay=3, 4 numbers -> 3 actions)"
