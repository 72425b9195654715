"""The command line in the tests' own process, which need not load; `test_cli` runs the real one."""

import io
import os
from contextlib import chdir, redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest

from deadtime.cli import main
from deadtime.runs.record import record_of

ROUNDING = 1e-6 if "fusion_emitters=false" in os.environ.get("XLA_FLAGS", "") else 0.0
"""The difference of programs that do the same: as `make test` compiles, each may round anew."""


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
