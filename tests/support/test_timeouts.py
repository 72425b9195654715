"""Time limits for steps of outside environments."""

import os
import signal
import time
from threading import active_count

import numpy as np
import pytest

from deadtime._support import timeouts
from deadtime._support.timeouts import Patient, StepTimeoutError, limited_steps, step_timeout
from deadtime.envs.atari.games import Game, installed
from deadtime.envs.timed import TimedEnv
from deadtime.learn import host_scores
from deadtime.learn.deep_training import run_deep
from deadtime.runs import records
from deadtime.runs.specs import make_spec
from tests.commands import recorded, run
from tests.processes import wait_for
from tests.runs.stuck_env import Stuck
from tests.runs.stuck_env import __name__ as module

ENV = f"gym:{module}:deadtime-test/Stuck-v0"
OPTIONS = {
    "preset": "paper",
    "steps": 40,
    "hidden": (4,),
    "batch_size": 4,
    "evaluation_episodes": 1,
}
WORDS = [
    "train",
    "--env",
    ENV,
    "--preset",
    "paper",
    "--steps",
    "40",
    "--set",
    "hidden=[4]",
    "--set",
    "batch_size=4",
    "--out",
    "runs",
]
LATE = (
    "a step or reset of .* takes at most 2 s (--step-timeout); one took longer: fix the "
    "environment, or allow more"
)


def late(name):
    return LATE.replace(".*", name).replace("(", r"\(").replace(")", r"\)")


@pytest.mark.slow
def test_calls_have_a_timeout():
    threads = active_count()
    patient = Patient("it")
    assert patient.call(divmod, 7, 2, seconds=9) == (3, 1)
    assert patient.call(int, "11", base=2) == 3
    with pytest.raises(ZeroDivisionError):
        patient.call(divmod, 7, 0)
    assert patient.call(divmod, 7, 2) == (3, 1)
    for _ in range(2):
        with pytest.raises(StepTimeoutError, match=late("it")):
            patient.call(time.sleep, 4, seconds=2)
    assert patient.stuck
    assert "it" in timeouts.STUCK
    patient.end()
    wait_for(lambda: active_count() == threads)


def test_an_interrupted_wait_leaves_no_answer_for_the_next():
    patient = Patient("it")
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            patient.call(time.sleep, 1, seconds=9)
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(StepTimeoutError):
        patient.call(divmod, 7, 2, seconds=0.5)
    patient.end()


def test_the_limit_is_set_for_a_while():
    assert step_timeout() is None
    with limited_steps(3):
        assert step_timeout() == 3.0
        with limited_steps(None):
            assert step_timeout() == 3.0
    assert step_timeout() is None


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf"])
def test_invalid_limits_are_refused(given, tmp_path):
    done = run(*WORDS, "--step-timeout", given, cwd=tmp_path)
    assert done.returncode == 2
    number = float(given)
    assert done.stderr == (
        f"deadtime: a step timeout is a number of seconds above 0; got {number}: "
        "pass 60, for example, or leave it out\n"
    )


def test_a_timed_environment_is_the_same_environment():
    plain, timed = Stuck(), TimedEnv(Stuck, "it", 9.0)
    for env in (plain, timed):
        assert env.reset(seed=3)[0].tolist() == [0.0]
    for action in (0, 1, 1, 0, 1):
        one, other = plain.step(action), timed.step(action)
        assert (one[0].tolist(), *one[1:]) == (other[0].tolist(), *other[1:])
    timed.close()
    threads = active_count()
    with pytest.raises(TypeError):
        TimedEnv(lambda: Stuck(5, 6), "it", 9.0)
    wait_for(lambda: active_count() <= threads)


@pytest.mark.slow
def test_training_that_gets_stuck_keeps_its_checkpoint(tmp_path, monkeypatch):
    """The command ends with status 1; once the environment is mended, the same command resumes."""
    monkeypatch.setenv("STUCK", "sleep")
    done = run(*WORDS, "--set", "at=20", "--step-timeout", "2", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"deadtime: {LATE.replace('.*', ENV)}"
    (kept,) = (tmp_path / "runs/.checkpoints").iterdir()
    monkeypatch.delenv("STUCK")
    assert run(*WORDS, "--set", "at=20", cwd=tmp_path).returncode == 0
    spec = make_spec(
        ENV,
        "delayed",
        0,
        {"preset": "paper", "steps": 40, "hidden": [4], "batch_size": 4, "at": 20},
    )
    record = records.read(next((tmp_path / "runs").glob("gym*")))
    assert (record.provenance[0]["resumed_at"], record.status) == ([20], ["complete"])
    assert not kept.exists()
    assert record.id == spec.id


@pytest.mark.slow
def test_an_evaluation_that_gets_stuck_keeps_the_training(tmp_path, monkeypatch):
    spec = make_spec(ENV, "oblivious", 0, OPTIONS)
    evaluate = host_scores.evaluate

    def stuck(policy, env, **how):
        monkeypatch.setenv("STUCK", "sleep")
        return evaluate(policy, env, **how)

    monkeypatch.setattr(host_scores, "evaluate", stuck)
    with limited_steps(2), pytest.raises(StepTimeoutError, match=late(ENV)):
        list(run_deep([(spec, 0)], lambda n: None, checkpoints=tmp_path))
    monkeypatch.undo()
    steps = []
    (record,) = recorded(run_deep([(spec, 0)], steps.append, checkpoints=tmp_path))
    assert steps[0] == sum(steps) == 40
    assert record.status == ["complete"]


@pytest.mark.slow
@pytest.mark.skipif(not installed(), reason="needs ale-py")
def test_an_emulator_that_does_not_answer_is_replaced(monkeypatch):
    from deadtime.envs.atari.pool import AtariPool

    monkeypatch.setenv(timeouts.VARIABLE, "2")
    pool = AtariPool([Game("Breakout", seed=seed) for seed in range(2)], workers=2)
    pool.reset()
    os.kill(pool._workers[0].pid, signal.SIGSTOP)
    stopped = pool._mine[0]
    played = pool.step(np.zeros(2, int))
    assert np.flatnonzero(played.lost).tolist() == stopped
    assert played.age[stopped].tolist() == [0]
    assert not pool.step(np.zeros(2, int)).lost.any()
    os.kill(pool._workers[0].pid, signal.SIGSTOP)  # what is stopped ends too
    pool.close()
