"""The functions of Python and the commands of the same names have the same defaults."""

from dataclasses import MISSING, fields
from inspect import Parameter, signature

import pytest

import deadtime
from deadtime.cli.compare import Compare
from deadtime.cli.evaluate import Evaluate
from deadtime.cli.train import Train


def _of_function(function):
    found = {name: one.default for name, one in signature(function).parameters.items()}
    return {name: default for name, default in found.items() if default is not Parameter.empty}


def _of_command(command):
    found = {one.name: one.default for one in fields(command)}
    return {name: default for name, default in found.items() if default is not MISSING}


def _text(default):
    """Return a default as it is typed: paths and delays are text on the command line."""
    return [*map(str, default)] if isinstance(default, tuple) else str(default)


@pytest.mark.parametrize(
    ("function", "command", "shared"),
    [
        (deadtime.train, Train, {"agent", "delay", "seeds"}),
        (deadtime.compare, Compare, {"agents", "delays", "seeds", "out"}),
        (deadtime.evaluate, Evaluate, {"delay", "episodes", "seed"}),
    ],
)
def test_a_function_and_its_command_have_the_same_defaults(function, command, shared):
    in_python = _of_function(function)
    typed = _of_command(command)
    assert in_python.keys() & typed.keys() == shared
    for name in shared:
        assert _text(typed[name]) == _text(in_python[name]), name
