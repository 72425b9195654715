"""Random damage of records and checkpoints: a file is read as it was, or refused."""

import json
import shutil

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deadtime
from deadtime.learn import checkpoint
from deadtime.runs import records
from deadtime.runs.record import Record
from deadtime.runs.record_format import from_bytes, to_bytes
from tests.forgery import EXTENT, FURTHER, STATE, bounded, checkpointed, forge, npz


@st.composite
def damage(draw, content):
    """Draw a damaged form of a content: bits flipped, parts cut off, moved or dropped."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        kind = draw(st.sampled_from(["flip", "byte", "cut", "splice", "drop"]))
        first, last = sorted(
            draw(st.tuples(st.integers(0, len(content)), st.integers(0, len(content))))
        )
        if kind == "cut":
            content = content[:at]
        elif kind == "splice":
            content = content[:at] + content[first:last] + content[at:]
        elif kind == "drop":
            content = content[:first] + content[last:]
        elif content:
            new = (
                content[at] ^ 1 << draw(st.integers(0, 7))
                if kind == "flip"
                else draw(st.integers(0, 255))
            )
            content = content[:at] + bytes([new]) + content[at + 1 :]
    return content


def same(first, second):
    """Return whether two records, arrays or numbers are the same to the bit."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            same(first[name], second[name]) for name in first
        )
    if isinstance(first, Record):
        return same(vars(first), vars(second))
    if isinstance(first, np.ndarray | jax.Array):
        return (first.dtype, first.shape, first.tobytes()) == (
            second.dtype,
            second.shape,
            second.tobytes(),
        )
    return first == second or json.dumps(first) == json.dumps(second)


def fuzz(data, trained, scratch):
    """Damage a file at random, and check that it is read as it was or refused."""
    record = trained["augmented"]
    which = data.draw(
        st.sampled_from(["run.json", "curves.npz", "policies.npz", "packed", "checkpoint"])
    )
    if which == "packed":
        path = scratch / "packed.npz"
        path.write_bytes(to_bytes([record]))
        read = lambda: dict(enumerate(from_bytes(path.read_bytes())))  # noqa: E731
    elif which == "checkpoint":
        path = checkpointed(scratch / "x.safetensors")
        read = lambda: dict(enumerate(checkpoint.load(path, STATE, FURTHER, EXTENT)))  # noqa: E731
    else:
        shutil.rmtree(scratch / "record", ignore_errors=True)
        path = records.write(scratch / "record", record) / which
        read = lambda: records.read(scratch / "record", policies=True)  # noqa: E731
    original = read()
    path.write_bytes(data.draw(damage(path.read_bytes())))
    if which in ("curves.npz", "policies.npz") and data.draw(st.booleans()):
        forge(path.parent)
    try:
        found = bounded(read)
    except ValueError:
        return
    assert same(found, original)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def rewritten(draw, content):
    """Draw a form of JSON with another value in one place."""
    if isinstance(content, dict) and content and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(content)))
        new = draw(rewritten(content[name]))
        return {key: new if key == name else value for key, value in content.items()}
    if isinstance(content, list) and content and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(content) - 1))
        return [*content[:at], draw(rewritten(content[at])), *content[at + 1 :]]
    return draw(JSON)


def fuzz_forged(data, trained, scratch):
    """Forge a record at random, and check that its policy acts or is refused."""
    folder = scratch / "forged"
    shutil.rmtree(folder, ignore_errors=True)
    record = trained[data.draw(st.sampled_from([*trained]))]
    records.write(folder, record)
    content = json.loads((folder / "run.json").read_text())
    content = data.draw(
        rewritten(
            {name: value for name, value in content.items() if name not in ("digest", "schema")}
        )
    )
    arrays = dict(record.policies)
    for name in data.draw(st.lists(st.sampled_from([*arrays]), max_size=2)):
        shape = data.draw(st.lists(st.integers(0, 12), max_size=3))
        kind = data.draw(
            st.sampled_from([arrays[name].dtype, np.dtype("f4"), np.dtype("i8"), np.dtype("u1")])
        )
        arrays[name] = np.full(shape, data.draw(st.integers(0, 12)), kind)
    forge(
        folder,
        {"policies.npz": npz(**arrays)},
        **(content if isinstance(content, dict) else {"spec": content}),
    )
    try:
        policy = bounded(lambda: deadtime.load(folder))
    except ValueError:
        return
    assert policy.act(0, [0] * policy.delay) in range(4)


QUICK = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
LONG = settings(QUICK, max_examples=2000)


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_damage_never_passes_for_the_original(data, trained, scratch):
    fuzz(data, trained, scratch)


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_nothing_that_is_said_is_more_than_refused(data, trained, scratch):
    fuzz_forged(data, trained, scratch)


@pytest.mark.full
@LONG
@given(data=st.data())
def test_damage_never_passes_for_the_original_at_length(data, trained, scratch):
    fuzz(data, trained, scratch)


@pytest.mark.full
@LONG
@given(data=st.data())
def test_nothing_that_is_said_is_more_than_refused_at_length(data, trained, scratch):
    fuzz_forged(data, trained, scratch)
