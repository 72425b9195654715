"""A view, a model, a learner, a family and a delay process from outside (docs/extending.md)."""

import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import deadtime
import deadtime.learn
from deadtime import runtime
from deadtime.delays import PROCESSES, as_process
from deadtime.envs import FAMILIES
from deadtime.learn import compiled_groups
from deadtime.learn.deep_training import run_deep
from deadtime.runs import records
from deadtime.runs.deep_specs import DeepSpec
from tests.commands import full, recorded, run
from tests.processes import nothing_left, start, wait_for  # noqa: F401

PAGE = (Path(__file__).parents[2] / "docs/extending.md").read_text()
*MINE, LAST = re.findall("```python\n(.*?)```", PAGE, re.DOTALL)
REGISTRIES = (
    runtime.VIEWS,
    runtime.FORWARD_MODELS,
    deadtime.learn.FORWARD_MODELS,
    deadtime.learn.LEARNERS,
    FAMILIES,
    PROCESSES,
)
SMALL = {
    "hidden": (8, 8),
    "batch_size": 8,
    "buffer_size": 200,
    "evaluation_episodes": 2,
    "preset": "paper",
}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The page's module; what it registers is gone afterwards."""
    (tmp_path / "mine.py").write_text("\n\n".join(MINE))
    monkeypatch.syspath_prepend(tmp_path)
    before = [dict(registry) for registry in REGISTRIES]
    sys.modules.pop("mine", None)
    import mine

    yield mine
    del sys.modules["mine"]
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(entries)


@pytest.mark.slow
def test_the_last_block(mine, capsys):
    exec(LAST, {})
    said = capsys.readouterr().out
    assert said.startswith(
        "NetworkPolicy(reactive on follow, delay=2, 1 numbers -> actions of shape (1,)) [0."
    )
    assert abs(float(said.split("[")[1].rstrip("]\n")) - 0.4) < 0.15


@pytest.mark.slow
def test_gymnasium_environments_with_real_actions(mine):
    """Training is repeatable, and a policy plays under any delay within its bounds."""
    options = {"steps": 150, "evaluation_episodes": 1, "envs": 2}
    one, same = (deadtime.train("gym:Pendulum-v1", "reactive", 3, **options) for _ in range(2))
    assert one.record.status == ["complete"]
    for name, array in one.record.policies.items():
        np.testing.assert_array_equal(array, same.record.policies[name])
    policy = one.policy(0)
    assert policy.action_shape == (1,)
    score = deadtime.evaluate(policy, "gym:Pendulum-v1", delay=1, episodes=1)
    assert -2000 < score[0] < 0


@pytest.mark.slow
@pytest.mark.parametrize("env", ["follow", "follow-outside"])
@pytest.mark.parametrize("delay", [0, 3])
def test_a_learner_with_continuous_actions_learns_in_both_loops(mine, env, delay, tmp_path):
    result = deadtime.train(env, "reactive", delay, steps=6000, evaluation_episodes=20, seeds=2)
    assert result.record.status == ["complete"] * 2
    policy = deadtime.load(result.save(tmp_path / "kept"))
    queue = np.zeros((delay, 1), np.float32)
    for place in (-0.8, 0.0, 0.8):
        assert abs(policy.act(np.array([place]), queue)[0] - place / 2) < 0.15
    warm_up = delay * (1 / 3 + 1 / 12)  # what random actions lose on average
    assert (result.scores > -1.5 - 2.5 * warm_up).all()
    scores = deadtime.evaluate(policy, FAMILIES[env].gymnasium_form(None, delay), episodes=5)
    assert scores.mean() > -1.5 - 4 * warm_up


@pytest.mark.slow
def test_the_executed_action_is_what_reactive_credits(mine):
    """The page's learner learns nothing under a delay if it credits the chosen action."""
    runtime.VIEWS["mistaken"] = replace(runtime.VIEWS["reactive"], credits="chosen")
    result = deadtime.train("follow", "mistaken", 3, steps=6000, evaluation_episodes=50)
    assert result.spec.learner.kind == "climb"
    queue = np.zeros((3, 1), np.float32)
    assert abs(result.policy(0).act(np.array([0.8]), queue) - 0.4) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("env", [full("cartpole"), "gym:CartPole-v1"])
@pytest.mark.parametrize(("agent", "options"), [("newest", {}), ("delayed", {"model": "still"})])
def test_a_view_and_a_forward_model_in_both_loops(mine, env, agent, options, tmp_path):
    result = deadtime.train(env, agent, 2, steps=120, **SMALL, **options)
    policy = deadtime.load(result.save(tmp_path / "kept"))
    obs = np.array([0.1, -0.2, 0.3, 0.4])
    values = [policy.q_values(obs, queue).tolist() for queue in ([0, 1], [1, 1], [1, 0])]
    assert values[0] == values[1]
    assert (values[0] != values[2]) == (agent == "newest")
    if env == "cartpole":
        return
    scores = deadtime.evaluate(policy, env, episodes=2, seed=held_out(result.seeds[0]))
    assert scores.mean() == result.scores[0]


