"""Policies in forged records: arrays that do not fit their spec are refused."""

from dataclasses import replace
from itertools import pairwise

import jax
import numpy as np
import pytest

from deadtime.learn.frame_networks import named_arrays, new_q
from deadtime.learn.settings import PixelQ
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.record import Record
from deadtime.runs.result import Result
from deadtime.runtime import NetworkPolicy
from tests.forgery import changed, refused
from tests.runtime.kinds import frames_manifest

TABLES = [
    ("augmented", {"keys": lambda a: np.tile(a, (1, 50))}),
    ("augmented", {"keys": lambda a: np.tile(a, (9, 1))}),
    ("augmented", {"keys": lambda a: a[:0], "q": lambda a: a[:0]}),
    ("augmented", {"keys": lambda a: a.astype(np.int64)}),
    ("augmented", {"q": lambda a: a[:, :3]}),
    ("augmented", {"q": lambda a: a.ravel()}),
    ("augmented", {"q": None}),
    ("augmented", {"keys": None}),
    ("delayed", {"q": lambda a: a[:5]}),
    ("delayed", {"q": lambda a: a.astype(np.float32)}),
    ("delayed", {"likely": lambda a: a + 9}),
    ("delayed", {"likely": lambda a: a - 9}),
    ("delayed", {"likely": None}),
    ("distribution", {"successors": lambda a: np.full_like(a, 10**8)}),
    ("distribution", {"successors": lambda a: np.full_like(a, -(10**8))}),
    ("distribution", {"visits": lambda a: a[:, :, :0]}),
    ("distribution", {"visits": lambda a: np.tile(a, (1, 1, 9))}),
]


@pytest.mark.parametrize(
    ("agent", "changes"), TABLES, ids=lambda part: str([*part]) if isinstance(part, dict) else part
)
def test_tables_that_compiled_code_would_leave(agent, changes, trained):
    record = trained[agent]
    mine = {
        name.removeprefix("0/"): array
        for name, array in record.policies.items()
        if name.startswith("0/")
    }
    policies = {f"0/{name}": array for name, array in changed(mine, **changes).items()}
    refused(
        lambda: Result(replace(record, policies=policies)).policy(0),
        "(train it again|is .* of shape .*; got )",
    )


def layers(part, widths, lead=()):
    """Return the arrays of a network of zeros, as a record holds them."""
    arrays = {}
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        arrays |= {f"{part}/{i}/weight": np.zeros((*lead, outputs, inputs), np.float32)}
        arrays |= {f"{part}/{i}/bias": np.zeros((*lead, outputs), np.float32)}
    return arrays


def deep_policy(agent, arrays, **changes):
    spec = DeepSpec("cartpole", agent, 2, "best", changes=changes)
    record = Record(
        spec.id, spec.canonical(), [0], [], [], [], [], [], np.zeros(0, int), np.zeros((1, 0))
    )
    return Result(
        replace(record, policies={f"0/{name}": array for name, array in arrays.items()})
    ).policy(0)


