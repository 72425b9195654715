"""Several runs on numbers in lock step: their equality with one run, their order, lost episodes."""

import os
import signal
from contextlib import closing
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deadtime.delays import Uniform
from deadtime.envs import gym_family
from deadtime.learn import host_groups, host_loop, host_programs
from deadtime.learn.deep_training import run_deep
from deadtime.learn.host_programs import run_of
from deadtime.learn.lane_steps import chosen, followed, learned, new_learner, started, steps_of
from deadtime.learn.learners import LEARNERS
from deadtime.learn.memory import most_at_once
from deadtime.learn.settings import DoubleQ
from deadtime.runs.deep_specs import DeepSpec
from tests.commands import recorded

DIARY = "gym:tests.learn.gym_probe:deadtime-test/Diary-v0"
SMALL = {"hidden": (8, 8), "batch_size": 8, "buffer_size": 30, "skipped_delays": 0}

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def every_network_is_large(monkeypatch):
    monkeypatch.setattr(host_programs, "LARGE_PRODUCTS", 0)


def spec_of(agent="augmented", delay=2, steps=60, envs=2, **how):
    return DeepSpec(
        DIARY,
        agent,
        delay,
        "paper",
        steps,
        changes=SMALL,
        envs=envs,
        **{"evaluation_episodes": 2} | how,
    )


def group_of(pairs):
    (group,) = host_groups.groups_of(pairs, "gpu")
    assert group.program.together
    return group


def trained(pairs):
    group = group_of(pairs)
    with closing(group):
        group.begin()
        while group.done < group.length:
            group.advance()
    return group


def check_close(one, other, tolerance=2e-4):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def in_one_process(spec, seed, program):
    """The learner and the replay buffer of a run by a plain loop, one turn behind."""
    setup = host_programs.setups_of(program, [(spec, seed)])
    setup = jax.tree.map(lambda leaf: leaf[0], setup)
    start, follow, choose, learn = (
        jax.jit(partial(function, program)) for function in (started, followed, chosen, learned)
    )
    learner = jax.jit(partial(new_learner, program))(setup)
    replay = program.learner.new_replay(program)
    lanes = host_programs.lanes_of([(spec, seed)], spec.envs, 0)
    pool = gym_family.local_pool(DIARY, (), lanes, program.capacity)
    actors, turn = None, None
    with closing(pool):
        seen = pool.reset()
        for t in range(0, spec.length, spec.envs):
            behind = actors
            if turn is None:
                actors = start(seen.shown, seen.queue, seen.age_now)
            else:
                actors = follow(behind, steps_of(turn))
            actions, actors = choose(setup, learner, actors, jnp.int32(t))
            if turn is not None:
                before = jnp.int32(t - spec.envs)
                learner, replay = learn(setup, learner, replay, behind, steps_of(turn), before)
            pool.send(np.asarray(actions))
            after = pool.receive()
            turn = host_loop.Turn(seen, np.asarray(actions), after)
            seen = after
        last = jnp.int32(t)
        return learn(setup, learner, replay, actors, steps_of(turn), last)


PAIRS = ((2, 0), (1, 5), (2, 7))
"""The delays and the seeds of a group."""


def test_a_run_chooses_before_it_learns_from_the_last_turn():
    """A group against the plain loop, for one run of it."""
    group = trained([(spec_of(delay=delay), seed) for delay, seed in PAIRS[:2]])
    state = group._state
    mine = jax.tree.map(lambda leaf: leaf[1], (state.learner, state.replay))
    check_close(mine, in_one_process(*group.pairs[1], group.program))
    assert (state.learner.updates > 20).all()


@pytest.mark.full
@pytest.mark.parametrize("observed", [None, "now", "hindsight"])
@pytest.mark.parametrize("agent", ["augmented", "delayed", "projected"])
def test_a_run_is_the_same_alone_and_beside_others(agent, observed):
    pairs = [(spec_of(agent, delay), seed) for delay, seed in PAIRS]
    if observed is not None:
        varying = spec_of(agent, process=Uniform(1, 3), observed=observed)
        pairs = [(varying, seed) for _, seed in PAIRS]
    group = trained(pairs)
    assert (group.program.age_inputs > 0) == (observed is not None and agent != "delayed")
    state = group._state
    for i, (spec, seed) in enumerate(pairs):
        mine = jax.tree.map(lambda leaf, i=i: leaf[i], (state.learner, state.replay))
        alone = trained([(spec, seed)])._state
        check_close(mine, jax.tree.map(lambda leaf: leaf[0], (alone.learner, alone.replay)), 2e-3)
        check_close(mine, in_one_process(spec, seed, group.program), 2e-3)


