from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from deadtime._support.terminal import counted
from deadtime.learn import compiled_groups, compiled_loop, host_programs, memory
from deadtime.runs import core_seconds, estimates, records, runner
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.studies.registry import EXPERIMENTS

RESULTS = Path(__file__).parents[2] / "results" / "paper"


@cache
def recorded(name):
    """The device and the seconds of each recorded seed."""
    if not records.exists(RESULTS / name):
        return {}
    record = records.read(RESULTS / name)
    device = {seed: one["device"] for one in record.provenance for seed in one["seeds"]}
    return {
        seed: (device[seed], took) for seed, took in zip(record.seeds, record.seconds, strict=True)
    }


def recorded_together():
    """Runs and their seconds, by device and experiment.

    Deep runs are kept by preset and environment, since on a GPU those share a program.
    """
    runs = defaultdict(dict)
    seconds = defaultdict(dict)
    for experiment in EXPERIMENTS.values():
        for spec, seeds in experiment.wanted:
            kind = experiment.name
            if not isinstance(spec, TabularSpec):
                kind = spec.preset, spec.env.removeprefix("noisy-").split(":")[0]
            for seed, (device, took) in recorded(spec.name).items():
                if seed in seeds:
                    runs[device, kind][spec.name, seed] = spec, [seed]
                    seconds[device, kind][spec.name, seed] = took
    return {key: ([*runs[key].values()], sum(seconds[key].values())) for key in runs}


BUSY = {
    "random-delay-mazes",
    "wrong-delay",
    "CPU, 16 cores",
    ("CPU, 2 cores", ("best", "pendulum")),
}
"""Experiments, and machines, that were recorded while other work had the cores: runs took up to 60
times the CPU time that they need. With 16 cores each run had a thread a core, too."""


@pytest.mark.slow
def test_estimates_agree_with_the_records(monkeypatch):
    """`seconds` of a run are those of one core, or its share of a GPU's."""
    monkeypatch.setattr(estimates, "cores", lambda: 1)
    wrong = {}
    devices = set()
    for (device, kind), (runs, took) in recorded_together().items():
        if {device, kind, (device, kind)} & BUSY or "atari" in kind:
            continue
        devices.add(device.split()[0])
        ratio = estimates.seconds_needed(runs, int("NVIDIA" in device)) / took
        if not 1 / 2.5 < ratio < 2.5:
            wrong[device, kind] = ratio
    assert devices == {"CPU,", "NVIDIA"}
    assert not wrong


@pytest.mark.slow
def test_estimates_agree_with_the_records_of_atari(monkeypatch):
    """One command trained the runs of an experiment at a commit, half of them in each group.

    `seconds` of a run are its group's, divided by the number of its runs.
    """
    monkeypatch.setattr(estimates, "cores", lambda: 16)
    runs = defaultdict(list)
    took = Counter()
    seen = set()
    for experiment in EXPERIMENTS.values():
        for spec, seeds in experiment.wanted:
            known = isinstance(spec, TabularSpec) or not spec.frames or spec.name in seen
            if known or not records.exists(RESULTS / spec.name):
                continue
            seen.add(spec.name)
            record = records.read(RESULTS / spec.name)
            for one in record.provenance:
                batch = experiment.name, one["commit"]
                for seed in {*seeds} & {*one["seeds"]}:
                    runs[batch].append((spec, [seed]))
                    seconds = record.seconds[record.seeds.index(seed)] * one["width"]
                    took[batch] = max(took[batch], seconds)
    assert sum(map(len, runs.values())) > 10
    estimated = sum(estimates.seconds_needed(mine, 1) for mine in runs.values())
    assert 1 / 2 < estimated / took.total() < 2


