"""Colours and markers of figures, and functions that write pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deadtime._support.files import printable_lines, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {
    "delayed": "#0072B2",
    "augmented": "#D55E00",
    "oblivious": "#E69F00",
    "shifted": "#CC79A7",
    "distribution": "#009E73",
    "mbs": "#56B4E9",
    "recurrent": "#777777",
    "projected": "#882255",
}
"""One colour per agent, distinct for colour-blind readers too (Okabe and Ito; Tol)."""
MARKERS = dict(zip(COLORS, "osD^vPXp", strict=True))


def check_picture(path: Path | None) -> None:
    """Raise if the name of a picture does not end in .png, and make its folder."""
    if path is not None and path.suffix != ".png":
        raise ValueError(f"pictures are written as PNG; got {path}: end the name in .png")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)


def put_title(axes: Axes, words: str) -> None:
    """Set a title from a user's or a record's text, without reading $ as the start of a formula."""
    axes.set_title(printable_lines(words), fontsize=10, parse_math=False)


def mark_picture(path: Path, words: str) -> Path:
    """Write `words` in red above a saved picture."""
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415  (only smoke tests mark pictures)

    size = 28
    with Image.open(path) as picture:
        marked = Image.new("RGB", (picture.width, picture.height + 2 * size), "white")
        marked.paste(picture.convert("RGB"), (0, 2 * size))
    font = ImageFont.load_default(size)
    ImageDraw.Draw(marked).text((marked.width / 2, size), words, "red", font, anchor="mm")
    with whole(path) as part:
        marked.save(part, format="PNG")
    return path


def save_picture(figure: Figure, path: Path) -> Path:
    """Write a figure as a PNG, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        figure.savefig(part, format="png", dpi=130)
    return path
