"""The picture of `deadtime identify`: posterior and cross-correlation against the delay."""

from __future__ import annotations

from pathlib import Path

from deadtime._support.files import whole
from deadtime.identify import Identification

_KINDS = (".png", ".svg")


def check_plot(path: Path) -> None:
    """Raise unless the name of the picture ends in .png or .svg."""
    if path.suffix not in _KINDS:
        raise ValueError(
            f"pictures are written as PNG or SVG; got {path}: end the name in .png or .svg"
        )


def draw(found: Identification, path: Path) -> None:
    """Draw the posterior, or the law of ages, above the cross-correlation."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (an optional package)

    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    lags = range(len(found.posterior))
    above.bar(lags, found.posterior, color="#0072B2")
    above.set_ylabel("share of steps" if found.varies else "probability")
    if found.witness is not None:
        below.bar(lags, found.witness.values, color="#999999")
        below.axhline(found.witness.threshold, color="black", ls="--", lw=1, label="noise")
        below.legend(frameon=False)
    below.set(xlabel="delay (steps)", ylabel="cross-correlation")
    above.set_title(found.headline.partition(":")[0], fontsize=9, parse_math=False, wrap=True)
    with whole(path) as part:
        figure.savefig(part, format=path.suffix[1:], dpi=130)
