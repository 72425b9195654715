"""Exported policies decide as the policy does; damaged and hostile files are refused."""

import json
import os
import struct
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from deadtime.delays import Uniform
from deadtime.runtime import (
    FORWARD_MODELS,
    VIEWS,
    Manifest,
    NetworkPolicy,
    Shown,
    View,
    load,
    save,
    to_onnx,
)
from tests.runtime import kinds

onnxruntime = pytest.importorskip("onnxruntime", reason="needs pip install 'deadtime[onnx]'")

BOX = {"observation_shape": (4,), "low": (-1.0, 0.1), "high": (1.0, 2.0), "head": "bounded"}


def arrays_of(name, seed=0):
    arrays = kinds.KINDS[name][0](np.random.default_rng(seed))
    for part in arrays:
        if part.startswith("model/"):
            arrays[part] *= np.float32(0.3)  # keeps predictions as small as observations
    return arrays


def box_policy(sees, capacity=0, model="", members=1, memory=False, **how):
    rng = np.random.default_rng(0)
    how = how | {"capacity": capacity, "model": model, "members": members}
    manifest = Manifest("sac", sees, 3, **how, **BOX)
    inputs = 4 + manifest.age_inputs + 2 * capacity
    arrays = kinds.dense(rng, "layer", (inputs, 8, 4))
    if model:
        arrays |= kinds.deep(rng, 4, "learned", members)
        arrays |= kinds.dense(rng, "model", (6, 8, 8, 4), (members,))
    return NetworkPolicy(manifest, arrays)


def policies():
    found = {name: build(arrays_of(name)) for name, (_, build) in kinds.KINDS.items()}
    rng = np.random.default_rng(1)
    long = kinds.deep(rng, 4, "change", actions=2, hidden=(64, 64))
    long |= {name: 0.5 * long[name] for name in long if name.startswith("model/")}
    how = {"model": "change", "actions": 2, "delay": 25, "one_hot_queue": True}
    found["deep, m = 25"] = NetworkPolicy(kinds.deep_manifest(**how), long)
    found["no delay"] = found["deep delayed"].at_delay(0)
    found["one step"] = found["deep ensemble"].at_delay(1)
    wide = kinds.deep(rng, 4 + 5)
    found["unused inputs"] = NetworkPolicy(kinds.deep_manifest("oblivious", "state", 2, 5), wide)
    found["unused room"] = NetworkPolicy(kinds.deep_manifest("augmented", "queue", 2, 5), wide)
    found["random delay"] = NetworkPolicy(
        kinds.deep_manifest("augmented", "queue", 5, 5, process=Uniform(1, 5)), wide
    )
    for observed in ("now", "hindsight", "never"):
        found[f"predicts, age seen {observed}"] = NetworkPolicy(
            kinds.deep_manifest(process=Uniform(1, 3), observed=observed), arrays_of("deep delayed")
        )
    for observed in ("now", "hindsight"):
        seen = {"process": Uniform(1, 3), "observed": observed, "age_inputs": 5}
        found[f"sees the queue and the age {observed}"] = NetworkPolicy(
            kinds.deep_manifest("augmented", "queue", 3, 6, one_hot_queue=True, **seen),
            kinds.deep(rng, 4 + 5 + 3 * 6),
        )
    found["the age of a constant delay"] = found["sees the queue and the age now"].at_delay(3)
    found["ensemble that predicts from ages"] = NetworkPolicy(
        kinds.deep_manifest(process=Uniform(0, 3), observed="now", model="change", members=2),
        arrays_of("deep ensemble"),
    )
    found["no layer norm"] = NetworkPolicy(
        kinds.recurrent_manifest(),
        {k: v for k, v in arrays_of("recurrent").items() if "norm" not in k},
    )
    found["no dimension"] = NetworkPolicy(
        kinds.deep_manifest("oblivious", "state", 2, 5), wide | {"capacity": np.array(5)}
    )
    found["box"] = box_policy("state")
    found["box queue"] = box_policy("queue", 3)
    seen = {"process": Uniform(1, 3), "age_inputs": 5}
    found["box queue and age"] = box_policy("queue", 3, **seen)
    found["box learned"] = box_policy("prediction", model="learned")
    recurrent = Manifest("recurrent", "history", 3, memory=True, **BOX)
    found["box recurrent"] = NetworkPolicy(recurrent, kinds.recurrent(rng, 4, 4))
    found["box change"] = box_policy("prediction", model="change", members=3)
    return found


POLICIES = policies()
GRAPHS = {
    name: policy
    for name, policy in POLICIES.items()
    if "table" not in name and name != "frames delayed"
}


