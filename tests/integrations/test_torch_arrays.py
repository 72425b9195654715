"""Delay buffers of tensors against the scalar reference."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs pip install '.[torchrl]'")
pytestmark = pytest.mark.full

from deadtime.delays import Trace, Uniform
from deadtime.integrations.torch_arrays import ActionBuffer, Ages, ObservationBuffer
from tests.integrations import array_reference as reference


@pytest.fixture
def case(monkeypatch):
    return in_use(monkeypatch)


def in_use(monkeypatch, **settings):
    """Return a case whose random numbers the buffers use."""
    made = reference.Case(**settings)
    numbers = iter(made.numbers)
    monkeypatch.setattr(Ages, "_draw", lambda self: torch.from_numpy(next(numbers)))
    return made


@pytest.mark.parametrize("process", reference.PROCESSES, ids=str)
@pytest.mark.parametrize("several", [False, True])
def test_actions_are_those_of_the_reference(monkeypatch, process, several):
    case = in_use(monkeypatch, several=process.longest if several else 0)
    items = torch.from_numpy(case.items)
    buffer = ActionBuffer(process, items[0], torch.from_numpy(case.warmup))
    executed, pending, ages = [], [], []
    for t in range(reference.STEPS):
        ages.append(buffer.ages.now.numpy().copy())
        executed.append(buffer.push(items[t]).numpy().copy())
        buffer.reset(torch.from_numpy(case.resets[t]))
        pending.append(buffer.pending.numpy().copy())
    for ours, theirs in zip(
        (executed, pending, ages), reference.executed(process, case), strict=True
    ):
        np.testing.assert_array_equal(np.array(ours), theirs)


@pytest.mark.parametrize("process", reference.PROCESSES, ids=str)
def test_observations_are_those_of_the_reference(case, process):
    items = torch.from_numpy(case.items)
    buffer = ObservationBuffer(process, items[0])
    shown = []
    for t in range(reference.STEPS):
        shown.append(buffer.push(items[t]).numpy().copy())
        buffer.reset(torch.from_numpy(case.resets[t]))
    np.testing.assert_array_equal(np.array(shown), reference.shown(process, case))


@pytest.mark.parametrize("process", reference.PROCESSES, ids=str)
def test_no_value_is_needed_on_the_host(process):
    """A meta tensor has no values, so to ask for one raises."""
    like = torch.zeros((7, 2), device="meta")
    mask = torch.zeros(7, dtype=torch.bool, device="meta")
    for buffer in (ObservationBuffer(process, like), ActionBuffer(process, like)):
        for _ in range(3):
            assert buffer.push(like).shape == (7, 2)
            buffer.reset(mask)
    assert buffer.pending.shape == (7, process.longest, 2)


def test_ages_have_the_law_of_their_process():
    process = Uniform(1, 4)
    ages = Ages(process, 20_000, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        found = np.bincount(ages.now, minlength=5) / 20_000
        np.testing.assert_allclose(found, process.age_law, atol=0.02)
        ages.advance()


def test_a_trace_that_ends_is_refused():
    with pytest.raises(ValueError, match="pass repeat=True"):
        Ages(Trace([1, 2]), 3)
