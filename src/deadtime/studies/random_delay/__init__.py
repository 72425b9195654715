"""Our own study of delays that vary from step to step."""

from deadtime.studies.random_delay.exact import EXACT
from deadtime.studies.random_delay.trained import TRAINED
from deadtime.studies.random_delay.unknown import UNKNOWN
from deadtime.studies.random_delay.wrong import WRONG

EXPERIMENTS = [EXACT, *TRAINED, WRONG, *UNKNOWN]

__all__ = ["EXPERIMENTS"]
