"""Types of options, and the options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from deadtime.runs.where import ENGINES, Where

NO_DEFAULT = {"help_behavior_hint": ""}
_COMPLETION = sys.argv[1:2] == ["--completion"]
"""Whether this process writes a completion script."""
Flag = Annotated[bool, tyro.conf.arg(**NO_DEFAULT)]
Integer = Annotated[int | None, tyro.conf.arg(metavar="INT", **NO_DEFAULT)]
Number = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", **NO_DEFAULT)]
Switch = Annotated[bool | None, tyro.conf.arg(metavar="True|False", **NO_DEFAULT)]
File = Annotated[Path | None, tyro.conf.arg(metavar="PATH", **NO_DEFAULT)]
Place = Annotated[str, tyro.conf.arg(metavar="PATH|URL")]
"""Types of options that may be left out; the help of each option says its default."""


def name_type(
    metavar: str, names: Iterable[str]
) -> tyro.constructors.PrimitiveConstructorSpec[str]:
    """Return a tyro type for a name; completion offers `names`.

    The commands check names themselves: their errors show the nearest one, and `gym:` and `atari:`
    have more members than can be listed.
    """
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda given: given[0],
        is_instance=lambda value: isinstance(value, str),
        str_from_instance=lambda name: [name],
        choices=tuple(names) if _COMPLETION else None,
    )


@dataclass(frozen=True)
class Limits:
    """Limits of a training."""

    step_timeout: Annotated[
        float | None, tyro.conf.arg(metavar="SECONDS", help_behavior_hint="(default: none)")
    ] = None
    """gym:, atari: longest time of a step or a reset. A slower environment is an error."""


@dataclass(frozen=True)
class EngineOptions(Where):
    """The engine that does the runs."""

    engine: Annotated[
        str,
        name_type("ENGINE", ENGINES),
        tyro.conf.arg(
            help="inline (this process), local (processes of this machine) or ray (a cluster).",
            help_behavior_hint="(default: local for several units of work, else inline)",
        ),
    ] = ""
    address: Annotated[str, tyro.conf.arg(help_behavior_hint="(default: start a cluster)")] = ""
    """ray: address of a running cluster; `auto` finds the one of this machine."""
    retries: int = 2
    """How often a failed unit of work is retried from its last checkpoint."""


EngineGroup = Annotated[EngineOptions, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="engine")]
LimitGroup = Annotated[Limits, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="time limit")]
"""Groups of options that several commands share; `name` is in the group's title in the help."""
