"""Training on Atari: decisions under a delay, records, resuming, several games, the commands."""

import json
import os
import signal
import subprocess
import sys
from threading import Event

import jax
import numpy as np
import pytest

from deadtime.cli.main import main
from deadtime.cli.reproduce import Reproduce
from deadtime.envs.atari.games import Atari, Game
from deadtime.envs.atari.gym_env import AtariEnv
from deadtime.envs.atari.lane import Lane
from deadtime.envs.pools import Played
from deadtime.learn import host_groups, host_loop, host_programs, trainer
from deadtime.learn.deep_training import run_deep
from deadtime.learn.evaluate import evaluate
from deadtime.learn.frame_networks import named_arrays, new_q
from deadtime.learn.frame_q import FrameQ
from deadtime.learn.host_loop import HostGroup
from deadtime.learn.settings import PixelQ
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.result import Result
from deadtime.runtime import NetworkPolicy
from deadtime.runtime.views import CHOSEN, EXECUTED, PREDICTION, QUEUE
from deadtime.studies.registry import EXPERIMENTS
from tests.commands import full, recorded
from tests.runtime.kinds import frames_manifest

pytest.importorskip("ale_py")
pytestmark = pytest.mark.xdist_group("atari")


TINY = {
    "channels": (2, 2, 2),
    "hidden": 8,
    "learning_starts": 40,
    "buffer_size": 200,
    "batch_size": 4,
}
SHORT = {"max_episode_steps": 40, "sticky": 0.0}


def spec_of(
    agent="delayed", delay=3, env="atari:Breakout", steps=120, envs=3, settings=SHORT, **options
):
    return DeepSpec(
        env,
        agent,
        delay,
        "paper",
        steps,
        settings=settings,
        changes=TINY,
        envs=envs,
        evaluation_episodes=2,
        **options,
    )


def trained(spec, seed=0, **how):
    (record,) = recorded(run_deep([(spec, seed)], lambda n: None, **how))
    return Result(record)


def same(first, second):
    assert first.record.scores == second.record.scores
    assert first.record.episodes == second.record.episodes
    np.testing.assert_array_equal(first.record.curve, second.record.curve)
    for name, array in first.record.policies.items():
        np.testing.assert_array_equal(array, second.record.policies[name])


