"""Our own study of the agent that decides from the queue and values states."""

from deadtime.studies.projected.beside_others import PROJECTED

__all__ = ["PROJECTED"]