SCALES = {
    f"{part}/{name}": np.ones(4, np.float32)
    for part in ("inputs", "changes")
    for name in ("mean", "deviation")
}
DEEP = {
    "delayed": layers("q", (4, 64, 64, 2))
    | layers("model", (6, 64, 64, 4), (1,))
    | SCALES
    | {"capacity": np.array(2)},
    "augmented": layers("q", (8, 64, 64, 2)) | SCALES | {"capacity": np.array(2)},
    "recurrent": layers("layer", (4, 64))
    | {
        f"layer/1/{name}": np.zeros(shape, np.float32)
        for name, shape in (("weight", (3, 64)), ("bias", 3))
    }
    | {
        "lstm/input": np.zeros((256, 64)),
        "lstm/output": np.zeros((256, 64)),
        "lstm/bias": np.zeros(256),
    }
    | {
        f"norm/{i}/{name}": np.zeros(n)
        for i, n in enumerate((256, 256, 64))
        for name in ("gain", "shift")
    },
}
NETWORKS = [
    ("delayed", {"q_0_bias": lambda a: a[:1]}),
    ("delayed", {"q_0_bias": lambda a: a.reshape(64, 1)}),
    ("delayed", {"q_0_weight": lambda a: a[:, :3]}),
    ("delayed", {"q_1_weight": lambda a: np.tile(a, (1, 99))}),
    ("delayed", {"q_2_weight": lambda a: np.tile(a, (2, 1)), "q_2_bias": lambda a: np.tile(a, 2)}),
    ("delayed", {"q_2_bias": None}),
    ("delayed", {"q_0_weight": None}),
    ("delayed", {"q_0_weight": lambda a: a.ravel()}),
    ("delayed", {"model_0_weight": lambda a: a[:, :, :4]}),
    ("delayed", {"model_0_weight": lambda a: a[:0]}),
    ("delayed", {"model_2_weight": lambda a: a[:, :1], "model_2_bias": lambda a: a[:, :1]}),
    ("delayed", {"inputs_mean": lambda a: a[:1]}),
    ("delayed", {"changes_deviation": lambda a: np.tile(a, 2)}),
    ("delayed", {"capacity": None}),
    ("delayed", {"capacity": lambda a: np.arange(5)}),
    ("augmented", {"capacity": lambda a: np.array(1)}),
    ("augmented", {"capacity": lambda a: np.array(10**9)}),
    ("augmented", {"capacity": lambda a: np.array(1), "q_0_weight": lambda a: a[:, :6]}),
    ("recurrent", {"layer_0_weight": lambda a: a[:9]}),
    ("recurrent", {"layer_1_weight": lambda a: a[:2], "layer_1_bias": lambda a: a[:2]}),
    ("recurrent", {"lstm_output": lambda a: a[:, :9]}),
    ("recurrent", {"lstm_bias": lambda a: a[:-3]}),
    ("recurrent", {"lstm_bias": None}),
    ("recurrent", {"norm_2_gain": None, "norm_2_shift": None}),
]


@pytest.mark.parametrize("agent", DEEP)
def test_networks_that_fit(agent):
    assert deep_policy(agent, DEEP[agent]).act(np.zeros(4), [0, 1]) == 0


@pytest.mark.parametrize(
    ("agent", "changes"),
    NETWORKS,
    ids=lambda part: str([*part]) if isinstance(part, dict) else part,
)
def test_networks_that_do_not_fit(agent, changes):
    refused(lambda: deep_policy(agent, changed(DEEP[agent], **changes)), "train it again")


def test_settings_that_the_arrays_do_not_have():
    refused(lambda: deep_policy("delayed", DEEP["delayed"], members=2**31), "train it again")
    refused(
        lambda: deep_policy("recurrent", DEEP["recurrent"] | {"norm/2/gain": np.zeros(3)}),
        "train it again",
    )


@pytest.mark.slow
def test_networks_of_frames():
    shown = PixelQ(channels=(2, 2, 2), hidden=4)
    like = jax.eval_shape(lambda key: new_q(key, shown, 18), jax.random.key(0))
    arrays = named_arrays(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like))

    def policy(arrays, delay=1, capacity=1):
        manifest = frames_manifest("augmented", "queue", delay, capacity=capacity)
        return NetworkPolicy(manifest, arrays)

    policy(arrays)
    narrow, bare = (
        arrays[".hidden"][:, :5],
        {name: array for name, array in arrays.items() if name != ".out"},
    )
    for wrong in (
        arrays | {".out": arrays[".out"][:9]},
        arrays | {".hidden": arrays[".hidden"].astype(np.float64)},
        bare,
    ):
        refused(lambda wrong=wrong: policy(wrong), "is float32 of shape .*; got ")
    refused(lambda: policy(arrays | {".hidden": narrow}), "is float32 of shape .*; got ")
    refused(
        lambda: policy(arrays, capacity=0),
        "inputs for all pending actions; got capacity=0, delay=1: .*train it again",
    )
    refused(
        lambda: policy(arrays, delay=2),
        "inputs for all pending actions; got capacity=1, delay=2: .*train it again",
    )
    refused(lambda: policy(arrays, capacity=2**31 - 1), "is float32 of shape .*; got ")
