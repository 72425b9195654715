"""Delays that are one whole number of steps: `Constant`, `Seconds`, and `Buffered`, which makes a
process constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deadtime.delays.chain import Chain
from deadtime.delays.convention import check_delay
from deadtime.delays.process import DelayProcess, named_values, set_fields

_ROUNDING = 1e-9


class _OneAge(DelayProcess):
    """A process with a single age, `constant`."""

    @property
    def steps(self) -> int:
        """The age of every step."""
        raise NotImplementedError

    @property
    def constant(self) -> int:
        """The delay in steps."""
        return self.steps

    @property
    def longest(self) -> int:
        """The longest age: the delay."""
        return self.steps

    @property
    def latency_law(self) -> np.ndarray:
        """The law that gives each message the same latency."""
        return self.age_law

    def make_chain(self) -> Chain:
        """Return the chain of one state."""
        return Chain(np.array([self.steps]), np.ones((1, 1)), np.ones(1))


@dataclass(frozen=True)
class Constant(_OneAge):
    """A constant delay: the action chosen at step t is executed at step t + delay."""

    delay: int
    kind: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        """Check the delay."""
        set_fields(self, delay=check_delay(self.delay))

    @property
    def steps(self) -> int:
        """The delay."""
        return self.delay

    @classmethod
    def from_text(cls, text: str) -> Constant:
        """Parse ``5``."""
        if not (text.strip().isdecimal() and len(text) < 20):
            raise ValueError(
                f"a constant delay is a whole number of steps; got {text[:40]!r}: write, for "
                "example, constant:5"
            )
        return cls(int(text))

    def __str__(self) -> str:
        """Return the text form."""
        return str(self.delay)


@dataclass(frozen=True)
class Seconds(_OneAge):
    """A delay in seconds, from sensor sample to actuator effect, where a step takes `step` seconds.

    It is rounded up to whole steps: 0.035 s at 0.02 s per step is 2 steps. An excess of at most
    1e-9 of a step counts as floating-point error, so 0.06 s at 0.02 s per step is 3 steps.
    """

    seconds: float
    step: float
    kind: ClassVar[str] = "seconds"

    def __post_init__(self) -> None:
        """Check that both are times."""
        for name, least in (("seconds", "0 or more"), ("step", "more than 0")):
            value = getattr(self, name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if (
                not number
                or not math.isfinite(value)
                or value < 0
                or (name == "step" and not value)
            ):
                raise ValueError(
                    f"{name} is a time in seconds, {least}; got {value!r}: pass, for example, "
                    "Seconds(0.035, step=0.02)"
                )
            set_fields(self, **{name: float(value)})
        if not math.isfinite(self.seconds / self.step):
            raise ValueError(
                f"seconds / step is a number of steps; got {self.seconds!r} / {self.step!r}: "
                "pass both in seconds"
            )
        check_delay(self.steps)

    @property
    def steps(self) -> int:
        """The delay in whole steps, rounded up."""
        return math.ceil(self.seconds / self.step - _ROUNDING)

    @classmethod
    def from_text(cls, text: str) -> Seconds:
        """Parse ``0.035,step=0.02``."""
        first, _, rest = text.partition(",")
        return cls(**named_values(f"seconds={first},{rest}"))

    def __str__(self) -> str:
        """Return the text form."""
        return f"seconds:{self.seconds:g},step={self.step:g}"


@dataclass(frozen=True)
class Buffered(_OneAge):
    """A receiver that holds each action until its age is `delay`, so that the channel is the
    constant `delay`.

    `delay` is at least the longest age of `process`.
    """

    process: DelayProcess
    delay: int
    kind: ClassVar[str] = "buffered"

    def __post_init__(self) -> None:
        """Check that the receiver waits long enough."""
        set_fields(self, process=number_or_process(self.process), delay=check_delay(self.delay))
        if self.delay < self.process.longest:
            raise ValueError(
                f"a buffer waits at least the longest age, {self.process.longest}; got "
                f"{self.delay}: "
                f"pass Buffered(process, {self.process.longest})"
            )

    @property
    def steps(self) -> int:
        """The age of every action when it is released."""
        return self.delay


def number_or_process(delay: int | DelayProcess) -> DelayProcess:
    """Return a process as it is, and a whole number m as `Constant(m)`."""
    return delay if isinstance(delay, DelayProcess) else Constant(delay)
