"""The command line: `deadtime --help`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import deadtime

_DESCRIPTION = "Planning and reinforcement learning when actions land late. `deadtime --version` prints the version."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 an answer that is not what was asked for, 2 bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"deadtime {deadtime.__version__}")
        return
    import tyro  # noqa: PLC0415  (it and the commands take a second to load)

    from deadtime.planning import command  # noqa: PLC0415

    chosen = tyro.cli(
        command.Command,
        prog="deadtime",
        description=_DESCRIPTION,
        args=given or ["--help"],
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    try:
        status = chosen.run()
    except (ValueError, MemoryError, OSError) as error:
        print(f"deadtime: {error}", file=sys.stderr)
        status = 2
    sys.exit(status)