def test_runs_of_atari_share_a_gpu_and_the_cores(monkeypatch):
    runs = [(DeepSpec("atari:Pong", "oblivious", 5), [seed]) for seed in range(25)]
    monkeypatch.setattr(estimates, "cores", lambda: 16)
    one, eight, most, more = (estimates.seconds_needed(runs[:n], 1) for n in (1, 8, 24, 25))
    assert one < eight < most < 8 * one
    start = estimates.STARTED_IN_SECONDS["deep"]
    assert more - start == pytest.approx(most + one - 2 * start)  # the last one waits
    monkeypatch.setattr(estimates, "cores", lambda: 4)
    assert estimates.seconds_needed(runs[:24], 1) > 2 * most


def test_only_sticky_actions_are_played_ahead_again(monkeypatch):
    """Without them one emulator plays ahead, and the present is what it showed before."""
    monkeypatch.setattr(estimates, "cores", lambda: 16)

    def seconds(agent, preset, **changes):
        runs = [(DeepSpec("atari:Pong", agent, 5, preset, changes=changes), [0, 1])]
        return estimates.seconds_needed(runs, 1)

    plain = seconds("oblivious", "paper")
    assert seconds("oblivious", "best") == seconds("delayed", "paper") == plain
    kept, fresh = (seconds("delayed", "best", model=model) for model in ("kept", "fresh"))
    assert fresh - plain == pytest.approx(5 * (kept - plain))
    assert kept > 1.1 * plain


def test_more_gpus_share_the_groups():
    runs = [(DeepSpec(env, "delayed", 5, "paper"), range(10)) for env in ("cartpole", "acrobot")]
    one, two, three = (estimates.seconds_needed(runs, gpus) for gpus in (1, 2, 3))
    rest = estimates.STARTED_IN_SECONDS["deep"]
    assert one - rest == pytest.approx(2 * (two - rest))
    assert two == three


def test_estimates_count_start_and_compilation(monkeypatch):
    """A command that hardly trains takes seconds to start, and to compile without a cache."""
    monkeypatch.setattr(estimates, "cores", lambda: 1)
    tiny, same, other = (
        (DeepSpec("cartpole", "delayed", delay, "paper", 10), [0]) for delay in (3, 4, 6)
    )
    start = estimates.STARTED_IN_SECONDS["deep"]
    cached = [compiled_groups.program_of(tiny[0], "cpu")]
    monkeypatch.setattr(memory, "has_compiled", cached.__contains__)
    compiled = estimates.COMPILED_IN_SECONDS["compiled"]
    loaded = estimates.LOADED_IN_SECONDS["deep"]
    expected = (
        ([tiny], start + loaded),
        ([other], start + compiled),
        ([tiny, same, other], 2 * start + loaded + compiled),
    )
    for runs, seconds in expected:
        assert estimates.seconds_needed(runs, 0) == pytest.approx(seconds, abs=0.01)


def test_estimates_count_figures():
    tiny = [(TabularSpec("maze", "delayed", 0, 10, {"size": 3}), [0])]
    for runs in ([], tiny):
        without, drawn = (estimates.seconds_needed(runs, 0, figures=n) for n in (0, 5))
        assert drawn - without == pytest.approx(5 * estimates.DRAWN_IN_SECONDS)