@pytest.mark.slow
@pytest.mark.parametrize("env", ["follow", "follow-outside"])
def test_a_delay_process_trains_in_both_loops(mine, env, tmp_path):
    process = mine.Alternating(2)
    assert as_process("alternating:low=2") == process
    result = deadtime.train(env, "reactive", process, steps=6000, evaluation_episodes=20)
    assert result.record.spec["process"] == {"kind": "alternating", "low": 2}
    policy = deadtime.load(result.save(tmp_path / "kept"))
    assert (policy.delay, policy.process) == (3, process)
    for place in (-0.8, 0.0, 0.8):
        assert abs(policy.act(np.array([place]), np.zeros((3, 1)))[0] - place / 2) < 0.15
    scores = deadtime.evaluate(policy, FAMILIES[env].gymnasium_form(None, process), episodes=5)
    assert scores.mean() > -1.5 - 4 * 3 * (1 / 3 + 1 / 12)


@pytest.mark.slow
def test_a_process_that_is_not_imported_is_refused_in_a_record(mine, tmp_path):
    folder = deadtime.train("follow", "reactive", mine.Alternating(2), steps=50).save(
        tmp_path / "r"
    )
    del PROCESSES["alternating"]
    with pytest.raises(ValueError, match="a delay is a whole number of steps or one of"):
        deadtime.load(folder)


def held_out(seed):
    return int(np.random.SeedSequence([seed, 0xE7A1]).generate_state(1)[0])


def test_a_table_does_not_offer_inputs_that_it_can_not_show(mine):
    with pytest.raises(ValueError, match="newest learns from numbers, not from the cells of maze"):
        deadtime.train("maze", "newest")


COMMAND = """
import mine
from deadtime.learn import compiled_groups, host_loop

for module in (compiled_groups, host_loop):
    module.WRITE_EVERY_SECONDS = 0.0
compiled_groups.CHUNK_STEPS = 500
from deadtime.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("env", "steps"), [("follow", 400_000), full("follow-outside", 60_000)])
def test_runs_are_interrupted_resumed_and_recorded(mine, env, steps, tmp_path):
    """By the command; the host loop goes on with new episodes, and its record says so."""
    words = [
        "train",
        "--env",
        env,
        "--agent",
        "reactive",
        "--delay",
        "2",
        "--steps",
        str(steps),
        "--seeds",
        "1",
    ]
    command, _ = start("-c", COMMAND, *words, cwd=tmp_path)
    wait_for(lambda: any((tmp_path / "runs/.checkpoints").rglob("*.safetensors")))
    command.send_signal(signal.SIGINT)
    error = command.communicate(timeout=60)[1]
    assert command.returncode == 130, error
    spec = DeepSpec(env, "reactive", 2, steps=steps)
    assert not (tmp_path / "runs" / spec.name).exists()
    command, _ = start("-c", COMMAND, *words, cwd=tmp_path)
    error = command.communicate(timeout=300)[1]
    assert command.returncode == 0, error
    record = records.read(tmp_path / "runs" / spec.name)
    assert record.status == ["complete"]
    assert ("resumed_at" in record.provenance[0]) == (env == "follow-outside")
    policy = deadtime.load(tmp_path / "runs" / spec.name)
    assert abs(policy.act(np.array([0.8]), np.zeros((2, 1)))[0] - 0.4) < 0.1


@pytest.mark.slow
def test_a_sweep_and_its_page_show_agents_of_ones_own(mine, tmp_path):
    names = 'environments = ["follow"]\nagents = ["reactive", "oblivious"]\n'
    grid = f"{names}delays = [0, 2]\nseeds = 1\n"
    (tmp_path / "s.toml").write_text(f"{grid}[overrides]\nsteps = 100\n")
    for words in (["sweep", "s.toml", "--engine", "inline"], ["report", "s"]):
        done = run(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    page = (tmp_path / "s/report.html").read_text()
    assert "reactive" in page
    assert "data:image" in page


@pytest.mark.slow
def test_a_compiled_run_goes_on_to_the_same_bits(mine, tmp_path, monkeypatch):
    monkeypatch.setattr(compiled_groups, "CHUNK_STEPS", 100)
    monkeypatch.setattr(compiled_groups, "WRITE_EVERY_SECONDS", -1.0)
    spec, told = DeepSpec("follow", "reactive", 2, steps=600, evaluation_episodes=2), []
    (straight,) = recorded(run_deep([(spec, 0)], lambda n: None))

    def interrupt(n):
        told.append(n)
        if len(told) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_deep([(spec, 0)], interrupt, checkpoints=tmp_path / "kept"))
    steps = []
    (resumed,) = recorded(run_deep([(spec, 0)], steps.append, checkpoints=tmp_path / "kept"))
    assert (steps[0], sum(steps)) == (300, 600)
    assert resumed.scores == straight.scores
    for name, array in straight.policies.items():
        np.testing.assert_array_equal(resumed.policies[name], array)
