"""Delays as two other projects define them, under their names."""

from __future__ import annotations

import numpy as np

from deadtime.delays.ages import Held
from deadtime.delays.messages import Categorical
from deadtime.delays.process import check_flag, named_values, span, split_text

RLRD_WIFI = (0.0, 0.3082, 0.5927, 0.0829, 0.0075, 0.0031, 0.0056)
"""The latencies of rlrd's WiFi sampler: probabilities of 0 … 6 steps of 20 ms, rounded by its
authors.
"""


def rlrd_wifi(inference: bool = True) -> Categorical:
    """Return the measured WiFi latencies of rlrd (Bouteiller and others, 2021): 1 to 6 steps of 20
    ms.

    The published probabilities are rounded and sum to 1.0000; they are normalised here. rlrd
    executes an action one step after it has arrived, since the agent takes a step to choose it.
    With `inference`, as for actions there, the latencies are therefore 2 to 7. Observations have no
    such step: pass ``inference=False`` for `ObservationDelay`.
    """
    law = np.array(((0.0,) if check_flag(inference, "inference") else ()) + RLRD_WIFI)
    return Categorical(tuple((law / law.sum()).tolist()))


def mjlab_buffer(low: int, high: int, hold: float = 0.0, period: int = 0) -> Held:
    """Return the ages of mjlab's `DelayBuffer`, with its min_lag, max_lag, hold_prob and
    update_period.

    Every `period` steps (0: every step) a lag from `low` … `high`, both included, is drawn; with
    probability `hold` the old one stays. Environments have their own phases (per_env_phase). A draw
    can go back to an older item. mjlab starts each episode with lag 0 until the first draw; here
    the first age comes from the stationary law.
    """
    return Held(low, high, hold, period or 1)


def rlrd_wifi_from_text(text: str) -> Categorical:
    """Parse ``rlrd-wifi`` or ``rlrd-wifi:inference=false``."""
    return rlrd_wifi(**named_values(text))


def mjlab_buffer_from_text(text: str) -> Held:
    """Parse ``mjlab-buffer:0-3,hold=0.2,period=4``."""
    first, named = split_text(text)
    return mjlab_buffer(*span(first, "mjlab-buffer:0-3"), **named)
