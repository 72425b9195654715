"""`deadtime plan` and `deadtime verify`, through the command line."""

import json
from dataclasses import replace

import numpy as np
import pytest

from deadtime.cli.main import main
from deadtime.delays import Uniform
from deadtime.envs.maze_layout import carve
from deadtime.planning import MDP, bounds, solve
from deadtime.planning.examples import random_mdp, two_state, two_state_optimum
from deadtime.studies.paper.claims import CLAIMS
from deadtime.studies.paper.claims_optima import Finding, Verdict


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        captured = capsys.readouterr()
        return exit_.value.code, captured.out, captured.err

    return call


def plan(run, *arguments):
    code, out, err = run("plan", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_command_of_the_readme(run):
    answer = plan(run, *["two-state", "--p", "0.8", "--gamma", "0.5", "--delay", "3"])
    assert answer["optimal_delayed_value"] == pytest.approx(
        two_state_optimum(0.8, 0.5, 3), abs=1e-12
    )
    assert answer["optimal_delayed_value"] == pytest.approx(answer["closed_form"])
    values = np.array(answer["optimal_augmented_values"])
    assert values.shape == (2, 2, 2, 2)
    assert answer["optimal_augmented_value"] == values[0, 0, 0, 0]
    assert answer["converged"] is True
    assert answer["residual"] < 1e-12
    assert answer["iterations"] == 2


@pytest.mark.parametrize(
    "method", ["value_iteration", "modified_policy_iteration", "policy_iteration", "beliefs"]
)
def test_methods_agree(run, method):
    answer = plan(
        run,
        "two-state",
        "--delay",
        "4",
        "--method",
        method,
        "--queue",
        "1",
        "0",
        "1",
        "1",
        "--start",
        "1",
    )
    assert answer["method"] == method
    assert answer["queue"] == [1, 0, 1, 1]
    assert answer["optimal_delayed_value"] == pytest.approx(
        two_state_optimum(0.8, 0.5, 4), abs=1e-6
    )


def test_chain_counts(run):
    answer = plan(run, "chain", "--states", "9")
    assert (answer["delay"], answer["iterations"]) == (0, 9)


def test_maze_is_scored_as_an_episode(run, tmp_path):
    answer = plan(
        run,
        "maze",
        "--size",
        "6",
        "--delay",
        "9",
        "--maze-seed",
        "4",
        "--picture",
        str(tmp_path / "maze.png"),
    )
    assert (answer["method"], answer["horizon"], answer["gamma"]) == ("beliefs", 360, 1.0)
    assert answer["classes"] <= 36
    assert (tmp_path / "maze.png").read_bytes()[:4] == b"\x89PNG"
    assert [file.name for file in tmp_path.iterdir()] == ["maze.png"]


def test_noisy_maze_by_the_augmented_problem(run):
    noisy = plan(run, "maze", "--size", "3", "--noise", "0.2", "--delay", "2")
    clean = plan(run, "maze", "--size", "3", "--delay", "2")
    assert noisy["optimal_augmented_value"] < clean["optimal_augmented_value"]


def test_ones_own_problem_from_a_file(run, tmp_path):
    mdp = random_mdp(np.random.default_rng(0), 3, 2, 0.9)
    np.savez(tmp_path / "mine.npz", P=mdp.dense, r=mdp.r, gamma=mdp.gamma)
    answer = plan(
        run, "file", str(tmp_path / "mine.npz"), "--delay", "2", "--queue", "1", "0", "--start", "2"
    )
    assert answer["optimal_augmented_value"] == pytest.approx(solve(mdp, 2).value(2, (1, 0)))


def test_heat_map(run, tmp_path):
    answer = plan(run, "two-state", "--heat-map", str(tmp_path / "new" / "map.png"))
    assert (tmp_path / "new" / "map.png").stat().st_size > 10_000
    assert answer["heat_map"].endswith("map.png")


def test_table_for_people(run):
    code, out, _ = run("plan", "two-state", "--delay", "2")
    assert code == 0
    assert "optimal delayed value" in out
    assert "1.36" in out


def test_a_delay_that_varies(run):
    answer = plan(run, *["two-state", "--delay", "uniform:1-2", "--queue", "0", "1"])
    mdp = two_state(0.8, 0.5)
    process = Uniform(1, 2)
    assert (answer["delay"], answer["queue"]) == ("uniform:1-2", [0, 1])
    assert answer["age_law"] == {"age 1": 0.5, "age 2": 0.5}
    assert answer["value_age_seen_now"] == pytest.approx(solve(mdp, process).value(0, (0, 1)))
    later = solve(mdp, process, observed="hindsight").value(0, (0, 1))
    assert answer["value_age_seen_later"] == pytest.approx(later)
    never = bounds(mdp, process, 0, (0, 1)).lower
    assert answer["value_age_never_seen_at_least"] == pytest.approx(never)
    waiting = solve(mdp, 2).value(0, (0, 1))
    assert answer["value_waiting_for_longest_age"] == pytest.approx(waiting)
    assert [*answer["action_by_age"]] == ["age 1", "age 2"]
    assert (answer["states"], answer["converged"]) == (2 * (2 + 4), True)


@pytest.mark.slow
def test_a_maze_whose_delay_varies(run):
    answer = plan(run, *["maze", "--size", "3", "--delay", "walk:0-2"])
    assert (answer["horizon"], answer["value_age_never_seen_at_least"]) == (90, None)
    assert answer["value_age_seen_later"] <= answer["value_age_seen_now"]


@pytest.mark.slow
def test_the_table_of_a_delay_that_varies_fits_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("plan", "two-state", "--delay", "walk:0-3")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "value, age seen now             │ 1.592" in out
    assert "age 3: 0.25" in out


@pytest.mark.parametrize("form", ["2", "constant:2", "buffered:2:uniform:0-1"])
def test_a_constant_delay_in_any_form(run, form):
    answer = plan(run, "two-state", "--delay", form)
    assert answer["delay"] == 2
    assert answer["optimal_delayed_value"] == pytest.approx(two_state_optimum(0.8, 0.5, 2))


def test_not_converged_exits_1(run):
    code, out, _ = run("plan", "two-state", "--tol", "1e-20", "--json")
    assert code == 1
    assert json.loads(out)["converged"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("two-state --delay -1", "delay is a whole number of steps, 0 or more; got -1"),
        ("two-state --delay wak:0-3", "got 'wak'; did you mean 'walk'?"),
        ("two-state --delay 1.5", "got 1.5"),
        ("two-state --delay walk:0-40", "the problem under this delay must fit into memory"),
        ("two-state --delay walk:0-2 --queue 0", "a queue holds the last 2 actions"),
        ("two-state --delay walk:0-2 --method beliefs", "'beliefs' is for constant delays"),
        (
            "maze --size 3 --delay walk:0-2 --picture maze.png",
            "a picture shows the path under a constant delay; got walk:0-2",
        ),
        ("two-state --p 1.5", "p is a probability; got 1.5"),
        ("two-state --gamma 1.0", "gamma 1.0 without a horizon has no finite value"),
        (
            "two-state --delay 2 --queue 0",
            "a queue holds as many actions as the delay, 2, oldest first; got [0]",
        ),
        (
            "two-state --delay 1 --queue 7",
            "each pending action is a whole number from 0 to 1; got 7",
        ),
        ("two-state --start 2", "each state is a whole number from 0 to 1; got 2"),
        ("two-state --delay 60 --method value_iteration", "S·A^m = 2·2^60"),
        ("maze --size 1", "size is the number of cells on a side, 2 or more; got 1"),
        ("maze --noise 0.7", "noise is a number in [0, 0.5]; got 0.7"),
        ("maze --size 3 --picture maze.gif", "pictures are written as PNG; got maze.gif"),
        ("chain --states 1", "a chain has two states or more; got 1"),
        ("file missing.npz", "missing.npz"),
    ],
)
def test_bad_input_exits_2_with_one_line(run, arguments, message):
    code, out, err = run("plan", *arguments.split())
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_bad_files(run, tmp_path):
    path = tmp_path / "bad.npz"
    path.write_bytes(b"not an archive")
    code, _, err = run("plan", "file", str(path))
    assert code == 2
    assert "must be an .npz file of arrays" in err
    np.savez(path, P=np.ones((2, 2, 2)) / 2, r=np.zeros((2, 2)))
    assert "gamma is missing: save it with numpy.savez" in run("plan", "file", str(path))[2]
    np.savez(path, P=np.array([{}], dtype=object), r=np.zeros((2, 2)), gamma=0.9)
    code, _, err = run("plan", "file", str(path))
    assert code == 2
    assert "arrays of numbers; it can't be read" in err, "objects are never loaded"
    np.save(tmp_path / "one.npy", np.zeros(3))
    assert "must be an .npz file of arrays" in run("plan", "file", str(tmp_path / "one.npy"))[2]
    np.savez(path, P=np.array(["a"]), r=np.zeros((2, 2)), gamma=0.9)
    assert "must be an .npz file of arrays" in run("plan", "file", str(path))[2]
    np.savez(path, P=np.ones((2, 2, 2)) / 2, r=np.zeros((2, 2)), gamma=[0.9, 0.8])
    assert "gamma is one number" in run("plan", "file", str(path))[2]
    np.savez(path, P=np.ones((2, 2, 2)), r=np.zeros((2, 2)), gamma=0.9)
    assert "P[0, 0] sums to 2, not 1" in run("plan", "file", str(path))[2]


