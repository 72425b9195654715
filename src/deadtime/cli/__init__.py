"""The command line, with one file for each command."""

from deadtime.cli.main import main

__all__ = ["main"]
