"""Draw a timeline of each delay process into docs/pictures, for light and for dark pages.

python docs/delay_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from pictures import DARK, LIGHT, PICTURES, style

from deadtime.delays import (
    Constant,
    DelayProcess,
    GilbertElliott,
    PerEpisode,
    RandomWalk,
    Trace,
    Uniform,
    mjlab_buffer,
    rlrd_wifi,
)
from deadtime.envs.timeline_picture import draw_timeline

DRAWN: dict[str, DelayProcess] = {
    "constant": Constant(3),
    "uniform": Uniform(2, 6),
    "anew": Uniform(2, 6, in_order=False),
    "wifi": rlrd_wifi(),
    "walk": RandomWalk(0, 5),
    "bursts": GilbertElliott(1, Uniform(4, 6), to_bad=0.1, to_good=0.2),
    "episode": PerEpisode(Uniform(2, 6)),
    "trace": Trace(latencies=[2, 2, 3, 2, 7, 6, 5, 4, 3, 2, 2, 2, 3, 3, 2, 2, 4, 3, 2, 2, 2, 2]),
    "held": mjlab_buffer(0, 3, hold=0.2, period=4),
}
SEEDS = {"walk": 3, "bursts": 5, "episode": 1}


def draw(folder: Path) -> None:
    """Write each picture twice."""
    for name, process in DRAWN.items():
        for ending, colours in (("", LIGHT), ("-dark", DARK)):
            with mpl.rc_context(style(colours) | {"svg.fonttype": "none"}):
                figure = Figure(figsize=(7, 1.25), layout="constrained")
                draw_timeline(process, figure.subplots(), 22, SEEDS.get(name, 0),
                              colours.first, colours.faint)  # fmt: skip
                path = folder / f"delay-{name}{ending}.svg"
                figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    draw(PICTURES)
