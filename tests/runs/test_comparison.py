"""`deadtime.compare`: the numbers of a comparison, its text and its picture."""

import json

import numpy as np
import pytest

import deadtime
from deadtime.delays import Uniform
from deadtime.runs.delay_lists import delays_of
from tests.commands import run

RUN = {"episodes": 20, "evaluation_episodes": 2, "env_kwargs": {"size": 3}}


def test_a_comparison_holds_the_results_of_training(tmp_path):
    made = deadtime.compare("maze", ["delayed", "oblivious"], [0, 2], 3, out=tmp_path, **RUN)
    assert made.trained == 12
    for agent in made.agents:
        alone = deadtime.train("maze", agent, 2, 3, **RUN)
        assert made.results[agent, 2].scores.tolist() == alone.scores.tolist()
        assert made.mean(agent, 2).value == alone.scores.mean()
    first, other = (made.results[agent, 2].scores for agent in made.agents)
    assert made.difference("oblivious", 2).value == pytest.approx(np.mean(first - other))
    again = deadtime.compare("maze", ["delayed", "oblivious"], [0, 2], 3, out=tmp_path, **RUN)
    assert again.trained == 0
    assert again.to_json() == made.to_json() | {"trained": 0}
    assert made.draw(tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_a_comparison_in_python_has_the_numbers_of_the_command(tmp_path):
    made = deadtime.compare("maze", "delayed", 1, [0, 1], out=tmp_path, **RUN)
    words = ["--agents", "delayed", "--delays", 1, "--seeds", 2, "--episodes", 20]
    words += ["--set", "evaluation_episodes=2", "--env-kwargs", "size=3", "--out", tmp_path]
    done = run("compare", "--env", "maze", *words, "--json")
    assert json.loads(done.stdout) == made.to_json() | {"trained": 0}, done.stderr


def test_a_comparison_prints_as_a_table(tmp_path):
    made = deadtime.compare("maze", ("delayed", "oblivious"), 0, 1, out=tmp_path, **RUN)
    title, head, optimum, *agents, note = str(made).splitlines()
    assert title == "Comparison(maze, size 3, episodes 20, evaluation_episodes 2)"
    assert head.split() == ["delay", "agent", "return", "delayed", "minus", "it"]
    assert optimum.split()[:2] == ["0", "optimum"]
    assert [line.split()[1] for line in agents] == ["delayed", "oblivious"]
    assert note == "mean greedy return over 1 seed; differences are paired by seed"


def test_an_agent_named_twice_is_refused(tmp_path):
    with pytest.raises(ValueError, match="name each agent and delay once"):
        deadtime.compare("maze", ["delayed", "delayed"], out=tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_a_delay_that_varies_stands_beside_constant_ones(tmp_path):
    runs = {"steps": 200, "evaluation_episodes": 2}
    delays = [1, Uniform(1, 3)]
    made = deadtime.compare("cartpole", ["augmented", "oblivious"], delays, 1, out=tmp_path, **runs)
    assert made.mean("oblivious", "uniform:1-3") == made.mean("oblivious", Uniform(1, 3))
    assert [row["delay"] for row in made.to_json()["delays"]] == [1, "uniform:1-3"]
    assert made.draw(tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    words = ["--agents", "augmented", "oblivious", "--delays", 1, "uniform:1-3", "--seeds", 1]
    words += ["--steps", 200, "--set", "evaluation_episodes=2", "--out", tmp_path]
    done = run("compare", "--env", "cartpole", *words, "--json")
    assert json.loads(done.stdout) == made.to_json() | {"trained": 0}, done.stderr


def test_one_delay_needs_no_list():
    assert delays_of("uniform:1-3") == delays_of(Uniform(1, 3)) == (Uniform(1, 3),)
    assert delays_of(["5", "constant:6"]) == (5, 6)
    assert delays_of(["0-3", "uniform:1-3", "7-7"]) == (0, 1, 2, 3, Uniform(1, 3), 7)
    with pytest.raises(ValueError, match="low is at most high"):
        delays_of("5-3")
    with pytest.raises(ValueError, match="at most 10,000 numbers; got 0-99999"):
        delays_of("0-99999")