def stream(policy, count=12):
    """Yield observations and queues."""
    rng = np.random.default_rng(7)
    for _ in range(count):
        if policy.num_states:
            obs = rng.integers(policy.num_states)
        elif len(policy.observation_shape) == 1:
            obs = rng.normal(size=policy.observation_shape).astype(np.float32)
        else:
            obs = rng.integers(256, size=policy.observation_shape).astype(np.uint8)
        if policy.action_shape:
            queue = rng.uniform(-1, 1, (policy.delay, *policy.action_shape)).astype(np.float32)
        else:
            queue = rng.integers(policy.num_actions, size=policy.delay)
        yield obs, queue


def known_age(policy, step):
    """The argument `ages` of a policy that needs it: each age that is possible, in turn."""
    least = 0 if policy.observed == "now" else -1
    return {"ages": least + step % (policy.delay + 1 - least)} if policy.sees_ages else {}


class Session:
    """An exported policy in ONNX Runtime, with its memory."""

    def __init__(self, policy):
        self.session = onnxruntime.InferenceSession(to_onnx(policy))
        inputs = {one.name: one.shape for one in self.session.get_inputs()}
        self.memory = {
            name: np.zeros(shape, np.float32)
            for name, shape in inputs.items()
            if name.startswith("memory")
        }
        self.inputs = {*inputs}
        self.outputs = [one.name for one in self.session.get_outputs()]

    def __call__(self, obs, queue, ages=0):
        given = {"observation": obs, "pending_actions": queue, "action_age": np.array(ages)}
        given |= self.memory
        given = {name: value for name, value in given.items() if name in self.inputs}
        found = dict(zip(self.outputs, self.session.run(None, given), strict=True))
        self.memory = {name: found[f"next_{name}"] for name in self.memory}
        return found


@pytest.mark.parametrize("name", GRAPHS)
def test_onnx_runtime_agrees_with_the_policy(name):
    policy = GRAPHS[name]
    session = Session(policy)
    policy.reset()
    for step, (obs, queue) in enumerate(stream(policy)):
        known = known_age(policy, step)
        found = session(obs, queue, **known)
        values = policy.see(obs, queue, **known)
        if policy.action_shape:
            np.testing.assert_allclose(found["action"], values, rtol=1e-5, atol=1e-5)
            continue
        (shown,) = {"values", "logits"} & {*found}
        np.testing.assert_allclose(found[shown], values, rtol=1e-5, atol=1e-5)
        assert found["action"] == values.argmax() or np.diff(np.sort(values))[-1] < 1e-5
    assert ("memory_cell" in session.inputs) == policy.manifest.memory
    assert ("action_age" in session.inputs) == policy.sees_ages
    used = policy.sees_queue or (policy.manifest.predicts and policy.delay)
    assert ("pending_actions" in session.inputs) == bool(used)


def test_an_onnx_model_holds_its_manifest():
    import onnx

    policy = POLICIES["deep delayed"]
    model = onnx.load_from_string(to_onnx(policy))
    (stored,) = model.metadata_props
    assert stored.key == "deadtime-policy"
    assert Manifest.from_json(stored.value) == policy.manifest
    assert to_onnx(policy) == to_onnx(policy)


class Shift:
    """A forward model from outside the package."""

    def __init__(self, manifest, arrays):
        """Take nothing."""

    def roll(self, observation, queue):
        return observation + 1


def test_what_onnx_does_not_take(monkeypatch):
    words = "ONNX takes networks whose parts are all built in; got "
    with pytest.raises(ValueError, match=f"{words}a table: save it as"):
        to_onnx(POLICIES["table delayed"])
    with pytest.raises(ValueError, match=f"{words}a policy that looks ahead with an emulator"):
        to_onnx(POLICIES["frames delayed"])
    monkeypatch.setitem(FORWARD_MODELS, "shift", Shift)
    mine = NetworkPolicy(kinds.deep_manifest(model="shift"), arrays_of("deep delayed"))
    with pytest.raises(ValueError, match=f"{words}a forward model of your own"):
        to_onnx(mine)
    custom = Shown(lambda numbers, actions: numbers, lambda obs, queue, delay: obs)
    monkeypatch.setitem(VIEWS, "mine", View("queue", "chosen", shown=custom))
    arrays = kinds.deep(np.random.default_rng(0), 4)
    with pytest.raises(ValueError, match=f"{words}a view with inputs of its own"):
        to_onnx(NetworkPolicy(kinds.deep_manifest("mine", "queue"), arrays))


