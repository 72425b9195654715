"""The convention: what a delay means, and the queue of pending actions."""

from deadtime.delays.convention import PendingActions, Warmup, check_delay, push

__all__ = ["PendingActions", "Warmup", "check_delay", "push"]
