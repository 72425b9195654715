"""The command line: `deadtime --help`."""

from __future__ import annotations

import inspect
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Union

from deadtime._support import ending
from deadtime._support.extras import extras_needed
from deadtime._support.names import nearest
from deadtime._support.timeouts import StepTimeoutError, limited_steps
from deadtime._support.version import __version__

if TYPE_CHECKING:
    from deadtime.cli.option_types import Limits

SHELLS = ("bash", "zsh", "fish")
COMMANDS = {
    "train": "Train one agent under a delay and record it.",
    "evaluate": "Evaluate a recorded agent on new episodes, also at other delays.",
    "compare": "Train several agents at several delays and compare their returns.",
    "export": "Write a recorded policy to one file, to run it elsewhere.",
    "watch": "Draw an episode of a recorded agent as a GIF.",
    "plan": "Solve a finite MDP with execution delay exactly.",
    "verify": "Check each claim of the paper numerically.",
    "reproduce": "Run experiments, of the paper and our own, and draw their figures.",
    "sweep": "Run every environment, agent and delay that a TOML file names.",
    "status": "Show which runs of a sweep are done, running or failed.",
    "report": "Make one HTML page from the records in a folder.",
    "identify": "Estimate the delay of a system from a log.",
}
"""The commands, each with the first line of its help: the class of `train` is `cli.train.Train`."""
_HELP = """\
usage: deadtime COMMAND [OPTIONS]

Planning and reinforcement learning when actions land late.

commands:
{commands}

options:
  -h, --help          Show this help; after COMMAND, show that of the command.
  -V, --version       Print the version.
  --completion SHELL  Print a completion script for bash, zsh or fish.
"""
_TRAIN = ("train", "compare", "reproduce", "sweep")
_FORMER_OPTIONS = {"--discount": "--gamma", "--step-size": "--learning-rate"}
"""Former names of options, each with the present name."""
_EXTRA = {"plan": "plan", "verify": "plan"}
"""The extra that a command needs as a whole; other commands may need `learn`."""


class Command(Protocol):
    """The arguments of a command, which can be run."""

    def run(self) -> int:
        """Run the command, and return its exit status."""
        ...


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit.

    The exit status is 0 for success, 1 for an unexpected result or failed runs, 2 for bad input,
    130 after an interrupt (Ctrl-C) and 143 after SIGTERM.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"deadtime {__version__}")
        return
    if given in ([], ["--help"], ["-h"]):
        lines = (f"  {name:<10} {summary}" for name, summary in COMMANDS.items())
        print(_HELP.format(commands="\n".join(lines)), end="")
        return
    try:
        last = None if arguments is not None else partial(_print_interrupted, given)
        with ending.interruptible(last=last):
            try:
                command = _parsed(given)
            except SystemExit:  # help was printed, or an error
                sys.stdout.flush()
                raise
            limits: Limits | None = getattr(command, "limits", None)
            limit = None if limits is None else limits.step_timeout
            with limited_steps(limit), extras_needed(_EXTRA.get(given[0], "learn")):
                status = command.run()
            sys.stdout.flush()
    except KeyboardInterrupt as pressed:
        _print_interrupted(given)
        ending.forget_handled_interrupt()
        status = 128 + ending.number_of(pressed)
    except StepTimeoutError as error:
        print(f"deadtime: {error}", file=sys.stderr)
        status = 1
    except BrokenPipeError:  # the reader of the output, such as head, ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1  # as rich does
    except (ValueError, MemoryError, OSError, ImportError) as error:
        from deadtime._support.files import printable_lines  # noqa: PLC0415  (it is for errors)

        print(printable_lines(f"deadtime: {error}"), file=sys.stderr)
        status = 2
    sys.exit(status)


def _print_interrupted(given: list[str]) -> None:
    """Print what an interrupted command keeps, and how to resume it."""
    kept = ""
    if given and given[0] in _TRAIN:
        count = sum("://" in path or Path(path).exists() for path in ending.CHECKPOINTS)
        written = "no checkpoint was written, so unfinished seeds start again"
        if count:
            written = f"{count} checkpoint{'s were' if count > 1 else ' was'} written"
        command = shlex.join(["deadtime", *given])
        kept = f"; finished seeds are recorded, {written}. Resume with: {command}"
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar hides it
    print(f"{cursor}deadtime: interrupted{kept}", file=sys.stderr)


def _parsed(given: list[str]) -> Command:
    """Return the command that the arguments ask for, or print its help or an error and exit.

    Only this command is imported and parsed, so that errors point to its own help.
    """
    import tyro  # noqa: PLC0415  (`deadtime --version` needs no parser)

    conf = tyro.conf
    config = (conf.OmitArgPrefixes, conf.OmitSubcommandPrefixes, conf.FlagCreatePairsOff)
    name, *rest = given
    for option in (one.partition("=")[0].replace("_", "-") for one in rest):
        if option in _FORMER_OPTIONS:
            raise ValueError(f"{option} has a new name: write {_FORMER_OPTIONS[option]}")
    if name in COMMANDS:
        command = _command(name)
        return tyro.cli(
            command,
            prog=f"deadtime {name}",
            description=_wrapped(inspect.getdoc(command) or ""),
            args=rest,
            config=config,
        )
    if name == "--completion":
        if len(rest) != 1 or rest[0] not in SHELLS:
            rule = f"--completion takes the name of a shell: {', '.join(SHELLS)}"
            raise ValueError(f"{rule}; got {shlex.join(rest) or 'nothing'}: name one of these")
        every = [Annotated[_command(one), conf.subcommand(one)] for one in COMMANDS]
        program: Any = Union[tuple(every)]  # noqa: UP007
        tyro.cli(program, prog="deadtime", args=["--tyro-print-completion", *rest], config=config)
    if name.startswith("-"):
        wrong = f"deadtime has no option {name!r:.100}"
        raise ValueError(f"{wrong}: begin with a command; `deadtime --help` lists them")
    wrong = f"no command is called {name!r:.100}{nearest(name, COMMANDS)}"
    raise ValueError(f"{wrong}: choose one of {', '.join(COMMANDS)}")


def _wrapped(text: str) -> str:
    """Wrap paragraphs to the terminal's width; all but the first are indented.

    tyro joins lines that begin with a letter.
    """
    width = shutil.get_terminal_size().columns
    first, *others = text.split("\n\n")
    indented = (
        textwrap.fill(one, width, initial_indent="  ", subsequent_indent="  ") for one in others
    )
    return "\n".join([first, *indented])


def _command(name: str) -> type[Command]:
    """Import the class of a command: a dataclass of its arguments."""
    return getattr(import_module(f"deadtime.cli.{name}"), name.capitalize())