def test_a_picture_of_an_unwritable_place_leaves_nothing(run, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run(
        "plan", "maze", "--size", "3", "--picture", str(tmp_path / "file" / "maze.png")
    )
    assert code == 2
    assert err


def test_verify_prints_json(run):
    code, out, _ = run(
        "verify", "--json", "--only", "history", "two-state monotone", "mA-PI lower bound"
    )
    assert code == 0
    rows = json.loads(out)["claims"]
    assert [row["claim"] for row in rows] == ["two-state monotone", "mA-PI lower bound", "history"]
    assert [row["verdict"] for row in rows] == ["holds", "unproven", "fails as written"]
    assert all(row["as_expected"] for row in rows)
    assert set(rows[0]) == {
        "claim",
        "where",
        "statement",
        "cases",
        "verdict",
        "detail",
        "as_expected",
    }


@pytest.mark.parametrize("width", [80, 120])
def test_verify_fits_the_console(run, monkeypatch, width):
    detail = "a number of words and |bars| [brackets] " * 8 + "end"
    claims = [
        replace(claim, check=lambda claim=claim: Finding(1, claim.expected, detail))
        for claim in CLAIMS
    ]
    monkeypatch.setattr("deadtime.studies.paper.claims.CLAIMS", claims)
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = run("verify")
    assert code == 0
    lines = out.splitlines()
    assert width - 10 < max(map(len, lines)) <= width
    assert not any(line.endswith(" ") for line in lines)
    for claim in CLAIMS:
        at = lines.index(f"{claim.name:<18}  {claim.where:<9}  {claim.expected}, 1 case")
        block = lines[at + 1 : lines.index("", at)]
        assert all(line.startswith("  ") for line in block)
        assert " ".join(" ".join(block).split()) == f"Claim: {claim.statement} Found: {detail}"
    assert lines[-1] == "12 hold, 6 fail as written, 1 is unproven"


def test_verify_notices_a_verdict_that_is_not_the_documented_one(run, monkeypatch):
    monkeypatch.setattr(
        "deadtime.studies.paper.claims.CLAIMS",
        [replace(claim, expected=Verdict.UNPROVEN) for claim in CLAIMS],
    )
    code, out, _ = run("verify", "--only", "history")
    assert code == 1
    assert "fails as written (expected: unproven), 1 case" in out
    code, out, _ = run("verify", "--only", "history", "--json")
    assert code == 1
    assert json.loads(out)["claims"][0]["as_expected"] is False


def test_verify_of_an_unknown_claim(run):
    code, _, err = run("verify", "--only", "histroy")
    assert code == 2
    assert "no claim is called 'histroy'" in err


def test_the_predicted_path_of_a_maze_is_the_one_the_plan_walks():
    """What the picture draws: from the start the queue is walked, then the shortest way."""
    leads_to = carve(5, 2)
    P = np.eye(25)[leads_to]
    P[24] = np.eye(25)[24]
    r = np.full((25, 4), -1.0)
    r[24] = 0.0
    solution = solve(MDP(P, r, 1.0), 3, "beliefs", horizon=100)
    cell = 0
    pending = [0, 0, 0]
    steps = 0
    while cell != 24:
        pending.append(solution.action(cell, tuple(pending), time=steps))
        cell = int(leads_to[cell, pending.pop(0)])
        steps += 1
    assert -steps == pytest.approx(solution.value(0, (0, 0, 0)))
