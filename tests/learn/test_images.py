"""Training on images of Gymnasium environments: rows, learning, resuming, refusals."""

from dataclasses import replace
from threading import Event

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import deadtime
from deadtime.envs.gym_family import local_pool
from deadtime.envs.local_pool import LocalPool
from deadtime.envs.pools import Played
from deadtime.envs.process_pool import ProcessPool
from deadtime.learn import (
    frame_actor_critic,
    frame_replay,
    host_groups,
    host_loop,
    host_programs,
    trainer,
)
from deadtime.learn.deep_training import run_deep
from deadtime.learn.evaluate import play
from deadtime.learn.frame_actor_critic import FRAME_ACTOR_CRITIC
from deadtime.learn.host_loop import HostGroup
from deadtime.learn.program import Program
from deadtime.learn.settings import PixelA2C
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.result import Result
from deadtime.runs.specs import from_canonical, make_spec
from tests.commands import recorded
from tests.learn.image_probe import ImageDiaryEnv

BRIGHT, DIARY = (
    f"gym:tests.learn.image_probe:deadtime-test/{name}-v0" for name in ("BrightSide", "ImageDiary")
)
TINY = {"channels": (2, 2, 2), "hidden": 8, "buffer_size": 400, "batch_size": 64}
LEARNS = {
    "channels": (4, 4, 4),
    "hidden": 16,
    "buffer_size": 1000,
    "batch_size": 16,
    "learning_starts": 50,
    "learning_rate": 1e-3,
    "gamma": 0.5,
    "target_period_updates": 20,
}


def spec_of(agent, delay, steps, env=DIARY, envs=2, **changes):
    return DeepSpec(
        env,
        agent,
        delay,
        "paper",
        steps,
        envs=envs,
        evaluation_episodes=2,
        changes=TINY | changes,
    )


@pytest.fixture
def chosen(monkeypatch):
    """Empty logs, and the actions that pools are sent."""
    ImageDiaryEnv.logs.clear()
    found = []
    send = LocalPool.send

    def sent(self, actions, resting=None):
        found.append(actions)
        send(self, actions, resting)

    monkeypatch.setattr(LocalPool, "send", sent)
    return found


def frame_of(row):
    """The frame of a diary's image: 42×28 pixels, each 2×3 times."""
    return np.kron(row["image"], np.ones((2, 3), np.uint8))


def check_replay(replay, logs, chosen, delay, resumed_at=()):
    """Compare every row, and the transitions of a batch, with the logs of the environments."""
    turns = len(chosen)
    for t, lane in np.ndindex(turns, len(logs)):
        row = logs[lane][t]
        np.testing.assert_array_equal(replay.frame[t, 0, lane], frame_of(row).ravel())
        goes_on = not row["truncated"] and t + 1 not in resumed_at
        assert replay.facts[t, 0, lane].tolist() == [
            min(row["age"], 4),
            chosen[t][lane],
            row["reward"],
            row["terminated"],
            row["terminated"] or goes_on,
        ]
        queue = replay.queue[t, 0, lane].tolist()
        assert queue[:1] == [row["executed"]][: len(queue)]
        if row["age"] >= delay:
            assert row["executed"] == chosen[t - delay][lane]
            assert queue == [chosen[t - delay + i][lane] for i in range(len(queue))]


def stack_at(log, t):
    """The last four frames of the episode that step t of a log belongs to."""
    first = t - log[t]["age"]
    return np.stack([frame_of(log[max(i, first)]) for i in range(t - 3, t + 1)])


def check_batch(batch, logs):
    """Compare sampled transitions with the logs; return the number of usable ones."""
    places = {
        frame_of(row).tobytes(): (log, t)
        for log in logs
        for t, row in enumerate(log)
        if "reward" in row
    }
    usable = np.flatnonzero(batch.weight[0])
    for entry in usable:
        now, then = batch.now[0][0, entry], batch.then[0][0, entry]
        log, t = places[now[3].tobytes()]
        np.testing.assert_array_equal(now, stack_at(log, t))
        assert batch.reward[0, entry] == log[t]["reward"]
        assert not log[t]["truncated"]
        if not log[t]["terminated"]:
            assert log[t + 1]["age"] == log[t]["age"] + 1
            np.testing.assert_array_equal(then, stack_at(log, t + 1))
    return len(usable)


def sampled(group, turns):
    keys = jax.random.split(jax.random.key(1), 1)
    batch = frame_replay.sample(group.program, group._state.replay, jnp.int32(turns - 1), keys)
    return jax.tree.map(np.asarray, batch)