@pytest.fixture(scope="module", autouse=True)
def one_worker():
    """Pools have one worker each, because a worker takes a second to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPROC", "1")
        yield


@pytest.fixture(scope="module")
def delayed():
    return trained(spec_of())


@pytest.fixture(scope="module")
def lively():
    """A policy of random weights that does this and that, as what it sees says."""
    settings = PixelQ(channels=(8, 8, 8), hidden=64)
    arrays = named_arrays(new_q(jax.random.key(0), settings, 0))
    return NetworkPolicy(frames_manifest("delayed", "prediction", 0), arrays)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [1, 7, 25])
def test_frozen_delayed_q_decides_as_the_undelayed_agent_does(lively, delay):
    """Without stickiness, its action at t is the one of an undelayed agent at t + m."""
    policy, env = lively.at_delay(delay), AtariEnv(Atari("MsPacman", sticky=0.0), delay, "fresh")
    obs, info = env.reset(seed=5)
    undelayed = Lane(Game("MsPacman", 0, 0.0, seed=5))
    undelayed.reset()
    for action in info["pending_actions"]:
        undelayed.step(int(action))
    chosen, otherwise = [], 0
    for _ in range(120):
        chosen.append(policy.act(obs, info["pending_actions"], info["predicted_observation"]))
        assert chosen[-1] == lively.act(undelayed.real.stack)
        otherwise += chosen[-1] != lively.act(obs)
        obs, _, terminated, _, info = env.step(chosen[-1])
        undelayed.step(chosen[-1])
        if terminated or undelayed.terminated:
            break
    assert len(chosen) > 60
    assert len({*chosen}) > 1
    assert otherwise or delay == 1


def test_a_look_ahead_is_for_who_acts_on_it(lively):
    """A delayed policy is refused without a prediction, and so is a second delay."""
    assert {
        game.look_ahead for game in host_programs.lanes_of([(spec_of("delayed"), 0)], 3, 0)
    } == {"fresh"}
    for agent in ("augmented", "oblivious"):
        assert {
            game.look_ahead for game in host_programs.lanes_of([(spec_of(agent), 0)], 3, 0)
        } == {""}
    with pytest.raises(
        ValueError, match="acts on the emulator's prediction.*got no predicted_observation"
    ):
        evaluate(lively.at_delay(3), AtariEnv(Atari("MsPacman"), 3), episodes=1)
    with pytest.raises(ValueError, match="one environment has one queue of pending actions"):
        evaluate(lively, AtariEnv(Atari("MsPacman"), 3, "fresh"), delay=3, episodes=1)


@pytest.mark.full
@pytest.mark.parametrize("agent", ["delayed", full("augmented"), full("oblivious")])
def test_a_score_is_what_its_policy_earns(agent):
    result = trained(
        spec_of(agent, 3, "atari:MsPacman", settings={"max_episode_steps": 150, "sticky": 0.0})
    )
    policy = result.policy(0)
    seeds = [lane.seed for lane in host_programs.lanes_of([(result.spec, 0)], 2, 1)]
    env = AtariEnv(result.spec.environment(0), 3, policy.looks_ahead)
    earned = [evaluate(policy, env, episodes=1, seed=seed).mean() for seed in seeds]
    assert result.scores[0] == np.mean(earned) > 0
    assert result.record.status == ["complete"]
    assert result.record.episodes == [0]


@pytest.mark.full
def test_a_spec_and_a_seed_give_the_same_bits(delayed):
    same(delayed, trained(spec_of()))
    other = trained(spec_of(), seed=1)
    assert any(
        (array != other.record.policies[name.replace("0/", "1/", 1)]).any()
        for name, array in delayed.record.policies.items()
    )


@pytest.mark.slow
@pytest.mark.parametrize("stopped_at", [full(9), 100])
def test_an_interrupted_run_goes_on_to_the_same_bits(delayed, tmp_path, stopped_at, monkeypatch):
    """Emulators and all; `stopped_at` 100 is in the evaluation."""
    monkeypatch.setattr(host_loop, "_BURST_SECONDS", -1.0)
    spec, stop, told = spec_of(), Event(), []

    def progress(n):
        told.append(n)
        if sum(told) >= 3 * stopped_at:
            stop.set()

    if stopped_at == 100:
        progress = told.append
        stop = type("Late", (Event,), {"is_set": lambda self: sum(told) >= 120})()
    (group,) = host_groups.groups_of([(spec, 0)], "cpu")
    assert trainer.train_group(group, progress, stop, True, tmp_path) == []
    (path,) = tmp_path.iterdir()
    again = []
    (record,) = recorded(
        trainer.train_group(
            HostGroup(group.program, group.pairs), again.append, Event(), True, tmp_path
        )
    )
    assert path.exists()
    assert again[0] == sum(told)
    assert sum(again) == 120
    same(delayed, Result(record))


@pytest.mark.full
def test_a_worker_that_dies_costs_its_episodes_only(monkeypatch):
    monkeypatch.setenv("NPROC", "2")
    spec, killed = spec_of("oblivious"), []
    step = HostGroup._step

    def once(self):
        if self.done == 60 and not killed:
            killed.append(self._pool._workers[0].pid)
            os.kill(killed[0], signal.SIGKILL)
        step(self)

    monkeypatch.setattr(HostGroup, "_step", once)
    result = trained(spec)
    assert killed
    assert result.record.status == ["complete"]
    assert result.record.provenance[0]["lost_episodes"] >= 1
    assert result.record.episodes[0] < 3
    assert np.isfinite(result.scores).all()


@pytest.mark.slow
def test_games_agents_and_delays_side_by_side():
    """As on a GPU: one program for games of 3, 4, 9 and 18 actions, each with its own actions."""
    specs = [
        spec_of("delayed", 4, "atari:Freeway"),
        spec_of("augmented", 2, "atari:Breakout"),
        spec_of("oblivious", 0, "atari:MsPacman", settings={**SHORT, "sticky": 0.25}),
        spec_of("augmented", 5, "atari:RoadRunner"),
    ]
    groups = host_groups.groups_of([(spec, 0) for spec in specs], "gpu")
    assert [len(group.pairs) for group in groups] == [2, 2]
    assert groups[0].program == groups[1].program
    for group in groups:
        pairs = group.pairs
        records = recorded(trainer.train_group(group, lambda n: None, Event(), True, None))
        assert [record.id for record in records] == [spec.id for spec, _ in pairs]
        assert all(record.status == ["complete"] for record in records)
        for record, (spec, _) in zip(records, pairs, strict=True):
            assert np.isfinite(record.scores).all()
            Result(record).policy(0).q_values(
                np.zeros((4, 84, 84), np.uint8), [0] * spec.delay, np.zeros((4, 84, 84), np.uint8)
            )


@pytest.mark.full
def test_other_delays_are_evaluated_too():
    result = trained(spec_of("delayed", 3, evaluation_delays=(0, 5)))
    assert result.record.others.shape == (1, 2)
    assert np.isfinite(result.record.others).all()


def test_what_a_spec_says():
    usual = DeepSpec("atari:MsPacman", "delayed", 5)
    assert (usual.length, usual.envs, usual.evaluation_episodes) == (10**6, 8, 10)
    assert usual.canonical() == {
        "kind": "deep",
        "env": "atari:MsPacman",
        "agent": "delayed",
        "delay": 5,
    }
    assert (
        DeepSpec("atari:MsPacman", "delayed", 5, envs=8, steps=10**6, settings={"sticky": 0.25}).id
        == usual.id
    )
    paper = DeepSpec("atari:MsPacman", "delayed", 5, "paper")
    assert paper.settings == {"sticky": 0.0}
    assert DeepSpec(
        "atari:MsPacman", "delayed", 5, "paper", settings={"sticky": 0.25}
    ).settings == {"sticky": 0.25}
    assert DeepSpec("atari:MsPacman", "recurrent", 5).envs == 16
    for wrong, words in (
        (
            {"agent": "shifted"},
            "has no agent 'shifted'.*choose one of delayed, augmented, oblivious, recurrent",
        ),
        ({"env": "atari:MsPackman"}, "no game 'MsPackman'; did you mean 'MsPacman'"),
        (
            {"changes": {"model": "learned"}},
            "no model is called 'learned': choose one of fresh, kept",
        ),
        (
            {"changes": {"target_period_updates": 0}},
            "the target network is copied; got target_period_updates=0",
        ),
        ({"changes": {"channels": (4, 4)}}, "channels of three convolutions; got"),
        (
            {"settings": {"stickiness": 1}},
            "atari:MsPacman has no setting 'stickiness'; did you mean 'sticky'.: "
            "it takes sticky, max_episode_steps",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            DeepSpec(**{"env": "atari:MsPacman", "agent": "delayed", "delay": 5} | wrong)


def said(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_the_commands(tmp_path, capsys):
    common = [
        "--env",
        "atari:Breakout",
        "--sticky",
        "0",
        "--max-episode-steps",
        "20",
        "--steps",
        "60",
        "--envs",
        "3",
    ]
    common += [
        "--preset",
        "paper",
        "--out",
        tmp_path / "runs",
        "--json",
        "--set=evaluation_episodes=2",
    ]
    common += [f"--set={name}={json.dumps(value)}" for name, value in TINY.items()]
    told = json.loads(
        said(capsys, "train", *common, "--agent", "delayed", "--delay", "2", "--seeds", "1")
    )
    assert (told["delay"], told["steps"], told["model"]) == (2, 60, "fresh")
    said(capsys, "watch", told["record"], "--out", tmp_path / "w.gif")
    assert (tmp_path / "w.gif").stat().st_size > 1000
    assert "evaluated at delay 1\nmean return " in said(
        capsys, "evaluate", told["record"], "--delay", "1", "--episodes", "1"
    )
    table = json.loads(
        said(
            capsys,
            "compare",
            *common,
            "--agents",
            "delayed",
            "oblivious",
            "--delays",
            "2",
            "--seeds",
            "1",
        )
    )
    assert table["trained"] == 1, "one of the two is recorded"
    assert {"delayed", "oblivious"} <= table["delays"][0].keys()


@pytest.mark.slow
def test_a_table_is_filled_bit_by_bit(tmp_path, capsys):
    experiment = EXPERIMENTS["summary-atari"]
    order = experiment.next(80, tmp_path)
    assert len(experiment.wanted) == 78
    assert [
        (spec.env, spec.agent, spec.delay, spec.settings, spec.length, seeds)
        for spec, seeds in order[:9]
    ] == [
        ("atari:MsPacman", agent, delay, {"sticky": sticky}, steps, [0])
        for delay, sticky, steps in ((15, 0.0, 10**6), (15, 0.25, 500_000), (5, 0.0, 10**6))
        for agent in ("delayed", "augmented", "oblivious")
    ]
    assert {spec.env for spec, _ in order[9:21]} == {"atari:MsPacman", "atari:RoadRunner"}
    assert {(spec.settings["sticky"], spec.length) for spec, _ in order[75:78]} == {(0.25, 10**6)}
    assert [seeds for _, seeds in order[77:79]] == [[0], [1]]
    said(capsys, "reproduce", "summary-atari", "--smoke", "--next", "2", "--out", tmp_path)
    rows = (tmp_path / "smoke/figures/summary-atari.csv").read_text().splitlines()
    table = [line.split(",")[:5] for line in rows[1:]]
    assert [[row[0], *row[2:]] for row in table] == [
        ["0", "atari:MsPacman", agent, "15"] for agent in ("delayed", "augmented")
    ]
    assert int(table[0][1]) < 10**6, "the steps that were made"
    (tmp_path / "smoke/figures/summary-atari.csv").unlink()
    said(capsys, "reproduce", "summary-atari", "--smoke", "--next", "0", "--out", tmp_path)
    assert (tmp_path / "smoke/figures/summary-atari.csv").read_text().splitlines() == rows
    with pytest.raises(
        ValueError,
        match="next is how many runs to do, 0 or more; got -1: 0 only shows what is recorded",
    ):
        Reproduce(("rnn",), next=-1, out=str(tmp_path)).run()


@pytest.mark.slow
def test_without_ale_py_records_are_read_and_nothing_is_played(tmp_path, delayed):
    delayed.save(tmp_path / "one")
    hide = (
        "import sys; sys.modules['ale_py'] = None; from deadtime.cli import main; "
        "sys.argv[0] = 'deadtime'; sys.exit(main())"
    )
    words = ["train", "--env", "atari:MsPacman", "--seeds", "1"]
    done = subprocess.run(
        [sys.executable, "-c", hide, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert (
        "pip install ale-py, or in a clone of this repository pip install '.[atari]'" in done.stderr
    )
    assert "Traceback" not in done.stderr
    done = subprocess.run(
        [sys.executable, "-c", hide, "report", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "atari:Breakout" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_frames_are_learned_from_while_the_next_turn_is_played(monkeypatch):
    """So a choice knows nothing yet of the turn before it."""
    order, choose, learn = [], FrameQ.choose, FrameQ.learn

    def chosen(self, program, setups, state, seen, t, turn):
        order.append(("choose", t // program.lanes))
        return choose(self, program, setups, state, seen, t, turn)

    def learned(self, program, setups, state, turn, index):
        order.append(("learn", index))
        return learn(self, program, setups, state, turn, index)

    monkeypatch.setattr(FrameQ, "choose", chosen)
    monkeypatch.setattr(FrameQ, "learn", learned)
    trained(spec_of(steps=12))
    assert order == [
        ("choose", 0),
        *((what, i + k) for i in range(3) for what, k in (("choose", 1), ("learn", 0))),
        ("learn", 3),
    ]


def test_what_a_worker_that_died_wrote_last_is_no_end(delayed):
    """And what a learner of frames is given does not change with the pool's memory."""
    program = host_programs.program_of(delayed.spec, "cpu")
    lost = np.array([False, True, False])
    yes = np.ones(3, bool)
    frames = np.zeros((3, 4, 84, 84), np.uint8)
    nothing = np.zeros(3)
    played = Played(
        frames,
        np.zeros((3, 3), np.uint8),
        nothing,
        nothing,
        nothing,
        nothing,
        yes,
        yes,
        yes,
        lost,
        frames[:, 0],
    )
    seen = host_programs.seen_of(program, 1, played)
    for name in ("terminated", "truncated", "life_lost"):
        assert getattr(seen, name).tolist() == [[True, False, True]]
    assert seen.lost.tolist() == [lost.tolist()]
    frames[:] = 9
    assert not seen.shown.any()


def test_setups_are_those_of_the_specs():
    pairs = [
        (spec_of("delayed", 4, "atari:Freeway"), 3),
        (spec_of("augmented", 2, "atari:MsPacman"), 7),
    ]
    program = host_programs.program_of(pairs[0][0], "gpu")
    setups = host_programs.setups_of(program, pairs)
    assert (setups.delay.tolist(), setups.steps.tolist(), setups.actions.tolist()) == (
        [4, 2],
        [120, 120],
        [3, 9],
    )
    assert (setups.view.sees.tolist(), setups.view.credits.tolist()) == (
        [PREDICTION, QUEUE],
        [EXECUTED, CHOSEN],
    )
    for i, (_, seed) in enumerate(pairs):
        assert (
            jax.random.key_data(setups.key[i]).tolist()
            == jax.random.key_data(jax.random.key(seed)).tolist()
        )
