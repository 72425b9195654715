"""Delay buffers of JAX arrays against the scalar reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deadtime.delays import Trace
from deadtime.integrations import jax_arrays
from deadtime.integrations.jax_arrays import ActionBuffer, ObservationBuffer
from tests.integrations import array_reference as reference

pytestmark = pytest.mark.slow
FIRST = (reference.Constant(4), reference.Uniform(1, 4))
PROCESSES = [
    pytest.param(process, marks=[] if process in FIRST else pytest.mark.full, id=str(process))
    for process in reference.PROCESSES
]


@pytest.fixture
def case(monkeypatch):
    return in_use(monkeypatch)


def in_use(monkeypatch, **settings):
    """Return a case whose random numbers the buffers use: keys are rows of `numbers`."""
    made = reference.Case(**settings)
    monkeypatch.setattr(jax_arrays, "_uniform", lambda key, count: jnp.asarray(made.numbers)[key])
    return made


def rows(process):
    """Return the rows of random numbers of each step: one to advance and one to reset."""
    advance = 0 if process.chain.deterministic else 1
    reset = 0 if process.constant is not None else 1
    steps = 1 + (advance + reset) * np.arange(reference.STEPS)
    return jnp.asarray(steps), jnp.asarray(steps + advance)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("several", [False, pytest.param(True, marks=pytest.mark.full)])
def test_actions_are_those_of_the_reference(monkeypatch, process, several):
    case = in_use(monkeypatch, several=process.longest if several else 0)
    buffer = ActionBuffer(process, case.warmup)

    def step(state, given):
        items, resets, advance, again = given
        ages = buffer.ages(state)
        executed, state = buffer.push(state, items, advance)
        state = buffer.reset(state, resets, again)
        return state, (executed, buffer.pending(state), ages)

    given = (jnp.asarray(case.items), jnp.asarray(case.resets), *rows(process))
    state = buffer.init(given[0][0], 0)
    _, found = jax.jit(lambda s: jax.lax.scan(step, s, given))(state)
    for ours, theirs in zip(found, reference.executed(process, case), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("process", PROCESSES)
def test_observations_are_those_of_the_reference(case, process):
    buffer = ObservationBuffer(process)

    def step(state, given):
        items, resets, advance, again = given
        shown, state = buffer.push(state, items, advance)
        return buffer.reset(state, resets, again), shown

    given = (jnp.asarray(case.items), jnp.asarray(case.resets), *rows(process))
    state = buffer.init(given[0][0], 0)
    _, found = jax.jit(lambda s: jax.lax.scan(step, s, given))(state)
    np.testing.assert_array_equal(found, reference.shown(process, case))


def test_ages_have_the_law_of_their_process():
    process = reference.PROCESSES[2]
    buffer = ActionBuffer(process)
    like = jnp.zeros((20_000, 1))
    state = buffer.init(like, jax.random.key(0))
    for t in range(3):
        found = np.bincount(buffer.ages(state), minlength=5) / len(like)
        np.testing.assert_allclose(found, process.age_law, atol=0.02)
        _, state = buffer.push(state, like, jax.random.key(t + 1))


def test_a_trace_that_ends_is_refused():
    with pytest.raises(ValueError, match="pass repeat=True"):
        ActionBuffer(Trace([1, 2]))
