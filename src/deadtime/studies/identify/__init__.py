"""Our own study of identification: logs with a known delay, and what three methods say of them."""

from deadtime.studies.identify.experiment import IDENTIFICATION

EXPERIMENTS = [IDENTIFICATION]

__all__ = ["EXPERIMENTS"]
