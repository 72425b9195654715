"""Ages that agents infer: the hidden Markov model by brute force, and rows in both loops."""

from functools import partial
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deadtime.delays import GilbertElliott, RandomWalk, Uniform
from deadtime.learn import compiled_loop
from deadtime.learn.inferred_ages import first_trail, later_trail, settled
from deadtime.learn.program import Done
from deadtime.learn.replay import layout_of, transitions
from tests.learn import test_executed_rows as rows_tests

_recorder = rows_tests._recorder
PROCESSES = [Uniform(1, 3), GilbertElliott(0, 2, 0.2, 0.4), RandomWalk(0, 3, 0.6)]


class Vague:
    """A model under which several ages are likely; it uses all of its arguments."""

    def log_densities(self, before, now, after, actions):
        return jnp.sin(3 * actions + after[0] - 2 * before[1] + now[2])


class Sharp:
    """A model of `Diary`, whose observations show the executed action."""

    def log_densities(self, before, now, after, actions):
        return -((after[2] - actions.reshape(len(actions), -1)[:, 0]) ** 2) * 1e9


def told_less(program, ages):
    return rows_tests.replace(program, hidden=program.process, ages=ages)


def pairs_of(process, likely):
    """The chance of each pair of the last two ages, by brute force over all paths."""
    chain = process.chain
    matrix, joint = chain.matrix(), np.zeros((process.longest + 1,) * 2)
    for path in product(range(chain.size), repeat=len(likely)):
        seen = np.prod([one[chain.ages[i]] for one, i in zip(likely, path, strict=True)])
        moved = np.prod([matrix[i, j] for i, j in pairwise(path)])
        joint[tuple(chain.ages[i] for i in path[-2:])] += chain.start[path[0]] * seen * moved
    return joint


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_settled_ages_are_the_most_likely_ones(process):
    """A row is that of the step before; after the end of an episode nothing more is seen."""
    program = told_less(rows_tests.program_of(False, process, observed="never")[0], Vague())
    rng = np.random.default_rng(5)
    room, ages = program.capacity, np.arange(process.longest + 1)
    trail = last = None
    for length in (4, 1, 5):
        seen = rng.normal(size=(length + 1, 3)).astype(np.float32)
        slots = rng.integers(0, 5, room + 1).astype(np.int32)
        likely = []
        for t in range(length):
            slots = np.append(slots[1:], np.int32(rng.integers(5)))
            actor = compiled_loop.actor_at(program, (), seen[t], jnp.asarray(slots[:-1]))
            actor = actor._replace(age=jnp.int32(t))
            actor = actor if trail is None else actor._replace(trail=trail)
            shown = slots[room - ages]
            dense = Vague().log_densities(seen[max(t - 1, 0)], seen[t], seen[t + 1], shown)
            likely.append(np.exp(np.array(dense)))
            outcome = np.float32(t), np.bool_(False), np.bool_(t == length - 1)
            done = Done(slots[-1], slots[-1], *outcome, seen[t + 1], slots[1:], (), 0, 0)
            late, found = settled(program, actor, done)
            trail = later_trail(program, actor, done)
            if last is None:
                assert found.action_age > 10**6
            else:
                earlier, before, reward, obs = last
                joint = pairs_of(process, [*earlier, likely[-1] if t else np.ones(len(ages))])
                mine = int(found.action_age), int(found.next_age)
                assert joint[mine] == pytest.approx(joint.max())
                assert found.executed == before[room - mine[0]]
                assert found.reward == reward
                np.testing.assert_array_equal(late.obs, obs)
            last = tuple(likely), slots, t, seen[t]


def test_nothing_is_inferred_by_an_agent_that_is_told():
    program, _ = rows_tests.program_of(False, Uniform(1, 3), observed="never")
    assert first_trail(program, None) == later_trail(program, None, None) == ()
    assert settled(program, 1, 2) == (1, 2)


def stored(program, setup):
    """The rows that the compiled loop stores."""
    run = compiled_loop.begin(program, setup)

    def turn(run, t):
        return compiled_loop.turn(program, setup, run, compiled_loop.ahead(program, setup, t))

    run, _ = jax.jit(partial(jax.lax.scan, turn))(run, jnp.arange(rows_tests.STEPS))
    return transitions(run.replay.rows[: run.replay.stored], layout_of(program))


def assert_told(found, told):
    """Rows are those of an agent that is told ages, all but the newest; ends have no next step."""
    count = len(found.reward)
    assert len(told.reward) - 4 <= count < len(told.reward)
    going = found.obs[1:, 0] == found.obs[:-1, 0]  # both rows are of one episode
    for name, part in found._asdict().items():
        if part is None:
            continue
        mine, other = np.asarray(part), np.asarray(getattr(told, name))[:count]
        if name in ("next_obs", "next_seen", "next_seen_queue", "fresh"):
            mine, other = mine[:-1][going], other[:-1][going]
        np.testing.assert_array_equal(mine, other)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["projected", "delayed", "shifted"])
@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_ages_that_observations_show_give_the_rows_of_being_told(process, agent):
    program, setup = rows_tests.program_of(True, process, agent=agent, observed="never")
    assert_told(stored(told_less(program, Sharp()), setup), stored(program, setup))


@pytest.mark.slow
@pytest.mark.parametrize("process", PROCESSES[:2], ids=str)
def test_ages_that_observations_show_give_these_rows_in_the_host_loop(process):
    told, _ = rows_tests.host_rows(True, process, 2, observed="never")
    changes = {"hidden": process, "ages": Sharp()}
    found, _ = rows_tests.host_rows(True, process, 2, observed="never", **changes)
    assert_told(found, told)