@pytest.mark.parametrize("name", POLICIES)
def test_a_file_holds_the_whole_policy(name, tmp_path):
    policy = POLICIES[name]
    policy.env = "gym:Somewhere-v0"
    again = load(save(policy, tmp_path / "new" / "policy.safetensors"))
    assert again.manifest == policy.manifest
    assert repr(again) == repr(policy)
    assert {*again.arrays} == {*policy.arrays}
    for part, array in policy.arrays.items():
        np.testing.assert_array_equal(again.arrays[part], array, strict=True)
    if policy.num_states:
        policy = policy.at_delay(policy.channel)  # a fresh generator for ties
    policy.reset()
    for step, (obs, queue) in enumerate(stream(policy)):
        ahead = [obs] if getattr(policy, "looks_ahead", "") else []
        known = known_age(policy, step)
        expected = policy.act(obs, queue, *ahead, **known)
        np.testing.assert_array_equal(again.act(obs, queue, *ahead, **known), expected)


def header_of(content):
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def file_of(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def changed(content, **manifest):
    header, data = header_of(content)
    fields = json.loads(header["__metadata__"]["deadtime-policy"]) | manifest
    return file_of(header | {"__metadata__": {"deadtime-policy": json.dumps(fields)}}, data)


def without(content, *names):
    header, data = header_of(content)
    return file_of({name: part for name, part in header.items() if name not in names}, data)


def moved(content, **entry):
    header, data = header_of(content)
    return file_of(header | {"q/0/bias": header["q/0/bias"] | entry}, data)


HOSTILE = {
    "empty": lambda content: b"",
    "text": lambda content: b"import os; os.abort()",
    "cut": lambda content: content[:-5],
    "half a header": lambda content: content[:40],
    "a huge header": lambda content: struct.pack("<Q", 2**63) + content[8:],
    "more data": lambda content: content + b"\0" * 8,
    "deep json": lambda content: struct.pack("<Q", 10**6) + b"[" * 10**6,
    "no manifest": lambda content: without(content, "__metadata__"),
    "no bias": lambda content: without(content, "q/0/bias"),
    "outside": lambda content: moved(content, data_offsets=[0, 2**40]),
    "negative": lambda content: moved(content, data_offsets=[-8, 24]),
    "huge": lambda content: moved(content, shape=[2**40]),
    "another type": lambda content: moved(content, dtype="F64"),
    "bits": lambda content: moved(content, dtype="BF16"),
    "a manifest of other sizes": lambda content: changed(content, actions=7),
    "a huge delay": lambda content: changed(content, delay=2**40),
    "a huge queue": lambda content: changed(content, sees="queue", capacity=2**31 - 1),
    "many members": lambda content: changed(content, members=2**31 - 1),
    "an unknown field": lambda content: changed(content, code="os.abort()"),
    "another process": lambda content: changed(
        content, sees="state", process={"kind": "uniform", "low": 1, "high": 9}
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused(kind, tmp_path):
    path = save(POLICIES["deep delayed"], tmp_path / "policy.safetensors")
    path.write_bytes(HOSTILE[kind](path.read_bytes()))
    with pytest.raises(ValueError, match=r"policy.safetensors holds no policy that can be read: "):
        load(path)


def test_an_onnx_model_is_no_policy_to_load(tmp_path):
    (tmp_path / "policy.onnx").write_bytes(to_onnx(POLICIES["deep delayed"]))
    with pytest.raises(ValueError, match=r"`deadtime export RUN policy.safetensors`"):
        load(tmp_path / "policy.onnx")


@pytest.mark.parametrize("place", range(0, 1600, 23))
def test_a_flipped_byte_is_refused_or_harmless(place, tmp_path):
    path = save(POLICIES["deep delayed"], tmp_path / "policy.safetensors")
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << place % 8
    path.write_bytes(content)
    with suppress(ValueError):
        assert isinstance(load(path), NetworkPolicy)


def test_links_and_pipes_are_refused(tmp_path):
    path = save(POLICIES["box"], tmp_path / "policy.safetensors")
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises((ValueError, OSError), match="no plain file|Is a directory"):
            load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


def test_a_policy_at_another_delay_is_exported_at_that_delay(tmp_path):
    policy = POLICIES["deep delayed"].at_delay(6)
    assert load(save(policy, tmp_path / "p.safetensors")).delay == 6
    (queue,) = [
        one for one in Session(policy).session.get_inputs() if one.name == "pending_actions"
    ]
    assert queue.shape == [6]
    assert replace(policy.manifest, delay=3) == POLICIES["deep delayed"].manifest
