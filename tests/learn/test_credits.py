"""The channel in the compiled loop: which action a step executes, and which rows it leaves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deadtime.delays import Constant, GilbertElliott, RandomWalk, Uniform
from deadtime.envs.channel import first_state, next_state, step_draw
from deadtime.learn import compiled_loop
from deadtime.learn.compiled_groups import program_of, setups_of
from deadtime.learn.credits import action_age
from deadtime.runs.specs import make_spec
from deadtime.runtime import VIEWS, View

PROCESSES = [Uniform(1, 4), RandomWalk(0, 3, 0.6), GilbertElliott(1, Uniform(2, 5), 0.2, 0.4)]
SMALL = {"steps": 600, "hidden": (4,), "batch_size": 4, "evaluation_episodes": 1}


def program_and_setup(agent, process, **options):
    spec = make_spec("cartpole", agent, process, SMALL | options)
    setups = setups_of([(spec, 0)], 1)
    return program_of(spec, "cpu"), jax.tree.map(lambda leaf: leaf[0], setups)


def played(program, setup, steps):
    """What each step did: the actor before it, what it kept, and the actor after it."""
    run = compiled_loop.begin(program, setup)

    def step(actor, t):
        now = compiled_loop.ahead(program, setup, t)
        after, _, kept, _ = compiled_loop.step(
            program, setup, run.learner, actor, jnp.zeros(()), now
        )
        age = action_age(program, setup, actor.channel)
        return after, (actor, kept, age)

    return jax.jit(partial(jax.lax.scan, step))(run.actors, jnp.arange(steps))[1]


@pytest.fixture
def reactive(monkeypatch):
    monkeypatch.setitem(VIEWS, "reactive", View("state", "executed"))


@pytest.mark.slow
@pytest.mark.parametrize("process", PROCESSES)
def test_a_step_executes_the_action_of_its_age(process, reactive):
    program, setup = program_and_setup("reactive", process, hidden=(4,))
    actors, kept, ages = played(program, setup, 400)
    room = program.capacity
    starts = np.asarray(actors.age) == 0
    chosen = np.asarray(actors.queue)
    found = np.asarray(kept.item.action)
    for t in range(400 - 1):
        if starts[t + 1]:
            continue
        slots = [*chosen[t], chosen[t + 1][-1]]  # the queue, and the action of this step
        assert found[t] == slots[room - ages[t]]
    assert {*np.asarray(ages).tolist()} == {*process.chain.ages.tolist()}


@pytest.mark.slow
@pytest.mark.parametrize("process", PROCESSES)
def test_a_row_needs_an_action_of_this_episode(process, reactive):
    program, setup = program_and_setup("reactive", process)
    actors, kept, ages = played(program, setup, 400)
    own = np.asarray(ages) <= np.asarray(actors.age)
    assert (np.asarray(kept.valid) == own).all()
    assert not own.all()


@pytest.mark.slow
def stored(program, setup, steps):
    """The number of rows in the replay after each step."""
    run = compiled_loop.begin(program, setup)

    def turn(run, t):
        after, _ = compiled_loop.turn(program, setup, run, compiled_loop.ahead(program, setup, t))
        return after, (
            run.actors,
            after.replay.stored,
            action_age(program, setup, run.actors.channel),
        )

    return jax.jit(partial(jax.lax.scan, turn))(run, jnp.arange(steps))[1]


@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_rows_are_left_out_by_the_age_of_their_action_and_not_by_the_longest_age(skipped):
    """Ages of 30 are rare here, and most episodes are shorter than 30 steps."""
    process = GilbertElliott(0, 30, to_bad=0.05, to_good=0.5)
    program, setup = program_and_setup("augmented", process, skipped_delays=skipped)
    actors, rows, ages = stored(program, setup, 300)
    kept = np.asarray(actors.age) >= skipped * np.asarray(ages)
    assert (np.asarray(rows) == kept.cumsum()).all()
    assert kept.sum() > 150


def test_an_agent_that_credits_the_chosen_action_keeps_every_row():
    program, setup = program_and_setup("augmented", Uniform(1, 4))
    _, kept, _ = played(program, setup, 100)
    assert np.asarray(kept.valid).all()


@pytest.mark.slow
@pytest.mark.parametrize("process", PROCESSES)
def test_the_ages_have_the_stated_law(process, reactive):
    """Of 2,000 channels, 20 steps after their start: the stationary law, within 5 deviations."""
    program, setup = program_and_setup("reactive", process)

    def channel(key):
        first, *others = jax.random.split(key, 21)
        state = first_state(process, first)
        for one in others:
            state = next_state(process, state, step_draw(process, one))
        return action_age(program, setup, state)

    ages = jax.jit(jax.vmap(channel))(jax.random.split(jax.random.key(3), 2000))
    found = np.bincount(ages, minlength=process.longest + 1) / 2000
    assert (abs(found - process.age_law) < 5 * np.sqrt(0.25 / 2000)).all()


def test_a_constant_process_is_the_constant_delay():
    for agent in ("augmented", "delayed"):
        one, other = (make_spec("cartpole", agent, delay, SMALL) for delay in (3, Constant(3)))
        assert one == other
        assert one.id == other.id
        assert "process" not in one.canonical()


def test_when_the_age_is_observed_is_kept_for_agents_that_use_it_only():
    kept = dict.fromkeys(("delayed", "projected", "augmented"), "hindsight")
    for agent, observed in (kept | {"oblivious": "now", "recurrent": "now"}).items():
        spec = make_spec("cartpole", agent, "uniform:1-3", {"observed": "hindsight"})
        assert spec.observed == observed
        assert make_spec("cartpole", agent, 3, {"observed": "hindsight"}).observed == "now"
    with pytest.raises(ValueError, match='observed is "now", "hindsight" or "never"; got'):
        make_spec("cartpole", "delayed", "uniform:1-3", {"observed": "later"})


def test_a_trace_that_ends_is_refused():
    for env in ("cartpole", "maze"):
        with pytest.raises(ValueError, match="training needs a delay without an end"):
            make_spec(env, "augmented", {"kind": "trace", "ages": [1, 2, 1]}, {})