@pytest.mark.slow
def test_the_replay_holds_what_was_played(chosen):
    spec = spec_of("augmented", 2, 80)
    group = HostGroup(host_programs.program_of(spec, "cpu"), [(spec, 0)])
    group.begin()
    while group.done < group.length:
        group.advance()
    group.close()
    replay = jax.tree.map(np.asarray, group._state.replay)
    logs = ImageDiaryEnv.logs
    assert len(chosen) == 40
    assert sum(row.get("terminated", False) for row in logs[0]) == 4
    check_replay(replay, logs, chosen, 2)
    assert check_batch(sampled(group, 40), logs) > 40
    returns = [row for rows in group._ended for row in rows.tolist()]
    assert sorted({earned for *_, earned in returns}) == [0.0, 2.0, 5.0, 27.0]


@pytest.mark.slow
def test_a_run_resumes_with_new_episodes(chosen, tmp_path, monkeypatch):
    """The last row before them leads nowhere, and the record says where they begin."""
    monkeypatch.setattr(host_loop, "WRITE_EVERY_SECONDS", -1.0)
    monkeypatch.setattr(host_loop, "_BURST_SECONDS", -1.0)
    spec, told = spec_of("oblivious", 1, 60), []

    def interrupt(n):
        told.append(n)
        if sum(told) == 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_deep([(spec, 3)], interrupt, checkpoints=tmp_path))
    (path,) = tmp_path.iterdir()
    group = HostGroup(host_programs.program_of(spec, "cpu"), [(spec, 3)])
    group.resume(path)
    begun = group.done // 2
    assert 10 < begun <= 16
    assert group._resumed_at == [2 * begun]
    while group.done < group.length:
        group.advance()
    group.close()
    logs = ImageDiaryEnv.logs
    assert len(logs) == 4
    whole = [[*logs[i][:begun], *logs[2 + i]] for i in range(2)]
    actions = [*chosen[:begun], *chosen[-(30 - begun) :]]
    replay = jax.tree.map(np.asarray, group._state.replay)
    check_replay(replay, whole, actions, 1, [begun])
    assert check_batch(sampled(group, 30), logs) > 30
    (record,) = recorded(run_deep([(spec, 3)], lambda n: None, checkpoints=tmp_path))
    assert record.provenance[0]["resumed_at"] == [2 * begun]
    assert record.episodes == [8]


def test_a_rollout_is_cut_where_a_run_resumes():
    program = Program(None, None, PixelA2C(rollout=5), 0, 3)
    yes = np.ones((5, 1, 3), bool)
    terminal = jnp.asarray(yes & [True, False, True])
    came = frame_actor_critic.Came(jnp.zeros(yes.shape), terminal, jnp.asarray(yes))
    state = frame_actor_critic.State(None, None, None, None, came)
    cut = FRAME_ACTOR_CRITIC.restart(program, state, None, 13)
    assert cut.came.known[3].tolist() == [[True, False, True]]
    assert cut.came.known.sum() == 14


@pytest.mark.slow
def test_the_best_action_is_learned_and_kept(tmp_path):
    spec = DeepSpec(BRIGHT, "oblivious", 0, "paper", 900, envs=2, changes=LEARNS)
    (record,) = recorded(run_deep([(spec, 0)], lambda n: None))
    result = Result(record)
    assert result.scores.tolist() == [10.0]
    policy = deadtime.load(result.save(tmp_path / "run"), seed=0)
    assert deadtime.evaluate(policy, BRIGHT, episodes=5).tolist() == [10.0] * 5
    env = gym.make(BRIGHT.removeprefix("gym:"), length=7)
    assert deadtime.evaluate(policy, env, delay=0, episodes=2).tolist() == [7.0] * 2
    mine = deadtime.envs.adapted(env)
    seen, _ = mine.reset(seed=4)
    for _ in range(7):
        q = policy.q_values(seen)
        assert policy.act(seen) == env.unwrapped.side == np.argmax(q)
        np.testing.assert_allclose(q[env.unwrapped.side] - q[1 - env.unwrapped.side], 1, atol=0.3)
        seen, *_ = mine.step(0)


@pytest.mark.slow
def test_the_recurrent_agent_trains():
    spec = DeepSpec(
        BRIGHT,
        "recurrent",
        2,
        "paper",
        60,
        envs=3,
        evaluation_episodes=2,
        changes={"channels": (2, 2, 2), "hidden": 8, "lstm": 8},
    )
    (record,) = recorded(run_deep([(spec, 0)], lambda n: None))
    assert record.status == ["complete"]
    assert record.episodes == [6]
    assert len(Result(record).policy().see(np.zeros((4, 84, 84), np.uint8))) == 2


