"""The command line: `deadtime --help`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

import deadtime


@dataclass(frozen=True)
class Arguments:
    """Planning and reinforcement learning when actions land late.

    Start from Python: deadtime.ActionDelay(env, delay=5) delays any Gymnasium environment; README shows the rest.
    """

    version: Annotated[bool, tyro.conf.arg(aliases=["-V"])] = False
    """Print the version and exit."""


def main() -> None:
    """Run the command line."""
    arguments = tyro.cli(Arguments, prog="deadtime", config=(tyro.conf.FlagCreatePairsOff,))
    if arguments.version:
        print(f"deadtime {deadtime.__version__}")
    else:
        tyro.cli(Arguments, prog="deadtime", args=["--help"], config=(tyro.conf.FlagCreatePairsOff,))
