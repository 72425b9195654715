"""How every picture is coloured and written."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

COLORS = {
    "delayed": "#0072B2",
    "augmented": "#D55E00",
    "oblivious": "#E69F00",
    "shifted": "#CC79A7",
    "distribution": "#009E73",
    "mbs": "#56B4E9",
}
"""One colour an agent, told apart by colour-blind readers too (Okabe and Ito)."""
MARKERS = dict(zip(COLORS, "osD^vP", strict=True))


def check_picture(path: Path | None) -> None:
    """Refuse a name that is no PNG before any work is done."""
    if path is not None and path.suffix != ".png":
        raise ValueError(f"pictures are written as PNG; got {path}: end the name in .png")


def save_picture(figure: Figure, path: Path) -> Path:
    """Write whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    figure.savefig(part, format="png", dpi=130)
    part.replace(path)
    return path
