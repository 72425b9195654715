"""A recorded delay, replayed from its beginning in each episode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from deadtime.delays.chain import END, Chain, check_size
from deadtime.delays.convention import LONGEST
from deadtime.delays.process import DelayProcess, check_flag, named_values, set_fields


@dataclass(frozen=True, init=False, repr=False)
class Trace(DelayProcess):
    """Recorded ages: step t of each episode reads the item of age ``ages[t]``.

    Give one of three: `ages`; `latencies`, the latency of each step's message; or `file`, a text
    file of ages, whole numbers separated by spaces or lines (# begins a comment). From latencies
    the ages follow by the rule that the receiver uses the newest message that has arrived. Messages
    from before the episode take the longest latency.

    An episode that is longer than the trace is an error, unless `repeat` is set: then the trace
    begins again. Traces are compared by their ages, not by the names of their files.
    """

    ages: tuple[int, ...]
    repeat: bool
    kind: ClassVar[str] = "trace"

    def __init__(
        self,
        ages: Iterable[int] | None = None,
        *,
        latencies: Iterable[int] | None = None,
        file: str | Path | None = None,
        repeat: bool = False,
    ):
        """Read the trace and turn latencies into ages."""
        sources = {"ages": ages, "latencies": latencies, "file": file}
        given = [name for name, value in sources.items() if value is not None]
        if len(given) != 1:
            raise ValueError(
                f"a trace takes one of ages, latencies and file; got {given or 'none'}: pass one"
            )
        numbers = ages if latencies is None else latencies
        values = _whole_numbers(numbers, given[0]) if file is None else read_numbers(file)
        if latencies is not None:
            values = ages_of(values)
        set_fields(self, ages=tuple(values.tolist()), repeat=check_flag(repeat, "repeat"))

    def __repr__(self) -> str:
        """Return the expression that makes this trace."""
        return f"Trace({self.ages!r}, repeat={self.repeat})"

    def __str__(self) -> str:
        """Return a short name with the length and the beginning of a hash of the ages."""
        code = sha256(repr(self.ages).encode()).hexdigest()[:8]
        return f"trace of {len(self.ages)} steps, {code}" + (", repeated" if self.repeat else "")

    @property
    def longest(self) -> int:
        """The longest age of the trace."""
        return max(self.ages)

    @property
    def age_law(self) -> np.ndarray:
        """The frequency of each age 0 … K in the trace."""
        check_size(self.longest + 1, 1)
        return np.bincount(self.ages) / len(self.ages)

    def make_chain(self) -> Chain:
        """Return the chain whose state is the step of the trace."""
        size = len(self.ages)
        successors = np.arange(1, size + 1)[:, None]
        successors[-1] = 0 if self.repeat else END
        start = np.zeros(size)
        start[0] = 1.0
        return Chain(np.array(self.ages), np.ones((size, 1)), start, successors)

    @classmethod
    def from_json_values(cls, values: dict[str, Any]) -> Trace:
        """Return the trace of these fields; a record names no file to open."""
        allowed = {"ages", "repeat"}
        if set(values) - allowed:
            raise ValueError(
                f"a trace in JSON has ages and repeat; got {sorted(values)}: write its numbers"
            )
        return cls(**values)

    @classmethod
    def from_text(cls, text: str) -> Trace:
        """Parse ``FILE`` or ``FILE,repeat=true``."""
        return cls(**_file_and_repeat(text))


def latencies_from_text(text: str) -> Trace:
    """Parse the name of a file of latencies: ``FILE`` or ``FILE,repeat=true``."""
    named = _file_and_repeat(text)
    return Trace(latencies=read_numbers(named["file"]), repeat=named.get("repeat", False))


def _file_and_repeat(text: str) -> dict[str, Any]:
    file, found, value = text.rpartition(",repeat=")
    return {"file": file, **named_values(f"repeat={value}")} if found else {"file": text}


def read_numbers(file: str | Path) -> np.ndarray:
    """Return the whole numbers in a text file."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"a trace is a text file of whole numbers; got {str(file)!r}, which can't be read "
            f"({error}): "
            "check its name"
        ) from None
    words = [word for line in lines for word in line.split("#")[0].replace(",", " ").split()]
    wrong = next((word for word in words if not word.isdecimal()), None)
    if wrong is not None:
        raise ValueError(
            f"a trace file has whole numbers of steps, 0 or more; {str(file)!r} has {wrong!r}: "
            "round its values up to whole steps"
        )
    return _whole_numbers([int(word) for word in words], f"file {str(file)!r}")


def _whole_numbers(values: Iterable[int] | None, what: str) -> np.ndarray:
    if not isinstance(values, Iterable):
        raise ValueError(f"{what} of a trace are a list; got {values!r}: pass one number per step")
    given = np.asarray(values if isinstance(values, np.ndarray) else list(values))
    if not given.size:
        raise ValueError(f"a trace has at least one step; got no {what}: pass one number per step")
    whole = given.dtype.kind in "iu" and given.ndim == 1
    if not whole or given.min() < 0:
        shown = given.ravel()[:5].tolist()
        raise ValueError(
            f"{what} of a trace are whole numbers of steps, 0 or more; got {shown} …: "
            "round them up to whole steps"
        )
    if given.max() > LONGEST:
        raise ValueError(
            f"{what} of a trace are at most {LONGEST}; got {given.max()}: check the unit, which "
            "is steps"
        )
    return given.astype(np.int64)


def ages_of(latencies: np.ndarray) -> np.ndarray:
    """Return the ages of a receiver that uses the newest message that has arrived.

    Message t leaves at step t and arrives at step t + latencies[t]. Messages from before step 0
    take the longest latency.
    """
    longest = int(latencies.max())
    steps = np.arange(len(latencies))
    newest = np.full(len(latencies), -1)
    arrived = steps + latencies < len(latencies)
    np.maximum.at(newest, (steps + latencies)[arrived], steps[arrived])
    newest = np.maximum.accumulate(newest)
    return np.where(newest >= 0, steps - newest, longest)
