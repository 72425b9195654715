"""Help and completion: readable at 80 columns, and with the names that the registries hold."""

import subprocess
import sys

import pytest

from deadtime.cli.main import COMMANDS, SHELLS
from deadtime.cli.options import AGENTS_HELP
from deadtime.envs.families import FAMILIES, environment_names
from deadtime.learn.learners import agents_of
from deadtime.learn.presets import PRESETS
from deadtime.runs.where import ENGINES
from deadtime.runtime.views import VIEWS
from tests.commands import run

COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_tyro_deadtime
printf '%s\\n' "${COMPREPLY[@]}"
"""


def words(text):
    """Return the words of a help text, without the frame around it."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_at_most_80_columns_wide(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    usage, text = run(*filter(None, [name]), "--help").stdout.split("\n", 1)
    assert usage.startswith("usage: deadtime")
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", ["train", "compare"])
def test_help_lists_environments_agents_and_presets(name):
    text = words(run(name, "--help").stdout)
    for one in (*environment_names(), *VIEWS, *PRESETS):
        assert one in text


@pytest.mark.parametrize("name", ["compare", "sweep", "reproduce"])
def test_help_lists_engines(name):
    text = words(run(name, "--help").stdout)
    assert all(engine in text for engine in ENGINES)


def test_help_says_where_each_agent_works():
    """An agent of all families, of two families less, and of three families."""
    where = {
        agent: [f for f, one in FAMILIES.items() if agent in agents_of(one)] for agent in VIEWS
    }
    assert where["mbs"] == ["maze", "walk", "table"]
    assert "distribution, mbs (maze, walk and table)" in AGENTS_HELP
    assert [*FAMILIES] == where["augmented"]
    assert "delayed, augmented, oblivious (everywhere)" in AGENTS_HELP
    assert {*FAMILIES} - {*where["shifted"]} == {"pendulum", "atari"}
    assert "shifted (not in pendulum or atari)" in AGENTS_HELP


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """Return the path of the completion script for bash."""
    path = tmp_path_factory.mktemp("completion") / "deadtime.bash"
    command = [sys.executable, "-m", "deadtime", "--completion", "bash"]
    path.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["co"], ["compare"]),
        (["train", "--pre"], ["--preset"]),
        (["train", "--preset", ""], [*PRESETS]),
        (
            ["train", "--env", "noisy"],
            ["noisy-maze", "noisy-cartpole", "noisy-acrobot", "noisy-pendulum"],
        ),
        (["compare", "--agents", "delayed", "sh"], ["shifted"]),
        (["sweep", "--engine", ""], [*ENGINES]),
    ],
)
def test_completion(script, line, expected):
    command = ["bash", "-c", COMPLETE, "bash", str(script), "deadtime", *line]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected


def test_completion_of_an_unknown_shell():
    done = run("--completion", "cmd")
    assert done.returncode == 2
    assert f"the name of a shell: {', '.join(SHELLS)}; got cmd: name one of these" in done.stderr
