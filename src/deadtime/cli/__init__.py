"""The command line, one file a command."""

from deadtime.cli.main import main

__all__ = ["main"]