def test_estimates_in_words(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(estimates, "_tabular_compile_seconds", lambda: 0.0)
    monkeypatch.setattr(estimates, "cores", lambda: 2)
    tiny = [(TabularSpec("maze", "delayed", 0, 10, {"size": 3}), [0])]
    assert estimates.time_needed(tiny) == estimates.time_needed([]) == "a few seconds"
    long = TabularSpec("maze", "distribution", 5, 100_000)
    assert estimates.time_needed([(long, [0])]) == "about 2 min"
    runner.train_missing(tiny, tmp_path / "one")
    runner.train_missing(tiny, tmp_path / "other", how=runner.How(together=True))
    shown = [line for line in capsys.readouterr().err.splitlines() if "to do" in line]
    assert shown == ["1 run to do, a few seconds"] * 2
    assert counted(1234, "run") == "1,234 runs"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "agent"),
    [
        ("cartpole", "augmented"),
        ("cartpole", "delayed"),
        ("acrobot", "projected"),
        ("pendulum", "augmented"),
        ("cartpole", "recurrent"),
    ],
)
def test_estimates_count_the_weights_of_the_policy(env, agent):
    """Second heads of the last layer, such as A2C's value, are left out: under 1% of a network."""
    spec = DeepSpec(env, agent, 5, steps=100)
    program = compiled_groups.program_of(spec, "cpu")
    setups = compiled_groups.setups_of([(spec, 0)], 1)
    shapes = compiled_loop.begin_all.eval_shape(program, setups).learner
    learner = jax.tree.map(lambda leaf: np.full(leaf.shape[1:], spec.delay), shapes)
    arrays = program.learner.policy_arrays(program, learner)
    matrices = [
        one for name, one in arrays.items() if one.ndim == 2 and not name.startswith("model")
    ]
    weights = sum(one.size for one in matrices)
    assert core_seconds.size_of(spec, program).weights == pytest.approx(weights, rel=0.01)


def test_estimates_grow_with_what_a_step_does():
    def seconds(agent="delayed", delay=5, env="cartpole", **changes):
        spec = DeepSpec(env, agent, delay, steps=100_000, changes=changes)
        return core_seconds.deep_seconds(spec, compiled_groups.program_of(spec, "cpu"))

    usual = seconds()
    assert seconds("oblivious") < usual < seconds(delay=25) < 3 * usual
    assert seconds(hidden=(32, 32)) < usual < seconds(hidden=(128, 128)) < 4 * usual
    assert 1.5 * usual < seconds(batch_size=256) < 2 * usual
    assert seconds(members=2) - usual < seconds(members=3) - usual
    assert seconds(model="simulator") < usual
    assert seconds("augmented", delay=0) < seconds("augmented") < seconds("augmented", delay=25)


def test_estimates_leave_out_random_steps_where_they_update_nothing():
    """A compiled step computes an update even then; on the host there is none."""

    def seconds(env, steps, random_steps):
        changes = {"random_steps": random_steps}
        spec = DeepSpec(env, "augmented", 2, steps=steps, changes=changes)
        programs = host_programs if spec.outside else compiled_groups
        return core_seconds.deep_seconds(spec, programs.program_of(spec, "cpu"))

    assert seconds("pendulum", 9_000, 5_000) == seconds("pendulum", 9_000, 1_000)
    more = seconds("gym:Pendulum-v1", 9_000, 1_000) - seconds("gym:Pendulum-v1", 9_000, 5_000)
    longer = seconds("gym:Pendulum-v1", 9_000, 1_000) - seconds("gym:Pendulum-v1", 5_000, 1_000)
    assert 0.9 * longer < more < longer


def test_estimates_count_evaluations_outside_the_program():
    """Episodes of 500 steps of `gym:CartPole-v1`, under its own delay and two others."""
    spec = DeepSpec("gym:CartPole-v1", "delayed", 2, steps=100, evaluation_episodes=10)
    program = host_programs.program_of(spec, "cpu")
    alone = core_seconds.deep_seconds(spec, program)
    others = core_seconds.deep_seconds(replace(spec, evaluation_delays=(1, 3)), program)
    assert others - alone == pytest.approx(2 * 10 * 500 * core_seconds.PLAYED_SECONDS)


def test_estimates_count_the_start_of_workers():
    """A unit has up to 8 seeds of a maze; with several units, workers start after the driver."""
    tiny = TabularSpec("maze", "delayed", 0, 10, {"size": 3})
    few, many = [(tiny, range(8))], [(tiny, range(9))]
    start = estimates.STARTED_IN_SECONDS["tabular"]
    inline, own, workers = (
        estimates.seconds_needed(*given)
        for given in ((many, 0, False, 0, False), (few, 0), (many, 0))
    )
    assert inline == pytest.approx(own, abs=0.01)
    assert workers - inline == pytest.approx(start)