@pytest.mark.full
def test_environments_agents_and_delays_side_by_side():
    """As on a GPU: one program for environments of 2, 3 and 5 actions."""
    specs = [
        spec_of("augmented", 1, 60, BRIGHT),
        spec_of("oblivious", 2, 60),
        spec_of("augmented", 3, 60),
        replace(spec_of("oblivious", 0, 60, BRIGHT), settings={"actions": 5}),
    ]
    groups = host_groups.groups_of([(spec, 0) for spec in specs], "gpu")
    assert [len(group.pairs) for group in groups] == [2, 2]
    for group in groups:
        found = recorded(trainer.train_group(group, lambda n: None, Event(), True, None))
        assert [record.id for record in found] == [spec.id for spec, _ in group.pairs]
        assert np.isfinite([record.scores for record in found]).all()
        actions = [Result(record).policy(0).num_actions for record in found]
        assert actions == [spec.environment(0).num_actions for spec, _ in group.pairs]


def test_pools_have_one_family():
    pairs = [(spec_of("oblivious", 0, 60, env), 0) for env in (BRIGHT, "atari:Pong", DIARY)]
    parts = host_groups.parts_of(pairs, "gpu")
    assert [[spec.family.name for spec, _ in part] for part in parts] == [["gym", "gym"], ["atari"]]


@pytest.mark.slow
def test_processes_play_the_same_bits():
    spec = spec_of("augmented", 2, 80)
    lanes = host_programs.lanes_of([(spec, 0)], 3, 0)
    specs = [gym.spec(DIARY.rpartition(":")[2])]
    pools = [
        local_pool(DIARY, (), lanes),
        ProcessPool(lanes, lambda mine, room: local_pool(DIARY, specs, mine, room), DIARY, 2),
    ]
    rng = np.random.default_rng(0)
    both = [pool.reset() for pool in pools]
    for _ in range(12):
        for name in Played._fields:
            mine, other = (getattr(played, name) for played in both)
            np.testing.assert_array_equal(mine, other, strict=mine is not None)
        np.testing.assert_array_equal(both[0].frame, both[0].shown[:, -1])
        actions = rng.integers(0, 3, 3)
        for pool in pools:
            pool.send(actions)
        both = [pool.receive() for pool in pools]
    for pool in pools:
        pool.close()


def test_an_endless_evaluation_ends():
    spec = DeepSpec(BRIGHT, "oblivious", settings={"length": 10**6})
    lanes = host_programs.lanes_of([(spec, 0)], 2, 1)
    pool = local_pool(BRIGHT, (), lanes)
    seen = []
    returns = play(pool, lambda played: seen.append(played) or np.ones(2, int), lambda: False, 25)
    assert len(seen) == 25
    assert returns.tolist() == [sum(env.unwrapped.paid) for env in pool.envs]


def test_what_a_spec_says():
    spec = DeepSpec(BRIGHT, "augmented", 3)
    assert (spec.frames, spec.observation_kind, spec.action_kind) == (True, "frames", "numbered")
    assert (spec.learner.kind, spec.envs, spec.evaluation_episodes) == ("pixel-q", 1, 10)
    assert spec.canonical()["observation_kind"] == "frames"
    assert from_canonical(spec.canonical()).id == spec.id
    assert make_spec(BRIGHT, "augmented", 3, {}).id == spec.id
    assert DeepSpec(BRIGHT, "recurrent", 3).learner.kind == "pixel-a2c"
    assert (
        DeepSpec("gym:CartPole-v1", "augmented", 3)
        .canonical()
        .keys()
        .isdisjoint(["observation_kind"])
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"agent": "delayed"},
            "delayed acts on predictions, and only Atari's emulators predict frames; got "
            f"{BRIGHT}: choose one of augmented, oblivious, recurrent",
        ),
        (
            {"agent": "projected"},
            "'projected', which .*cartpole, .* have: choose one of augmented, obl",
        ),
        (
            {"settings": {"actions": 19}},
            f"one of at most 18 actions; {BRIGHT} has 19: wrap the environment so that",
        ),
        (
            {"settings": {"actions": 0}},
            f"agents on frames do not choose box actions; got {BRIGHT}: number its actions",
        ),
        (
            {"process": deadtime.delays.Uniform(1, 3), "delay": 3},
            "which see frames, can be trained under constant delays only; got uniform:1-3: pass a",
        ),
        ({"evaluate_every": 100}, "evaluations during training are for agents that see numbers"),
        ({"observation_kind": "numbers"}, "are frames; got 'numbers': leave observation_kind out"),
        ({"env": "atari:Pong", "observation_kind": "numbers"}, "of atari:Pong are frames; got"),
        ({"changes": {"target_period_updates": 0}}, "on frames the target network is copied"),
    ],
)
def test_refusals(wrong, words):
    given = {"env": BRIGHT, "agent": "augmented", "delay": 1} | wrong
    with pytest.raises(ValueError, match=words):
        DeepSpec(**given)


def test_a_delay_is_not_found_from_images():
    with pytest.raises(ValueError, match="observations that are vectors; .* has frames: pass the"):
        deadtime.runs.train_untold(BRIGHT, "augmented", delay=1)
