"""How every picture is coloured and written."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from deadtime.files import whole

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
