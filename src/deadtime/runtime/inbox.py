"""The newest observation of a stream whose messages may be late, lost, repeated or broken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from deadtime.runtime.policy import Policy
from deadtime.runtime.stream_counts import Counts


class Inbox:
    """The newest valid observation, with its time stamp.

    `receive` never raises, whatever it gets. It copies numbers into an array of its own.
    """

    def __init__(self, policy: Policy, period: float, counts: Counts):
        """Allocate the array for observations of the policy."""
        self._period = period
        self._counts = counts
        self._states = policy.num_states
        dtype: Any = np.uint8 if len(policy.observation_shape) > 1 else np.float32
        dtype = np.int64 if policy.num_states else dtype
        self._kinds = "u" if dtype is np.uint8 else "iu" if policy.num_states else "iuf"
        self._observation = np.zeros(policy.observation_shape, dtype)
        self._incoming = np.zeros(policy.observation_shape, dtype)
        self._finite = np.zeros(policy.observation_shape, bool)
        self.clear()

    def clear(self) -> None:
        """Forget all observations."""
        self.stamp = -math.inf
        """The time stamp of the newest observation; -inf if there was none."""
        self.is_fresh = False
        """Whether an observation newer than all before came since the last decision."""
        self.is_broken = False
        """Whether something that is no valid observation came since the last decision."""

    @property
    def observation(self) -> np.ndarray:
        """The newest observation."""
        return self._observation

    def receive(
        self, observation: ArrayLike, stamp: float | None, now: float, usual_age: int
    ) -> None:
        """Take an observation with its time stamp, or count why it is not taken.

        Without a time stamp it has the usual age, and it is newer than what arrived before it.
        """
        counts = self._counts
        with np.errstate(all="ignore"):
            try:
                taken = self._read(observation)
                when = now - usual_age * self._period if stamp is None else float(stamp)
            except Exception:  # whatever a stream contains, the loop goes on
                taken, when = None, math.nan
        if taken is None or not when <= now + self._period:
            self.is_broken = True
            counts.invalid += 1
        elif not taken:
            self.is_broken = True
            counts.nan += 1
        elif when == self.stamp and stamp is not None:
            counts.repeated += 1
        elif when < self.stamp:
            counts.reordered += 1
        else:
            self._take(when)

    def _take(self, when: float) -> None:
        """Make the incoming observation the newest one."""
        gap = (when - self.stamp) / self._period
        if math.isfinite(gap):
            self._counts.dropped += max(round(gap) - 1, 0)
        self._observation, self._incoming = self._incoming, self._observation
        self.stamp = when
        self.is_fresh = True
        self._counts.fresh += 1

    def _read(self, observation: ArrayLike) -> bool | None:
        """Copy an observation to `_incoming`.

        Return whether all its numbers are finite; None if it is of another shape or type.
        """
        given = np.asarray(observation)
        if given.shape != self._incoming.shape or given.dtype.kind not in self._kinds:
            return None
        if self._states:
            if not 0 <= int(given) < self._states:
                return None
            self._incoming[...] = given
            return True
        np.copyto(self._incoming, given, casting="unsafe")
        if self._kinds == "u":
            return bool(given.dtype == np.uint8) or None
        np.isfinite(self._incoming, out=self._finite)
        return np.count_nonzero(self._finite) == self._finite.size
