"""Delays from logs: the delay of a system, estimated from observations and the actions chosen
from them.

The method needs no model of the system. For each delay k it fits a one-step model, linear in
features of the observation and of the action chosen k steps before, and scores it on held-out rows.
"""

from deadtime.identify.correlation import Correlation
from deadtime.identify.estimate import identify_delay
from deadtime.identify.log import Log, make_log
from deadtime.identify.result import Identification
from deadtime.identify.stamps import Split

__all__ = ["Correlation", "Identification", "Log", "Split", "identify_delay", "make_log"]
