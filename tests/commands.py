"""The command line in the tests' own process, which need not load; `test_cli` runs the real one."""

import io
from contextlib import chdir, redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest

from deadtime.cli import main
from deadtime.runs.record import record_of


def run(*arguments, cwd="."):
    """What a command prints, and how it exits."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code or 0
    return SimpleNamespace(returncode=status, stdout=out.getvalue(), stderr=err.getvalue())


def full(*values):
    """Parameters of a test that only `make test-all` takes."""
    return pytest.param(*values, marks=pytest.mark.full)


def recorded(finished):
    """The records of runs that a loop has finished."""
    return [record_of(spec, outcome) for spec, outcome in finished]
