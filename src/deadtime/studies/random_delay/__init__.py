"""Our own study of delays that vary from step to step."""

from deadtime.studies.random_delay.exact import EXACT

__all__ = ["EXACT"]
