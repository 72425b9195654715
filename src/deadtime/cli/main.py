"""The command line: `deadtime --help`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import make_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Union

from deadtime._support import ending
from deadtime._support.extras import extras_needed
from deadtime._support.names import nearest
from deadtime._support.timeouts import StepTimeoutError, limited_steps
from deadtime._support.version import __version__

_SLOGAN = "Planning and reinforcement learning when actions land late."
_DESCRIPTION = f"{_SLOGAN} `deadtime --version` prints the version."
COMMANDS = {
    "train": "Train one agent under a delay and record it.",
    "evaluate": "Evaluate a recorded training on new episodes, under its own delay or another.",
    "compare": "Train several agents under several delays on the same seeds; print returns.",
    "watch": "Draw an episode of a trained agent as a GIF, with its pending actions.",
    "plan": "Solve a finite MDP with execution delay exactly.",
    "verify": "Check each claim of the paper numerically.",
    "reproduce": "Run experiments of the paper, draw their figures and write their numbers.",
    "sweep": "Run every environment, agent and delay that a TOML file names.",
    "status": "Look at a sweep from another terminal: what is done, running and failed.",
    "report": "Make one page from the records in a folder.",
}
"""The commands, each with the first line of its help: the class of `train` is `cli.train.Train`."""
_TRAIN = ("train", "compare", "reproduce", "sweep")
_EXTRA = {"plan": "plan", "verify": "plan"}
"""The extra that a command needs as a whole; the others may need `learn`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit.

    The status is 0 if it was done, 1 if the outcome is not what was asked for, 2 for bad input,
    130 if it was interrupted and 143 if it was terminated.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"deadtime {__version__}")
        return
    try:
        last = None if arguments is not None else partial(_say_interrupted, given)
        with ending.interruptible(last=last):
            command = _parsed(given or ["--help"])
            limit = getattr(command, "limits", None) and command.limits.step_timeout
            with limited_steps(limit), extras_needed(_EXTRA.get(given[0], "learn")):
                status = command.run()
    except KeyboardInterrupt as pressed:
        _say_interrupted(given)
        status = 128 + ending.number_of(pressed)
    except StepTimeoutError as error:
        print(f"deadtime: {error}", file=sys.stderr)
        status = 1
    except (ValueError, MemoryError, OSError, ImportError) as error:
        from deadtime._support.files import printable_lines  # noqa: PLC0415  (it is for errors)

        print(printable_lines(f"deadtime: {error}"), file=sys.stderr)
        status = 2
    sys.exit(status)


def _say_interrupted(given: list[str]) -> None:
    """Print what is kept of an interrupted command."""
    said = ""
    if given and given[0] in _TRAIN:
        kept = sum("://" in path or Path(path).exists() for path in ending.CHECKPOINTS)
        what = "no checkpoint was written, so that the same command begins the others anew"
        if kept:
            were = "s were" if kept > 1 else " was"
            what = f"{kept} checkpoint{were} written, and the same command goes on"
        said = f"; finished seeds are recorded, {what}: {shlex.join(['deadtime', *given])}"
    shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # the cursor, which a progress bar hides
    print(f"{shown}deadtime: interrupted{said}", file=sys.stderr)


def _parsed(given: list[str]) -> Any:
    """Return the command that the arguments ask for, or print help or an error and exit.

    Only the command that is named first is imported, and parsed alone, so that errors point to its
    own help.
    """
    import tyro  # noqa: PLC0415  (`deadtime --version` needs no parser)

    conf = tyro.conf
    config = (conf.OmitArgPrefixes, conf.OmitSubcommandPrefixes, conf.FlagCreatePairsOff)
    name, *rest = given
    if name in COMMANDS:
        return tyro.cli(_command(name), prog=f"deadtime {name}", args=rest, config=config)
    if not name.startswith("-"):
        wrong = f"no command is called {name!r:.100}{nearest(name, COMMANDS)}"
        raise ValueError(f"{wrong}: choose one of {', '.join(COMMANDS)}")
    every: Any = Union[tuple(_listed(name) for name in COMMANDS)]  # noqa: UP007
    tyro.cli(every, prog="deadtime", description=_DESCRIPTION, args=given, config=config)
    raise ValueError(f"the first argument is a command; got {name!r:.100}: write it first")


def _command(name: str) -> Any:
    """Import the class of a command: a dataclass of its arguments with a method `run`."""
    return getattr(import_module(f"deadtime.cli.{name}"), name.capitalize())


def _listed(name: str) -> Any:
    """Return a command without arguments that stands for one in the list of commands."""
    import tyro  # noqa: PLC0415  (`deadtime --version` needs no parser)

    alone = make_dataclass(name, (), namespace={"__doc__": COMMANDS[name]})
    return Annotated[alone, tyro.conf.subcommand(name)]
