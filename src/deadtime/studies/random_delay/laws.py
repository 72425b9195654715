"""The laws of ages in the study of random delays, and what agents face under each.

The laws of a task have about the same mean age, so the nearest constant delay is the same. They
differ in how far ages spread and in how long an age lasts.
"""

from __future__ import annotations

from collections.abc import Mapping

from deadtime.delays import (
    Buffered,
    Constant,
    Delay,
    DelayProcess,
    GilbertElliott,
    RandomWalk,
    Uniform,
)
from deadtime.delays.waits import OBSERVED, Observed

Laws = Mapping[str, DelayProcess]
"""Delays by name: independent latencies twice, a channel with bad phases, an age that drifts."""
LAWS: Laws = {
    "narrow": Uniform(2, 4),
    "wide": Uniform(1, 6),
    "bursty": GilbertElliott(Constant(2), Constant(6), to_bad=0.05, to_good=0.1),
    "drifting": RandomWalk(0, 6),
}
"""Laws with a mean age of about 3 steps."""
LONG_LAWS: Laws = {
    "wide": Uniform(6, 24),
    "bursty": GilbertElliott(Constant(8), Constant(20), to_bad=0.05, to_good=0.1),
    "narrow": Uniform(8, 12),
    "drifting": RandomWalk(0, 20),
}
"""Laws with a mean age of about 10 steps."""
COLUMNS: tuple[str, ...] = ("constant", *OBSERVED, "buffered")
"""The delay that an agent faces under a law: the nearest whole number to the mean age; the law
itself, with ages observed now, in hindsight or never; or a receiver that waits for the longest."""
COLUMN_TITLES = {
    "constant": "constant mean",
    "now": "age seen now",
    "hindsight": "age seen later",
    "never": "age never seen",
    "buffered": "receiver waits",
}


def faced(process: DelayProcess, column: str) -> tuple[Delay, Observed]:
    """Return the delay of a column under a law, and when ages are observed."""
    if column == "constant":
        return round(process.mean_age), "now"
    if column == "buffered":
        waits = Buffered(process, process.longest).constant
        assert waits is not None
        return waits, "now"
    return process, OBSERVED[COLUMNS.index(column) - 1]
