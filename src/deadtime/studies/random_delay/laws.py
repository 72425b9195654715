"""The laws of ages in the study of random delays, and what agents face under each.

Their mean ages are all about 3 steps, so the nearest constant delay is the same. They differ in how
far ages spread and in how long an age lasts.
"""

from __future__ import annotations

from deadtime.delays import Constant, Delay, DelayProcess, GilbertElliott, RandomWalk, Uniform
from deadtime.delays.waits import OBSERVED, Observed

LAWS: dict[str, DelayProcess] = {
    "narrow": Uniform(2, 4),
    "wide": Uniform(1, 6),
    "bursty": GilbertElliott(Constant(2), Constant(6), to_bad=0.05, to_good=0.1),
    "drifting": RandomWalk(0, 6),
}
"""Delays by name: independent latencies twice, a channel with bad phases, an age that drifts."""
COLUMNS: tuple[str, ...] = ("constant", *OBSERVED, "buffered")
"""What an agent faces under a law: the nearest whole mean age instead; the law itself, with ages
observed now, in hindsight or never; or a receiver that waits for the longest age."""
COLUMN_TITLES = {
    "constant": "constant mean",
    "now": "age seen now",
    "hindsight": "age seen later",
    "never": "age never seen",
    "buffered": "receiver waits",
}


def faced(law: str, column: str) -> tuple[Delay, Observed]:
    """Return the delay of a column under a law, and when ages are observed."""
    process = LAWS[law]
    if column == "constant":
        return round(process.mean_age), "now"
    if column == "buffered":
        return process.longest, "now"
    return process, OBSERVED[COLUMNS.index(column) - 1]
