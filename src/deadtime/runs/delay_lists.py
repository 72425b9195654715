"""Lists of delays, as users write them."""

from __future__ import annotations

from collections.abc import Sequence

from deadtime.delays import Delay, DelayProcess, as_delay
from deadtime.delays.process import check_range

_MOST = 10_000
"""The largest number of delays of one range; a longer one is a mistake."""


def delays_of(delays: Delay | str | Sequence[Delay | str]) -> tuple[Delay, ...]:
    """Return one delay or several as numbers of steps and processes.

    The text 0-12 stands for all whole numbers from 0 to 12.
    """
    several = (delays,) if isinstance(delays, int | str | DelayProcess) else delays
    found: list[Delay] = []
    for delay in several:
        first, dash, last = delay.partition("-") if isinstance(delay, str) else ("", "", "")
        if dash and first.strip().isdecimal() and last.strip().isdecimal():
            low, high = check_range(int(first), int(last))
            if high - low >= _MOST:
                rule = f"a range of delays has at most {_MOST:,} numbers"
                raise ValueError(f"{rule}; got {delay}: write a shorter one")
            found += range(low, high + 1)
        else:
            found.append(as_delay(delay))
    return tuple(found)
