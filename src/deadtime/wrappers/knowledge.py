"""The entries of `info` about the ages that an agent knows."""

from __future__ import annotations

from typing import Any

import numpy as np

from deadtime.delays.process import DelayProcess
from deadtime.delays.waits import OBSERVED, Observed, pending_counts

NOT_YET = -1
"""The age shown where there is none yet: in hindsight, before the first step."""

Ages = int | np.ndarray
"""One age, or an array with one for each environment."""


class AgeKnowledge:
    """The entries of `info` about the ages that an agent knows.

    `action_age` is the age that the agent knows: z_t with "now", z_{t-1} with "hindsight".
    `pending_count` is how many of the last K actions may still be executed, as far as the agent can
    conclude that from the age. Ages are one number, or an array with one for each environment.
    """

    def __init__(self, process: DelayProcess, observed: Observed):
        """Precompute the counts of pending actions."""
        if observed not in OBSERVED:
            raise ValueError(
                f'observed is "now", "hindsight" or "never"; got {observed!r}: '
                'pass "now" for an agent that knows the age before it chooses'
            )
        self.process = process
        self.observed: Observed = observed
        self.longest = process.longest
        self.constant = process.constant is not None
        self.shown = observed != "never" and not self.constant
        """True if ages are shown that the agent could not know otherwise."""
        self.unknown_at_reset = self.shown and observed == "hindsight"
        """True if the info of a reset differs from that of a step."""
        self._counts = np.zeros(0, np.int64)
        if self.shown:
            self._counts = pending_counts(process, observed)[1:]

    def at_reset(self, age: Ages) -> dict[str, Any]:
        """Return the info of a reset; the first step will read `age`."""
        if self.unknown_at_reset:
            return {"action_age": _filled(age, NOT_YET), "pending_count": self._all(age)}
        return self.after_step(age, age)

    def after_step(self, executed: Ages, age: Ages) -> dict[str, Any]:
        """Return the info of a step that read the age `executed`; the next one will read `age`."""
        if self.observed == "never":
            return {"pending_count": self._all(age)}
        if self.constant:
            return {"action_age": _copied(age), "pending_count": _copied(age)}
        known = age if self.observed == "now" else executed
        if isinstance(known, int):
            return {"action_age": known, "pending_count": self._counts.item(known)}
        return {"action_age": known.copy(), "pending_count": self._counts.take(known)}

    def _all(self, age: Ages) -> Ages:
        return _filled(age, self.longest)


def _copied(age: Ages) -> Ages:
    return age if isinstance(age, int) else age.copy()


def _filled(age: Ages, value: int) -> Ages:
    return value if isinstance(age, int) else np.full(len(age), value, np.int64)
