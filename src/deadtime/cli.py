"""The command line: `deadtime --help`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Union

import deadtime
from deadtime import ending
from deadtime.timeouts import StepTimeoutError, limited_steps

_DESCRIPTION = "Planning and reinforcement learning when actions land late. `deadtime --version` prints the version."
_COMMANDS = {
    "train": "training.command:Train",
    "evaluate": "training.command:Evaluate",
    "compare": "training.command:Compare",
    "watch": "training.command:Watch",
    "plan": "planning.command:Plan",
    "verify": "planning.command:Verify",
    "reproduce": "experiments.command:Reproduce",
    "sweep": "experiments.sweep:Sweep",
    "status": "experiments.driver:Status",
    "report": "experiments.report:Report",
}
"""The class of each command: a dataclass of its arguments with a method `run`."""
_TRAIN = ("train", "compare", "reproduce", "sweep")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 not what was asked for, 2 bad input, 130 interrupted, 143 terminated."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"deadtime {deadtime.__version__}")
        return
    try:
        with ending.interruptible(last=None if arguments is not None else lambda: _say_interrupted(given)):
            command = _parsed(given or ["--help"])
            with limited_steps(getattr(command, "limits", None) and command.limits.step_timeout):
                status = command.run()
    except KeyboardInterrupt as pressed:
        _say_interrupted(given)
        status = 128 + ending.number_of(pressed)
    except StepTimeoutError as error:
        print(f"deadtime: {error}", file=sys.stderr)
        status = 1
    except (ValueError, MemoryError, OSError, ImportError) as error:
        from deadtime.files import printable_lines  # noqa: PLC0415  (NumPy takes a while to load)

        print(printable_lines(f"deadtime: {error}"), file=sys.stderr)
        status = 2
    sys.exit(status)


def _say_interrupted(given: list[str]) -> None:
    """Say what is kept of an interrupted command."""
    said = ""
    if given and given[0] in _TRAIN:
        kept = sum("://" in path or Path(path).exists() for path in ending.CHECKPOINTS)
        what = "no checkpoint was written, so that the same command begins the others anew"
        if kept:
            what = f"{kept} checkpoint{'s were' if kept > 1 else ' was'} written, and the same command goes on"
        said = f"; finished seeds are recorded, {what}: {shlex.join(['deadtime', *given])}"
    shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # the cursor, which a progress bar hides
    print(f"{shown}deadtime: interrupted{said}", file=sys.stderr)


def _parsed(given: list[str]) -> Any:
    """Return the command that the arguments ask for, or print help or an error and exit.

    A command that is named first is parsed alone, so that errors point to its own help.
    No other command is then loaded.
    """
    import tyro  # noqa: PLC0415  (it and the commands take a second to load)

    conf = tyro.conf
    config = (conf.OmitArgPrefixes, conf.OmitSubcommandPrefixes, conf.FlagCreatePairsOff)
    name, *rest = given
    if name in _COMMANDS:
        return tyro.cli(_command(name), prog=f"deadtime {name}", args=rest, config=config)
    each = tuple(Annotated[_command(name), conf.subcommand(name)] for name in _COMMANDS)
    every: Any = Union[each]  # noqa: UP007
    return tyro.cli(every, prog="deadtime", description=_DESCRIPTION, args=given, config=config)


def _command(name: str) -> Any:
    """Import the class of a command."""
    module, _, kind = _COMMANDS[name].partition(":")
    return getattr(import_module(f"deadtime.{module}"), kind)
