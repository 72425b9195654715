"""The study of delays that vary: its numbers are exact, and its words are what they show."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import deadtime
from deadtime.cli.reproduce import Reproduce
from deadtime.delays import Buffered, GilbertElliott, RandomWalk, Uniform
from deadtime.envs import make
from deadtime.planning import MDP, policy_values, solve
from deadtime.planning.examples import two_state, two_state_optimum
from deadtime.runs.ceiling import ceiling, mean_ceiling
from deadtime.runs.specs import from_canonical, make_spec
from deadtime.studies.experiment import found
from deadtime.studies.random_delay.exact import CASES, centre_chain, exact_rows, values
from deadtime.studies.random_delay.laws import COLUMNS, LAWS, LONG_LAWS, faced
from deadtime.studies.random_delay.tasks import TASKS
from deadtime.studies.random_delay.trained import TRAINED
from deadtime.studies.random_delay.wrong import DELAYS, WRONG
from deadtime.studies.registry import chosen

FIGURES = Path(__file__).parents[2] / "results" / "paper" / "figures"


def test_a_constant_latency_is_the_same_for_all_agents():
    """The closed form, after the two random actions that are pending at the start."""
    found_values = values(two_state(0.8, 0.9), None, Uniform(2, 2))
    closed = (1 + 0.9) * 0.5 + 0.81 * two_state_optimum(0.8, 0.9, 2)
    assert [*found_values.values()] == pytest.approx([closed] * 4, abs=1e-7)


@pytest.mark.full
def test_seeing_more_is_worth_no_less():
    for row in exact_rows():
        assert row["never_seen"] <= row["seen_later"] + 1e-7
        assert row["seen_later"] <= row["seen_now"] + 1e-7


def test_what_the_report_says():
    rows = [row for row in exact_rows() if row["shortest_latency"] < row["longest_latency"]]
    assert len(rows) == sum(case.mean for case in CASES)
    for row in rows:
        two_state_row = row["problem"] == CASES[0].name
        waits = row["waiting"] > row["seen_now"]
        assert waits == (not two_state_row or row["shortest_latency"] > 0)
        knowing = row["seen_now"] - row["never_seen"]
        assert row["seen_later"] - row["never_seen"] <= max(0.06 * knowing, 1e-6)


def test_the_chain_rewards_the_middle_cell():
    mdp = centre_chain(0.9)
    assert mdp.r.sum(axis=1).tolist() == [0, 0, 0, 2, 0, 0, 0]
    towards = np.array([1, 1, 1, 0, 0, 0, 0])
    assert policy_values(mdp, 0, towards)[0, 3] == pytest.approx(solve(mdp, 0).value(3))


@pytest.mark.slow
def test_it_is_reproduced_by_name(tmp_path):
    (experiment,) = chosen(("random-delay-exact",), None)
    assert experiment.draw({}, tmp_path).read_bytes()[:4] == b"\x89PNG"
    assert len(experiment.table({}, tmp_path)) == 11


@pytest.mark.parametrize("process", [Uniform(0, 2), RandomWalk(1, 3)], ids=str)
def test_a_ceiling_under_a_process_is_the_mean_over_warm_ups_and_first_ages(process):
    env = make("maze", size=3, noise=0.3, maze_seed=2)
    solution = solve(MDP(*env.model(), 1.0), process, horizon=90)
    queues = product(range(4), repeat=process.longest)
    found = ceiling(env, process)
    assert found.value == pytest.approx(np.mean([solution.value(0, q) for q in queues]), abs=1e-8)
    assert (found.delay, found.exact) == (process.longest, True)
    bound = ceiling(env, process, largest=1)
    assert not bound.exact
    assert bound.value > found.value


def test_a_ceiling_is_exact_only_for_an_agent_that_sees_each_age_first(tmp_path):
    for process, observed, exact in (
        (Uniform(0, 2), "now", True),
        (Uniform(0, 2), "hindsight", False),
        (GilbertElliott(0, Uniform(0, 2), 0.3, 0.4), "now", False),
    ):
        options = {"size": 3, "observed": observed}
        spec = make_spec("noisy-maze", "augmented", process, options)
        assert mean_ceiling(tmp_path, spec, [0, 1]).exact == exact
    late = make_spec("noisy-maze", "augmented", 2, {"size": 3})
    assert mean_ceiling(tmp_path, late, [0, 1]).exact


@pytest.mark.parametrize(("laws", "mean"), [(LAWS, 3), (LONG_LAWS, 10)])
def test_all_laws_of_a_task_have_the_same_nearest_whole_mean_age(laws, mean):
    assert {faced(process, "constant") for process in laws.values()} == {(mean, "now")}
    for process in laws.values():
        assert faced(process, "buffered") == (process.longest, "now")
        assert faced(process, "hindsight") == (process, "hindsight")


@pytest.mark.parametrize("agent", ["delayed", "projected", "oblivious"])
def test_the_column_of_a_receiver_that_waits_is_a_run_under_buffered(agent):
    for task in TASKS:
        for law, process in task.laws.items():
            column = task.runs()[law, "buffered", agent]
            waits = replace(column, process=Buffered(process, process.longest))
            assert (waits.delay, column.process) == (column.delay, None)
            assert make_spec("noisy-maze", "delayed", waits.process, {}) == make_spec(
                "noisy-maze", "delayed", column.delay, {}
            )


def test_no_agent_in_the_records_earns_more_than_the_exact_upper_bound():
    """Seed by seed, each beside the bound of its own maze: the mean is at most noise above it."""
    root = FIGURES.parent
    (experiment,) = (one for one in TRAINED if one.part == "mazes")
    results = found(experiment, root)
    excess = []
    for key, result in results.items():
        bounds = [mean_ceiling(root, result.spec, [seed]).value for seed in result.seeds]
        over = result.scores - bounds
        excess.append((over.mean() / (over.std(ddof=1) / np.sqrt(len(over))), key))
    assert len(excess) == len(LAWS) * len(COLUMNS) * len(TASKS[0].agents)
    assert len(results["wide", "now", "projected"].seeds) == 10
    assert max(excess)[0] < 3.5, max(excess)


def test_a_task_has_one_budget_and_runs_without_ages_are_counted_once():
    for task, count in zip(TASKS[1:], (56, 52), strict=True):
        specs = {spec.name: spec for spec in task.runs().values()}
        assert len(specs) == count
        assert len({spec.length for spec in specs.values()}) == 1


def test_a_spec_names_the_wrong_delays_under_which_it_is_played():
    (agent, trained), spec = next(iter(WRONG.runs.items()))
    assert from_canonical(json.loads(json.dumps(spec.canonical()))) == spec
    assert len(spec.wrong_delays) == len(DELAYS) - 1
    with pytest.raises(ValueError, match="its own longest age, 3; got uniform:0-2 in wrong_delays"):
        make_spec("maze", "delayed", 3, {"wrong_delays": ["uniform:0-2"]})


def test_a_wrong_delay_is_played_as_it_is_and_expected_as_it_was():
    """Under its own delay a policy that is told nothing earns what it earns; else less or more."""
    walk = RandomWalk(1, 3)
    wrong = {"wrong_delays": [walk, 3], "size": 4, "episodes": 800, "evaluation_episodes": 2000}
    found = deadtime.train("noisy-maze", "projected", walk, **wrong)
    own, constant = found.record.others[0]
    assert own == pytest.approx(found.scores[0], abs=0.02)
    assert constant != own
    told = deadtime.train("noisy-maze", "oblivious", 3, **wrong).record.others[0]
    assert abs(told[0] - told[1]) > 0.02


@pytest.mark.full
def test_both_studies_run_to_their_figures(tmp_path):
    options = {"smoke": True, "out": tmp_path}
    assert Reproduce(("random-delay", "wrong-delay"), **options).run() == 0
    figures = tmp_path / "smoke" / "figures"
    for task in TASKS[1:]:
        assert (figures / f"random-delay-{task.name}.csv").read_text().count("\n") > 4
    rows = (figures / "random-delay-mazes.csv").read_text().splitlines()
    agents = len(TASKS[0].agents)
    assert len(rows) == 1 + len(LAWS) * len(COLUMNS) * agents
    assert len((figures / "wrong-delay.csv").read_text().splitlines()) == 1 + 25 * agents
    assert (figures / "random-delay-mazes.png").stat().st_size > 10_000
