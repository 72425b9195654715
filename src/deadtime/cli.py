"""The command line: `deadtime --help`."""

from __future__ import annotations

import _thread
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import deadtime

_DESCRIPTION = "Planning and reinforcement learning when actions land late. `deadtime --version` prints the version."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 an answer that is not what was asked for, 2 bad input, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"deadtime {deadtime.__version__}")
        return
    sys.unraisablehook = _press_again
    try:
        import tyro  # noqa: PLC0415  (it and the commands take a second to load)

        chosen: Any = tyro.cli(
            _commands(),
            prog="deadtime",
            description=_DESCRIPTION,
            args=given or ["--help"],
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
        )
        status = chosen.run()
    except KeyboardInterrupt:
        command = shlex.join(["deadtime", *given])
        print(f"deadtime: interrupted; finished seeds are recorded, and the same command goes on: {command}", file=sys.stderr)
        status = 130
    except (ValueError, MemoryError, OSError, ImportError) as error:
        print(f"deadtime: {error}", file=sys.stderr)
        status = 2
    sys.exit(status)


def _press_again(lost: Any, usual: Any = sys.unraisablehook) -> None:
    """A Ctrl-C that reached code which may not raise, as JAX's garbage collection, would be lost."""
    if lost.exc_type is not None and issubclass(lost.exc_type, KeyboardInterrupt):
        _thread.interrupt_main()
    else:
        usual(lost)


def _commands() -> Any:
    """The union of all commands; each is a dataclass of its arguments with a method `run`."""
    from tyro.conf import subcommand  # noqa: PLC0415

    from deadtime.experiments.command import Reproduce  # noqa: PLC0415
    from deadtime.experiments.driver import Status  # noqa: PLC0415
    from deadtime.experiments.report import Report  # noqa: PLC0415
    from deadtime.experiments.sweep import Sweep  # noqa: PLC0415
    from deadtime.planning.command import Plan, Verify  # noqa: PLC0415
    from deadtime.training.command import Compare, Evaluate, Train, Watch  # noqa: PLC0415

    return (
        Annotated[Train, subcommand("train")]
        | Annotated[Evaluate, subcommand("evaluate")]
        | Annotated[Compare, subcommand("compare")]
        | Annotated[Watch, subcommand("watch")]
        | Annotated[Plan, subcommand("plan")]
        | Annotated[Verify, subcommand("verify")]
        | Annotated[Reproduce, subcommand("reproduce")]
        | Annotated[Sweep, subcommand("sweep")]
        | Annotated[Status, subcommand("status")]
        | Annotated[Report, subcommand("report")]
    )
