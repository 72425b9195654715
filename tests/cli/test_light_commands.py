"""Packages that a command does not import, so that help, status and plans start fast.

Times are measured in benchmarks, not here.
"""

import json
import subprocess
import sys
from importlib import import_module
from inspect import getdoc

import pytest

from deadtime.cli.main import COMMANDS
from tests.commands import run

JAX = ("jax", "equinox", "optax")
HEAVY = (*JAX, "numba", "scipy", "matplotlib", "PIL", "ray", "ale_py")
MAIN = "from deadtime.cli.main import main; main(sys.argv[1:])"


def imported(code, *arguments, status=0):
    """Return the names of all modules that a process has imported when it ends."""
    names = "atexit.register(lambda: print(json.dumps([*sys.modules]), file=sys.stderr))"
    script = f"import atexit, json, sys; {names}; {code}"
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return {*json.loads(done.stderr.splitlines()[-1])}


def commands_in(modules):
    """Return the commands whose modules were imported."""
    return {name for name in COMMANDS if f"deadtime.cli.{name}" in modules}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--help"], 0), ([], 0), (["--version"], 0), (["pln"], 2), (["--hlp"], 2)],
)
def test_the_list_of_commands_imports_none(arguments, status):
    modules = imported(MAIN, *arguments, status=status)
    assert not modules & {*HEAVY}
    assert not commands_in(modules)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_imports_it_alone(name):
    modules = imported(MAIN, name, "--help")
    assert not modules & {*HEAVY}
    assert commands_in(modules) == {name}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_summary_is_the_first_line_of_its_help(name):
    command = getattr(import_module(f"deadtime.cli.{name}"), name.capitalize())
    assert getdoc(command).splitlines()[0] == COMMANDS[name]


def test_a_wrong_name_is_an_error_with_a_hint():
    done = run("pln")
    assert done.returncode == 2
    assert (
        "no command is called 'pln'; did you mean 'plan'?: choose one of train, evaluate"
        in done.stderr
    )
    assert run("xyz").stderr.startswith("deadtime: no command is called 'xyz': choose one of")


def test_status(tmp_path):
    said = {
        "units": 1,
        "done": 1,
        "work": 5,
        "work_done": 5,
        "seconds": 1.0,
        "running": [],
        "failed": [],
    }
    (tmp_path / ".status.json").write_text(json.dumps(said))
    assert not imported(MAIN, "status", tmp_path) & {*HEAVY}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "two-state"],
        ["plan", "maze", "--size", "3", "--delay", "2"],
        ["verify", "--only", "two-state optimum"],
    ],
)
def test_plans_and_claims_need_neither_jax_nor_matplotlib(arguments):
    assert not imported(MAIN, *arguments) & {*JAX, "matplotlib", "PIL"}


@pytest.mark.slow
def test_specs_import_no_network_library():
    """The functional environments import JAX when one is made."""
    specs = ("runs.sweep_file", "runs.folder_report", "runs.ceiling", "studies.experiment")
    code = "; ".join(f"import deadtime.{module}" for module in specs)
    assert not imported(code) & {*JAX}


@pytest.mark.slow
def test_the_paper_is_imported_without_its_experiments():
    assert not {
        name
        for name in imported("import deadtime.studies.paper")
        if name.startswith("deadtime.runs")
    }
    modules = imported("from deadtime.studies import EXPERIMENTS; assert 'tuning' in EXPERIMENTS")
    assert not modules & {"equinox", "optax"}


@pytest.mark.slow
def test_report(tmp_path):
    done = run("train", "--env", "maze", "--size", "2", "--episodes", "2", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert not imported(MAIN, "report", tmp_path) & {*JAX}
