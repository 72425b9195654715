"""Delays: their meaning, the processes they can follow, and the queue of pending actions."""

from deadtime.delays.ages import Held, PerEpisode, RandomWalk
from deadtime.delays.chain import Chain
from deadtime.delays.constant import Buffered, Constant, Seconds
from deadtime.delays.convention import Warmup, check_delay, push
from deadtime.delays.messages import Categorical, GilbertElliott, Uniform
from deadtime.delays.parse import PROCESSES, Delay, as_delay, as_process, from_json, parse
from deadtime.delays.peers import mjlab_buffer, rlrd_wifi
from deadtime.delays.pending import PendingActions
from deadtime.delays.process import DelayProcess
from deadtime.delays.stream import AgeStream
from deadtime.delays.timeline import Timeline, timeline
from deadtime.delays.trace import Trace

__all__ = [
    "PROCESSES",
    "AgeStream",
    "Buffered",
    "Categorical",
    "Chain",
    "Constant",
    "Delay",
    "DelayProcess",
    "GilbertElliott",
    "Held",
    "PendingActions",
    "PerEpisode",
    "RandomWalk",
    "Seconds",
    "Timeline",
    "Trace",
    "Uniform",
    "Warmup",
    "as_delay",
    "as_process",
    "check_delay",
    "from_json",
    "mjlab_buffer",
    "parse",
    "push",
    "rlrd_wifi",
    "timeline",
]
