"""How every picture is coloured and written."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from threading import get_ident

from matplotlib.figure import Figure

COLORS = {
    "delayed": "#0072B2",
    "augmented": "#D55E00",
    "oblivious": "#E69F00",
    "shifted": "#CC79A7",
    "distribution": "#009E73",
    "mbs": "#56B4E9",
    "recurrent": "#777777",
}
"""One colour an agent, told apart by colour-blind readers too (Okabe and Ito)."""
MARKERS = dict(zip(COLORS, "osD^vPX", strict=True))


def check_picture(path: Path | None) -> None:
    """Refuse a name that is no PNG before any work is done."""
    if path is not None and path.suffix != ".png":
        raise ValueError(f"pictures are written as PNG; got {path}: end the name in .png")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)


def save_picture(figure: Figure, path: Path) -> Path:
    """Write whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        figure.savefig(part, format="png", dpi=130)
    return path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` when all went well and is gone when it did not."""
    start = f".{path.name}.part-{platform.node()}-"
    part = path.with_name(f"{start}{os.getpid()}-{get_ident()}")
    for left in path.parent.glob(f"{escape(start)}*"):
        if not _alive(left.name.removeprefix(start).partition("-")[0]):
            left.unlink(missing_ok=True)
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _alive(process: str) -> bool:
    """Whether this machine has such a process; one that was killed has left what it was writing."""
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except (PermissionError, ValueError):
        pass
    return True