def test_what_is_trained_together():
    one, other = spec_of(delay=2), spec_of(delay=3)
    longer, blind = spec_of(delay=2, steps=61), spec_of("oblivious")
    pairs = [(one, 0), (longer, 1), (other, 2), (blind, 3), (one, 4)]
    parts = host_groups.parts_of(pairs, "gpu")
    assert [[seed for _, seed in part] for part in parts] == [[0, 2, 4, 1], [3]]
    groups = [host_groups.groups_of(part, "gpu") for part in parts]
    found = [[[seed for _, seed in group.pairs] for group in part] for part in groups]
    assert found == [[[0, 2, 4], [1]], [[3]]]
    assert host_groups.memory_of(parts[0], "gpu") == sum(group.bytes for group in groups[0])
    assert [len(part) for part in host_groups.parts_of(pairs, "cpu")] == [1] * 5
    assert host_programs.program_of(one, "gpu").capacity == 10


def test_memory_limits_a_group(monkeypatch):
    pairs = [(spec_of(), seed) for seed in range(5)]
    size = host_programs.bytes_of(host_programs.program_of(pairs[0][0], "gpu"), pairs[:1])
    group = trained(pairs[:2])
    state = jax.tree.leaves(group._state)
    assert 2 * size == sum(leaf.nbytes for leaf in state) == group.bytes
    monkeypatch.setattr("deadtime.learn.memory._free", lambda: 4.5 * size)
    assert most_at_once(size) == 2
    assert [len(part) for part in host_groups.parts_of(pairs, "gpu")] == [2, 2, 1]


def test_large_updates(monkeypatch):
    monkeypatch.setattr(host_programs, "LARGE_PRODUCTS", 1_000_000)
    sizes = {((24, 24), 32): False, ((64, 64), 128): False, ((256, 256), 256): True}
    for (hidden, batch), large in sizes.items():
        settings = DoubleQ(hidden=hidden, batch_size=batch)
        assert host_programs.is_large(settings) == large


def test_a_checkpoint_changes_nothing(tmp_path):
    """A group that writes checkpoints has the bits of one that does not; a resumed one goes on."""
    pairs = [(spec_of(steps=48), 0), (spec_of(steps=48), 1)]
    expected = trained(pairs)._state
    group = group_of(pairs)
    with closing(group):
        group.begin()
        while group.done < group.length:
            group._step()
            group.save(tmp_path / f"{group.done}", 1.0)
        group._finish()
    made = group._state
    check_close((made.learner, made.replay), (expected.learner, expected.replay), 0)
    again = group_of(pairs)
    with closing(again):
        again.resume(tmp_path / "24")
        assert again.done == 24
        assert (again._state.replay.stored == 24).all()
        while again.done < again.length:
            again.advance()
    assert (again._state.replay.stored == 48).all()


def test_lost_episodes_are_not_learned_from(monkeypatch):
    """The worker of the first run dies once; the run has two steps less, one per lane."""
    monkeypatch.setattr(gym_family, "_LEAST_IN_PROCESSES", 1)
    monkeypatch.setattr(gym_family, "cores", lambda: 2)
    monkeypatch.setattr("deadtime.envs.process_pool.cores", lambda: 2)
    group = group_of([(spec_of(steps=40), 0), (spec_of(steps=40), 1)])
    with closing(group):
        group.begin()
        for turn in range(20):
            if turn == 10:
                worker = group._pool._workers[0]
                os.kill(worker.pid, signal.SIGKILL)
                worker.wait()
            group._step()
        group._finish()
    assert group._lost.tolist() == [2, 0]
    assert group._state.replay.stored.tolist() == [38, 40]


def test_records_of_runs_together():
    spec, other = spec_of(delay=1, evaluation_episodes=3), spec_of(evaluate_every=30)
    steps = []
    found = list(run_deep([(spec, 0), (other, 4)], steps.append, together=True))
    assert sum(steps) == 2 * 60
    assert [(one.id, outcome.seed) for one, outcome in found] == [(spec.id, 0), (other.id, 4)]
    for one, outcome in found:
        assert outcome.status == "complete"
        assert outcome.notes == {"width": 2, "capacity": 10}
        assert np.isfinite(outcome.score)
        assert len(outcome.evaluations) == (2 if one is other else 0)
    assert recorded(found)[0].episodes == [found[0][1].episodes]


def test_two_groups_at_a_time_do_not_disturb_each_other():
    """Two groups in threads have the bits of each group alone."""
    pairs = [(spec_of(), 0), (spec_of(), 1), (spec_of(steps=80), 2), (spec_of("oblivious"), 3)]
    both = list(run_deep(pairs, lambda n: None, together=True))
    apart = [
        found
        for part in (pairs[:2], pairs[2:3], pairs[3:])
        for found in run_deep(part, lambda n: None, together=True)
    ]
    by_seed = {outcome.seed: outcome for _, outcome in apart}
    assert len(both) == len(apart) == 4
    for _, outcome in both:
        alone = by_seed[outcome.seed]
        assert outcome.score == alone.score
        for name, array in alone.policy.items():
            np.testing.assert_array_equal(outcome.policy[name], array)


AGENTS = ("projected", "augmented", "delayed", "oblivious")


def sac_group(agents, delays, steps=70):
    changes = {"hidden": (8, 8), "batch_size": 8, "random_steps": 20, "learning_rate": 1e-2}
    how = {"changes": changes, "evaluation_episodes": 2, "action_kind": "box"}
    pairs = [
        (DeepSpec("gym:Pendulum-v1", agent, m, steps=steps, **how), seed)
        for seed, agent in enumerate(agents)
        for m in delays
    ]
    return group_of(pairs)


def of_one_view(program, mixed, like):
    """The learner of a run in a program of its own view: without the inputs that it ignores."""
    d, n, room = program.observation, program.actions.size, program.capacity
    blind = jnp.r_[:d, d + n * room : d + n * room + n]

    def cut(path, leaf, shape):
        wide = leaf.shape[-1] != shape.shape[-1]
        names = {getattr(key, "name", getattr(key, "key", "")) for key in path}
        if not wide:
            return leaf
        return leaf[..., blind] if names & {"critics", "targets"} else leaf[..., :d]

    return jax.tree_util.tree_map_with_path(cut, mixed, like)


def weights_of(learner):
    """The weights, the target networks and the counters, without the forward model."""
    weights = learner.weights._asdict()
    del weights["model"]
    return weights | {"targets": learner.targets, "updates": learner.updates}


@pytest.mark.parametrize("agent", AGENTS)
def test_runs_of_several_views_share_a_program(agent, monkeypatch):
    """A run beside runs of other views, against one in a program of its own view.

    Both begin with the same weights, so they make the same steps and updates.
    """
    mixed = sac_group(AGENTS, (2, 1))
    monkeypatch.setitem(LEARNERS, "sac", replace(LEARNERS["sac"], mixes_outside=False))
    seed = AGENTS.index(agent)
    own = sac_group((agent,), (2, 1))
    own.pairs = [(spec, seed) for spec, _ in own.pairs]
    with closing(mixed), closing(own):
        mixed.begin()
        own.begin()
        mine = slice(2 * seed, 2 * seed + 2)
        first = jax.tree.map(lambda leaf: leaf[mine], mixed._state.learner)
        like = own._state.learner
        weights = first.weights._replace(model=like.weights.model)
        first = first._replace(weights=weights, model=like.model, moments=like.moments)
        if agent == "delayed":
            everything = jax.tree.map(lambda leaf: leaf[mine], mixed._state.learner)
            first = everything._replace(moments=like.moments)
        own._state = own._state._replace(learner=of_one_view(mixed.program, first, like))
        for _ in range(40):
            mixed._step()
            own._step()
            np.testing.assert_allclose(mixed._turn.chosen[mine], own._turn.chosen, atol=1e-4)
        found = jax.tree.map(lambda leaf: leaf[mine], weights_of(mixed._state.learner))
        expected = weights_of(own._state.learner)
        assert (expected["updates"] == 20).all()
        check_close(of_one_view(mixed.program, found, expected), expected, 1e-3)
        arrays = mixed._policy(
            run_of(mixed.program, mixed._state.learner, 2 * seed), *mixed.pairs[2 * seed]
        )
        theirs = own._policy(run_of(own.program, own._state.learner, 0), *own.pairs[0])
        assert arrays.keys() == theirs.keys()
        for name, array in theirs.items():
            np.testing.assert_allclose(arrays[name], array, rtol=1e-3, atol=1e-3, err_msg=name)
